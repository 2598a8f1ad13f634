//! HTTP/2 with prior knowledge on the same port, and connections that somebody else accepted.

use crate::common::Client;
use bytes::Bytes;
use target::{Target, TargetConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

async fn answer(response: h2::client::ResponseFuture) -> (u16, Option<String>, Vec<u8>) {
    let (head, mut stream) = response.await.expect("an answer").into_parts();
    let length = head.headers.get("content-length").map(|v| v.to_str().unwrap().to_owned());
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data.expect("a whole body");
        stream.flow_control().release_capacity(data.len()).unwrap();
        body.extend_from_slice(&data);
    }
    (head.status.as_u16(), length, body)
}

fn request(method: &str, path: &str) -> http::Request<()> {
    let uri = format!("http://t{path}");
    http::Request::builder().method(method).uri(uri).body(()).unwrap()
}

#[test]
fn many_streams_share_one_connection() {
    let target = Target::start(TargetConfig::default()).unwrap();
    runtime().block_on(async {
        let stream = tokio::net::TcpStream::connect(target.addr()).await.unwrap();
        let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let mut responses = Vec::new();
        for _ in 0..300 {
            client = client.ready().await.unwrap();
            responses.push(client.send_request(request("GET", "/"), true).unwrap().0);
        }
        for response in responses {
            let (status, _, body) = answer(response).await;
            assert_eq!((status, body.len()), (200, 33));
        }
        let (stream, _) = client.send_request(request("GET", "/stream/100000"), true).unwrap();
        assert_eq!(answer(stream).await.2.len(), 100_000);
        let (head, _) = client.send_request(request("HEAD", "/bytes/1000"), true).unwrap();
        assert_eq!(answer(head).await, (200, Some("1000".to_owned()), Vec::new()));
    });
    let counts = target.counts();
    assert_eq!((counts.total, counts.connections), (302, 1));
}

#[test]
fn a_request_with_a_body_is_echoed() {
    let target = Target::start(TargetConfig::default()).unwrap();
    runtime().block_on(async {
        let stream = tokio::net::TcpStream::connect(target.addr()).await.unwrap();
        let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let (response, mut body) = client.send_request(request("POST", "/echo"), false).unwrap();
        body.send_data(Bytes::from_static(b"hello"), true).unwrap();
        let (status, _, body) = answer(response).await;
        let seen: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((status, seen["version"].as_str()), (200, Some("HTTP/2.0")));
        assert_eq!(seen["body"], "hello");
    });
}

#[test]
fn a_connection_accepted_elsewhere_is_served_and_counted() {
    let target = Target::start(TargetConfig::default()).unwrap();
    Client::to(target.addr()).get("/");
    runtime().block_on(async {
        // stands for a TLS stream: any pair of directions will do
        let (mut client, server) = tokio::io::duplex(4096);
        let handle = target.handle();
        tokio::spawn(async move { handle.serve(server).await });
        let request = b"GET / HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n";
        client.write_all(request).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    });
    let counts = target.counts();
    assert_eq!((counts.total, counts.connections), (2, 2));
}
