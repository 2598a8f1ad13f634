//! Checks that hold whatever the answer is: they would say that all is well, always.

use std::time::Duration;

use super::Context;
use crate::model::{CheckKind, Comparison, StatusRange, Test};
use crate::tree::Node;

/// Texts that have nothing in common; an expression that fits them all fits everything.
const SAMPLES: [&str; 7] = ["", "x", "0", " ", "{}", "é~", "Ab-1"];

/// Reports a check that no answer can fail.
pub fn report(cx: &Context<'_>, node: &Node, name: &str, kind: &CheckKind) {
    let help = match kind {
        CheckKind::Status(ranges) if covers_all(ranges) => {
            "name the statuses that are good: `status: 2xx`; if failures are expected, a threshold \
             says how many: `{ metric: http_req_failed, hold: rate < 5% }`"
        }
        CheckKind::Body(Test::Matches(pattern)) if matches_all(pattern) => {
            "the expression also fits an empty text: write what must be there, for example \
             `matches: \"id=[0-9]+\"`, or `size: \"> 0\"`"
        }
        CheckKind::Body(Test::Contains(text)) if text.as_literal() == Some("") => {
            "every body contains the empty text: write what must be there, or `size: \"> 0\"`"
        }
        CheckKind::BodySize { op: Comparison::GreaterOrEqual, bytes: 0 } => {
            "every body has 0 bytes or more: write `size: \"> 0\"`"
        }
        CheckKind::Latency { op: Comparison::GreaterOrEqual | Comparison::Greater, limit }
            if *limit == Duration::ZERO =>
        {
            "every answer takes longer than nothing: write `latency: \"< 250ms\"`"
        }
        _ => return,
    };
    cx.report(node.place, format!("this check cannot fail: `{name}` holds for every answer"))
        .help(help);
}

/// Whether every final status is in one of the ranges.
fn covers_all(ranges: &[StatusRange]) -> bool {
    (200..=599).all(|status| ranges.iter().any(|range| (range.from..=range.to).contains(&status)))
}

fn matches_all(pattern: &str) -> bool {
    regex::Regex::new(pattern)
        .is_ok_and(|regex| SAMPLES.iter().all(|sample| regex.is_match(sample)))
}
