//! What leaves the script: methods, headers, bodies, cookies, redirects, byte for byte as k6 v1.1.0
//! was seen to send them.

use crate::common::check;
use crate::common::raw::{Raw, Reply};

/// Answers with what it got, and some paths that do otherwise.
fn echo() -> Raw {
    Raw::new(|path, request| match path.split('?').next().unwrap_or_default() {
        "/redirect/301" => Reply::Say("301 Moved\r\nLocation: /echo?moved", b"moved".into()),
        "/redirect/302" => {
            Reply::Say("302 Found\r\nLocation: echo?moved\r\nSet-Cookie: hop=1; Path=/", b"".into())
        }
        "/redirect/303" => Reply::Say("303 See\r\nLocation: /echo?moved", b"".into()),
        "/redirect/307" => Reply::Say("307 Again\r\nLocation: /echo?moved", b"".into()),
        "/redirect/308" => Reply::Say("308 Again\r\nLocation: /echo?moved", b"".into()),
        "/loop" => Reply::Say("302 Found\r\nLocation: /loop", b"again".into()),
        "/digest" if request.contains("Authorization: Digest") => {
            Reply::Say("200 OK", request.as_bytes().into())
        }
        "/digest" => Reply::Say(
            "401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth\"",
            b"who?".into(),
        ),
        _ => Reply::Say("200 OK\r\ncontent-type: text/plain", request.as_bytes().into()),
    })
}

#[test]
fn methods_and_bodies() {
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let rows = [
        ("http.get(B + '/echo?a=1#frag').body", sent("GET /echo?a=1", "", "")),
        (
            "http.post(B + '/echo', 'hello').body",
            sent("POST /echo", "Content-Length: 5\r\n", "hello"),
        ),
        ("http.post(B + '/echo').body", sent("POST /echo", "Content-Length: 0\r\n", "")),
        ("http.put(B + '/echo', 'x').body", sent("PUT /echo", "Content-Length: 1\r\n", "x")),
        ("http.patch(B + '/echo', 'x').body", sent("PATCH /echo", "Content-Length: 1\r\n", "x")),
        ("http.del(B + '/echo', 'x').body", sent("DELETE /echo", "Content-Length: 1\r\n", "x")),
        ("http.del(B + '/echo').body", sent("DELETE /echo", "", "")),
        (
            "http.options(B + '/echo', 'x').body",
            sent("OPTIONS /echo", "Content-Length: 1\r\n", "x"),
        ),
        (
            "http.request('FOO', B + '/echo', 'x').body",
            sent("FOO /echo", "Content-Length: 1\r\n", "x"),
        ),
        ("http.request('get', B + '/echo').body", sent("get /echo", "", "")),
        (
            "http.post(B + '/echo', new Uint8Array([65, 66]).buffer).body",
            sent("POST /echo", "Content-Length: 2\r\n", "AB"),
        ),
        (
            "http.post(B + '/echo', new Uint8Array([65, 66])).body",
            sent("POST /echo", "Content-Length: 2\r\n", "AB"),
        ),
        (
            "http.post(B + '/echo', {b: 'x y', a: 1, c: [1, 2], d: {x: 1}, e: null, t: '~*'}).body",
            sent(
                "POST /echo",
                &format!("Content-Length: 53\r\n{form}"),
                "a=1&b=x+y&c=1&c=2&d=map%5Bx%3A1%5D&e=%3Cnil%3E&t=~%2A",
            ),
        ),
    ];
    let rows: Vec<_> = rows.iter().map(|(e, s)| (*e, s.as_str())).collect();
    check(&echo(), &rows);
}

/// A request as the server saw it, in JSON.
fn sent(line: &str, rest: &str, body: &str) -> String {
    let agent = script::program::USER_AGENT;
    let text = format!("{line} HTTP/1.1\r\nHost: HOST\r\nUser-Agent: {agent}\r\n{rest}\r\n{body}");
    serde_json::to_string(&text).unwrap()
}

#[test]
fn plain_gets_are_the_same_the_second_time() {
    check(
        &echo(),
        &[
            ("http.get(B + '/echo').body === http.get(B + '/echo').body", "true"),
            ("http.get(B + '/echo').status", "200"),
        ],
    );
}

