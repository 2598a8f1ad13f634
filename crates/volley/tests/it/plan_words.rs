//! Mistakes in plans that only a run shows: what the result says of them.

use crate::common::{Room, Target};

/// A plan with this load and these steps, and what follows them.
fn write(room: &Room, url: &str, load: &str, steps: &str, rest: &str) {
    let text = format!(
        "name: t\ntarget: {url}\nworkflows:\n  - name: main\n    load: {{ {load} }}\n    steps: [ {steps} ]\n{rest}"
    );
    room.write("plan.yaml", &text);
}

#[test]
fn a_threshold_for_which_nothing_was_measured_has_not_held() {
    let (room, target) = (Room::new(), Target::start());
    let steps = "{ name: home, get: / }, { think: 30s }, { name: buy, get: / }";
    let rest = "thresholds: [ { metric: http_req_duration, step: buy, hold: p(95) < 300ms } ]\n";
    write(&room, &target.url(), "vus: 2, duration: 1s, graceful_stop: 0s", steps, rest);
    let done = room.volley(["run", "plan.yaml"]).expect(99);
    let words = done.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for expect in [
        "nothing was measured, so it is not known whether it holds",
        "no iteration was completed: one takes at least 30s by its pauses, and the load lasts 1s",
        "step `buy` never ran",
    ] {
        assert!(words.contains(expect), "{expect}: {done:?}");
    }
}

#[test]
fn a_condition_that_was_never_true_is_named() {
    let (room, target) = (Room::new(), Target::start());
    let steps = "{ name: home, get: / }, { name: cart, get: /, when: \"${role} == 'Admin'\" }";
    let rest = "vars: { role: admin }\n";
    write(&room, &target.url(), "vus: 1, iterations: 5", steps, rest);
    let done = room.volley(["run", "plan.yaml"]).expect(0);
    let words = done.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let expect =
        "step `cart` was skipped in all 5 iterations: `when: ${role} == 'Admin'` was never true";
    assert!(words.contains(expect), "{done:?}");
    assert!(words.contains("but step `cart` never ran"), "{done:?}");
}

#[test]
fn rows_that_cannot_last_are_told_before_and_most_of_the_load_missing_is_invalid() {
    let (room, target) = (Room::new(), Target::start());
    room.write("rows.csv", "name\na\nb\n");
    let rest = "data: { rows: { file: rows.csv, order: unique-per-iteration } }\n";
    let steps = "{ get: \"/?q=${data.rows.name}\" }";
    write(&room, &target.url(), "rate: 20/s, duration: 1s", steps, rest);
    let expect = "has 2 rows, and `main` plans 20 iterations: 18 will find no row left";
    room.volley(["plan", "plan.yaml"]).expect(0).says(expect);
    room.volley(["run", "plan.yaml"]).expect(120).says(expect).says("found no data row left");
}
