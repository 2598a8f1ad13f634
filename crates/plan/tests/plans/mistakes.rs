//! Mistakes, each with its place and what to do about it.

use super::{check, problems, with_steps};

#[test]
fn ten_mistakes_are_all_reported_with_their_places() {
    let yaml = "\
target: http://127.0.0.1:8080
workflow_timeout: 5s
workflows:
  - name: shop
    depends_on: [serch]
    load: { executor: ramping-vsu, stages: [ { to: 5, over: 10 } ] }
    steps:
      - name: login
        post: /login
        json: { user: \"${data.users.name}\" }
        extract: { token: $.token }
      - name: cart
        get: /cart?t=${tokne}
        thnik: 1s
        check: [ { status: ok } ]
  - name: search
    steps:
      - { get: /a, timeout: 0s }
thresholds:
  - { metric: http_req_duratoin, hold: p(95) < 1s }
";
    check(
        yaml,
        &[
            "2:1 unknown key `workflow_timeout` in plan [workflow_timeout] / the keys are",
            "5:18 there is no workflow `serch` [workflows[0].depends_on[0]] / \
             did you mean `search`?",
            "6:23 `ramping-vsu` is not one of constant-vus, ramping-vus,",
            "6:61 the time `10` has no unit [workflows[0].load.stages[0].over] / write `10s`",
            "10:24 there is no data set `users` [workflows[0].steps[0].json.user]",
            "13:22 `${tokne}` refers to nothing [workflows[0].steps[1].get] / \
             did you mean `token`?",
            "14:9 unknown key `thnik` in step [workflows[0].steps[1].thnik] / \
             did you mean `think`?",
            "15:28 `ok` is not a status [workflows[0].steps[1].check[0].status] / write 200",
            "18:29 a time of 0 cannot be kept [workflows[1].steps[0].timeout]",
            "20:15 there is no metric `http_req_duratoin` [thresholds[0].metric] / did you mean",
        ],
    );
}

#[test]
fn a_problem_is_printed_like_a_compilers() {
    let text = with_steps("- get: /a\n  thnik: 1s");
    let printed = super::try_read(&text, plan::Format::Yaml).unwrap_err().to_string();
    let expect = "\
plan:7:7: unknown key `thnik` in step
    7 |       thnik: 1s
      |       ^^^^^
      at workflows[0].steps[0].thnik
      help: did you mean `think`?

1 problem in plan";
    assert_eq!(printed, expect);
}

#[test]
fn wrong_types_say_what_is_expected() {
    check(
        "target: [a]\nworkflows: x",
        &[
            "1:9 expected text, found a list [target]",
            "2:12 expected a list of maps (workflow), found the text `x` [workflows]",
        ],
    );
    check(
        &with_steps("- get: /a\n  redirects: yes"),
        &["7:18 expected a whole number or `false`, found the text `yes`"],
    );
    check(
        &with_steps("- get: /a\n- repeat: '3'\n  steps: [ { think: 1s } ]"),
        &["7:15 expected a whole number, found the text `3` [workflows[0].steps[1].repeat] / \
             remove"],
    );
    check("just text", &["1:1 expected a map (plan), found the text `just text`"]);
    check(
        "workflows: [ { steps: [ { think: 1s } ] } ]",
        &["1:14 the key `name` is missing in workflow [workflows[0]] / \
             for example `name: shop`"],
    );
    check(
        &with_steps("- get:\n  headers:\n"),
        &["6:10 expected text, found nothing [workflows[0].steps[0].get]"],
    );
    check("name: a", &["1:1 the key `workflows` is missing in plan"]);
}

#[test]
fn steps_do_one_thing() {
    check(&with_steps("- get: /a\n  think: 1s"), &["7:7 a step does one thing, not `get` and"]);
    check(&with_steps("- name: x"), &["6:7 this step does nothing"]);
    check(&with_steps("- think: 1s\n  json: {}"), &["7:7 `json` does not belong here"]);
    check(&with_steps("- group: g"), &["6:7 there are no `steps` inside"]);
    check(&with_steps("- choose: []"), &["6:15 there is nothing to choose from"]);
    check(&with_steps("- get: /a\n  json: {}\n  body: x"), &["8:7 a request has one body"]);
    check(&with_steps("- repeat: 0\n  steps: [ { think: 1s } ]"), &["6:15 `repeat: 0` does noth"]);
}

#[test]
fn urls_are_http_and_have_a_base() {
    check(&with_steps("- get: ftp://host/a"), &["6:12 the scheme `ftp` is not supported"]);
    check(&with_steps("- get: cart"), &["6:12 `cart` is not a URL"]);
    check(&with_steps("- get: 'http://'"), &["6:12 the URL has no host"]);
    check(&with_steps("- get: ''"), &["6:12 the URL is empty"]);
    check(
        "workflows: [ { name: a, steps: [ { get: /a } ] } ]",
        &["1:41 a relative URL, and the plan has no `target`"],
    );
    check(
        "target: localhost\nworkflows: [ { name: a, steps: [ { get: /a } ] } ]",
        &["1:9 the target `localhost` is not an address"],
    );
}

#[test]
fn extractors_and_checks_are_tried_before_the_run() {
    check(
        &with_steps("- get: /a\n  extract: { a: token }"),
        &["7:21 `token` is not a JSONPath [workflows[0].steps[0].extract.a] / \
             a path begins with `$`"],
    );
    check(&with_steps("- get: /a\n  extract: { a: '$.x[' }"), &["7:25 not a valid JSONPath"]);
    check(
        &with_steps("- get: /a\n  extract: { a: { regex: '(' } }"),
        &["7:30 not a regular expression"],
    );
    check(
        &with_steps("- get: /a\n  extract: { a: { regex: x, group: 1 } }"),
        &["7:40 the expression has no group, not 1"],
    );
    check(&with_steps("- get: /a\n  check: { json: $.a }"), &["7:14 what must the value be?"]);
    check(&with_steps("- get: /a\n  check: { name: x }"), &["7:14 this check tests nothing"]);
    check(
        &with_steps("- get: /a\n  check: [ { status: 200 }, { status: 200 } ]"),
        &["7:33 two checks of this step are called `status is 200`"],
    );
}

#[test]
fn data_files_are_read_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("empty.csv", "name\n");
    write("ragged.csv", "name,age\nann,3\nbob\n");
    write("bad.jsonl", "{\"a\": 1}\n{\"a\": \n");
    write("good.jsonl", "{\"b\": 1, \"a\": \"x\"}\n\n{\"a\": \"y\", \"b\": {\"c\": 2}}\n");
    let read = |file: &str| {
        let yaml = format!(
            "data: {{ d: {file} }}\nworkflows: [ {{ name: a, steps: [ {{ think: 1s }} ] }} ]"
        );
        let options = plan::ReadOptions::new(&|_| None);
        plan::read_str(&yaml, plan::Format::Yaml, folder.path(), &options)
    };
    for (file, expect) in [
        ("missing.csv", "there is no file `missing.csv`"),
        ("empty.csv", "empty.csv: the data file has no rows"),
        ("ragged.csv", "ragged.csv:3: 1 field, and the header has 2"),
        ("bad.jsonl", "bad.jsonl:2: not a JSON object in one line"),
    ] {
        let problems = read(file).unwrap_err().0;
        assert!(problems[0].message.contains(expect), "{}", problems[0].message);
        assert_eq!((problems.len(), problems[0].line, problems[0].column), (1, 1, 12));
    }
    let plan = read("good.jsonl").unwrap();
    let rows = plan::load_rows(&plan.data[0]).unwrap();
    assert_eq!(rows.columns, ["b", "a"]);
    assert_eq!(
        rows.cells.iter().map(|cell| &**cell).collect::<Vec<_>>(),
        ["1", "x", "{\"c\":2}", "y",]
    );
    assert_eq!((plan.data[0].rows, &*rows.row(1)[1]), (2, "y"));
}

