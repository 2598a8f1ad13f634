//! Single events, for outputs that want every one of them (`--output json=`, `csv=`).
//!
//! Nothing is counted from these: counting is the recorder's ([`Window`](crate::Window)). They
//! exist only in runs that ask for them, are collected in batches on each core, and are handed over
//! without waiting: a writer that cannot keep up loses batches, and says how many samples that
//! were.

use std::sync::Arc;

use crate::error_kind::ErrorKind;

/// Takes a batch, or refuses it at once (`false`): never waits, may be called from any core.
pub type SampleSink = Arc<dyn Fn(Vec<Sample>) -> bool + Send + Sync>;

/// Plain numbers only, no strings: indexes refer to the run's [`Layout`](crate::Layout).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sample {
    Request(RequestSample),
    Iteration {
        at_unix_ns: u64,
        workflow: u32,
        duration_ns: u64,
    },
    Check {
        at_unix_ns: u64,
        check: u32,
        ok: bool,
    },
    Custom {
        at_unix_ns: u64,
        metric: u32,
        value: f64,
    },
    /// Virtual users active in the whole run.
    Vus {
        at_unix_ns: u64,
        value: u64,
    },
    Dropped {
        at_unix_ns: u64,
        workflow: u32,
        count: u64,
    },
}

/// One request that ended, well or badly.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RequestSample {
    /// Wall-clock time of the end, for readers only.
    pub at_unix_ns: u64,
    pub step: u32,
    pub stage: u32,
    /// 0: no answer came.
    pub status: u16,
    pub error: Option<ErrorKind>,
    pub failed: bool,
    /// sending + waiting + receiving.
    pub duration_ns: u64,
    pub blocked_ns: u64,
    pub connecting_ns: u64,
    pub tls_ns: u64,
    pub sending_ns: u64,
    pub waiting_ns: u64,
    pub receiving_ns: u64,
    /// From the intended start.
    pub latency_ns: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// Major version of HTTP: 1 or 2.
    pub proto: u8,
}
