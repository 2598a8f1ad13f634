//! Against the target that counts, over HTTP/1.1 and HTTP/2: both books agree.

use crate::common::Rig;
use plan::HttpVersion;
use target::{RunningTarget, Target, TargetConfig};

fn start() -> RunningTarget {
    let listen = "127.0.0.1:0".parse().unwrap();
    Target::start(TargetConfig { listen, threads: 1, ..TargetConfig::default() }).unwrap()
}

fn run(target: &RunningTarget, version: HttpVersion, body: &str) -> (Vec<String>, u64) {
    let code = format!(
        "import http from 'k6/http';\nconst B = 'http://{}';\nexport default function () {{\n{body}\n}}",
        target.addr()
    );
    let mut rig = Rig::new(&code, &[]);
    rig.http.version = version;
    let said = rig.run();
    (said, rig.outside.exchanged.get())
}

#[test]
fn what_is_counted_here_is_what_was_counted_there() {
    for version in [HttpVersion::Http1, HttpVersion::Http2] {
        let target = start();
        let (said, counted) = run(
            &target,
            version,
            "for (let i = 0; i < 20; i++) http.get(B + '/');\n\
             http.get(B + '/redirect/3');\n\
             http.batch(Array(12).fill(B + '/status/404'));\n\
             http.post(B + '/echo', 'x');",
        );
        assert_eq!(said, Vec::<String>::new());
        assert_eq!(target.counts().total, counted, "{version:?}");
        assert!(counted >= 36, "{counted}");
    }
}

#[test]
fn both_versions_look_the_same_to_a_script() {
    let target = start();
    let body = "const r = http.post(B + '/echo', 'hello', { headers: { 'X-Own': 'y' } });\n\
                console.log(r.proto, r.status, r.status_text, typeof r.body);\n\
                console.log(Object.keys(r.headers).every(name => /^[A-Z]/.test(name)));\n\
                const set = http.get(B + '/cookies/set?a=1');\n\
                console.log(JSON.stringify(http.cookieJar().cookiesForURL(B)));\n\
                console.log(http.get(B + '/gzip', { headers: { 'Accept-Encoding': 'gzip' } }).status);";
    let (one, _) = run(&target, HttpVersion::Http1, body);
    let (two, _) = run(&target, HttpVersion::Http2, body);
    assert_eq!(one[0], "HTTP/1.1 200 200 OK string");
    assert_eq!(two[0], "HTTP/2.0 200 200 OK string");
    assert_eq!(one[1..], two[1..]);
    assert_eq!(one[1], "true");
}

/// More than a plan may read: a script has what it asked for.
#[test]
fn large_bodies_arrive_whole() {
    let target = start();
    for version in [HttpVersion::Http1, HttpVersion::Http2] {
        let body = "console.log(http.get(B + '/bytes/12000000').body.length);";
        assert_eq!(run(&target, version, body).0, ["12000000"]);
    }
}
