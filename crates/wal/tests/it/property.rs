//! Many lives of one log: random work, power failures in any place (recovery included), failed
//! flushes, kills.
//!
//! What must hold after every start: everything that was acknowledged is there, so is everything
//! that an earlier start has shown, every record is the one that was given that number, and numbers
//! have no gaps.

use crate::common::*;
use proptest::prelude::*;
use wal::faulty::{CrashMode, Fault, Injection};
use wal::{FaultyDisk, Options, Record, Wal};

#[derive(Clone, Debug)]
enum Step {
    Append {
        size: usize,
    },
    Durable {
        count: usize,
        size: usize,
    },
    Flush,
    Truncate {
        share: u64,
    },
    /// The power fails after so many calls.
    Fuse {
        calls: u64,
    },
    Fail {
        fault: Fault,
        skip: u64,
    },
    Crash {
        lose: u8,
        during_open: Option<u64>,
    },
    Kill,
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    let fault = prop_oneof![
        Just(Fault::WriteError),
        Just(Fault::SyncError),
        Just(Fault::ShortWrite),
        Just(Fault::NoSpace)
    ];
    prop_oneof![
        4 => (0usize..200).prop_map(|size| Step::Append { size }),
        6 => (1usize..5, 0usize..200).prop_map(|(count, size)| Step::Durable { count, size }),
        1 => Just(Step::Flush),
        1 => (0u64..=100).prop_map(|share| Step::Truncate { share }),
        2 => (0u64..12).prop_map(|calls| Step::Fuse { calls }),
        1 => (fault, 0u64..4).prop_map(|(fault, skip)| Step::Fail { fault, skip }),
        3 => (0u8..4, prop::option::of(0u64..10))
            .prop_map(|(lose, during_open)| Step::Crash { lose, during_open }),
        1 => Just(Step::Kill),
        1 => Just(Step::Close),
    ]
}

fn options() -> Options {
    Options {
        max_record_bytes: 200,
        queue_bytes: 4_096,
        flush_bytes: 700,
        reserve_bytes: 0,
        ..Options::small(1_024)
    }
}

struct Life {
    disk: FaultyDisk,
    wal: Option<Wal>,
    /// What each number was given, from 1. What lies above `certain` may be gone after a crash.
    given: Vec<Vec<u8>>,
    certain: u64,
    floor: u64,
    stamp: u8,
}

impl Life {
    fn payload(&mut self, size: usize) -> Vec<u8> {
        self.stamp = self.stamp.wrapping_add(1);
        vec![self.stamp; size]
    }

    async fn step(&mut self, step: &Step) {
        let Some(wal) = self.wal.clone() else { return };
        match step {
            Step::Append { size } => {
                let payload = self.payload(*size);
                if let Ok(lsn) = wal.append(1, payload.clone()).await {
                    self.given.push(payload);
                    assert_eq!(lsn, self.given.len() as u64);
                }
            }
            Step::Durable { count, size } => {
                let records: Vec<_> = (0..*count).map(|_| (1, self.payload(*size))).collect();
                match wal.enqueue_durable(records.clone()).await {
                    Ok(pending) => {
                        self.given.extend(records.into_iter().map(|(_, payload)| payload));
                        if let Ok(lsn) = pending.await {
                            assert_eq!(lsn, self.given.len() as u64);
                            self.certain = lsn;
                        }
                    }
                    Err(error) => assert!(error.not_written()),
                }
            }
            Step::Flush => {
                if let Ok(lsn) = wal.flush().await {
                    self.certain = self.certain.max(lsn);
                }
            }
            Step::Truncate { share } => {
                let before = *wal.durable_lsn().borrow() * share / 100;
                self.floor = self.floor.max(before);
                let _ = wal.truncate_before(before).await;
            }
            Step::Fuse { calls } => self.disk.fail_power_after(*calls),
            Step::Fail { fault, skip } => {
                let path = "segment_".to_owned();
                self.disk.inject(Injection { fault: *fault, path, skip: *skip });
            }
            Step::Crash { lose, during_open } => {
                let mode = match lose {
                    0 => CrashMode::LoseAll,
                    1 => CrashMode::KeepAll,
                    _ => CrashMode::Random,
                };
                self.crash(wal, mode).await;
                if let Some(calls) = during_open {
                    // And once more while it is being recovered.
                    self.disk.fail_power_after(*calls);
                    drop(open(&self.disk, &options()));
                    self.disk.crash(CrashMode::Random);
                    self.disk.power_on();
                }
                self.restart();
            }
            Step::Kill => {
                self.disk.kill();
                self.wal = None;
                drop(wal);
                settle().await;
                self.disk.power_on();
                self.restart();
            }
            Step::Close => {
                if wal.close().await.is_ok() {
                    self.certain = self.given.len() as u64;
                }
                self.crash(wal, CrashMode::LoseAll).await;
                self.restart();
            }
        }
    }

    async fn crash(&mut self, wal: Wal, mode: CrashMode) {
        self.disk.crash(mode);
        self.wal = None;
        drop(wal);
        settle().await;
        self.disk.power_on();
    }

    /// Opens, checks what is there, and goes on from it.
    fn restart(&mut self) {
        let (log, recovery) = loop {
            match open(&self.disk, &options()) {
                Ok(opened) => break opened,
                // An injected fault struck while opening. It strikes once.
                Err(error @ wal::OpenError::Io { .. }) => assert!(!error.is_damage()),
                Err(error) => panic!("{error}"),
            }
        };
        let found: Vec<Record> = records(&log);
        let first = recovery.first_lsn;
        assert!(first <= self.floor.max(1), "first {first}, floor {}", self.floor);
        assert!(recovery.last_lsn >= self.certain, "{} < {}", recovery.last_lsn, self.certain);
        assert!(recovery.last_lsn <= self.given.len() as u64);
        assert_eq!(found.len() as u64, recovery.last_lsn + 1 - first);
        for (record, lsn) in found.iter().zip(first..) {
            assert_eq!((record.lsn, &record.payload), (lsn, &self.given[lsn as usize - 1]));
        }
        // What was shown once stays.
        self.given.truncate(recovery.last_lsn as usize);
        self.certain = recovery.last_lsn;
        self.wal = Some(Wal::start_task(log, clock()));
    }
}

/// 512 cases, or as many as `PROPTEST_CASES` says.
fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(512),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    /// WAL-10, WAL-11, LEDG-51, LEDG-61: no life of the log loses what another was told.
    #[test]
    fn nothing_acknowledged_or_shown_is_ever_lost(seed: u64, steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let disk = FaultyDisk::new(seed);
            let mut life =
                Life { disk, wal: None, given: Vec::new(), certain: 0, floor: 0, stamp: 0 };
            life.restart();
            for step in &steps {
                life.step(step).await;
            }
            life.step(&Step::Crash { lose: 2, during_open: None }).await;
        });
    }
}
