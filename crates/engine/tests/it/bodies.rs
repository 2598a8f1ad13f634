//! What goes out as the server sees it, and what comes back in every coding: bodies, query,
//! credentials, compression, framing.

use std::io::Write;

use crate::common::recording::{Recording, Seen, ok, respond};
use crate::common::{Runner, describe, plan, plan_with, target, url};
use stats::ErrorKind;

fn sent(steps: &str, folder: &std::path::Path) -> Vec<Seen> {
    let server = Recording::start(|_| ok(""));
    let runner = Runner { folder, ..Runner::to(server.url()) };
    runner.run(&plan("iterations: 1", steps)).assert_clean();
    server.seen()
}

#[test]
fn bodies_arrive_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..=255).collect();
    std::fs::write(folder.path().join("upload.bin"), &bytes).unwrap();
    let steps = "{ post: /json, json: { a: 1, b: [ x, 2.5 ] } }, { put: /form, form: { a: '1 & 2', b: c } }, \
         { post: /raw, body: 'plain ${vu.id}', headers: { content-type: text/x } }, { patch: /file, file: upload.bin }, \
         { post: /none }, { delete: /gone }, { request: { method: PURGE, url: /purge } }, \
         { post: /parts, multipart: { field: 'value ${vu.id}', upload: { file: upload.bin, content_type: image/x } } }";
    let seen = sent(steps, folder.path());
    let request = |path: &str| seen.iter().find(|one| one.path == path).unwrap();
    assert_eq!(request("/json").text(), "{\"a\":1,\"b\":[\"x\",2.5]}");
    assert_eq!(request("/json").header("content-type"), Some("application/json"));
    let form = request("/form");
    assert_eq!((form.method.as_str(), form.text().as_str()), ("PUT", "a=1%20%26%202&b=c"));
    assert_eq!(form.header("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(request("/raw").text(), "plain 1");
    assert_eq!(request("/raw").header("content-type"), Some("text/x"));
    assert_eq!((&*request("/file").method, &request("/file").body), ("PATCH", &bytes));
    assert_eq!(request("/none").header("content-length"), Some("0"));
    assert_eq!(request("/gone").header("content-length"), None);
    assert_eq!(request("/purge").method, "PURGE");
    assert_multipart(request("/parts"), &bytes);
}

fn assert_multipart(request: &Seen, file: &[u8]) {
    let kind = request.header("content-type").unwrap();
    let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
    let mut wanted = format!(
        "--{boundary}\r\ncontent-disposition: form-data; name=\"field\"\r\n\r\nvalue 1\r\n\
         --{boundary}\r\ncontent-disposition: form-data; name=\"upload\"; filename=\"upload.bin\"\r\n\
         content-type: image/x\r\n\r\n"
    )
    .into_bytes();
    wanted.extend_from_slice(file);
    wanted.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    assert_eq!(request.body, wanted);
}

#[test]
fn bodies_and_headers_arrive_over_http2_as_well() {
    let target = target();
    let steps = "{ post: /echo, json: { user: 'u${vu.id}' }, query: { q: 'a b' }, headers: { x-One: first }, auth: { bearer: t }, \
         check: [ { json: $.method, equals: POST }, { json: $.version, equals: HTTP/2.0 }, { json: $.body, equals: '{\"user\":\"u1\"}' }, \
                  { json: $.query.q, equals: a b }, { json: \"$.headers['x-one']\", equals: first }, \
                  { json: $.headers.authorization, equals: Bearer t }, { json: $.headers.connection, exists: false } ] }, \
         { post: /echo, body: 'LARGE', check: [ { json: $.body_bytes, is: '== 300000' } ] }";
    let steps = steps.replace("LARGE", &"x".repeat(300_000));
    let run = Runner::to(url(&target)).run(&plan_with("version: 2", "iterations: 3", &steps));
    run.assert_clean().assert_checks();
}

#[test]
fn the_host_header_can_be_set_in_both_versions() {
    let target = target();
    for version in ["1.1", "2"] {
        // The second URL is known only when it is rendered.
        let steps = "{ get: /echo, headers: { host: shop.test }, check: [ { body: { contains: shop.test } } ] }, \
             { set: { base: 'TARGET' } }, { get: '${base}/echo', headers: { host: shop.test }, check: [ { body: { contains: shop.test } } ] }";
        // HTTP/2 has `:authority` in its place, which the echo does not show.
        let (steps, server) = match version {
            "1.1" => (steps, None),
            _ => ("{ get: /, headers: { host: shop.test } }", Some(Authorities::start())),
        };
        let base = server.as_ref().map_or_else(|| url(&target), |server| server.url.clone());
        let plan = plan_with(&format!("version: {version}"), "iterations: 1", steps);
        let run = Runner::to(base).run(&plan);
        run.assert_clean();
        match server {
            None => run.assert_checks(),
            Some(server) => assert_eq!(server.seen(), ["shop.test"]),
        }
    }
}

/// An HTTP/2 server that notes the authority of each request on its first connection.
struct Authorities {
    url: String,
    seen: std::sync::Arc<std::sync::Mutex<Vec<String>>>,
}

impl Authorities {
    fn start() -> Authorities {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        listener.set_nonblocking(true).unwrap();
        let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let log = seen.clone();
        // Ends with the connection that it serves.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let (stream, _) = listener.accept().await.unwrap();
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let authority = request.uri().authority().map(ToString::to_string);
                    log.lock().unwrap().push(authority.unwrap_or_default());
                    respond.send_response(http::Response::new(()), true).unwrap();
                }
            });
        });
        Authorities { url, seen }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

