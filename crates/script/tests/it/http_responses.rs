//! What comes back to the script: members, JSON, failures with k6's numbers, samples with k6's
//! tags.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::common::raw::{Raw, Reply};
use crate::common::{Rig, call, check, check_with, on_core};

const JSON: &str = r#"{"a":{"b":[{"c":1},{"c":2}]},"x.y":"dot","nul":null}"#;

fn server() -> Raw {
    Raw::new(|path, _| match path.split('?').next().unwrap_or_default() {
        "/json" => Reply::Say("200 OK", JSON.into()),
        "/bad-json" => Reply::Say("200 OK", b"{\"a\": oops}".into()),
        "/headers" => {
            Reply::Say("200 OK\r\nx-lower-case: a\r\nX-LOWER-CASE: b\r\netag: \"e\"", b"hi".into())
        }
        "/cookies" => Reply::Say(
            "200 OK\r\nSet-Cookie: a=1; Path=/; HttpOnly; Max-Age=100\r\nSet-Cookie: a=2; Path=/x\r\n\
             Set-Cookie: b=\"q\"; Expires=Wed, 21 Oct 2037 07:28:00 GMT",
            b"".into(),
        ),
        "/bytes" => Reply::Say("200 OK", vec![0xe9, 0xff, b' ', b'a']),
        "/gzip" => Reply::Say(
            "200 OK\r\nContent-Encoding: gzip",
            client::encode_body("gzip", b"hello gzip").unwrap(),
        ),
        "/bad-gzip" => Reply::Say("200 OK\r\nContent-Encoding: gzip", b"not gzip".into()),
        "/unknown-coding" => Reply::Say("200 OK\r\nContent-Encoding: foo", b"plain".into()),
        "/404" => Reply::Say("404 Not Here", b"no".into()),
        "/503" => Reply::Say("503 Busy", b"no".into()),
        "/redirect" => Reply::Say("302 Found\r\nLocation: /json", b"".into()),
        "/204" => Reply::Exactly("HTTP/1.1 204 No Content\r\n\r\n"),
        "/old" => Reply::Exactly("HTTP/1.0 200 OK\r\n\r\nold"),
        "/close" => Reply::Exactly(""),
        "/partial" => Reply::Exactly("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"),
        "/garbage" => Reply::Exactly("garbage\r\n\r\n"),
        "/reset" => Reply::Reset,
        "/never" => Reply::Nothing,
        _ => Reply::Say("200 OK", b"ok".into()),
    })
}

#[test]
fn members_are_those_of_a_plain_object() {
    let members = r#"["remote_ip","remote_port","url","status","status_text","proto","headers","cookies","body","timings","tls_version","tls_cipher_suite","ocsp","error","error_code","request","clickLink","html","json","submitForm"]"#;
    check(
        &server(),
        &[
            ("Object.keys(http.get(B))", members),
            ("Object.keys({ ...http.get(B) })", members),
            ("Object.keys(JSON.parse(JSON.stringify(http.get(B)))).length", "16"),
            (
                "(r => [r.status, r.status_text, r.proto, r.url])(http.get(B + '/404#x'))",
                r#"[404,"404 Not Here","HTTP/1.1","http://HOST/404#x"]"#,
            ),
            (
                "(r => ['status' in r, 'zz' in r, r.hasOwnProperty('body'), r.zz === undefined, r.headers === r.headers])(http.get(B))",
                "[true,false,true,true,true]",
            ),
            (
                "(({ status, body, json }) => [status, body, typeof json])(http.get(B))",
                r#"[200,"ok","function"]"#,
            ),
            (
                "(r => { r.status = 7; r.body = 'mine'; return [r.status, r.body] })(http.get(B))",
                r#"[7,"mine"]"#,
            ),
            (
                "(r => { r.foo = 1 })(http.get(B))",
                "TypeError: a response takes no property `foo`; keep it beside",
            ),
            (
                "http.get(B + '/headers').headers",
                r#"{"X-Lower-Case":"a, b","Etag":"\"e\"","Content-Length":"2"}"#,
            ),
            (
                "http.get(B + '/cookies').cookies",
                r#"{"a":[{"name":"a","value":"1","domain":"","path":"/","http_only":true,"secure":false,"max_age":100,"expires":-6795364578871},{"name":"a","value":"2","domain":"","path":"/x","http_only":false,"secure":false,"max_age":0,"expires":-6795364578871}],"b":[{"name":"b","value":"q","domain":"","path":"","http_only":false,"secure":false,"max_age":0,"expires":2139722880000}]}"#,
            ),
            (
                "Object.keys(http.get(B).timings)",
                r#"["duration","blocked","looking_up","connecting","tls_handshaking","sending","waiting","receiving"]"#,
            ),
            (
                "(t => t.duration > 0 && Math.abs(t.duration - t.sending - t.waiting - t.receiving) < 1e-6)(http.get(B).timings)",
                "true",
            ),
            (
                "(r => [r.remote_ip, r.remote_port > 0, r.tls_version, r.error, r.error_code])(http.get(B))",
                r#"["127.0.0.1",true,"","",0]"#,
            ),
        ],
    );
}

