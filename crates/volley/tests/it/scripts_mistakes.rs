//! Mistakes that k6 passes over, or answers with a word: each is said with its place and what to
//! do, and the exit code stays k6's.

use crate::common::{Room, Target};

/// The script with `URL` in place of the target's address; what `volley run` said of it.
#[track_caller]
fn said(script: &str, code: i32) -> String {
    let target = Target::start();
    let room = Room::new();
    let text = format!(
        "import http from 'k6/http'; import {{ check, sleep }} from 'k6';\n{}\n",
        script.replace("URL", &target.url())
    );
    let path = room.write("s.js", &text);
    room.volley(["run", path.to_str().unwrap()]).expect(code).err
}

#[track_caller]
fn check(script: &str, code: i32, expected: &[&str]) {
    let said = said(script, code);
    for part in expected {
        assert!(said.contains(part), "nothing says `{part}`:\n{script}\n{said}");
    }
}

#[track_caller]
fn says_nothing(script: &str) {
    let target = Target::start();
    let room = Room::new();
    let text = format!(
        "import http from 'k6/http'; import {{ check, sleep }} from 'k6';\n{}\n",
        script.replace("URL", &target.url())
    );
    let path = room.write("s.js", &text);
    let done = room.volley(["run", "--quiet", path.to_str().unwrap()]).expect(0);
    assert!(!done.err.contains("level=warning"), "{text}\n{}", done.err);
}

#[test]
fn an_export_that_is_nearly_a_known_one_is_said() {
    check(
        "export const option = { vus: 5 };\nexport default function () {}",
        0,
        &["s.js:2:14: the script exports `option`", "did you mean `options`?", "1 iteration"],
    );
    check(
        "export function setUp() {}\nexport function handlesummary() {}\nexport default function () {}",
        0,
        &["s.js:2:17", "did you mean `setup`?", "did you mean `handleSummary`?"],
    );
    check(
        "export function options() {}\nexport default function () {}",
        0,
        &["`options` is a function"],
    );
    check(
        "export const options = { vus: __ENV.VUS_WANTED };\nexport default function () {}",
        0,
        &["`vus` is undefined", "-e VUS_WANTED=..."],
    );
}

#[test]
fn a_name_that_nobody_imported_is_refused_with_the_line_that_imports_it() {
    let room = Room::new();
    let run = |text: &str| {
        let path = room.write("s.js", text);
        room.volley(["run", "--quiet", path.to_str().unwrap()])
    };
    let done = run("export default function () { http.get('http://127.0.0.1:1/'); }").expect(107);
    assert!(done.err.contains("s.js:1:30: `http` is not defined"), "{}", done.err);
    assert!(done.err.contains("import http from 'k6/http';"), "{}", done.err);
    // Whoever asks first has a reason.
    let asks = "export default function () { if (typeof sleep !== 'undefined') { sleep(1); } }";
    let done = run(asks).expect(0);
    assert!(done.err.contains("is an import missing?"), "{}", done.err);
    let made = "globalThis.sleep = () => {};\nexport default function () { sleep(1); }";
    run(made).expect(0);
    run("import { http } from 'k6';\nexport default function () {}")
        .expect(107)
        .says("write import http from 'k6/http';");
}

#[test]
fn what_is_not_a_function_is_named() {
    check(
        "export default function () { http.gett('URL/'); }",
        0,
        &[
            "TypeError: http.gett is not a function; did you mean http.get?",
            "every iteration ended with an exception: TypeError: http.gett",
        ],
    );
    check(
        "export default function () { const r = {}; r.data.token; }",
        0,
        &["cannot read property 'token' of undefined: `r.data` is undefined"],
    );
}

#[test]
fn a_message_that_repeats_itself_is_counted() {
    let room = Room::new();
    let text = "export const options = { vus: 1, iterations: 200 };\n\
                export default function () { throw new Error('boom'); }";
    let path = room.write("s.js", text);
    let done = room.volley(["run", path.to_str().unwrap()]).expect(0);
    assert_eq!(done.err.matches("level=error msg=\"Error: boom").count(), 50, "{}", done.err);
    assert!(done.err.contains("... and 150 more like it: Error: boom"), "{}", done.err);
}