#[test]
fn headers_are_written_in_k6_s_order_and_form() {
    let agent = script::program::USER_AGENT;
    let own = "\"POST /echo HTTP/1.1\\r\\nHost: foo.bar:99\\r\\nUser-Agent: me\\r\\nContent-Length: \
               1\\r\\nAccept-Encoding: gzip\\r\\nC: null\\r\\nContent-Type: t/x\\r\\nE: 1,2\\r\\nX-A: \
               1\\r\\nX-B: true\\r\\n\\r\\nb\"";
    let shown = format!(
        r#"{{"User-Agent":["{agent}"],"A":["2"],"Cookie":["z=1; a=1"]}}|{{"z":[{{"name":"z","value":"1","replace":false}}],"a":[{{"name":"a","value":"1","replace":false}}]}}"#
    );
    let shown = serde_json::to_string(&shown).unwrap();
    let plain = sent("GET /echo", "", "");
    let rows = [
        (
            "http.post(B + '/echo', 'b', { headers: { 'x-a': 1, 'X-b': true, c: null, e: [1, 2], \
             host: 'foo.bar:99', 'content-type': 't/x', 'user-agent': 'me', 'content-length': '77', \
             'Accept-Encoding': 'gzip' } }).body",
            own,
        ),
        ("http.get(B + '/echo', { headers: { 'User-Agent': '' } }).body.includes('User')", "false"),
        (
            "http.get(B + '/echo', { headers: null, foo: 1, redirects: null, jar: null }).body",
            &plain,
        ),
        (
            "(r => JSON.stringify(r.request.headers) + '|' + JSON.stringify(r.request.cookies))(\
             http.get(B + '/echo', { headers: { a: 1, A: 2, Cookie: 'z=1' }, cookies: { a: '1' } }))",
            &shown,
        ),
        (
            "(r => [r.status, r.error, r.error_code])(http.get(B, { headers: { 'a b': 'c' } }))",
            r#"[0,"net/http: invalid header field name \"a b\"",1000]"#,
        ),
        (
            "(r => [r.status, r.error, r.error_code])(http.get(B, { headers: { a: 'c\\nd' } }))",
            r#"[0,"net/http: invalid header field value for \"A\"",1000]"#,
        ),
    ];
    check(&echo(), &rows);
}

