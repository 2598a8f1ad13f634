//! Single values with their tags, for outputs that want every one of them (`--out json=`, `csv=`).
//!
//! As with [`crate::Sample`], nothing is counted from these; they exist only in runs that ask for
//! them.

use std::sync::Arc;

use super::{MetricId, Tags};

/// Takes a batch, or refuses it at once (`false`): never waits, may be called from any core.
pub type SeriesSink = Arc<dyn Fn(Vec<SeriesSample>) -> bool + Send + Sync>;

#[derive(Debug, Clone)]
pub struct SeriesSample {
    /// Wall-clock time, for readers only.
    pub at_unix_ns: u64,
    pub metric: MetricId,
    pub value: f64,
    /// Shared: the metrics of one request have the same tags.
    pub tags: Arc<SampleTags>,
}

/// The tags of a value, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SampleTags {
    pairs: Vec<(Box<str>, Box<str>)>,
    /// `vu`, `iter` and their like: written, but never counted by.
    metadata: Vec<(Box<str>, Box<str>)>,
}

impl SampleTags {
    /// Of pairs with one name the last counts.
    pub fn new<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
        metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> SampleTags {
        SampleTags {
            pairs: sorted(&mut pairs.into_iter()),
            metadata: sorted(&mut metadata.into_iter()),
        }
    }

    pub fn pairs(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (&**name, &**value))
    }

    pub fn metadata(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.metadata.iter().map(|(name, value)| (&**name, &**value))
    }
}

impl Tags for SampleTags {
    fn tag(&self, key: &str) -> Option<&str> {
        self.pairs().find(|(known, _)| *known == key).map(|(_, value)| value)
    }
}

fn sorted<'a>(pairs: &mut dyn Iterator<Item = (&'a str, &'a str)>) -> Vec<(Box<str>, Box<str>)> {
    let mut kept: Vec<(&str, &str)> = Vec::new();
    for (name, value) in pairs {
        match kept.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => known.1 = value,
            None => kept.push((name, value)),
        }
    }
    kept.sort_unstable();
    kept.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_sorted_and_the_last_of_a_name_counts() {
        let tags = SampleTags::new([("b", "1"), ("a", "2"), ("b", "3")], [("vu", "7")]);
        assert_eq!(tags.pairs().collect::<Vec<_>>(), [("a", "2"), ("b", "3")]);
        assert_eq!(tags.tag("b"), Some("3"));
        assert_eq!(tags.tag("vu"), None);
    }
}