#[test]
fn a_threshold_on_which_nothing_was_measured_says_what_was_seen() {
    check(
        "export const options = { thresholds: { 'http_req_duration{name:cart}': ['p(95)<1'] } };\n\
         export default function () { http.get('URL/cart'); }",
        0,
        &["nothing was measured for the threshold on `http_req_duration{name:cart}`", "/cart`"],
    );
    check(
        "export const options = { thresholds: { 'http_req_duration{kind:cart}': ['p(95)<1'] } };\n\
         export default function () { http.get('URL/', { tags: { kind: 'carts' } }); }",
        0,
        &["no `kind` was `cart`; seen: `carts`; did you mean `carts`?"],
    );
}

#[test]
fn a_threshold_that_always_or_never_holds_is_said_with_its_place() {
    check(
        "export const options = { thresholds: { http_req_failed: ['rate<=1'] } };\n\
         export default function () { http.get('URL/'); }",
        0,
        &["s.js:2:58: threshold `rate<=1` on `http_req_failed`: it always holds"],
    );
    check(
        "export const options = { thresholds: { checks: ['rate>95'] } };\n\
         export default function () { check(1, { one: () => true }); }",
        99,
        &["it can never hold", "95 % is 0.95"],
    );
}

#[test]
fn checks_that_cannot_fail_or_cannot_pass_are_said() {
    let table = [
        ("check(http.get('URL/'), { ok: (r) => r.status = 200 });", "`===` compares"),
        ("check(http.get('URL/'), { ok: (r) => { return r.status = 200 } });", "`===` compares"),
        ("check(http.get('URL/'), { ok: (r) => { r.status === 200 } });", "always fails"),
        ("check(http.get('URL/'), (r) => r.status === 200);", "checks nothing"),
        ("check(http.asyncRequest('GET', 'URL/'), { ok: (r) => r.status });", "`await` is missing"),
        ("const r = http.asyncRequest('GET', 'URL/'); r.status;", "`await` is missing"),
        ("const r = http.get('URL/'); if (r.status = 200) {}", "assigns and does not compare"),
    ];
    for (line, expected) in table {
        check(&format!("export default function () {{ {line} }}"), 0, &["s.js:2:", expected]);
    }
}

#[test]
fn a_sleep_in_the_wrong_unit_is_said() {
    check(
        "export const options = { scenarios: { a: { executor: 'constant-vus', vus: 1, duration: '1s', \
         gracefulStop: '0s' } } };\nexport default function () { sleep(500); }",
        0,
        &["s.js:3:30: a sleep of 500 s is longer", "sleep() takes seconds"],
    );
    check("export default function () { sleep('5s'); }", 0, &["what is no number"]);
}

#[test]
fn a_request_that_is_not_what_was_meant_is_said_once() {
    let table = [
        (
            "http.get(`${__ENV.BASE_OF_ALL}/x`);",
            "__ENV.BASE_OF_ALL (give it with -e BASE_OF_ALL=...)",
        ),
        ("http.get(`URL/users/${undefined}`);", "has `undefined` in it"),
        ("http.get('/search');", "has no scheme"),
        ("http.get('URL/', { header: { A: '1' } });", "did you mean `headers`?"),
        ("http.get('URL/', { headers: 'A: 1' });", "is no object"),
        ("http.get('URL/', null, { headers: {} });", "third argument has no effect"),
        ("http.post('URL/echo', { headers: {} });", "is the body"),
        (
            "http.post('URL/echo', { a: 1 }, { headers: { 'Content-Type': 'application/json' } });",
            "write JSON.stringify(body)",
        ),
    ];
    for (line, expected) in table {
        check(&format!("export default function () {{ {line} }}"), 0, &["s.js:2:", expected]);
    }
}

#[test]
fn a_check_that_cannot_say_no_is_said_with_its_place() {
    let table = [
        ("200 <= r.status < 300", "which is always true"),
        ("r.status in [200, 201]", "[200, 201].includes(r.status)"),
        ("[200, 201].indexOf(r.status)", "is -1, which counts as true"),
        ("r.body.includes", "is a function, which counts as true"),
        ("r.status == 200 | 201", "is always true"),
    ];
    for (value, expected) in table {
        let text = format!("check(http.get('URL/nope'), {{ ok: (r) => {value} }});");
        check(&format!("export default function () {{ {text} }}"), 0, &["s.js:2:", expected]);
    }
}

