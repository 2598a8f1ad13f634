//! `--http-debug`: requests and answers in the log, as they are on the wire.

use client::Response;

use crate::host::Host;
use crate::log::{Level, Line};

pub fn sent(host: &Host, wire: &[u8], body_at: usize) {
    if let Some(full) = host.script().rules().http_debug {
        show(host, "Request", &wire[..body_at], full.then(|| &wire[body_at..]));
    }
}

pub fn received(host: &Host, response: &Response) {
    if let Some(full) = host.script().rules().http_debug {
        show(host, "Response", &response.head, full.then_some(response.body.as_slice()));
    }
}

fn show(host: &Host, what: &str, head: &[u8], body: Option<&[u8]>) {
    let head = String::from_utf8_lossy(head).replace("\r\n", "\n");
    let body = String::from_utf8_lossy(body.unwrap_or_default()).replace("\r\n", "\n");
    let line = Line::new(Level::Info, format!("{what}:\n{head}{body}\n")).from("http-debug");
    let line = line
        .with("group", host.group.borrow().clone())
        .with("iter", host.iteration.get().to_string())
        .with("scenario", host.setup.scenario.name.clone())
        .with("vu", host.setup.id_in_test.to_string());
    host.log(line);
}
