//! Settings of a node. Every one has a default that works.

use std::time::Duration;

/// How a node that has no group yet comes to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bootstrap {
    /// It makes a group of which it is the only member. The embedded default.
    Alone,
    /// The first members, by address, this node's own among them. All of them must be started with
    /// the same list; the one with the lowest address makes the group when all have answered and
    /// none belongs to one.
    Peers(Vec<String>),
    /// It waits until a member of an existing group admits it.
    Join,
}

/// What a node is started with.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// How the others reach this node: `host:port`. A name is asked for again whenever a connection
    /// is made, so that what is behind it may move. 127.0.0.1:7400.
    pub address: String,
    /// Where it listens, if that is not `address`: an IP address with a port.
    pub listen: Option<String>,
    pub bootstrap: Bootstrap,
    pub timing: Timing,
    pub limits: Limits,
    /// What the state machine may hold. Fixed when a group is founded; a node that joins gets the
    /// group's.
    pub state_limits: ledger_state::Limits,
    /// Reads the wall clock, in milliseconds since 1970. Only for stamps that people read; nothing
    /// is decided by it.
    pub wall_ms: fn() -> u64,
    /// Reads how long the machine has been up, sleep included. None: how long this process has.
    pub uptime: Option<fn() -> Duration>,
    /// When an earlier process has last read the ledger's time, if the machine was not restarted
    /// since.
    pub time_noted: Option<crate::timekeeper::Reading>,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            address: "127.0.0.1:7400".to_owned(),
            listen: None,
            bootstrap: Bootstrap::Alone,
            timing: Timing::default(),
            limits: Limits::default(),
            state_limits: ledger_state::Limits::default(),
            wall_ms: crate::runtime::wall_ms,
            uptime: None,
            time_noted: None,
        }
    }
}

/// Times. All of them are multiplied by [`Timing::pace`] when they are used.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Scales all times here. 1; raise it for slow networks and disks, lower it in tests.
    pub pace: f64,
    /// A leader sends at least this often. 100 ms.
    pub heartbeat: Duration,
    /// The shortest time without a leader after which a vote is given up. 300 ms.
    pub election_min: Duration,
    /// The lease: no vote for another while a leader was heard within it. The wait after it is
    /// drawn from `election_max - election_min`. A leader without a majority for this long stops
    /// claiming. 600 ms.
    pub election_max: Duration,
    /// For making a connection. 500 ms.
    pub connect: Duration,
    /// For one call, where the caller has set no shorter deadline. 5 s.
    pub request: Duration,
    /// For sending and installing a snapshot. 60 s.
    pub snapshot: Duration,
    /// HTTP/2 pings on an idle connection. 300 ms.
    pub keepalive: Duration,
    /// How long a ping may stay unanswered before the connection is made anew. 600 ms.
    pub keepalive_timeout: Duration,
    /// How often the leader moves the ledger's own time forward. 1 s.
    pub advance: Duration,
    /// How often unused blobs and the size of the log are looked at. 10 s.
    pub housekeeping: Duration,
    /// How often an unanswered greeting is repeated during bootstrap. 200 ms.
    pub greeting: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let ms = Duration::from_millis;
        Self {
            pace: 1.0,
            heartbeat: ms(100),
            election_min: ms(300),
            election_max: ms(600),
            connect: ms(500),
            request: ms(5_000),
            snapshot: ms(60_000),
            keepalive: ms(300),
            keepalive_timeout: ms(600),
            advance: ms(1_000),
            housekeeping: ms(10_000),
            greeting: ms(200),
        }
    }
}

impl Timing {
    /// The same times with the pace multiplied in, each at least a millisecond.
    #[must_use]
    pub fn scaled(&self) -> Self {
        let scale = |time: Duration| {
            let nanos = (time.as_nanos() as f64 * self.pace) as u64;
            Duration::from_nanos(nanos).max(Duration::from_millis(1))
        };
        Self {
            pace: 1.0,
            heartbeat: scale(self.heartbeat),
            election_min: scale(self.election_min),
            election_max: scale(self.election_max),
            connect: scale(self.connect),
            request: scale(self.request),
            snapshot: scale(self.snapshot),
            keepalive: scale(self.keepalive),
            keepalive_timeout: scale(self.keepalive_timeout),
            advance: scale(self.advance),
            housekeeping: scale(self.housekeeping),
            greeting: scale(self.greeting),
        }
    }
}

