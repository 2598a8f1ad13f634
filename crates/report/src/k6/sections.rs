//! Which metrics stand under which heading, and in which order.

use std::cmp::Ordering;

/// Headings in the order of the summary.
pub(super) const HEADINGS: [&str; 7] =
    ["CUSTOM", "HTTP", "EXECUTION", "NETWORK", "BROWSER", "GRPC", "WEBSOCKET"];

/// Names, or beginnings of names, and their heading; `in_compact` tells whether the short summary
/// has them.
const KNOWN: [(&str, Option<&str>, bool); 21] = [
    ("checks", None, false),
    ("group_duration", None, false),
    ("http_reqs", Some("HTTP"), true),
    ("http_req_duration", Some("HTTP"), true),
    ("http_req_failed", Some("HTTP"), true),
    ("http_req_blocked", Some("HTTP"), false),
    ("http_req_connecting", Some("HTTP"), false),
    ("http_req_tls_handshaking", Some("HTTP"), false),
    ("http_req_sending", Some("HTTP"), false),
    ("http_req_waiting", Some("HTTP"), false),
    ("http_req_receiving", Some("HTTP"), false),
    ("iteration_duration", Some("EXECUTION"), true),
    ("iterations", Some("EXECUTION"), true),
    ("dropped_iterations", Some("EXECUTION"), true),
    ("vus", Some("EXECUTION"), true),
    ("vus_max", Some("EXECUTION"), true),
    ("data_received", Some("NETWORK"), true),
    ("data_sent", Some("NETWORK"), true),
    ("browser_", Some("BROWSER"), true),
    ("grpc_", Some("GRPC"), true),
    ("ws_", Some("WEBSOCKET"), true),
];

/// `None`: not among the metrics of a summary.
pub(super) fn heading(name: &str, is_compact: bool) -> Option<&'static str> {
    match KNOWN.iter().find(|(start, ..)| name.starts_with(start)) {
        None => Some("CUSTOM"),
        Some((_, heading, in_compact)) if *in_compact || !is_compact => *heading,
        Some(_) => None,
    }
}

/// As people sort: signs, digits, letters; of two that differ in case only, the small one first.
pub(super) fn by_name(left: &str, right: &str) -> Ordering {
    let weights = |text: &str| text.chars().map(weight).collect::<Vec<_>>();
    let upper = |text: &str| text.chars().map(char::is_uppercase).collect::<Vec<_>>();
    weights(left).cmp(&weights(right)).then_with(|| upper(left).cmp(&upper(right)))
}

fn weight(character: char) -> (u8, u32) {
    const SIGNS: &str = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";
    let lower = character.to_lowercase().next().unwrap_or(character);
    match SIGNS.find(character) {
        Some(at) => (0, at as u32),
        None if character.is_ascii_digit() => (1, u32::from(character)),
        None => (2, u32::from(lower)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_where_the_reference_puts_them() {
        let table = [
            ("orders", Some("CUSTOM"), Some("CUSTOM")),
            ("http_mine", Some("CUSTOM"), Some("CUSTOM")),
            ("http_reqs_x", Some("HTTP"), Some("HTTP")),
            ("http_req_waiting", None, Some("HTTP")),
            ("iterations_mine", Some("EXECUTION"), Some("EXECUTION")),
            ("iteration_x", Some("CUSTOM"), Some("CUSTOM")),
            ("vusx", Some("EXECUTION"), Some("EXECUTION")),
            ("data_x", Some("CUSTOM"), Some("CUSTOM")),
            ("wsx", Some("CUSTOM"), Some("CUSTOM")),
            ("ws_x", Some("WEBSOCKET"), Some("WEBSOCKET")),
            ("checks", None, None),
            ("group_duration", None, None),
        ];
        for (name, compact, full) in table {
            assert_eq!((heading(name, true), heading(name, false)), (compact, full), "{name}");
        }
    }

    #[test]
    fn names_are_sorted_as_the_reference_sorts_them() {
        let sorted = [
            "_a",
            "a_b",
            "a1",
            "ab",
            "http_",
            "http_req",
            "http_req_x",
            "http_reqs",
            "httpx",
            "my__",
            "my_1",
            "my_a",
            "my_ab",
            "my_aB",
            "my_Ab",
            "my_B",
            "My_b",
            "my1",
            "MY2",
            "mya",
            "myA",
            "zz",
            "Zz",
        ];
        let mut names = sorted;
        names.reverse();
        names.sort_by(|left, right| by_name(left, right));
        assert_eq!(names, sorted);
    }
}
