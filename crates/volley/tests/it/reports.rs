//! `--record`, `--report` and `volley report`: from the command line to files for others.

use crate::common::{Room, Target, plan};

const SCRIPT: &str = "
import http from 'k6/http';
import { check, group } from 'k6';
import { Trend } from 'k6/metrics';
const own = new Trend('own_time', true);
export const options = { vus: 1, iterations: 5 };
export default function () {
  group('g', () => {
    const r = http.get('BASE/', { tags: { name: 'home' } });
    check(r, { 'fine': (r) => r.status === 200 });
  });
  http.get('BASE/?a');
  own.add(7);
}
";

fn setting(load: &str) -> (Room, Target) {
    let (room, target) = (Room::new(), Target::start());
    room.write("plan.yaml", &plan(&target.url(), load));
    (room, target)
}

#[test]
fn a_run_leaves_a_record_and_a_report_with_the_numbers_of_its_summary() {
    let (room, target) = setting("vus: 2, duration: 1300ms");
    let files = ["--record", "run.volley", "--report", "run.html", "--summary", "s.json"];
    let done = room.volley([&["run", "plan.yaml"], &files[..]].concat());
    done.expect(0).says("run.html");
    let page = std::fs::read_to_string(room.path("run.html")).unwrap();
    let record = report::html::record_of(&page).expect("the record is in the page");
    let summary = room.json("s.json");
    assert_eq!(record["summary"]["requests"], summary["requests"]);
    assert_eq!(summary["requests"]["count"], target.total());
    let rows = record["history"]["rows"].as_array().unwrap();
    let counted: u64 = rows
        .iter()
        .flat_map(|row| row["requests"].as_array().unwrap())
        .map(|n| n.as_u64().unwrap())
        .sum();
    assert_eq!(counted, target.total(), "slots add up to what the target has seen");
    assert_eq!(page.matches("<svg").count(), 3, "also a short run has charts");

    room.volley(["report", "run.volley", "-o", "again.html"]).expect(0);
    assert_eq!(page, std::fs::read_to_string(room.path("again.html")).unwrap());
    room.volley(["report", "run.volley", "-o", "-"]).expect(0);
}

#[test]
fn a_script_has_rows_by_name_and_its_own_metrics_over_time() {
    let (room, target) = (Room::new(), Target::start());
    room.write("s.js", &SCRIPT.replace("BASE", &target.url()));
    room.volley(["run", "s.js", "--report", "s.html", "--quiet"]).expect(0);
    let page = std::fs::read_to_string(room.path("s.html")).unwrap();
    let record = report::html::record_of(&page).unwrap();
    assert_eq!(record["kind"], "script");
    let rows = record["history"]["rows"].as_array().unwrap();
    let home = rows.iter().find(|row| row["tags"] == "home").expect("a row for the name");
    let requests: u64 =
        home["requests"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(requests, 5);
    let metrics = record["history"]["metrics"].as_array().unwrap();
    assert!(metrics.iter().any(|metric| metric["name"] == "own_time"), "{metrics:?}");
    assert_eq!(record["script"]["groups"][0]["checks"][0]["passes"], 5);
    assert!(page.contains(">home<") && page.contains(">fine<"));
}

#[test]
fn what_is_no_record_is_named_and_ends_with_104() {
    let (room, _target) = setting("vus: 1, iterations: 3");
    room.volley(["run", "plan.yaml", "--record", "run.volley", "-q"]).expect(0);
    let whole = std::fs::read(room.path("run.volley")).unwrap();
    std::fs::write(room.path("cut.volley"), &whole[..whole.len() / 2]).unwrap();
    room.write("text.volley", "not a record");
    room.volley(["report", "cut.volley"]).expect(104).says("cut or damaged");
    room.volley(["report", "text.volley"]).expect(104).says("not a record");
    room.volley(["report", "plan.yaml"]).expect(104).says("not a record");
    room.volley(["report", "nowhere.volley"]).expect(104).says("nowhere.volley");
    room.volley(["report", "run.volley", "-o", "run.volley"]).expect(104).says("overwrite");
}

#[test]
fn a_report_that_cannot_be_written_is_said_before_any_load() {
    let (room, target) = setting("vus: 1, iterations: 3");
    room.volley(["run", "plan.yaml", "--report", "no/such/folder/r.html"])
        .expect(104)
        .says("report");
    let both = ["run", "plan.yaml", "--report", "one", "--record", "one"];
    room.volley(both)
        .expect(104)
        .says("is the file of another output; give one of them another name");
    room.volley(["run", "plan.yaml", "--report", "-"]).expect(2);
    assert_eq!(target.total(), 0);
}
