//! What is taken from answers: which match, of which form, and what happens if there is none.

use crate::common::recording::{Recording, Seen, ok, respond};
use crate::common::{Runner, plan};
use stats::ErrorKind;

/// Answers `/login` with this body, and everything else with an empty object.
fn login(body: &'static str) -> Recording {
    Recording::start(move |request: &Seen| match request.path.as_str() {
        "/login" => ok(body),
        _ => ok("{}"),
    })
}

const LOGIN: &str = "{ name: login, get: /login, extract: { token: $.token } }";

#[test]
fn an_extract_that_matches_nothing_fails_the_step_and_says_what_was_there() {
    let server = login(r#"{"access":"abc","password":"hush"}"#);
    let run = Runner::to(server.url()).run(&plan("iterations: 3", LOGIN));
    assert_eq!(run.errors(ErrorKind::Extract), 3);
    assert_eq!((run.total().completed, run.total().failed), (3, 3), "an answer came each time");
    let message = run.message(ErrorKind::Extract);
    assert!(message.contains("`token`: `$.token` matches nothing in: {\"access\""), "{message}");
    assert!(!message.contains("hush"), "{message}");
}

#[test]
fn a_step_that_needs_a_value_that_is_missing_is_not_sent_and_counted_so() {
    let needs = [
        "{ get: '/cart/${token}' }",
        "{ get: /cart, query: { t: '${token}' } }",
        "{ get: /cart, headers: { authorization: 'Bearer ${token}' } }",
        "{ get: /cart, auth: { bearer: '${token}' } }",
        "{ get: /cart, auth: { basic: { user: a, password: '${token}' } } }",
        "{ post: /cart, json: { t: '${token}' } }",
        "{ post: /cart, form: { t: '${token}' } }",
        "{ post: /cart, body: 't=${token}' }",
        "{ post: /cart, multipart: { t: '${token}' } }",
        "{ set: { bearer: 'Bearer ${token}' } }, { get: /cart, headers: { authorization: '${bearer}' } }",
    ];
    for step in needs {
        let server = login("{}");
        let run = Runner::to(server.url()).run(&plan("iterations: 2", &format!("{LOGIN}, {step}")));
        assert_eq!(server.paths(), ["/login", "/login"], "{step}");
        assert_eq!(run.errors(ErrorKind::NoValue), 2, "{step}");
        let total = run.total();
        assert_eq!((total.requests, total.sent, total.latency.count()), (4, 2, 2), "{step}");
        let message = run.message(ErrorKind::NoValue);
        assert!(message.starts_with("not sent: `${"), "{step}: {message}");
    }
    let server = login("{}");
    let run = Runner::to(server.url())
        .run(&plan("iterations: 1", &format!("{LOGIN}, {{ get: '/cart/${{token}}' }}")));
    let message = run.message(ErrorKind::NoValue);
    assert!(
        message.contains("`${token}` has no value, the step `login`, which sets it"),
        "{message}"
    );
}

#[test]
fn an_extract_may_find_nothing_if_it_is_optional_or_every_reference_has_a_default() {
    let optional = "{ get: /login, extract: { token: { json: $.token, optional: true } } }";
    let defaults = "{ get: /login, extract: { token: $.token } }, { get: '/${token:-none}' }, \
                    { get: /a, headers: { t: '${token:-}' } }";
    for steps in [optional, defaults] {
        let server = login("{}");
        Runner::to(server.url()).run(&plan("iterations: 1", steps)).assert_clean();
    }
    // One reference without a default is enough to need it.
    let server = login("{}");
    let steps = format!("{defaults}, {{ when: 'false', get: '/${{token}}' }}");
    let run = Runner::to(server.url()).run(&plan("iterations: 1", &steps));
    assert_eq!(run.errors(ErrorKind::Extract), 1);
    // What the plan's setup extracts is referred to by its workflows.
    for (reference, failed) in [("${token:-none}", 0), ("${token}", 1)] {
        let server = login("{}");
        let plan = format!(
            "target: TARGET\nsetup: [ {LOGIN} ]\nworkflows:\n- {{ name: w, steps: [ {{ get: '/{reference}' }} ] }}\n"
        );
        let run = Runner::to(server.url()).run(&plan);
        assert_eq!(run.errors(ErrorKind::Extract), failed, "{reference}");
    }
}

#[test]
fn a_value_of_an_earlier_turn_does_not_stand_in_for_one_that_is_missing() {
    let turn = std::sync::atomic::AtomicUsize::new(0);
    let server = Recording::start(move |request: &Seen| {
        let first = turn.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
        if request.path == "/login" && first { ok("{\"token\":\"t1\"}") } else { ok("{}") }
    });
    let steps = format!("{{ repeat: 2, steps: [ {LOGIN}, {{ get: '/cart/${{token}}' }} ] }}");
    let run = Runner::to(server.url()).run(&plan("iterations: 1", &steps));
    assert_eq!(server.paths(), ["/login", "/cart/t1", "/login"]);
    assert_eq!(run.errors(ErrorKind::NoValue), 1);
}

#[test]
fn a_check_against_a_value_that_is_missing_fails() {
    let server = login("{}");
    let check = "check: [ { body: { contains: '${token}' }, name: has it } ]";
    let steps = format!("{LOGIN}, {{ get: /cart, {check} }}");
    let run = Runner::to(server.url()).run(&plan("iterations: 1", &steps));
    assert_eq!(run.check("has it").fails, 1);
}

#[test]
fn a_check_sees_what_its_own_step_has_extracted() {
    let server = login("{\"token\":\"t1\"}");
    let step = "{ get: /login, extract: { token: $.token }, check: [ { body: { contains: '${token}' }, name: has it } ] }";
    let run = Runner::to(server.url()).run(&plan("iterations: 2", step));
    assert_eq!(run.check("has it").passes, 2);
}

#[test]
fn one_of_several_matches_is_chosen_or_all_of_them_or_their_number() {
    let server = Recording::start(|request: &Seen| match request.path.as_str() {
        "/list" => respond(
            "200 OK",
            "x-way: one\r\nx-way: two\r\nset-cookie: c=1\r\n",
            br#"{"items":[{"id":1},{"id":2},{"id":"c"}]}"#,
        ),
        _ => ok("{}"),
    });
    let extract = "{ \
        jf: { json: '$.items[*].id', match: first }, jl: { json: '$.items[*].id', match: last }, \
        ja: { json: '$.items[*].id', match: all }, jc: { json: '$.items[*].id', match: count }, \
        j0: { json: '$.nothing[*]', match: count }, jw: { json: '$.items', match: count }, \
        jr: { json: '$.items[*].id', match: random }, \
        rl: { regex: '\"id\":([0-9])', match: last }, ra: { regex: '\"id\":([0-9])', match: all }, \
        rc: { regex: nowhere, match: count }, \
        hl: { header: x-way, match: last }, ha: { header: X-Way, match: all }, \
        cc: { cookie: c, match: count }, no: { json: '$.x[*]', match: all, optional: true } }";
    let url = "/${jf}/${jl}/${jc}/${j0}/${jw}/${rl}/${rc}/${hl}/${cc}/${no:-none}";
    let steps = format!(
        "{{ get: /list, extract: {extract} }}, {{ get: '{url}' }}, {{ get: '/drawn/${{jr}}' }}, \
         {{ post: /lists, json: {{ ja: '${{ja}}', ra: '${{ra}}', ha: '${{ha}}' }} }}"
    );
    Runner::to(server.url()).run(&plan("iterations: 1", &steps)).assert_clean();
    let seen = server.seen();
    assert_eq!(seen[1].path, "/1/c/3/0/1/2/0/two/1/none");
    assert!(["/drawn/1", "/drawn/2", "/drawn/c"].contains(&seen[2].path.as_str()));
    assert_eq!(seen[3].text(), r#"{"ja":[1,2,"c"],"ra":["1","2"],"ha":["one","two"]}"#);
}

#[test]
fn extracted_json_keeps_its_type_in_json_bodies() {
    let server = login(r#"{"n":7,"s":"7","f":1.50,"b":true,"z":null,"o":{"a":[1]}}"#);
    let login = "get: /login, extract: { n: $.n, s: $.s, f: $.f, b: $.b, z: $.z, o: $.o }";
    let body = "{ n: '${n}', s: '${s}', f: '${f}', b: '${b}', z: '${z}', o: '${o}', \
                mixed: 'no ${n}', lower: '${s | lower}', copy: '${m}', row: ['${n}'], d: '${x:-1}' }";
    let steps =
        format!("{{ {login} }}, {{ set: {{ m: '${{n}}' }} }}, {{ post: /a, json: {body} }}");
    let told = r#"{"n":7,"s":"7","f":1.50,"b":true,"z":null,"o":{"a":[1]},"mixed":"no 7","lower":"7","copy":7,"row":[7],"d":"1"}"#;
    Runner::to(server.url()).run(&plan("iterations: 1", &steps)).assert_clean();
    assert_eq!(server.seen()[1].text(), told);
    // A setup leaves its values with their types.
    let plan = format!(
        "target: TARGET\nsetup: [ {{ {login} }} ]\nvars: {{ m: '${{n}}' }}\nworkflows:\n- {{ name: w, steps: [ {{ post: /a, json: {body} }} ] }}\n"
    );
    let run = Runner::to(server.url()).run(&plan);
    run.assert_clean();
    assert_eq!(server.seen().last().unwrap().text(), told);
}