#[test]
fn bodies_are_text_bytes_or_nothing() {
    check(
        &server(),
        &[
            ("http.get(B + '/gzip').body", "\"hello gzip\""),
            ("http.get(B + '/unknown-coding').body", "\"plain\""),
            ("http.get(B + '/bytes').body", "\"\u{fffd}\u{fffd} a\""),
            (
                "Array.from(new Uint8Array(http.get(B + '/bytes', { responseType: 'binary' }).body))",
                "[233,255,32,97]",
            ),
            ("http.get(B, { responseType: 'none' }).body", "null"),
            ("http.get(B + '/204').body", "null"),
            ("http.head(B).body", "\"\""),
            ("(r => [r.proto, r.body])(http.get(B + '/old'))", r#"["HTTP/1.0","old"]"#),
            (
                "(r => [r.error, r.error_code])(http.get(B, { responseType: 'foo' }))",
                r#"["foo does not belong to ResponseType values: 'text', 'binary', 'none'",0]"#,
            ),
        ],
    );
    check_with(
        &server(),
        &[("http.get(B).body", "null"), ("http.get(B, { responseType: 'text' }).body", "\"ok\"")],
        |rules| script::program::Rules { discard_response_bodies: true, ..rules },
    );
}

#[test]
fn json_whole_and_in_part() {
    check(
        &server(),
        &[
            ("http.get(B + '/json').json().a.b[1].c", "2"),
            ("http.get(B + '/json').json('a.b.1.c')", "2"),
            ("http.get(B + '/json').json('a.b.#.c')", "[1,2]"),
            (r"http.get(B + '/json').json('x\\.y')", "\"dot\""),
            ("http.get(B + '/json').json('nul')", "null"),
            ("[http.get(B + '/json').json('zz') === undefined]", "[true]"),
            ("[http.get(B + '/bad-json').json('a') === undefined]", "[true]"),
            (
                "http.get(B + '/bad-json').json()",
                "GoError: cannot parse json due to an error at line 1, character 7: expected value",
            ),
            ("http.get(B + '/json', { responseType: 'binary' }).json('a.b.0.c')", "1"),
            (
                "http.get(B + '/json', { responseType: 'none' }).json()",
                "GoError: the response has no body that could be read as JSON: the request failed, or its responseType is 'none' (discardResponseBodies)",
            ),
        ],
    );
}

/// Numbers and words as k6 v1.1.0 gave them for the same faults.
#[test]
fn failures_have_k6_s_numbers() {
    let server = server();
    let row =
        |path: &str| format!("(r => [r.status, r.error, r.error_code, r.body])(http.get({path}))");
    let table = [
        ("B + '/404'", r#"[404,"",1404,"no"]"#),
        ("B + '/503'", r#"[503,"",1503,"no"]"#),
        ("B + '/reset'", r#"[0,"read: connection reset by peer",1220,null]"#),
        ("B + '/close'", r#"[0,"EOF",1000,null]"#),
        ("B + '/partial'", r#"[0,"unexpected EOF",1000,"abc"]"#),
        ("B + '/garbage'", r#"[0,"answer is not HTTP/1.1: invalid HTTP version",1000,null]"#),
        (
            "B + '/bad-gzip'",
            r#"[0,"error decompressing response body (bad gzip body: unexpected end of file)",1701,null]"#,
        ),
        ("B + '/never', { timeout: 100 }", r#"[0,"request timeout",1050,null]"#),
        ("B + '/never', { timeout: '0.1s' }", r#"[0,"request timeout",1050,null]"#),
        ("B + '/', { timeout: 0 }", r#"[0,"request timeout",1050,null]"#),
        ("'http://127.0.0.1:1/'", r#"[0,"dial: connection refused",1212,null]"#),
        ("'http://no-such-host.invalid/'", r#"[0,"lookup: no such host",1101,null]"#),
        ("'::bad'", r#"[0,"invalid URL: parse \"::bad\": missing protocol scheme",1020,null]"#),
        ("'ftp://x/'", r#"[0,"unsupported protocol scheme \"ftp\"",1000,null]"#),
        ("5", r#"[0,"invalid URL: '5' is no text; pass a string, or http.url`...`",1020,null]"#),
        (
            "B, { timeout: 'abc' }",
            r#"[0,"invalid timeout value: \"abc\" is no duration; write \"30s\", \"500ms\" or \"1m30s\"",0,null]"#,
        ),
    ];
    let rows: Vec<_> = table.iter().map(|(path, expected)| (row(path), *expected)).collect();
    let rows: Vec<_> = rows.iter().map(|(e, x)| (e.as_str(), *x)).collect();
    let said = check(&server, &rows);
    assert_eq!(
        said.iter().filter(|line| line.starts_with("Request Failed error=")).count(),
        14,
        "{said:#?}"
    );
    assert!(
        said.contains(&format!(
            "Request Failed error=Get \"http://{}/close\": connection closed before any answer",
            server.address
        )),
        "{said:#?}"
    );
}

#[test]
fn rules_can_make_failures_throw_and_hosts_taboo() {
    check_with(
        &server(),
        &[
            (
                "http.get('http://127.0.0.1:1/')",
                "GoError: Get \"http://127.0.0.1:1/\": cannot connect to 127.0.0.1:1: Connection refused (os error 111)",
            ),
            ("http.get('::bad')", "GoError: invalid URL: parse \"::bad\": missing protocol scheme"),
            (
                "http.get('http://a.blocked.io/')",
                "GoError: Get \"http://a.blocked.io/\": hostname (a.blocked.io) is in a blocked pattern (*.blocked.io)",
            ),
            (
                "http.get('http://10.1.1.1/')",
                "GoError: Get \"http://10.1.1.1/\": IP (10.1.1.1) is in a blacklisted range (10.0.0.0/8)",
            ),
            ("http.get(B + '/404').status", "404"),
            (
                "http.batch([B, 'http://127.0.0.1:1/'])",
                "GoError: Get \"http://127.0.0.1:1/\": cannot connect to 127.0.0.1:1: Connection refused (os error 111)",
            ),
        ],
        |rules| script::program::Rules {
            throw: true,
            block_hostnames: vec![script::options::HostnamePattern::parse("*.blocked.io").unwrap()],
            blacklist_ips: vec![script::options::IpRange::parse("10.0.0.0/8").unwrap()],
            ..rules
        },
    );
}

#[test]
fn batches_take_every_form_and_keep_their_order() {
    let said = check(
        &server(),
        &[
            (
                "http.batch([B + '/json', ['POST', B, 'b', { tags: { x: 1 } }], { method: 'PUT', url: B, body: 'z' }, http.url`http://${H}/404`]).map(r => [r.status, r.request.method, r.request.body])",
                r#"[[200,"GET",""],[200,"POST","b"],[200,"PUT","z"],[404,"GET",""]]"#,
            ),
            (
                "(r => [Object.keys(r), r.b.status])(http.batch({ a: B, b: ['GET', B + '/404'] }))",
                r#"[["a","b"],404]"#,
            ),
            (
                "http.batch([['get', B, 'b'], { method: 'get', url: B, body: 'b' }]).map(r => [r.request.method, r.request.body])",
                r#"[["get","b"],["GET",""]]"#,
            ),
            ("http.batch([B, '::bad']).map(r => [r.status, r.error_code])", "[[0,0],[0,1020]]"),
            ("http.batch()", "GoError: no argument was provided to http.batch()"),
            ("http.batch('x')", "GoError: invalid http.batch() argument type string"),
            ("http.batch([])", "[]"),
        ],
    );
    assert!(
        said.iter().any(|line| line.starts_with("A batch request failed error=invalid URL")),
        "{said:?}"
    );
}

/// A target that answers after 100 ms: three rounds of two, or one of six.
#[test]
fn batch_limits_hold() {
    let slow = Raw::new(|_, _| {
        std::thread::sleep(Duration::from_millis(100));
        Reply::Say("200 OK", b"".into())
    });
    for (batch, per_host, least, most) in [(20, 6, 100, 190), (20, 2, 300, 390), (3, 6, 200, 290)] {
        let code = format!(
            "import http from 'k6/http'; export default () => {{ http.batch(Array(6).fill('{}')) }}",
            slow.url("/")
        );
        let rig = Rig::new(&code, &[]);
        let rules = script::program::Rules {
            batch,
            batch_per_host: per_host,
            ..rig.script.rules().clone()
        };
        rig.script.settle(rules, rig.recorder.layout.clone());
        let begun = Instant::now();
        rig.run();
        let took = begun.elapsed().as_millis();
        assert!(took >= least && took < most + 200, "{batch} {per_host}: {took} ms");
        assert_eq!(rig.outside.exchanged.get(), 6);
    }
}

#[test]
fn asynchronous_requests_run_side_by_side() {
    let slow = Raw::new(|path, _| {
        std::thread::sleep(Duration::from_millis(300));
        Reply::Say("200 OK", path.as_bytes().into())
    });
    let code = format!(
        "import http from 'k6/http';\nexport default async function () {{\n\
         const all = await Promise.all([1, 2, 3].map(i => http.asyncRequest('GET', '{0}' + i)));\n\
         console.log(all.map(r => r.body).join());\n\
         console.log((await http.asyncRequest('GET', '::bad')).error_code);\n\
         http.asyncRequest('GET', '{0}').then(r => console.log('late', r.status));\n}}",
        slow.url("/")
    );
    let rig = Rig::new(&code, &[]);
    let begun = Instant::now();
    rig.run();
    assert!(begun.elapsed() < Duration::from_millis(1100));
    let said = rig.said();
    assert_eq!(said, ["/1,/2,/3", "Request Failed", "1020", "late 200"]);
}

fn tags(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// One row for each exchange: redirects count, and so does what was never answered.
#[test]
fn every_exchange_leaves_k6_s_samples() {
    let server = server();
    let (at, host) = (server.url(""), server.address);
    let code = format!(
        "import http from 'k6/http';\nexport default function () {{\n\
         http.get('{at}/redirect', {{ tags: {{ a: 'b', status: 'mine' }} }});\n\
         http.get('{at}/404', {{ tags: {{ name: 'n' }} }});\n\
         http.get('{at}/404', {{ responseCallback: null }});\n\
         http.get('{at}/404', {{ responseCallback: http.expectedStatuses(404, {{ min: 500, max: 599 }}) }});\n\
         http.get('http://u:p@{host}/reset');\n\
         http.get(http.url`{at}/${{1}}`);\n\
         http.get('::bad');\n}}"
    );
    let rig = Rig::new(&code, &[]).with_samples();
    rig.run();
    let recorded = rig.recorded();
    let of = |metric: &str| -> Vec<_> {
        let fitting = recorded.iter().filter(|(name, ..)| name == metric);
        fitting.map(|(_, value, tags)| (*value, tags.clone())).collect()
    };
    let row = |name: &str, status: &str, rest: &[(&str, &str)]| {
        let name = name.replace("AT", &at);
        let mut all =
            tags(&[("method", "GET"), ("name", &name), ("url", &name), ("status", status)]);
        all.extend(tags(rest));
        all
    };
    let http = ("proto", "HTTP/1.1");
    let (yes, no) = (("expected_response", "true"), ("expected_response", "false"));
    let code = ("error_code", "1404");
    let expected = [
        (Some(0.0), row("AT/redirect", "302", &[http, yes, ("a", "b")])),
        (Some(0.0), row("AT/json", "200", &[http, yes, ("a", "b")])),
        (Some(1.0), row("n", "404", &[http, no, code])),
        (None, row("AT/404", "404", &[http, code])),
        (Some(0.0), row("AT/404", "404", &[http, yes, code])),
        (
            Some(1.0),
            row(
                &format!("http://****:****@{host}/reset"),
                "0",
                &[no, ("error_code", "1220"), ("error", "read: connection reset by peer")],
            ),
        ),
        (Some(0.0), row("AT/${}", "200", &[http, yes])),
    ];
    let counted: Vec<_> = of("http_reqs").into_iter().map(|(_, tags)| tags).collect();
    assert_eq!(counted, expected.iter().map(|(_, tags)| tags.clone()).collect::<Vec<_>>());
    let failed: Vec<_> =
        expected.iter().filter_map(|(failed, tags)| Some(((*failed)?, tags.clone()))).collect();
    assert_eq!(of("http_req_failed"), failed);
    for metric in
        ["duration", "blocked", "connecting", "tls_handshaking", "sending", "waiting", "receiving"]
    {
        let all = of(&format!("http_req_{metric}"));
        assert_eq!(all.len(), 7, "{metric}");
        assert!(all.iter().all(|(value, _)| *value >= 0.0));
    }
    // Traffic is the iteration's: it knows of no request.
    assert!(of("data_sent").iter().all(|(_, tags)| tags.is_empty()));
    assert!(of("data_received").iter().map(|(value, _)| value).sum::<f64>() > 100.0);
    assert_eq!(rig.outside.exchanged.get(), 7);
    // The connection that was reset had served before, so the GET was tried once more.
    assert_eq!(server.requests().len(), 8);
}

#[test]
fn requests_belong_to_functions_and_end_with_them() {
    let server = server();
    let rig = Rig::new("import http from 'k6/http'; http.get('http://127.0.0.1:1/');", &[]);
    let thrown = on_core(async { rig.vu().init().await.unwrap_err() });
    assert!(thrown.message.contains("init context"), "{}", thrown.message);
    let code = format!(
        "import http from 'k6/http'; export default () => {{ try {{ http.get('{}') }} finally {{ \
         console.log('caught') }} }}",
        server.url("/never")
    );
    let rig = Rig::new(&code, &[]);
    on_core(async {
        let vu = rig.vu();
        vu.init().await.unwrap();
        let cut = tokio::time::timeout(Duration::from_millis(100), call(&vu, "default")).await;
        assert!(cut.is_err());
        vu.cancel();
    });
    assert_eq!((rig.outside.exchanged.get(), rig.outside.interrupted.get()), (0, 1));
    assert_eq!(rig.said(), Vec::<String>::new());
}

#[test]
fn http_debug_shows_what_is_on_the_wire() {
    let said = check_with(&server(), &[("http.post(B, 'hello').status", "200")], |rules| {
        script::program::Rules { http_debug: Some(true), ..rules }
    });
    assert!(
        said[0].starts_with("Request:\nPOST / HTTP/1.1\nHost: ") && said[0].contains("\n\nhello\n"),
        "{said:?}"
    );
    assert!(
        said[1].starts_with("Response:\nHTTP/1.1 200 OK\n") && said[1].contains("\n\nok\n"),
        "{said:?}"
    );
}

#[test]
fn constants_and_templates() {
    check(
        &server(),
        &[
            (
                "[http.TLS_1_2, http.OCSP_STATUS_GOOD, http.OCSP_REASON_KEY_COMPROMISE]",
                r#"["tls1.2","good","key_compromise"]"#,
            ),
            (
                "http.url`http://x/${1}/y`",
                r#"{"name":"http://x/${}/y","url":"http://x/1/y","clean_url":"http://x/1/y"}"#,
            ),
            (
                "http.expectedStatuses('200')",
                "GoError: argument number 1 to expectedStatuses was neither an integer nor an object like {min:100, max:329}",
            ),
            (
                "http.setResponseCallback(1)",
                "GoError: unsupported argument, expected http.expectedStatuses",
            ),
        ],
    );
}

/// Thirty megabytes pass through a script that may hold two.
#[test]
fn responses_are_let_go() {
    let server = Raw::new(|_, _| Reply::Say("200 OK\r\nx: y", vec![b'x'; 10_000]));
    let code = format!(
        "import http from 'k6/http';\nexport default function () {{\n\
         for (let i = 0; i < 3000; i++) {{\n\
         const r = http.get('{}');\n\
         r.error = r; // a circle, which only a garbage collector can take apart\n\
         if (r.body.length + r.headers.X.length !== 10001) throw new Error('wrong');\n}}\n}}",
        server.url("/")
    );
    let rig = Rig::with_memory(&code, &[], 2 << 20);
    rig.run();
    assert_eq!(rig.outside.exchanged.get(), 3000);
}
