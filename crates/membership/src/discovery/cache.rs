//! What DNS has said, for how long it holds, and when to ask again.
//!
//! Only configured names are in here, so its size is that of the configuration. The last good
//! answer is kept when later ones fail: a wrong address costs one probe, a forgotten one may cost
//! the cluster.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::{Answer, DnsSettings, LookupError, Question};

#[derive(Clone, Debug, Default)]
struct Entry {
    /// Until when the question is being asked.
    asked_until: Option<Duration>,
    last: Option<Last>,
    good: Vec<SocketAddr>,
    failures_in_a_row: u32,
}

#[derive(Clone, Debug)]
struct Last {
    at: Duration,
    /// How long it holds, if nobody is in a hurry.
    holds: Duration,
    good: bool,
}

/// Whether a name must be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    Due,
    UnderWay,
    /// The answer still holds.
    Fresh,
    /// It failed a short while ago.
    Negative,
}

/// The cache, and the only place that decides when a name is asked for.
#[derive(Clone, Debug)]
pub struct DnsCache {
    settings: DnsSettings,
    entries: BTreeMap<Question, Entry>,
}

impl DnsCache {
    pub fn new(settings: DnsSettings, questions: impl IntoIterator<Item = Question>) -> Self {
        let entries = questions.into_iter().map(|question| (question, Entry::default())).collect();
        Self { settings, entries }
    }

    pub fn questions(&self) -> impl Iterator<Item = &Question> {
        self.entries.keys()
    }

    /// `hurry` is the wait of a node that has no peer: no refusal of DNS may hold it up longer than
    /// that.
    #[must_use]
    pub fn state(&self, question: &Question, now: Duration, hurry: Option<Duration>) -> Lookup {
        let Some(entry) = self.entries.get(question) else { return Lookup::Fresh };
        if entry.asked_until.is_some() {
            return Lookup::UnderWay;
        }
        let Some(last) = &entry.last else { return Lookup::Due };
        let holds = match (hurry, last.good) {
            (None, _) => last.holds,
            (Some(_), true) => last.holds.min(self.settings.ttl_while_alone),
            (Some(wait), false) => last.holds.min(wait),
        };
        match (now >= last.at + holds, last.good) {
            (true, _) => Lookup::Due,
            (false, true) => Lookup::Fresh,
            (false, false) => Lookup::Negative,
        }
    }

    /// The question was sent.
    pub fn asked(&mut self, question: &Question, now: Duration) {
        if let Some(entry) = self.entries.get_mut(question) {
            entry.asked_until = Some(now + self.settings.lookup_deadline);
        }
    }

    /// Questions that are without an answer for too long.
    #[must_use]
    pub fn overdue(&self, now: Duration) -> Vec<Question> {
        let late = |entry: &Entry| entry.asked_until.is_some_and(|until| until <= now);
        self.entries.iter().filter(|(_, e)| late(e)).map(|(question, _)| question.clone()).collect()
    }

    #[must_use]
    pub fn is_asking(&self) -> bool {
        self.entries.values().any(|entry| entry.asked_until.is_some())
    }

    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.entries.values().filter_map(|entry| entry.asked_until).min()
    }

    /// Keeps an answer. A late one, after its deadline, is as good as any.
    pub fn store(
        &mut self,
        question: &Question,
        result: Result<Answer, LookupError>,
        now: Duration,
    ) {
        let settings = self.settings;
        let Some(entry) = self.entries.get_mut(question) else { return };
        entry.asked_until = None;
        let result = match result {
            Ok(answer) if answer.addresses.is_empty() => Err(LookupError::NoSuchName),
            other => other,
        };
        let (holds, good) = match result {
            Ok(answer) => {
                entry.failures_in_a_row = 0;
                entry.good = answer.addresses;
                entry.good.sort_unstable();
                entry.good.dedup();
                entry.good.truncate(settings.addresses_per_name_max);
                let ttl = answer.ttl.unwrap_or(settings.ttl_default);
                (ttl.clamp(settings.ttl_min, settings.ttl_max), true)
            }
            Err(LookupError::NoSuchName) => (settings.negative, false),
            Err(LookupError::TimedOut | LookupError::Failed { .. }) => {
                let doublings = entry.failures_in_a_row.min(16);
                entry.failures_in_a_row += 1;
                let wait = settings.failure_first.saturating_mul(1 << doublings);
                (wait.min(settings.failure_last), false)
            }
        };
        entry.last = Some(Last { at: now, holds, good });
    }

    /// The last good answer, however old.
    #[must_use]
    pub fn addresses(&self, question: &Question) -> &[SocketAddr] {
        self.entries.get(question).map_or(&[], |entry| &entry.good)
    }
}
