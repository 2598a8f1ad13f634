//! Every route answers as documented, and every request is counted once.

use crate::common::Client;
use serde_json::json;
use std::io::Read;
use target::{RunningTarget, Target, TargetConfig};

fn start() -> (RunningTarget, Client) {
    let target = Target::start(TargetConfig::default()).expect("a free port");
    let client = Client::to(target.addr());
    (target, client)
}

#[test]
fn the_root_answers_a_greeting_or_as_many_bytes_as_asked_for() {
    let (_target, mut client) = start();
    let answer = client.get("/");
    assert_eq!((answer.status, answer.body.len()), (200, 33));

    let big = TargetConfig { payload_bytes: 100_000, ..TargetConfig::default() };
    let big = Target::start(big).unwrap();
    assert_eq!(Client::to(big.addr()).get("/?any=thing").body.len(), 100_000);
}

#[test]
fn a_login_gives_a_new_token_each_time() {
    let (_target, mut client) = start();
    let body = r#"{"user": "ann", "password": "secret"}"#;
    let first = client.request("POST", "/login", "", body);
    assert_eq!((first.status, &first.json()["user"]), (200, &json!("ann")));
    let second = client.request("POST", "/login", "", body);
    assert_ne!(first.json()["token"], second.json()["token"]);
    assert_eq!(first.header("content-type"), Some("application/json"));
}

#[test]
fn a_login_without_user_and_password_is_a_bad_request() {
    let (_target, mut client) = start();
    for body in ["", "{", "[]", "{}", r#"{"user": "ann"}"#, r#"{"user": 1, "password": "x"}"#] {
        let answer = client.request("POST", "/login", "", body);
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.json()["error"].is_string(), "{body}");
    }
    let answer = client.get("/login");
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
}

#[test]
fn the_cart_needs_a_bearer_token() {
    let (_target, mut client) = start();
    for headers in ["", "authorization: Basic abc\r\n", "authorization: Bearer \r\n"] {
        let answer = client.request("GET", "/cart", headers, "");
        assert_eq!(answer.status, 401, "{headers}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    let cart = "/cart?x=1&region=a%20b";
    let answer = client.request("GET", cart, "authorization: Bearer abc\r\n", "");
    assert_eq!(answer.json()["region"], "a b");
    assert!(answer.text().contains("items"));
}

#[test]
fn a_search_lists_hits_that_contain_the_word() {
    let (_target, mut client) = start();
    let answer = client.get("/search?q=tea+pot");
    assert_eq!(answer.json()[2]["title"], "tea pot 3");
    assert_eq!(client.get("/search").json(), json!([]));
}

#[test]
fn bytes_come_with_a_length_and_streams_in_chunks() {
    let (_target, mut client) = start();
    for length in [0, 1, 64, 65_536, 65_537, 1_000_000] {
        let bytes = client.get(&format!("/bytes/{length}"));
        assert_eq!(bytes.header("content-length"), Some(length.to_string().as_str()));
        let stream = client.get(&format!("/stream/{length}?chunk=1000"));
        assert_eq!(stream.header("transfer-encoding"), Some("chunked"), "{}", stream.head);
        assert_eq!(bytes.body.len(), length);
        assert_eq!(stream.body.len(), length);
    }
    for path in ["/bytes/", "/bytes/x", "/bytes/-1", "/stream/5?chunk=0", "/stream/5?chunk=x"] {
        assert_eq!(client.get(path).status, 400, "{path}");
    }
}

#[test]
fn an_answer_of_any_length_can_be_asked_for_and_abandoned() {
    let (target, mut client) = start();
    client.send(&format!("GET /bytes/{} HTTP/1.1\r\nhost: t\r\n\r\n", u64::MAX));
    client.at_least(10_000_000);
    drop(client);
    assert_eq!(target.counts().of("/bytes/N"), 1);
}

#[test]
fn any_status_can_be_asked_for() {
    let (_target, mut client) = start();
    for status in [200, 204, 304, 404, 418, 503, 999] {
        assert_eq!(client.get(&format!("/status/{status}")).status, status);
    }
    for wrong in ["100", "1000", "x", ""] {
        assert_eq!(client.get(&format!("/status/{wrong}")).status, 400, "{wrong}");
    }
}

#[test]
fn redirects_lead_to_an_end() {
    let (_target, mut client) = start();
    let answer = client.get("/redirect/2");
    assert_eq!((answer.status, answer.header("location")), (302, Some("/redirect/1")));
    assert_eq!(client.get("/redirect/0").json()["arrived"], true);
    assert_eq!(client.get("/redirect/1001").status, 400);
}

#[test]
fn cookies_are_set_and_shown() {
    let (_target, mut client) = start();
    let answer = client.get("/cookies/set?a=1&b=two");
    assert!(answer.head.contains("set-cookie: a=1; Path=/\r\nset-cookie: b=two; Path=/"));
    let answer = client.request("GET", "/cookies", "cookie: a=1; b=two\r\n", "");
    let expected = json!({ "cookie": "a=1; b=two", "cookies": { "a": "1", "b": "two" } });
    assert_eq!(answer.json(), expected);
}

#[test]
fn an_echo_shows_the_request_of_any_method() {
    let (_target, mut client) = start();
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"] {
        let answer = client.request(method, "/echo?a=b", "x-one: 1\r\nx-one: 2\r\n", "hello");
        let seen = answer.json();
        assert_eq!(seen["method"], method);
        assert_eq!(seen["headers"]["x-one"], "1, 2");
        assert_eq!((&seen["body"], &seen["query"]["a"]), (&json!("hello"), &json!("b")));
    }
}

#[test]
fn gzip_is_gzip() {
    let (_target, mut client) = start();
    let answer = client.get("/gzip");
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&answer.body[..]).read_to_string(&mut text).unwrap();
    assert!(text.contains("\"gzipped\":true"));
}