#[test]
fn cookies_come_from_the_header_the_params_and_the_jar() {
    let cookie = |text: &str| sent("GET /echo", &format!("Cookie: {text}\r\n"), "");
    let (own, beside, instead, redirected) =
        (cookie("a=1; b=2; c=3; d=5"), cookie("k=new; k=old"), cookie("k=new"), cookie("own=1"));
    check(
        &echo(),
        &[
            (
                "http.get(B + '/echo', { cookies: { a: '1', b: { value: '2', replace: true }, c: { \
                 value: '3' }, d: 5, e: null } }).body",
                &own,
            ),
            ("http.cookieJar().set(B, 'k', 'old')", "true"),
            ("http.get(B + '/echo', { cookies: { k: 'new' } }).body", &beside),
            (
                "http.get(B + '/echo', { cookies: { k: { value: 'new', replace: true } } }).body",
                &instead,
            ),
            ("http.cookieJar().cookiesForURL(B)", r#"{"k":["old"]}"#),
            (
                "http.get(B + '/echo', { jar: (j => { j.set(B, 'own', '1'); return j })(new \
                 http.CookieJar()) }).body",
                &redirected,
            ),
            ("(http.cookieJar().delete(B, 'k'), http.cookieJar().cookiesForURL(B))", "{}"),
            (
                "(j => [j.set(B + '/x', 'p', 'q', { path: '/x', max_age: 60 }), j.set(B, 's', 't', { \
                 secure: true }), j.cookiesForURL(B), j.cookiesForURL(B + '/x'), (j.clear(B + \
                 '/x'), j.cookiesForURL(B + '/x'))])(http.cookieJar())",
                r#"[true,true,{},{"p":["q"]},{}]"#,
            ),
            (
                "http.cookieJar().set(B, 'e', 'f', { expires: 'soon' })",
                "GoError: unable to parse \"expires\" date string \"soon\"; write it like \"Wed, 21 Oct \
                 2037 07:28:00 GMT\"",
            ),
            // A redirect's cookies go with the next hop, and stay.
            ("http.get(B + '/redirect/302').body.includes('Cookie: hop=1')", "true"),
            ("http.cookieJar().cookiesForURL(B)", r#"{"hop":["1"]}"#),
        ],
    );
}

#[test]
fn redirects_are_followed_as_go_follows_them() {
    let server = echo();
    let moved = |from: &str, method: &str, length: &str, body: &str| {
        let rest = format!("{length}Referer: http://HOST/redirect/{from}\r\n");
        sent(&format!("{method} /echo?moved"), &rest, body)
    };
    let length = "Content-Length: 4\r\n";
    let rows = [
        ("http.get(B + '/redirect/301').body", moved("301", "GET", "", "")),
        ("http.post(B + '/redirect/301', 'body').body", moved("301", "GET", "", "")),
        ("http.put(B + '/redirect/303', 'body').body", moved("303", "GET", "", "")),
        ("http.post(B + '/redirect/307', 'body').body", moved("307", "POST", length, "body")),
        ("http.post(B + '/redirect/308', 'body').body", moved("308", "POST", length, "body")),
        (
            "http.get('http://u:p@' + H + '/redirect/301').body.includes('Authorization: Basic dTpw')",
            "true".to_owned(),
        ),
        ("http.get(B + '/redirect/301').url", "\"http://HOST/echo?moved\"".to_owned()),
        ("http.get(B + '/redirect/301').request.url", "\"http://HOST/redirect/301\"".to_owned()),
        ("http.get(B + '/redirect/301', { redirects: 0 }).status", "301".to_owned()),
        ("http.get(B + '/loop').status", "302".to_owned()),
    ];
    let rows: Vec<_> = rows.iter().map(|(e, s)| (*e, s.as_str())).collect();
    let said = check(&server, &rows);
    assert!(said.iter().any(|line| line.starts_with("Stopped after 11 redirects")), "{said:?}");
    // One request and ten redirects of it.
    let loops = server.requests().iter().filter(|request| request.starts_with("GET /loop")).count();
    assert_eq!(loops, 11);
}

#[test]
fn names_and_passwords_of_the_url_are_used() {
    let basic = sent("GET /echo", "Authorization: Basic dXMgZXI6cGE6c3M=\r\n", "");
    check(
        &echo(),
        &[
            ("http.get('http://us%20er:pa%3Ass@' + H + '/echo').body", &basic),
            (
                "(r => [r.status, r.url, r.body.includes('username=\"u\", realm=\"r\", \
                 nonce=\"n\", uri=\"/digest\"')])(http.get('http://u:p@' + H + '/digest', { auth: \
                 'digest' }))",
                r#"[200,"http://HOST/digest",true]"#,
            ),
            (
                "http.get('http://u:p@' + H + '/echo', { auth: 'ntlm' }).error",
                "\"auth: 'ntlm' is not supported; 'basic' and 'digest' are\"",
            ),
        ],
    );
}

#[test]
fn forms_with_files_and_packed_bodies() {
    let server = echo();
    check(
        &server,
        &[
            (
                "http.post(B + '/echo', { f: http.file('data', 'n.txt', 'text/plain'), g: 'v', h: \
                 http.file(new Uint8Array([65]).buffer, 'q\"x') }).body.replace(/[0-9a-f]{60}/g, \
                 '=').split('\\r\\n').slice(4)",
                r#"["Content-Type: multipart/form-data; boundary==","","--=","Content-Disposition: form-data; name=\"f\"; filename=\"n.txt\"","Content-Type: text/plain","","data","--=","Content-Disposition: form-data; name=\"g\"","","v","--=","Content-Disposition: form-data; name=\"h\"; filename=\"q\\\"x\"","Content-Type: application/octet-stream","","A","--=--",""]"#,
            ),
            (
                "http.file('abc', 'f.txt', 'text/plain')",
                r#"{"data":"abc","filename":"f.txt","content_type":"text/plain"}"#,
            ),
            (
                "http.post(B + '/echo', 'x', { compression: 'gzip, br' }).request.headers['Content-Encoding']",
                r#"["gzip, br"]"#,
            ),
            (
                "http.post(B + '/echo', 'x', { compression: 'lzw' }).error",
                "\"unknown compression algorithm lzw, supported algorithms are [gzip deflate zstd br]\"",
            ),
            (
                "http.post(B + '/echo', 5).error",
                "\"unknown request body type number; pass a string, an ArrayBuffer, a Uint8Array or an \
                 object\"",
            ),
        ],
    );
}