#[test]
fn what_is_sent_or_read_instead_of_what_was_meant_is_said_once() {
    let table = [
        ("http.get('URL/seen').json('$.token');", "that is JSONPath"),
        ("http.post('URL/echo', '{\"a\":[1]}').json('b[0]');", "write json('b.0')"),
        (
            "http.post('URL/echo', { f: http.file('./users.csv', 'users.csv') });",
            "the text `./users.csv` is sent",
        ),
        ("http.batch([http.get('URL/'), http.get('URL/cart')]);", "are made again"),
        ("http.get('URL/', { auth: { username: 'a', password: 'b' } });", "http://user:password@"),
        ("http.get('URL/', { timeout: '5' });", "is 5 milliseconds"),
        ("http.get('URL/').cookie_of_mine;", "it has remote_ip"),
    ];
    for (line, expected) in table {
        let text = format!(
            "export const options = {{ vus: 1, iterations: 3 }};\nexport default function () {{ {line} }}"
        );
        let done = said(&text, 0);
        assert_eq!(done.matches(expected).count(), 1, "{line}: {expected}:\n{done}");
        assert!(done.contains("s.js:3:"), "{done}");
        assert!(!done.contains("no `params`") && !done.contains("clickLink"), "{done}");
    }
    check(
        "http.setResponseCallback(http.expectedStatuses([200, 404]));\nexport default function () {}",
        107,
        &["expectedStatuses(200, 404)"],
    );
}

#[test]
fn options_that_have_no_effect_are_said_with_where_they_belong() {
    let main = "export default function () { http.get('URL/'); }";
    check(
        &format!(
            "export const options = {{ vus: 20, scenarios: {{ browse: {{ executor: 'constant-vus', \
             duration: '1s' }} }} }};\n{main}"
        ),
        0,
        &["vus: it has no effect beside `scenarios`", "write `vus: 20` into the scenario `browse`"],
    );
    check(
        &format!("export const options = {{ iterations: 1, gracefulStop: '1s' }};\n{main}"),
        0,
        &["gracefulStop: there is no such option", "it belongs into a scenario"],
    );
    check(
        &format!(
            "export const options = {{ scenarios: {{ a: {{ executor: 'constant-arrival-rate', \
             rate: Number(__ENV.RATE_WANTED), duration: '1s', preAllocatedVUs: 1 }} }} }};\n{main}"
        ),
        104,
        &["`scenarios.a.rate` is NaN", "-e RATE_WANTED=..."],
    );
}

#[test]
fn exceptions_name_what_to_do_and_how_many_there_were() {
    let users = "import { SharedArray } from 'k6/data'; import exec from 'k6/execution'; \
                 import { group } from 'k6';\n\
                 const users = new SharedArray('users', () => [{ name: 'a' }, { name: 'b' }]);\n";
    check(
        &format!("{users}export default function () {{ users[0].token = 1; }}"),
        0,
        &["an element of a SharedArray is read only"],
    );
    check(
        &format!(
            "{users}export const options = {{ scenarios: {{ a: {{ executor: 'per-vu-iterations', vus: 2, \
             iterations: 2 }} }} }};\n\
             export default function () {{ const u = users[exec.vu.idInTest]; u.name; }}"
        ),
        0,
        &["`exec.vu.idInTest` begins at 1", "2 of 4 iterations ended with an exception; the first"],
    );
    check(
        &format!("{users}export default function () {{ group('a', async () => {{}}); }}"),
        0,
        &["leave `async` out"],
    );
}

#[test]
fn variables_of_virtual_users_and_loops_without_an_end_are_said() {
    check(
        "const bad = [];\nexport default function () { bad.push(http.get('URL/nope').status); }\n\
         export function handleSummary(data) { return { stdout: `${bad.length}` }; }",
        0,
        &["s.js:4:", "`bad` is changed by virtual users and read in handleSummary()"],
    );
    check(
        "export const options = { scenarios: { a: { executor: 'constant-vus', vus: 1, duration: '1s', \
         gracefulStop: '0s' } } };\n\
         export default function () { while (true) { http.get('URL/'); sleep(0.1); } }",
        0,
        &["s.js:3:30: this loop has no end", "because a loop of the script has no end"],
    );
    check(
        "import { Rate } from 'k6/metrics';\nconst errors = new Rate('errors');\n\
         export default function () { if (http.get('URL/nope').status !== 200) errors.add(1); }",
        0,
        &["s.js:4:", "100 % whatever happens"],
    );
    check(
        "export default function () {}\n\
         export function handleSummary(data) { return { 'no/such/out.json': '' }; }",
        0,
        &["is its folder there?"],
    );
}