#[test]
fn query_parameters_are_encoded_and_joined() {
    let folder = std::path::Path::new(".");
    let seen = sent(
        "{ get: /a, query: { q: 'a b&c', n: 2 } }, { get: '/b?x=1', query: { 'k ey': v } }, { get: '/c?x=1&y=%20' }",
        folder,
    );
    let paths: Vec<_> = seen.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(paths, ["/a?q=a%20b%26c&n=2", "/b?x=1&k%20ey=v", "/c?x=1&y=%20"]);
}

#[test]
fn a_path_is_encoded_whether_or_not_it_holds_a_reference() {
    let folder = std::path::Path::new(".");
    let seen = sent("{ get: '/ü?q=é' }, { get: '/ü/${vu.id}?q=é' }", folder);
    let paths: Vec<_> = seen.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(paths, ["/%C3%BC?q=%C3%A9", "/%C3%BC/1?q=%C3%A9"]);
}

#[test]
fn credentials_are_sent_in_both_schemes() {
    let folder = std::path::Path::new(".");
    let seen = sent(
        "{ get: /a, auth: { basic: { user: ann, password: 'p:w' } } }, { set: { t: abc } }, { get: /b, auth: { bearer: '${t}' } }, \
         { get: /c, auth: { basic: { user: 'u${vu.id}', password: x } } }",
        folder,
    );
    let headers: Vec<_> = seen.iter().map(|one| one.header("authorization").unwrap()).collect();
    assert_eq!(headers, ["Basic YW5uOnA6dw==", "Bearer abc", "Basic dTE6eA=="]);
}

#[test]
fn headers_of_step_workflow_and_plan_override_each_other() {
    let server = Recording::start(|_| ok(""));
    let plan = "target: TARGET
defaults: { headers: { x-a: plan, x-b: plan, x-c: plan } }
workflows:
  - name: w
    headers: { X-B: workflow, x-c: workflow }
    steps: [ { get: /, headers: { X-C: 'step ${vu.id}' } } ]
";
    Runner::to(server.url()).run(plan).assert_clean();
    let seen = server.seen();
    for (name, value) in [("x-a", "plan"), ("x-b", "workflow"), ("x-c", "step 1")] {
        let values: Vec<_> = seen[0].headers.iter().filter(|(known, _)| known == name).collect();
        assert_eq!(values, [&(name.to_owned(), value.to_owned())]);
    }
}

fn packed(coding: &str, text: &[u8]) -> Vec<u8> {
    let level = flate2::Compression::default();
    match coding {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        "deflate" => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        "zstd" => {
            ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
        }
        // `hello hello hello hello` by the reference encoder.
        "br" => b"\x0b\x0b\x80hello hello hello hello\x03".to_vec(),
        _ => text.to_vec(),
    }
}