#[test]
fn head_gives_the_head_of_get_and_the_connection_goes_on() {
    let (_target, mut client) = start();
    for path in ["/", "/bytes/1000", "/search?q=x", "/nowhere"] {
        let get = client.get(path);
        let head = client.request("HEAD", path, "", "");
        assert_eq!(head.status, get.status, "{path}");
        assert_eq!(head.header("content-length"), get.header("content-length"), "{path}");
    }
}

#[test]
fn a_body_nobody_wants_is_read_and_the_connection_goes_on() {
    let (_target, mut client) = start();
    let body = "x".repeat(1_000_000);
    for path in ["/", "/search?q=x", "/nowhere"] {
        client.request("GET", path, "", &body);
    }
    assert_eq!(client.get("/").status, 200);
    let huge = "POST /echo HTTP/1.1\r\nhost: t\r\ncontent-length: 20000000\r\n\r\n";
    client.send(huge);
    // one byte too many, and no more: bytes left unread would turn the answer into a reset
    client.send(&"x".repeat((16 << 20) + 1));
    assert_eq!(client.answer(false).status, 413);
}

#[test]
fn what_was_seen_is_told_and_does_not_count_itself() {
    let (target, mut client) = start();
    client.get("/");
    client.get("/bytes/3");
    client.get("/bytes/4");
    client.get("/nowhere");
    client.request("POST", "/login", "", "{}");
    for _ in 0..2 {
        let seen = client.get("/volley/seen").json();
        assert_eq!(seen["total"], 5);
        let by_path = json!({ "/": 1, "/login": 1, "/bytes/N": 2, "other": 1 });
        assert_eq!(seen["by_path"], by_path);
        assert_eq!(seen["by_method"], json!({ "GET": 4, "POST": 1 }));
        assert_eq!((&seen["connections"], &seen["in_flight"]), (&json!(1), &json!(0)));
    }
    assert_eq!(client.get("/volley/nothing").status, 404);
    assert_eq!(client.request("POST", "/volley/reset", "", "").status, 200);
    assert_eq!(client.get("/volley/seen").json()["total"], 0);
    client.get("/");
    drop(client);
    assert_eq!(target.stop().total, 1);
}

#[test]
fn a_request_counts_from_its_head_on_even_if_its_body_never_comes() {
    let (target, mut client) = start();
    client.send("POST /login HTTP/1.1\r\nhost: t\r\ncontent-length: 100\r\n\r\nhalf a bo");
    let mut other = Client::to(target.addr());
    while other.get("/volley/seen").json()["total"] != 1 {
        std::thread::yield_now();
    }
    assert_eq!(target.counts().in_flight, 1);
    drop(client);
    while target.counts().in_flight != 0 {
        std::thread::yield_now();
    }
    assert_eq!(target.counts().total, 1);
}

#[test]
fn pipelined_requests_are_all_answered() {
    let (target, mut client) = start();
    client.send(&"GET / HTTP/1.1\r\nhost: t\r\n\r\n".repeat(50));
    for _ in 0..50 {
        assert_eq!(client.answer(false).status, 200);
    }
    assert_eq!(target.counts().total, 50);
}

#[test]
fn connections_are_dealt_to_all_threads_and_counted_together() {
    let config = TargetConfig { threads: 3, ..TargetConfig::default() };
    let target = Target::start(config).unwrap();
    let mut clients: Vec<_> = (0..9).map(|_| Client::to(target.addr())).collect();
    for client in &mut clients {
        for _ in 0..10 {
            assert_eq!(client.get("/").status, 200);
        }
    }
    let counts = target.counts();
    assert_eq!((counts.total, counts.connections, counts.connections_open), (90, 9, 9));
}

#[test]
fn a_taken_port_is_an_error_that_says_so() {
    let (target, _client) = start();
    let config = TargetConfig { listen: target.addr(), ..TargetConfig::default() };
    let error = Target::start(config).err().expect("the port is taken").to_string();
    assert!(error.contains(&target.addr().to_string()) && error.contains("port 0"), "{error}");
}
