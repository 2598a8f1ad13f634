//! Viewers that are slow, many or gone cost the run nothing.

use std::time::{Duration, Instant};

use stats::ProgressSink;

use crate::client::{get, seconds, serve};

#[test]
fn nobody_looks_so_nothing_is_made() {
    let served = serve();
    assert!(served.live.is_wanted(), "the first, so that a page has something at once");
    served.show(seconds(1));
    assert!(!served.live.is_wanted());
    let mut events = served.events(None);
    events.step();
    let until = Instant::now() + Duration::from_secs(12);
    while !served.live.is_wanted() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(served.live.is_wanted());
}

#[test]
fn a_viewer_that_never_reads_holds_up_neither_the_run_nor_the_others_nor_the_end() {
    let served = serve();
    served.show(seconds(400));
    let _silent: Vec<_> = (0..3).map(|_| served.events(None)).collect();
    let mut events = served.events(None);
    let mut slots = 0;
    let mut handing_over = Duration::ZERO;
    for second in 401..=460 {
        let progress = seconds(second);
        let began = Instant::now();
        served.live.take(progress);
        handing_over = handing_over.max(began.elapsed());
    }
    while slots < 460 {
        slots = events.step().0.last().unwrap().data["slots"].as_u64().unwrap();
    }
    assert!(handing_over < Duration::from_millis(50), "{handing_over:?}");
    served.finish(&seconds(460).result);
    while events.next().is_some() {}
    let began = Instant::now();
    served.server.close(Duration::from_millis(150));
    assert!(began.elapsed() < Duration::from_millis(200), "{:?}", began.elapsed());
}

#[test]
fn with_three_pages_that_read_the_end_is_at_once() {
    let served = serve();
    served.show(seconds(60));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let mut events = served.events(None);
            events.step();
            std::thread::spawn(move || {
                let mut last = String::new();
                while let Some(event) = events.next() {
                    last = event.name;
                }
                last
            })
        })
        .collect();
    served.finish(&seconds(61).result);
    served.server.close(Duration::from_secs(5));
    for reader in readers {
        assert_eq!(reader.join().unwrap(), "end");
    }
}

#[test]
fn there_is_room_for_fifty_viewers() {
    let served = serve();
    served.show(seconds(1));
    let _inside: Vec<_> = (0..50).map(|_| served.events(None)).collect();
    let cookie = format!("Cookie: {}\r\n", served.cookie);
    let refused = get(served.address, "/api/run/run/events", &cookie);
    assert_eq!(refused.status, 503, "{refused:?}");
}
