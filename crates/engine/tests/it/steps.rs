//! What happens inside an iteration: the graph of steps, conditions, branches, loops, failures,
//! custom metrics and tags (EXEC-12, EXEC-14, EXEC-30, EXEC-31, EXEC-42 to EXEC-44).

use std::time::Duration;

use crate::common::recording::{Recording, Seen, ok, respond};
use crate::common::{Runner, describe, plan, plan_with, target, url};
use stats::{CustomValue, TAG_SETS_MAX};

/// Answers every path after the milliseconds that it ends with.
fn slow() -> Recording {
    Recording::start(|request: &Seen| {
        let digits = request.path.rsplit('-').next().unwrap();
        std::thread::sleep(Duration::from_millis(digits.parse().unwrap_or(0)));
        ok("{\"token\":\"t\"}")
    })
}

fn at(server: &Recording, path: &str) -> std::time::Instant {
    let seen = server.seen();
    let found = seen.iter().find(|one| one.path.starts_with(path));
    found.unwrap_or_else(|| panic!("{path} was not asked for: {:?}", server.paths())).at
}

#[test]
fn the_golden_graph_overlaps_where_it_may_and_waits_where_it_must() {
    for version in ["1.1", "2"] {
        let target = target();
        let server = slow();
        // HTTP/2 is timed by its own latencies: the recording server speaks HTTP/1.1 only.
        let base = if version == "2" { url(&target) } else { server.url() };
        let path = |ms: u32, name: &str| match version {
            "2" => format!("/delay/{ms}"),
            _ => format!("/{name}-{ms}"),
        };
        let steps = format!(
            "{{ name: authenticate, get: {} }}, {{ name: get_users, get: {}, needs: [authenticate] }}, \
             {{ name: get_config, get: {}, needs: [authenticate] }}, \
             {{ name: process_data, get: {}, needs: [get_users, get_config] }}",
            path(50, "authenticate"),
            path(200, "users"),
            path(150, "config"),
            path(10, "process")
        );
        let plan = plan_with(&format!("version: {version}"), "iterations: 2", &steps);
        let run = Runner::to(base).run(&plan);
        run.assert_clean();
        for step in ["authenticate", "get_users", "get_config", "process_data"] {
            assert_eq!(run.step(step).completed, 2, "{step} has counts of its own");
        }
        // 50 + max(200, 150) + 10, and not 50 + 200 + 150 + 10.
        let took = run.iterations().duration;
        assert!(took.min_ms() >= 259.0 && took.min_ms() < 400.0, "{} ms", took.min_ms());
        if version == "1.1" {
            let users = at(&server, "/users");
            assert!(users >= at(&server, "/authenticate") + Duration::from_millis(50));
            assert!(at(&server, "/config") < users + Duration::from_millis(100), "they overlap");
            assert!(at(&server, "/process") >= users + Duration::from_millis(200));
        } else {
            assert_eq!(target.counts().connections, 1, "streams of one connection");
        }
    }
}

#[test]
fn steps_without_needs_follow_each_other_unless_they_are_concurrent() {
    let server = slow();
    let steps = "{ get: /first-60 }, { get: /second-60 }, { get: /third-0 }";
    Runner::to(server.url()).run(&plan("iterations: 1", steps)).assert_clean();
    assert_eq!(server.paths(), ["/first-60", "/second-60", "/third-0"]);

    let server = slow();
    let steps = "{ get: /first-200 }, { get: /second-200 }, { get: /third-0 }";
    let group =
        format!("{{ group: g, concurrent: true, steps: [ {steps} ] }}, {{ get: /after-0 }}");
    let run = Runner::to(server.url()).run(&plan("iterations: 1", &group));
    run.assert_clean();
    assert!(at(&server, "/second") < at(&server, "/first") + Duration::from_millis(200));
    assert_eq!(server.paths().last().unwrap(), "/after-0", "a group ends with its last step");
    assert!(run.iterations().duration.max_ms() < 390.0, "{}", run.iterations().duration.max_ms());
}

#[test]
fn a_step_starts_when_its_own_needs_are_done_and_not_with_a_layer() {
    let server = slow();
    // `quick` needs only `short`; a layer-wise schedule would make it wait for `long` as well.
    let plan = "target: TARGET
workflows:
  - name: w
    concurrent: true
    steps:
      - { name: long, get: /long-300 }
      - { name: short, get: /short-10 }
      - { name: quick, get: /quick-0, needs: [short] }
";
    Runner::to(server.url()).run(plan).assert_clean();
    assert!(at(&server, "/quick") < at(&server, "/long") + Duration::from_millis(200));
}

#[test]
fn concurrent_steps_share_as_many_connections_as_are_allowed() {
    for (connections, wanted) in [(1, 1), (2, 2), (6, 4)] {
        let server = slow();
        let steps = "{ group: g, concurrent: true, steps: [ { get: /a-60 }, { get: /b-60 }, { get: /c-60 }, { get: /d-60 } ] }";
        let defaults = format!("connections: {connections}");
        let run = Runner::to(server.url()).run(&plan_with(&defaults, "iterations: 1", steps));
        run.assert_clean();
        assert_eq!(server.connections(), wanted, "connections: {connections}");
        if connections == 1 {
            let blocked = run.total().blocked.max_ms();
            assert!(blocked >= 175.0, "the last one was blocked for {blocked} ms");
        }
    }
}