#[test]
fn scripts_without_a_mistake_hear_nothing() {
    says_nothing(
        "export const options = { vus: 2, iterations: 4, thresholds: { http_req_failed: ['rate<0.01'],\n\
         'http_req_duration{kind:a}': ['p(95)<5000'], checks: ['rate>0.9'] } };\n\
         export function setup() { return { a: 1 }; }\n\
         export function teardown() {}\n\
         export default function (data) {\n\
           const base = __ENV.BASE_OF_ALL || 'URL';\n\
           const r = http.get(`${base}/?undefinedness=1&word=null-and-void`, { tags: { kind: 'a' }, timeout: '5s' });\n\
           check(r, { ok: (r) => r.status === 200, block: (r) => { if (r.body) { return true; } return false; } });\n\
           let x; if ((x = r.status)) { x += 1; }\n\
           http.post(`${base}/echo`, { a: 1, b: 'two' });\n\
           sleep(0.01);\n\
         }",
    );
}

#[test]
fn a_function_in_the_options_is_refused_because_json_would_leave_it_out() {
    check(
        "export const options = { scenarios: { a: { executor: 'shared-iterations', exec: browse } } };\n\
         export function browse() {}\nexport default function () {}",
        107,
        &["options.scenarios.a.exec is a function", "exec: 'browse'"],
    );
}

#[test]
fn the_scenario_is_not_known_in_setup_whatever_is_asked_of_it() {
    for member in ["name", "iterationInTest", "iterationInInstance", "startTime", "progress"] {
        check(
            &format!(
                "import exec from 'k6/execution';\nexport function setup() {{ return exec.scenario.{member}; }}\n\
                 export default function () {{}}"
            ),
            107,
            &["getting scenario information outside of the VU context is not supported"],
        );
    }
}

#[test]
fn a_summary_that_is_no_object_of_files_is_said_and_the_default_is_shown() {
    check(
        "export default function () {}\n\
         export function handleSummary(data) { return JSON.stringify(data); }",
        0,
        &["handleSummary() has to return an object of file names", "{ 'summary.json':"],
    );
}

#[test]
fn a_threshold_without_its_list_is_answered_with_the_same_in_a_list() {
    check(
        "export const options = { thresholds: { http_req_failed: { threshold: 'rate<0.01', abortOnFail: true } } };\n\
         export default function () {}",
        104,
        &["put it in a list: [{ threshold: 'rate<0.01', abortOnFail: true }]"],
    );
}

#[test]
fn a_request_of_a_batch_without_a_url_is_named_with_the_key_that_was_meant() {
    check(
        "export default function () { http.batch([{ method: 'GET', uri: 'URL/' }]); }",
        0,
        &["it has no `url`; `uri` is called `url` here", "request=0"],
    );
}

#[test]
fn a_file_that_lies_where_the_command_was_called_is_found_with_the_way_up() {
    let room = Room::new();
    room.write("data/users.json", "[]");
    room.write("proj/s.js", "open('data/users.json');\nexport default function () {}\n");
    let done = room.volley(["run", "proj/s.js"]).expect(107);
    done.says("paths begin at the script's folder; write open(\"../data/users.json\")");
}

#[test]
fn a_variable_that_is_nearly_one_of_k6_is_said() {
    let room = Room::new();
    room.write("s.js", "export default function () {}\n");
    let mut command = room.command(["run", "s.js"]);
    let done = command.env("K6_ITERATION", "20").env("K6_BASE_URL", "http://h").output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("there is no K6_ITERATION in k6; did you mean K6_ITERATIONS?"), "{said}");
    assert!(!said.contains("K6_BASE_URL"), "{said}");
}

#[test]
fn a_rate_in_the_plans_notation_and_a_response_from_setup_are_answered_with_what_to_write() {
    check(
        "export const options = { scenarios: { a: { executor: 'constant-arrival-rate', rate: '50/s', duration: '1s', \
         preAllocatedVUs: 1 } } };\nexport default function () {}",
        104,
        &["write 50, and beside it timeUnit: '1s'"],
    );
    check(
        "export function setup() { return http.get('URL/'); }\nexport default function () {}",
        107,
        &["setup() returned a response", "{ token: r.json('token') }"],
    );
}
