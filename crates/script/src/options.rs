//! k6's options: read from every level, merged, checked, and turned into loads the engine runs.
//!
//! The same setting can come from a config file, the script, the environment and the command line.
//! Each of them is one [`Options`] value in which everything is optional:
//!
//! ```text
//! config file < script < environment < flags      Options::merge, later wins
//!                    │
//!                 resolve                         shortcuts become scenarios, all is checked
//!                    │
//!                Resolved ── describe             what is run, and what is printed before it
//! ```
//!
//! Reading reports every problem of a level at once, each with its key path. What can only be
//! judged after merging (a missing duration, more VUs than iterations) is reported by [`resolve`].
//!
//! Not here: whether an `exec` function exists, and what a threshold's expression means.

mod describe;
mod executor;
mod from_env;
mod from_json;
mod http;
mod level;
mod merge;
mod network;
mod problem;
mod reader;
mod resolve;
mod scenario;
mod segment;
mod to_json;
pub mod values;

#[cfg(test)]
mod tests;

pub use describe::{describe, max_vus};
pub use from_env::misspelt;
pub use http::{HttpSettings, http_settings};
pub use level::{HttpDebug, Options, StageOptions, Threshold, Thresholds};
pub use network::{
    CIPHER_SUITES, Dns, DnsPolicy, DnsSelect, DnsTtl, HostAddress, HostnamePattern, IpRange,
    TlsAuth, TlsVersion, TlsVersions,
};
pub use problem::{OptionsError, Place, Problem, Warning, nearest};
pub use resolve::{ENDLESS, Resolved, Scenario, resolve};
pub use scenario::{ExecutorKind, ScenarioOptions};
pub use segment::{Fraction, Segment, SegmentSequence, Stripes, cut};