#[test]
fn a_step_is_skipped_unless_its_condition_holds() {
    let server = Recording::start(|request: &Seen| match request.path.as_str() {
        "/role" => ok("{\"role\":\"admin\",\"count\":7}"),
        _ => ok("{}"),
    });
    let plan = "target: TARGET
workflows:
  - name: w
    steps:
      - { name: who, get: /role, extract: { role: $.role, count: $.count } }
      - { get: /admin, when: \"${role} == 'admin'\" }
      - { get: /guest, when: \"${role} == 'guest'\" }
      - { get: /many, when: '${count} > 5' }
      - { get: /few, when: '${count} <= 5' }
      - { get: /good, when: '${steps.who.status} == 200' }
";
    let run = Runner::to(server.url()).run(plan);
    run.assert_clean();
    assert_eq!(server.paths(), ["/role", "/admin", "/many", "/good"]);
    assert_eq!(run.step("GET /guest").requests, 0);
}

#[test]
fn branches_are_drawn_by_their_weights() {
    let target = target();
    let steps = "{ choose: [ { weight: 6, steps: [ { name: a, get: / } ] }, { weight: 3, steps: [ { name: b, get: / } ] }, { steps: [ { name: c, get: / } ] } ] }";
    let run = Runner::to(url(&target)).cores(2).run(&plan("vus: 4, iterations: 1000", steps));
    run.assert_clean();
    let mut sum = 0;
    let mut chi_square = 0.0;
    for (step, expected) in [("a", 600.0), ("b", 300.0), ("c", 100.0)] {
        let drawn = run.step(step).completed;
        sum += drawn;
        chi_square += (drawn as f64 - expected).powi(2) / expected;
    }
    assert_eq!(sum, 1000, "one branch per iteration");
    // Two degrees of freedom: beyond 27.6 once in a million runs.
    assert!(chi_square < 27.6, "chi-square {chi_square}");
}

#[test]
fn loops_count_their_turns_and_end_early_when_asked_to() {
    let count = std::sync::atomic::AtomicU64::new(0);
    let server = Recording::start(move |request: &Seen| match request.path.as_str() {
        "/poll" => {
            let turn = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            ok(&format!("{{\"state\":\"{}\"}}", if turn == 4 { "done" } else { "busy" }))
        }
        _ => ok(""),
    });
    let plan = "target: TARGET
workflows:
  - name: w
    steps:
      - { repeat: 3, steps: [ { get: /a }, { get: /b } ] }
      - { repeat: 50, until: \"${state} == 'done'\", steps: [ { get: /poll, extract: { state: $.state } } ] }
      - { get: /end }
";
    Runner::to(server.url()).run(plan).assert_clean();
    let wanted = ["/a", "/b", "/a", "/b", "/a", "/b", "/poll", "/poll", "/poll", "/poll", "/end"];
    assert_eq!(server.paths(), wanted);
}

#[test]
fn a_failure_ends_the_iteration_where_the_plan_says_so() {
    let plan = "target: TARGET
workflows:
  - name: w
    load: { vus: 1, iterations: 2 }
    on_failure: WHAT
    steps: [ { get: /status/500 }, { get: /after } ]
";
    for (what, after) in [("continue", 2), ("end-iteration", 0)] {
        let target = target();
        let run = Runner::to(url(&target)).run(&plan.replace("WHAT", what));
        assert_eq!(target.counts().of("other"), after, "{what}");
        assert_eq!(run.iterations().iterations, 2, "the next iteration starts all the same");
    }
    // A failed check is a failure too, and a step may decide for itself.
    let target = target();
    let steps = "{ get: /, check: [ { body: { contains: nowhere } } ], on_failure: end-iteration }, { get: /after }";
    Runner::to(url(&target)).run(&self::plan("iterations: 2", steps));
    assert_eq!((target.counts().of("/"), target.counts().of("other")), (2, 0));
}

#[test]
fn a_failure_among_concurrent_steps_interrupts_the_others_and_counts_them() {
    let target = target();
    let steps = "{ group: g, concurrent: true, steps: [ { get: /delay/5000 }, { get: /status/500, on_failure: end-iteration } ] }";
    let run = Runner::to(url(&target)).run(&plan("iterations: 3", steps));
    run.assert_seen_by(&target);
    let total = run.total();
    assert_eq!((total.interrupted, total.failed), (3, 3), "{}", describe(&total));
    assert_eq!(run.iterations().iterations, 3);
}

#[test]
fn extracted_values_come_from_body_headers_and_cookies() {
    let server = Recording::start(|request: &Seen| match request.path.as_str() {
        "/from" => respond(
            "200 OK",
            "x-request-id: abc\r\nset-cookie: session=s1; Path=/\r\n",
            b"{\"items\":[{\"id\":1,\"tags\":[\"x\"]},{\"id\":2}]} build=4711;",
        ),
        "/json" => ok("{\"items\":[{\"id\":1,\"tags\":[\"x\"]},{\"id\":2}],\"ok\":true}"),
        _ => ok(""),
    });
    let plan = "target: TARGET
workflows:
  - name: w
    steps:
      - get: /from
        extract: { header: { header: X-Request-Id }, cookie: { cookie: session }, build: { regex: 'build=([0-9]+)' } }
      - get: /json
        extract: { second: '$.items[1].id', tags: '$.items[0].tags', ok: $.ok, missing: $.missing }
      - get: '/use/${header}/${cookie}/${build}/${second}/${ok}/${missing:-none}'
      - { post: /body, json: { tags: '${tags | raw}' } }
";
    Runner::to(server.url()).run(plan).assert_clean();
    let seen = server.seen();
    assert_eq!(seen[2].path, "/use/abc/s1/4711/2/true/none");
    assert_eq!(seen[3].text(), "{\"tags\":[\"x\"]}");
}

#[test]
fn metrics_of_the_users_own_are_summed_over_users_and_cores() {
    let target = target();
    let plan = "target: TARGET
metrics: { orders: counter, level: gauge, good: rate, basket: trend }
workflows:
  - name: w
    load: { executor: per-vu-iterations, vus: 4, iterations: 5 }
    steps:
      - { get: /cart, headers: { authorization: Bearer x }, extract: { price: '$.items[0].price' }, record: { orders: 2, basket: '${price}' } }
      - { record: { level: '${vu.id}', good: '${vu.id}' } }
      - { when: '${vu.id} == 1', record: { good: 0 } }
      - { when: '${vu.id} == 2', record: { orders: '${random.word}' } }
";
    let run = Runner::to(url(&target)).cores(2).run(plan);
    run.assert_clean();
    let mut values = std::collections::BTreeMap::new();
    for (number, metric) in run.0.layout.metrics.iter().enumerate() {
        let blocks = run.0.totals.blocks.iter().flatten();
        let found: Vec<_> = blocks.map(|block| block.metrics[number].clone()).collect();
        values.insert(metric.name.as_str(), found);
    }
    let is = |name: &str, good: &dyn Fn(&CustomValue) -> bool| values[name].iter().any(good);
    let counted =
        |v: &CustomValue| matches!(v, CustomValue::Counter { sum, count: 20 } if *sum == 40.0);
    assert!(is("orders", &counted), "{:?}", values["orders"]);
    let span = |v: &CustomValue| matches!(v, CustomValue::Gauge { min, max, .. } if (*min, *max) == (1.0, 4.0));
    assert!(is("level", &span), "{:?}", values["level"]);
    assert!(is("good", &|v| matches!(v, CustomValue::Rate { trues: 20, total: 25 })));
    let basket = |value: &CustomValue| match value {
        CustomValue::Trend(t) => t.count() == 20 && (t.mean_ms() - 24.5).abs() < 0.1,
        _ => false,
    };
    assert!(is("basket", &basket));
    assert!(run.0.notes.iter().any(|note| note.contains("5 values")), "{:?}", run.0.notes);
}

#[test]
fn tag_values_beyond_the_limit_are_folded_and_said() {
    let target = target();
    let steps = "{ name: s, get: /, tags: { fixed: a, number: '${iteration}' } }";
    let run = Runner::to(url(&target)).cores(2).run(&plan("vus: 2, iterations: 500", steps));
    let step = run.step("s");
    assert_eq!(step.tagged.len(), TAG_SETS_MAX + 1, "and one more, for all the others");
    assert_eq!(step.tagged.iter().map(|(_, tag)| tag.requests).sum::<u64>(), 500);
    let other = step.tagged.iter().find(|(name, _)| &**name == "other").expect("folded values");
    assert_eq!(other.1.requests as usize, 500 - TAG_SETS_MAX);
    assert!(step.tagged.iter().all(|(name, _)| !name.contains("fixed")), "known to the layout");
    assert!(run.0.notes.iter().any(|note| note.contains("`other`")), "{:?}", run.0.notes);
}

#[test]
fn one_tag_value_has_counts_of_its_own() {
    let target = target();
    let steps = "{ choose: [ { steps: [ { set: { kind: good } } ] } ] }, { name: s, get: /, tags: { kind: '${kind}' } }, { set: { kind: bad } }, { name: t, get: /status/500, tags: { kind: '${kind}' } }";
    let run = Runner::to(url(&target)).run(&plan("iterations: 3", steps));
    let (name, tag) = &run.step("s").tagged[0];
    assert_eq!((&**name, tag.requests, tag.failed), ("kind=good", 3, 0));
    let (name, tag) = &run.step("t").tagged[0];
    assert_eq!((&**name, tag.requests, tag.failed), ("kind=bad", 3, 3));
}