/// Bounds, each in count or bytes.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Proposals that wait for the leader's log. 16,384.
    pub queue_proposals: usize,
    /// Their bytes. 64 MiB.
    pub queue_bytes: usize,
    /// Commands in one log entry; an epoch has room for 65,536. 4,096.
    pub batch_proposals: usize,
    /// Bytes in one log entry. 256 KiB; a larger single command has an entry of its own.
    pub batch_bytes: usize,
    /// The largest command. 512 KiB; what is larger lies beside the log.
    pub proposal_bytes: usize,
    /// Log entries under way at once. 2.
    pub entries_in_flight: usize,
    /// Requests of this node without an answer, the unknown ones among them; at most the ledger's
    /// window. 1,000.
    pub open_requests: usize,
    /// The largest message on the wire. 8 MiB.
    pub message_bytes: usize,
    /// The largest snapshot that is taken. 256 MiB.
    pub snapshot_bytes: usize,
    /// The largest blob. 256 MiB, a plan with its data files.
    pub blob_bytes: usize,
    /// Connections that others may have open to this node; one more is closed at once. 1,024.
    pub connections: usize,
    /// Bytes of snapshots and blobs that are being received at once; more wait. 512 MiB.
    pub incoming_bytes: usize,
    /// Calls that are served at once on one connection; the others wait. 256.
    pub calls_per_connection: usize,
    /// Entries in one append to a follower. 64.
    pub append_entries: u64,
    /// A snapshot is made after so many entries. 10,000.
    pub snapshot_entries: u64,
    /// A snapshot is made after so many bytes of log. 64 MiB.
    pub snapshot_log_bytes: u64,
    /// Entries that stay in the log behind a snapshot, for followers that are a little late. 1,000.
    pub keep_entries: u64,
    /// Missing blobs that are fetched in one round of housekeeping. 100.
    pub blobs_per_round: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue_proposals: 16_384,
            queue_bytes: 64 << 20,
            batch_proposals: 4_096,
            batch_bytes: 256 << 10,
            proposal_bytes: 512 << 10,
            entries_in_flight: 2,
            open_requests: 1_000,
            message_bytes: 8 << 20,
            snapshot_bytes: 256 << 20,
            blob_bytes: 256 << 20,
            connections: 1_024,
            incoming_bytes: 512 << 20,
            calls_per_connection: 256,
            append_entries: 64,
            snapshot_entries: 10_000,
            snapshot_log_bytes: 64 << 20,
            keep_entries: 1_000,
            blobs_per_round: 100,
        }
    }
}

/// A setting that cannot work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub String);

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

impl NodeConfig {
    /// All that is wrong, in one message.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut wrong = Vec::new();
        let Timing { pace, heartbeat, election_min, election_max, .. } = &self.timing;
        if !pace.is_finite() || *pace <= 0.0 {
            wrong.push(format!("pace is {pace}; it must be above 0"));
        }
        if election_min >= election_max {
            wrong.push("election_min must be below election_max".to_owned());
        }
        if *heartbeat * 2 > *election_min {
            wrong.push("election_min must be at least two heartbeats".to_owned());
        }
        let limits = &self.limits;
        if limits.batch_proposals == 0 || limits.batch_proposals > fence::Epoch::POSITIONS as usize
        {
            wrong.push(format!("batch_proposals must be 1 to {}", fence::Epoch::POSITIONS));
        }
        // Batch, entry and header around it: a single entry must always fit one message.
        if limits.batch_bytes.max(limits.proposal_bytes) * 2 > limits.message_bytes {
            wrong.push(
                "message_bytes must be at least twice batch_bytes and proposal_bytes".to_owned(),
            );
        }
        if limits.incoming_bytes < limits.snapshot_bytes.max(limits.blob_bytes) {
            wrong.push("incoming_bytes must be at least snapshot_bytes and blob_bytes".to_owned());
        }
        if limits.open_requests > self.state_limits.window as usize {
            wrong.push(format!(
                "open_requests must be at most the ledger's window ({})",
                self.state_limits.window
            ));
        }
        if let Err(bad) = self.state_limits.check() {
            wrong.push(bad.to_string());
        }
        for (name, zero) in [
            ("queue_proposals", limits.queue_proposals == 0),
            ("queue_bytes", limits.queue_bytes == 0),
            ("entries_in_flight", limits.entries_in_flight == 0),
            ("open_requests", limits.open_requests == 0),
            ("connections", limits.connections == 0),
            ("calls_per_connection", limits.calls_per_connection == 0),
            ("append_entries", limits.append_entries == 0),
            ("snapshot_entries", limits.snapshot_entries == 0),
        ] {
            if zero {
                wrong.push(format!("{name} must not be 0"));
            }
        }
        if let Bootstrap::Peers(peers) = &self.bootstrap {
            let mut sorted = peers.clone();
            sorted.sort();
            sorted.dedup();
            if sorted.len() != peers.len() {
                wrong.push("the list of peers names an address twice".to_owned());
            }
            if !peers.contains(&self.address) {
                wrong.push(format!(
                    "the list of peers ({}) does not have this node's own address {}",
                    peers.join(", "),
                    self.address
                ));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(ConfigError(wrong.join("; "))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_work_and_every_problem_is_named() {
        assert_eq!(NodeConfig::default().check(), Ok(()));
        let mut config = NodeConfig::default();
        config.timing.pace = 0.0;
        config.timing.election_max = config.timing.election_min;
        config.limits.batch_proposals = 70_000;
        config.limits.message_bytes = 1;
        config.bootstrap = Bootstrap::Peers(vec!["a:1".to_owned(), "a:1".to_owned()]);
        let text = config.check().unwrap_err().to_string();
        for part in
            ["pace", "election_max", "batch_proposals", "message_bytes", "twice", "own address"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn pace_scales_every_time() {
        let timing = Timing { pace: 2.0, ..Timing::default() }.scaled();
        assert_eq!(timing.heartbeat, Duration::from_millis(200));
        assert_eq!(timing.snapshot, Duration::from_secs(120));
        assert_eq!(timing.scaled().heartbeat, Duration::from_millis(200), "once only");
    }
}
