//! Loads that cannot be.

use super::check;

#[test]
fn loads_that_cannot_be_are_refused() {
    let load = |load: &str, expect: &[&str]| {
        let yaml = format!("workflows:\n- name: a\n  load: {load}\n  steps: [ {{ think: 1s }} ]");
        check(&yaml, expect);
    };
    load("{ executor: ramping-vus }", &["3:9 the key `stages` is missing in load"]);
    load("{ stages: [] }", &["3:19 there are no stages"]);
    load("{ stages: [ { to: 5, over: 0s } ] }", &["3:19 the stages take no time"]);
    load("{ stages: [ { to: 0, over: 5s } ] }", &["3:19 no stage has any virtual users"]);
    load(
        "{ vus: 1000000000, duration: 5s }",
        &["3:16 1000000000 virtual users; a workflow has at most 1000000 \
             [workflows[0].load.vus] / \
         for more load use an arrival rate"],
    );
    load("{ vus: 99999999999999999999, duration: 5s }", &["3:16 expected a whole number"]);
    load("{ vus: 0, duration: 5s }", &["3:16 `vus: 0` makes no load"]);
    load("{ vus: 5 }", &["3:9 how long?"]);
    load("{ rate: 0/s, duration: 5s }", &["3:17 a rate of 0 makes no load"]);
    load("{ rate: 5, duration: 5s }", &["3:17 `5` is not a rate"]);
    load("{ rate: 5/s }", &["3:9 the key `duration` is missing in load"]);
    load("{ iterations: 0 }", &["3:23 `iterations: 0` makes no load"]);
    load("{ duration: 5s, rate: 5/s, vus: 9, max_vus: 3 }", &["3:53 `max_vus` is less than"]);
    load(
        "{ vus: 2, duration: 5s, max_vus: 3 }",
        &["3:33 `max_vus` belongs to constant-arrival-rate and ramping-arrival-rate \
         [workflows[0].load.max_vus] / the executor here is constant-vus"],
    );
    load("{ duration: 5s, warmup: 5s }", &["3:33 the warm-up takes the whole run"]);
    load(
        "{ stages: [ { to: 5/s, over: 5s }, { to: 9, over: 1s } ] }",
        &["3:50 `9` is not a rate [workflows[0].load.stages[1].to] / a rate has a unit: `9/s`"],
    );
    load(
        "{ executor: ramping-vus, stages: [ { to: 5/s, over: 5s } ] }",
        &["3:50 expected a number of virtual users, found `5/s`"],
    );
    load(
        "{ stages: [ { to: 1, over: 1s, name: a }, { to: 1, over: 1s, name: a } ] }",
        &["3:76 two stages are called `a`"],
    );
}
