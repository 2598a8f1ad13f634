//! Whoever follows a run sees every slot, however often the connection breaks.

use std::io::Read;

use serde_json::Value;
use stats::Progress;

use crate::client::{Event, get, seconds, serve};

/// What a page puts together from updates.
#[derive(Default)]
struct Page {
    requests: Vec<u64>,
    at_s: Vec<f64>,
}

impl Page {
    fn take(&mut self, event: &Event) {
        assert_eq!(event.name, "update");
        let from = event.data["from"].as_u64().unwrap() as usize;
        let slots = event.data["slots"].as_u64().unwrap() as usize;
        let numbers =
            |value: &Value| -> Vec<Value> { value.as_array().cloned().unwrap_or_default() };
        let history = &event.data["history"];
        let at: Vec<f64> = numbers(&history["at_s"]).iter().filter_map(Value::as_f64).collect();
        let row = history["rows"].get(0).map(|row| numbers(&row["requests"])).unwrap_or_default();
        let requests: Vec<u64> = row.iter().filter_map(Value::as_u64).collect();
        assert!(from <= self.at_s.len(), "nothing is left out");
        self.at_s.truncate(from);
        self.at_s.extend(at);
        self.requests.truncate(from);
        self.requests.extend(requests);
        if event.id.is_some() {
            assert_eq!(self.at_s.len(), slots);
        }
    }
}

fn expected(progress: &Progress) -> Vec<u64> {
    let slots = progress.result.history.slots().iter();
    slots.map(|slot| slot.rows.values().map(|row| row.requests).sum()).collect()
}

#[test]
fn a_viewer_that_comes_back_gets_what_it_lacks_and_nothing_else() {
    let served = serve();
    served.show(seconds(10));
    let mut page = Page::default();
    let mut events = served.events(None);
    let (first, id) = events.step();
    first.iter().for_each(|event| page.take(event));
    assert_eq!(first[0].data["parts"].as_object().unwrap().len(), 6);
    drop(events);
    served.show(seconds(11));
    served.show(seconds(12));
    let mut events = served.events(Some(&id));
    while page.at_s.len() < 12 {
        let (next, _) = events.step();
        assert!(
            next[0].data["from"].as_u64().unwrap() >= 10,
            "slots that it has do not come again"
        );
        let checks = &next[0].data["parts"]["checks"];
        assert!(checks.is_null(), "nor do parts that are as they were");
        next.iter().for_each(|event| page.take(event));
    }
    assert_eq!(page.requests, expected(&seconds(12)));
    assert_eq!(page.at_s, (1..=12).map(f64::from).collect::<Vec<_>>());
}

#[test]
fn whoever_saw_another_server_begins_anew() {
    let served = serve();
    served.show(seconds(5));
    for odd in ["00000000deadbeef.7", "nonsense", "", "0000.99999999"] {
        let (events, _) = served.events(Some(odd)).step();
        assert_eq!(events[0].data["from"], 0, "{odd}");
        assert_eq!(events[0].data["slots"], 5, "{odd}");
    }
    let ahead = served.events(None).step().1.replace(".1", ".900");
    let (events, _) = served.events(Some(&ahead)).step();
    assert_eq!(events[0].data["from"], 0, "an id from the future is not believed");
}

#[test]
fn breaks_at_any_place_lose_and_repeat_nothing() {
    let served = serve();
    let mut page = Page::default();
    let mut seen: Option<String> = None;
    // 600 slots become 300 of two seconds on the way.
    for (round, count) in (20..=600).step_by(29).enumerate() {
        served.show(seconds(count));
        let mut events = served.events(seen.as_deref());
        // Every third time the connection breaks before the event that has an id.
        if round % 3 == 2 {
            events.next();
            continue;
        }
        let until = expected(&seconds(count)).len();
        loop {
            let (step, id) = events.step();
            step.iter().for_each(|event| page.take(event));
            seen = Some(id);
            if page.at_s.len() == until && page.requests == expected(&seconds(count)) {
                break;
            }
        }
    }
    served.show(seconds(640));
    let mut events = served.events(seen.as_deref());
    while page.requests != expected(&seconds(640)) {
        events.step().0.iter().for_each(|event| page.take(event));
    }
    assert_eq!(page.requests.iter().sum::<u64>(), 640 * 641 / 2, "every request, once");
}

#[test]
fn a_long_history_comes_in_pieces_of_bounded_size() {
    let served = serve();
    served.show(seconds(480));
    let (events, _) = served.events(None).step();
    assert!(events.len() > 1);
    let largest = events.iter().map(|event| event.data.to_string().len()).max().unwrap();
    assert!(largest < 256 << 10, "{largest}");
    let mut page = Page::default();
    events.iter().for_each(|event| page.take(event));
    assert_eq!(page.requests, expected(&seconds(480)));
}

#[test]
fn the_end_brings_the_report_and_closes_the_stream_also_for_those_who_come_late() {
    let served = serve();
    served.show(seconds(3));
    let mut early = served.events(None);
    let (_, id) = early.step();
    served.finish(&seconds(4).result);
    let mut streams = [early, served.events(Some(&id)), served.events(None)];
    for events in &mut streams {
        let end = events.next().unwrap();
        assert_eq!(end.name, "end");
        let report = end.data["report"].as_str().unwrap();
        let record = report::html::record_of(report).unwrap();
        assert_eq!(record["history"]["at_s"].as_array().unwrap().len(), 4);
        assert!(end.data["parts"]["header"].as_str().unwrap().contains("Passed"));
        assert!(events.next().is_none());
    }
}

#[test]
fn the_run_so_far_can_be_saved() {
    let served = serve();
    assert_eq!(served.get("/api/run/run/record").status, 404, "there is none yet");
    served.show(seconds(3));
    let summary = served.get("/api/run/run/summary");
    let document: Value = serde_json::from_str(&summary.body).unwrap();
    assert_eq!(document["schema"], "volley.summary/1");
    assert_eq!(document["history"].as_array().unwrap().len(), 3);
    let report = served.get("/api/run/run/report");
    assert!(report::html::record_of(&report.body).is_some());
    let mut record = Vec::new();
    let mut stream = std::net::TcpStream::connect(served.address).unwrap();
    let request = format!(
        "GET /api/run/run/record HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nConnection: close\r\n\r\n",
        served.address, served.cookie
    );
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    stream.read_to_end(&mut record).unwrap();
    let body = record.windows(4).position(|part| part == b"\r\n\r\n").unwrap() + 4;
    assert!(report::Record::from_bytes(&record[body..]).is_ok());
    assert_eq!(get(served.address, "/api/run/run/record", "").status, 401);
}