#[test]
fn unique_rows_are_not_recycled() {
    let yaml = "data: { u: { file: users.csv, order: unique-per-iteration, \
                when_exhausted: recycle } }\nworkflows: [ { name: a, steps: [ { think: 1s } ] } ]";
    check(yaml, &["1:76 rows cannot be unique per iteration and recycled"]);
}

#[test]
fn thresholds_name_what_there_is() {
    let threshold = |threshold: &str, expect: &[&str]| {
        check(
            &(with_steps("- { name: cart, get: /cart, check: { status: 200 } }")
                + "thresholds:\n- "
                + threshold),
            expect,
        );
    };
    threshold(
        "{ metric: checks, step: crat, hold: rate > 1% }",
        &["8:27 there is no step `crat` [thresholds[0].step] / did you mean `cart`?"],
    );
    threshold("{ metric: checks, workflow: man, hold: rate > 1% }", &["8:31 there is no workflow"]);
    threshold("{ metric: vus, step: cart, hold: value > 1 }", &["8:24 `vus` is not measured per"]);
    threshold(
        "{ metric: http_req_failed, hold: count > 1 }",
        &["8:36 the metric is a rate and has no `cou"],
    );
    threshold(
        "{ metric: http_req_failed, hold: rate > 1%, exclude: warmup }",
        &["8:56 no workflow has a warm-up"],
    );
    threshold(
        "{ metric: http_req_failed, hold: rate > 1%, stage: peak }",
        &["8:54 there is no stage `peak`"],
    );
    threshold(
        "{ metric: checks, hold: rate > 1%, over: 0s }",
        &["8:44 a time of 0 cannot be kept"],
    );
}

