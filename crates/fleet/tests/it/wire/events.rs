//! What somebody who watches a job is told.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use stats::feed::{EVENT_BYTES_MAX, Event, Tally, What, WindowEvent};
use stats::wire::WireError;
use stats::{RunState, Snapshot, TimelineEntry};

use crate::wire::allocations::counted;

fn window() -> WindowEvent {
    WindowEvent {
        first: 3,
        last: 5,
        late: true,
        partial: true,
        coalesced: true,
        told: 1,
        live: 2,
        vus: 4,
        totals: Tally {
            requests: 1,
            failed: 2,
            iterations: 3,
            interrupted: 3,
            dropped: 4,
            checks_passed: 5,
            checks_failed: 6,
            bytes_sent: 7,
            bytes_received: 8,
        },
        latency: Default::default(),
    }
}

fn states() -> Vec<RunState> {
    let states = vec![
        RunState::Preparing,
        RunState::Running,
        RunState::Paused,
        RunState::Stopping,
        RunState::Done,
    ];
    let place = |state: &RunState| match state {
        RunState::Preparing => 0,
        RunState::Running => 1,
        RunState::Paused => 2,
        RunState::Stopping => 3,
        RunState::Done => 4,
    };
    assert!(states.iter().map(place).eq(0..5), "one of each");
    states
}

fn events() -> Vec<Event> {
    let note = TimelineEntry { at: Duration::from_millis(1_500), event: "worker lost".to_owned() };
    let view = Snapshot {
        plan: "shop".to_owned(),
        warnings: vec!["late".to_owned()],
        ..Snapshot::default()
    };
    let mut whats = vec![
        What::Window(window()),
        What::Note(note),
        What::View(Box::new(view)),
        What::Final(vec![1, 2, 3]),
        What::Progress { state: RunState::Paused, planned: None, result: vec![4, 5].into() },
    ];
    whats.extend(states().into_iter().map(|state| What::State { state, why: "w".to_owned() }));
    let place = |what: &What| match what {
        What::Window(_) => 0,
        What::Note(_) => 1,
        What::View(_) => 2,
        What::Final(_) => 3,
        What::Progress { .. } => 4,
        What::State { .. } => 5,
    };
    assert!(whats.iter().map(place).take(6).eq(0..6), "one of each");
    let numbered = whats.into_iter().zip(1..);
    numbered.map(|(what, seq)| Event { epoch: 9, seq, what }).collect()
}

/// ARCH-153: a watcher is told what was said; a checksum finds what was changed on the way.
#[test]
fn every_event_survives_and_every_change_is_found() {
    for event in events() {
        let bytes = event.encode();
        let read = Event::decode(&bytes).unwrap();
        assert_eq!(format!("{read:?}"), format!("{event:?}"));
        assert_eq!(read.encode(), bytes);
        for cut in 0..bytes.len() {
            assert!(Event::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x10;
            assert!(Event::decode(&damaged).is_err(), "changed at {place}");
        }
    }
}

/// Whatever is wrong has a name.
#[test]
fn what_is_no_event_is_refused_by_name() {
    let bytes = events()[0].encode();
    let mut newer = bytes.clone();
    newer[1] += 1;
    let found = newer[1];
    assert_eq!(Event::decode(&newer).err(), Some(WireError::FutureVersion { found }));
    let large = vec![b'V'; EVENT_BYTES_MAX + 100];
    let (refused, allocated) = counted(|| Event::decode(&large).err());
    assert!(matches!(refused, Some(WireError::TooLarge { .. })), "{refused:?}");
    assert_eq!(allocated, 0);
    let runner = ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() };
    proptest::test_runner::TestRunner::new(runner)
        .run(&vec(any::<u8>(), 0..300), |noise| {
            let (read, allocated) = counted(|| Event::decode(&noise));
            prop_assert!(read.is_err());
            prop_assert!(allocated <= 64 * noise.len() + 1024, "{allocated}");
            Ok(())
        })
        .unwrap();
}
