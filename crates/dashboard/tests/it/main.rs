//! All integration tests of `dashboard`, in one program: each further program is linked with
//! everything again.

mod tmux;
mod view;