#[test]
fn metrics_are_declared_before_they_are_recorded() {
    check(
        &with_steps("- get: /a\n  record: { basket: 1 }"),
        &["7:17 there is no metric `basket` [workflows[0].steps[0].record.basket] / \
             add it at the top"],
    );
    check(&with_steps("- record: { checks: 1 }"), &["6:17 the metric `checks` is built in"]);
    let own = "metrics: { checks: rate, a-b: trend, n: { kind: counter, time: true } }\n";
    check(
        &(own.to_owned() + &with_steps("- think: 1s")),
        &[
            "1:20 the metric `checks` is built in",
            "1:31 `a-b` is not a name for a metric",
            "1:41 only a trend has times",
        ],
    );
}

#[test]
fn names_are_unique() {
    check(
        &with_steps("- { name: a, get: /a }\n- { name: a, get: /b }"),
        &["7:15 two steps are called `a` [workflows[0].steps[1].name] / the first is in line 6"],
    );
    let twice = "workflows:\n- { name: a, steps: [ { think: 1s } ] }\n\
                 - { name: a, steps: [ { think: 1s } ] }";
    check(twice, &["3:11 two workflows are called `a`"]);
    check(
        "target: http://a\ntarget: http://b\nworkflows: []",
        &[
            "2:1 the key `target` is given twice [] / it was first given in line 1",
            "3:12 the plan has no workflows",
        ],
    );
    check("workflows: [ { name: a, steps: [] } ]", &["1:32 the workflow `a` has no steps"]);
}

#[test]
fn settings_of_connections_are_checked() {
    let defaults = |text: &str, expect: &[&str]| {
        check(&(format!("defaults: {{ {text} }}\n") + &with_steps("- think: 1s")), expect);
    };
    defaults("version: 3", &["1:22 `3` is not one of auto, 1.1, 2"]);
    defaults("version: 1.1, cookies: keep, redirects: false, ip: v6", &[]);
    defaults("timeout: 0s", &["1:22 a time of 0 cannot be kept"]);
    defaults("tls: { certificate: users.csv }", &["1:18 `certificate` needs a `key`"]);
    defaults("tls: { ca: nope.pem }", &["1:24 there is no file `nope.pem`"]);
    defaults("hosts: { a: b }", &["1:25 `b` is not an address"]);
    defaults("local_addresses: here", &["1:30 not an IP address"]);
    defaults("headers: { 'a b': c }", &["1:24 `a b` cannot name a header"]);
    assert_eq!(problems("defaults: { timeuot: 3s }\nworkflows: []").len(), 2);
}
