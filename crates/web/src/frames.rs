//! Server-sent events as bytes: shared by all viewers that get the same one.

use std::fmt::Write;

use bytes::Bytes;
use serde_json::Value;

/// How long a browser waits before it comes back.
pub(crate) const RETRY: Bytes = Bytes::from_static(b"retry: 1000\n\n");
/// Says nothing; shows who has gone.
pub(crate) const STILL_HERE: Bytes = Bytes::from_static(b":\n\n");

/// How far a viewer has come, of this server: another one, at the same port, counts anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Id {
    pub epoch: u64,
    pub number: u64,
}

impl Id {
    pub fn text(self) -> String {
        format!("{:016x}.{}", self.epoch, self.number)
    }

    /// `None`: not an id of ours.
    pub fn parse(text: &str) -> Option<Id> {
        let (epoch, number) = text.trim().split_once('.')?;
        Some(Id { epoch: u64::from_str_radix(epoch, 16).ok()?, number: number.parse().ok()? })
    }
}

/// One event. `data` is JSON, which has no line feed outside of its escapes.
pub(crate) fn event(name: &str, id: Option<Id>, data: &str) -> Bytes {
    debug_assert!(!data.contains('\n'), "one line");
    let mut frame = String::with_capacity(data.len() + 80);
    let _ = writeln!(frame, "event: {name}");
    if let Some(id) = id {
        let _ = writeln!(frame, "id: {}", id.text());
    }
    let _ = write!(frame, "data: {data}\n\n");
    frame.into()
}

/// A JSON object from members that are JSON already.
pub(crate) fn object(members: &[(&str, String)]) -> String {
    let mut text = String::from("{");
    for (number, (name, value)) in members.iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(text, "{comma}{}:{value}", Value::from(*name));
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_was_written() {
        let id = Id { epoch: 0xfeed, number: 12 };
        assert_eq!(Id::parse(&id.text()), Some(id));
        for odd in ["", "12", "x.1", "1.x", "1.-1", "1.99999999999999999999999"] {
            assert_eq!(Id::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn an_event_is_one_line_of_data() {
        let data = object(&[("a\n", "1".to_owned()), ("b", Value::from("x\ny").to_string())]);
        let frame = event("update", Some(Id { epoch: 1, number: 2 }), &data);
        let expected =
            "event: update\nid: 0000000000000001.2\ndata: {\"a\\n\":1,\"b\":\"x\\ny\"}\n\n";
        assert_eq!(frame, expected);
    }
}
