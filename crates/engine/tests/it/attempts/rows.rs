//! Rows that must not repeat come from leased blocks; each is used at most once in the whole job.

use base::clock;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::attempt::{Loaded, Report, ShardControl, ShardSpec, UniqueSet};
use stats::DropCause;

use super::{Led, load};
use crate::common::recording::{Recording, ok};

fn loaded(server: &Recording, folder: &Path, rows: usize, load_text: &str) -> Arc<Loaded> {
    let lines: String = (0..rows).map(|row| format!("row{row}\n")).collect();
    std::fs::write(folder.join("rows.csv"), format!("name\n{lines}")).unwrap();
    let text = format!(
        "target: TARGET\ndata: {{ rows: {{ file: rows.csv, order: unique-per-iteration }} }}\n\
         workflows: [ {{ name: w, load: {{ {load_text} }}, steps: [ {{ get: '/${{data.rows.name}}' }} ] }} ]\n"
    );
    load(&text, &server.url(), folder)
}

fn spec(shard: usize, shards: usize, blocks: Vec<Range<u64>>) -> ShardSpec {
    ShardSpec { rows: [(0, blocks)].into_iter().collect(), ..ShardSpec::new(0, shard, shards) }
}

/// Every row once, over two shards that are given blocks as they ask for them.
#[test]
fn blocks_are_asked_for_and_every_row_is_used_once() {
    for load_text in ["vus: 4, duration: 60s", "rate: 400/s, duration: 60s, max_vus: 50"] {
        let server = Recording::start(|_| ok(""));
        let folder = tempfile::tempdir().unwrap();
        let loaded = loaded(&server, folder.path(), 500, load_text);
        let set = UniqueSet { set: 0, name: "rows".to_owned(), rows: 500 };
        assert_eq!(loaded.unique_sets(Some(0)), [set]);
        let led: Vec<_> = (0..2u64)
            .map(|shard| {
                let block = shard * 20..(shard + 1) * 20;
                Led::prepare(&loaded, spec(shard as usize, 2, vec![block])).ready()
            })
            .collect();
        // The owner's cursor.
        let next = Arc::new(Mutex::new(40u64));
        let start = clock::now();
        led.iter().for_each(|one| one.run.start_at(start));
        let waits: Vec<_> = led
            .into_iter()
            .map(|one| {
                let next = next.clone();
                std::thread::spawn(move || {
                    one.finish_with(|run, set, at_least| {
                        assert!(at_least >= 64);
                        let mut next = next.lock().unwrap();
                        let end = (*next + at_least.min(100)).min(500);
                        match *next < end {
                            true => run.grant_rows(set, *next..end),
                            false => run.no_more_rows(set),
                        }
                        *next = end;
                    })
                    .completed()
                })
            })
            .collect();
        let wholes: Vec<_> = waits.into_iter().map(|wait| wait.join().unwrap()).collect();
        let done: u64 = wholes.iter().map(|one| one.iterations().iterations).sum();
        let paths = server.paths();
        let apart: BTreeSet<_> = paths.iter().collect();
        assert_eq!((done, paths.len(), apart.len()), (500, 500, 500), "{load_text}");
        let late: u64 = wholes.iter().map(|one| one.dropped(DropCause::RowsLate)).sum();
        assert_eq!(late, 0);
        let over: u64 = wholes.iter().map(|one| one.dropped(DropCause::DataExhausted)).sum();
        match load_text.starts_with("rate") {
            true => assert!(over > 0, "arrivals without a row are dropped"),
            false => assert_eq!(over, 4, "each user says once that it found no row"),
        }
    }
}

/// Who gets no row in time does not use somebody else's: the iteration is dropped, with its cause.
#[test]
fn a_row_that_does_not_come_is_counted() {
    let server = Recording::start(|_| ok(""));
    let folder = tempfile::tempdir().unwrap();
    let loaded = loaded(&server, folder.path(), 50, "vus: 2, iterations: 10");
    let waits = ShardSpec {
        row_wait: Duration::from_millis(100),
        ..spec(0, 1, std::iter::once(10..13).collect())
    };
    let led = Led::prepare(&loaded, waits).ready();
    led.run.start_at(clock::now());
    let mut asked = 0;
    let whole = led.finish_with(|_, _, _| asked += 1).completed();
    assert_eq!(asked, 1, "said once");
    assert_eq!(whole.iterations().iterations, 3);
    assert_eq!(whole.dropped(DropCause::RowsLate), 7);
    let mut paths = server.paths();
    paths.sort();
    assert_eq!(paths, ["/row10", "/row11", "/row12"]);
}

/// Load that waits for rows stands still, and the result has to say so (R27).
#[test]
fn time_spent_waiting_for_rows_is_told() {
    let server = Recording::start(|_| ok(""));
    let folder = tempfile::tempdir().unwrap();
    let loaded = loaded(&server, folder.path(), 50, "vus: 2, iterations: 10");
    let led = Led::prepare(&loaded, spec(0, 1, std::iter::once(0..3).collect())).ready();
    led.run.start_at(clock::now());
    let Report::RowsWanted { .. } = led.next() else { panic!("it asks for rows") };
    std::thread::sleep(Duration::from_millis(300));
    led.run.swap(None, None);
    let Report::Counted(counted) = led.next() else { panic!("counts were asked for") };
    assert!(counted.held >= Duration::from_millis(200), "{:?}", counted.held);
    led.run.grant_rows(0, 3..50);
    std::thread::sleep(Duration::from_millis(100));
    led.run.swap(None, None);
    led.finish().completed();
}

/// A block beyond the set's end is the owner's mistake, and gives nobody a wrong row.
#[test]
fn rows_that_do_not_exist_are_the_end() {
    let server = Recording::start(|_| ok(""));
    let folder = tempfile::tempdir().unwrap();
    let loaded = loaded(&server, folder.path(), 5, "vus: 1, iterations: 10");
    let led = Led::prepare(&loaded, spec(0, 1, std::iter::once(3..9).collect())).ready();
    led.run.start_at(clock::now());
    let whole = led.finish().completed();
    assert_eq!(server.paths(), ["/row3", "/row4"]);
    assert_eq!(whole.dropped(DropCause::DataExhausted), 8);
}
