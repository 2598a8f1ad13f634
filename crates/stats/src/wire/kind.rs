//! A metric's kind as one number, for `serde(with)`: the plan's types know nothing of bytes.

use plan::MetricKind;
use serde::{Deserialize, Deserializer, Serializer};

const ALL: [MetricKind; 4] =
    [MetricKind::Counter, MetricKind::Gauge, MetricKind::Rate, MetricKind::Trend];

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
pub(crate) fn serialize<S: Serializer>(kind: &MetricKind, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u8(number(*kind))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<MetricKind, D::Error> {
    let number = u8::deserialize(from)?;
    of(number).ok_or_else(|| serde::de::Error::custom("unknown kind of metric"))
}

pub(super) fn number(kind: MetricKind) -> u8 {
    ALL.iter().position(|known| *known == kind).unwrap_or_default() as u8
}

pub(super) fn of(number: u8) -> Option<MetricKind> {
    ALL.get(usize::from(number)).copied()
}
