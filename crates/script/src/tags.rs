//! Tags that hold now for what a virtual user records, and which of k6's system tags are wanted.

use std::sync::Arc;

use stats::series::{SampleTags, Tags};

/// Sorted by key; few, so a list beats a map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TagSet(Vec<(Arc<str>, Arc<str>)>);

impl TagSet {
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| **known == *key);
        found.map(|(_, value)| &**value)
    }

    pub fn set(&mut self, key: &str, value: &str) {
        match self.0.binary_search_by(|(known, _)| (**known).cmp(key)) {
            Ok(at) if *self.0[at].1 == *value => {}
            Ok(at) => self.0[at].1 = value.into(),
            Err(at) => self.0.insert(at, (key.into(), value.into())),
        }
    }

    pub fn remove(&mut self, key: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|(known, _)| **known != *key);
        self.0.len() < before
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those of `over` win.
    pub fn with(&self, over: &TagSet) -> TagSet {
        let mut all = self.clone();
        for (key, value) in over.iter() {
            all.set(key, value);
        }
        all
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for TagSet {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> TagSet {
        let mut set = TagSet::default();
        for (key, value) in pairs {
            set.set(key.as_ref(), value.as_ref());
        }
        set
    }
}

impl Tags for TagSet {
    fn tag(&self, key: &str) -> Option<&str> {
        self.get(key)
    }
}

/// Tags of one sample, and how they look when somebody wants them all.
pub trait SampleScope: Tags {
    fn sample_tags(&self) -> SampleTags;
}

impl SampleScope for TagSet {
    fn sample_tags(&self) -> SampleTags {
        SampleTags::new(self.iter().map(|(key, value)| (&**key, &**value)), [])
    }
}

/// k6's system tags, as a set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemTags(u32);

macro_rules! system_tags {
    ($($name:ident = $bit:expr, $text:literal;)*) => {
        impl SystemTags {
            $(pub const $name: SystemTags = SystemTags(1 << $bit);)*
            pub const NAMES: &'static [(&'static str, SystemTags)] = &[$(($text, SystemTags::$name)),*];
        }
    };
}

system_tags! {
    PROTO = 0, "proto";
    SUBPROTO = 1, "subproto";
    STATUS = 2, "status";
    METHOD = 3, "method";
    URL = 4, "url";
    NAME = 5, "name";
    GROUP = 6, "group";
    CHECK = 7, "check";
    ERROR = 8, "error";
    ERROR_CODE = 9, "error_code";
    TLS_VERSION = 10, "tls_version";
    SCENARIO = 11, "scenario";
    SERVICE = 12, "service";
    EXPECTED_RESPONSE = 13, "expected_response";
    VU = 14, "vu";
    ITER = 15, "iter";
    IP = 16, "ip";
    OCSP_STATUS = 17, "ocsp_status";
}

impl SystemTags {
    /// All but `vu`, `iter`, `ip` and `ocsp_status`.
    pub const DEFAULT: SystemTags = SystemTags((1 << 14) - 1);

    pub fn has(self, tag: SystemTags) -> bool {
        self.0 & tag.0 != 0
    }

    pub fn from_names<S: AsRef<str>>(names: &[S]) -> SystemTags {
        let known = |name: &S| SystemTags::NAMES.iter().find(|(known, _)| *known == name.as_ref());
        SystemTags(names.iter().filter_map(known).fold(0, |all, (_, tag)| all | tag.0))
    }
}