#[test]
fn every_coding_is_unpacked_where_the_body_is_read() {
    let text = "hello hello hello hello";
    for coding in ["gzip", "deflate", "zstd", "br", "identity"] {
        for chunked in [false, true] {
            let body = packed(coding, text.as_bytes());
            let server = Recording::start(move |_| {
                let header = format!("content-encoding: {coding}\r\n");
                match chunked {
                    false => respond("200 OK", &header, &body),
                    true => chunks(&header, &body, 5),
                }
            });
            let steps = format!("{{ get: /, check: [ {{ body: {{ equals: '{text}' }} }} ] }}");
            let plan = plan_with("compression: true", "iterations: 2", &steps);
            let run = Runner::to(server.url()).run(&plan);
            assert_eq!(run.total().failed, 0, "{coding}: {:?}", run.0.error_samples);
            run.assert_checks();
            let accepted = server.seen()[0].header("accept-encoding").unwrap().to_owned();
            assert!(coding == "identity" || accepted.contains(coding), "{accepted}");
        }
    }
}

fn chunks(headers: &str, body: &[u8], size: usize) -> Vec<u8> {
    let mut out =
        format!("HTTP/1.1 200 OK\r\n{headers}transfer-encoding: chunked\r\n\r\n").into_bytes();
    for piece in body.chunks(size) {
        out.extend_from_slice(format!("{:x};extension=x\r\n", piece.len()).as_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\nx-trailer: y\r\n\r\n");
    out
}

#[test]
fn a_limit_of_bodies_is_the_same_in_every_framing() {
    for version in ["1.1", "2"] {
        for (path, good) in [
            ("/bytes/20000", true),
            ("/bytes/20001", false),
            ("/stream/20000", true),
            ("/stream/20001", false),
        ] {
            for check in ["", ", check: [ { body: { size: '< 100GB' } } ]"] {
                let target = target();
                let steps = format!("{{ get: {path}{check} }}");
                let defaults = format!("version: {version}, body_limit: 20000B");
                let run =
                    Runner::to(url(&target)).run(&plan_with(&defaults, "iterations: 3", &steps));
                let failed = run.errors(ErrorKind::Body);
                let counts = describe(&run.total());
                assert_eq!(
                    failed,
                    if good { 0 } else { 3 },
                    "HTTP/{version} {path}{check}: {counts}"
                );
            }
        }
    }
}

#[test]
fn looking_at_a_failure_does_not_change_it() {
    // After a first failure the next exchange is kept whole to be shown; a body that is too long to
    // be shown, or that cannot be unpacked, is no new failure.
    let large = vec![b'x'; 9 << 20];
    for (header, body) in [("", large), ("content-encoding: gzip\r\n", b"not gzip".to_vec())] {
        let server = Recording::start(move |_| respond("500 Broken", header, &body));
        let run = Runner::to(server.url()).run(&plan("iterations: 4", "{ get: / }"));
        assert_eq!(run.errors(ErrorKind::Status), 4, "{}", describe(&run.total()));
        assert_eq!(run.total().completed, 4);
    }
}

#[test]
fn interim_answers_leave_nothing_behind() {
    let server = Recording::start(|_| {
        let mut bytes =
            b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\nset-cookie: a=interim\r\n\r\n".to_vec();
        bytes.extend_from_slice(&ok("{}"));
        bytes
    });
    let steps = "{ get: /, check: [ { header: { name: link, exists: false } }, { status: 200 } ] }";
    let run = Runner::to(server.url()).run(&plan("iterations: 2", steps));
    run.assert_clean().assert_checks();
}

#[test]
fn an_empty_body_needs_no_unpacking_whatever_its_head_says() {
    let server = Recording::start(|request: &Seen| match request.method.as_str() {
        "HEAD" => {
            let head = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 99\r\n\r\n";
            head.as_bytes().to_vec()
        }
        _ => respond("200 OK", "content-encoding: gzip\r\n", b""),
    });
    let steps = "{ head: /, check: [ { body: { size: '== 0B' } } ] }, { get: /, check: [ { body: { size: '== 0B' } } ] }";
    Runner::to(server.url()).run(&plan("iterations: 2", steps)).assert_clean().assert_checks();
}
