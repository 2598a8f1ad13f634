//! The hostile server is bad in exactly the way it says.

use crate::common::Client;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use target::hostile::{Behaviour, Hostile};

const GET: &str = "GET / HTTP/1.1\r\nhost: t\r\n\r\n";

fn start(behaviour: Behaviour) -> (Hostile, Client) {
    let hostile = Hostile::start(behaviour).expect("a free port");
    let mut client = Client::to(hostile.addr());
    if behaviour != Behaviour::CloseAtOnce {
        client.send(GET);
    }
    (hostile, client)
}

/// All that comes until the server closes.
fn heard(behaviour: Behaviour) -> String {
    let (hostile, mut client) = start(behaviour);
    let (bytes, end) = client.rest();
    end.expect("closed in order");
    assert_eq!(hostile.bytes_sent(), bytes.len() as u64);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The first bytes of an answer after which the connection stays open, twice.
fn heard_twice(behaviour: Behaviour, expected: &[u8]) {
    let (hostile, mut client) = start(behaviour);
    client.at_least(expected.len());
    let first = client.take(expected.len());
    assert_eq!(String::from_utf8_lossy(&first), String::from_utf8_lossy(expected));
    client.send(GET);
    client.at_least(expected.len());
    assert_eq!(client.take(expected.len()), expected, "{behaviour:?} on the same connection");
    assert_eq!((hostile.requests(), hostile.connections()), (2, 1));
}

#[test]
fn a_refusing_port_stays_closed_and_taken() {
    let hostile = Hostile::start(Behaviour::Refuse).unwrap();
    let refused = TcpStream::connect(hostile.addr()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    let taken = std::net::TcpListener::bind(hostile.addr()).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
}

#[test]
fn some_close_early() {
    let (hostile, mut client) = start(Behaviour::CloseAtOnce);
    assert!(client.rest().0.is_empty());
    assert_eq!((hostile.requests(), hostile.connections()), (0, 1));

    assert_eq!(heard(Behaviour::CloseMidHead), "HTTP/1.1 200 OK\r\ncontent-len");
    let body = heard(Behaviour::CloseMidBody);
    assert!(body.contains("content-length: 1000") && body.ends_with(&"x".repeat(100)));
    assert!(heard(Behaviour::Http10).starts_with("HTTP/1.0 200 OK\r\n"));
    assert!(!heard(Behaviour::Garbage).starts_with("HTTP"));
}

#[test]
fn one_never_answers_and_one_resets() {
    let (hostile, client) = start(Behaviour::NeverAnswer);
    while hostile.requests() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(hostile.bytes_sent(), 0);
    drop(client);

    let (_hostile, mut client) = start(Behaviour::ResetMidBody);
    let (_, end) = client.rest();
    assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn endless_answers_go_on_until_the_client_leaves() {
    use Behaviour::{EndlessChunked, EndlessHeader, EndlessUntilClose};
    for behaviour in [EndlessChunked, EndlessUntilClose, EndlessHeader] {
        let (hostile, mut client) = start(behaviour);
        client.at_least(5_000_000);
        drop(client);
        assert!(hostile.bytes_sent() >= 5_000_000, "{behaviour:?}");
    }
}

#[test]
fn a_huge_head_is_a_correct_answer() {
    let (_hostile, mut client) = start(Behaviour::HugeHead);
    let answer = client.answer(false);
    assert!(answer.head.len() > 1 << 20);
    assert_eq!(answer.text(), "hello");
}

#[test]
fn lengths_and_statuses_are_wrong_as_announced() {
    use Behaviour as B;
    for (behaviour, expected) in [
        (B::WrongChunkSize, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello wor"),
        (B::GarbageChunkSize, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"),
        (B::TwoContentLengths, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 7\r\n"),
        (B::NegativeContentLength, "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nhello"),
        (B::Status99999, "HTTP/1.1 99999 Odd\r\ncontent-length: 5\r\n\r\nhello"),
        (B::RedirectToScheme, "HTTP/1.1 302 Found\r\nlocation: ftp://"),
    ] {
        let (_hostile, mut client) = start(behaviour);
        client.at_least(expected.len());
        let bytes = client.take(expected.len());
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
    }
}

#[test]
fn odd_but_legal_answers_leave_the_connection_usable() {
    use Behaviour as B;
    let hello = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\
                   link: </style.css>; rel=preload\r\n\r\n";
    heard_twice(B::Interim, format!("{interim}{hello}").as_bytes());
    heard_twice(B::BareLineFeed, hello.replace('\r', "").as_bytes());
    heard_twice(B::NoContentWithLength, b"HTTP/1.1 204 No Content\r\ncontent-length: 10\r\n\r\n");
    let not_modified = b"HTTP/1.1 304 Not Modified\r\ncontent-length: 10\r\n\r\n";
    heard_twice(B::NotModifiedWithLength, not_modified);
}

#[test]
fn head_is_answered_with_a_length_and_no_body() {
    let (_hostile, mut client) = start(Behaviour::HeadWithLength);
    assert_eq!(client.answer(false).body.len(), 1000);
    client.send("HEAD / HTTP/1.1\r\nhost: t\r\n\r\n");
    assert_eq!(client.answer(true).header("content-length"), Some("1000"));
    assert_eq!(client.get("/").body.len(), 1000);
}

#[test]
fn drops_fall_one_by_one() {
    let start_time = Instant::now();
    let (_hostile, mut client) = start(Behaviour::SlowDrip);
    assert_eq!(client.answer(false).body.len(), 20);
    assert!(start_time.elapsed() >= Duration::from_millis(20 * 50));
}

#[test]
fn keep_alive_is_a_lie() {
    assert!(heard(Behaviour::CloseAfterEach).ends_with("hello"));

    let (hostile, mut client) = start(Behaviour::CloseOnReuse);
    assert_eq!(client.answer(false).text(), "hello");
    client.send(GET);
    assert!(client.rest().0.is_empty());
    assert_eq!(hostile.requests(), 2, "the second one was read before the connection closed");
}

#[test]
fn packed_bodies_are_what_they_say_or_not() {
    let (_hostile, mut client) = start(Behaviour::BadGzip);
    let answer = client.answer(false);
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    let mut decoder = flate2::read::GzDecoder::new(&answer.body[..]);
    assert!(std::io::copy(&mut decoder, &mut std::io::sink()).is_err());

    let (_hostile, mut client) = start(Behaviour::GzipBomb);
    assert!(client.answer(false).body.len() < 4 << 20);
}

#[test]
fn redirects_go_round_or_elsewhere() {
    let (hostile, mut client) = start(Behaviour::RedirectLoop);
    let again = format!("{}/again", hostile.url());
    assert_eq!(client.answer(false).header("location"), Some(again.as_str()));
    assert_eq!(client.get("/again").status, 302);

    let (hostile, mut client) = start(Behaviour::RedirectToHost);
    let landed = format!("http://localhost:{}/landed", hostile.addr().port());
    assert_eq!(client.answer(false).header("location"), Some(landed.as_str()));
    assert_eq!(client.get("/landed").status, 200);
    assert!(hostile.last_head().starts_with("GET /landed "));
}

#[test]
fn every_behaviour_starts_and_stops_while_a_client_hangs_on_it() {
    for &behaviour in Behaviour::ALL {
        let hostile = Hostile::start(behaviour).unwrap();
        let client = TcpStream::connect(hostile.addr());
        assert_eq!(client.is_err(), behaviour == Behaviour::Refuse);
    }
}

#[test]
fn the_body_of_a_request_is_skipped() {
    let (hostile, mut client) = start(Behaviour::Interim);
    client.answer(true);
    client.answer(true);
    client.answer(false);
    client.send("POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 28\r\n\r\n");
    client.send("GET / HTTP/1.1\r\nhost: t\r\n\r\n--");
    client.answer(true);
    client.answer(true);
    assert_eq!(client.answer(false).text(), "hello");
    assert_eq!(hostile.requests(), 2);
}
