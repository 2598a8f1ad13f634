//! All integration tests of `engine`, in one program: each further program is linked with
//! everything again.

mod attempts;
mod bodies;
mod caddy_python;
mod common;
mod control;
mod data;
mod exchanges;
mod executors;
mod hostile;
mod network;
mod nginx;
mod proxies;
mod redirects;
mod steps;
mod totals;
mod trust;
mod values;
mod workflows;
