//! The system under test: it counts every request that it gets, and notices what must not happen.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{Class, Mark};

/// A shard of a job's workflow. Jobs go by the names of their plans, which are all different.
pub type Place = (String, usize, usize);

/// One attempt as the target knows it: whoever prepares one gets the next number.
pub type Sender = u64;

#[derive(Default)]
pub struct Target {
    senders: u64,
    shards: BTreeMap<Place, Shard>,
    /// What must not happen and did, with the invariant's name.
    broken: Vec<(&'static str, String)>,
    /// The worker that has sent last.
    pub last_host: Option<usize>,
    /// Hosts whose processes stand still.
    frozen: BTreeSet<usize>,
    /// Faults that have befallen attempts, and marks that they have reached.
    befallen: Vec<Class>,
    reached: BTreeSet<Mark>,
    /// Shards whose last attempt has ended with an error of the plan, which is final.
    failed: BTreeSet<Place>,
    /// Attempts whose leases have run out while nobody wanted them to stop.
    pub lapses: Vec<Place>,
    /// Jobs that their scripts have ended.
    aborted: BTreeSet<String>,
    /// Jobs that are paused, as all their workers have acknowledged.
    paused: BTreeSet<String>,
    /// Jobs whose results were given out.
    ended: BTreeSet<String>,
    /// Rows of sets that must not repeat: by job and set.
    rows: BTreeMap<(String, usize), BTreeSet<u64>>,
}

/// What is known of one shard.
#[derive(Clone, Debug, Default)]
pub struct Shard {
    pub seen: u64,
    pub issued: u64,
    /// Units below this one were begun, or are past.
    pub begun: u64,
    /// An attempt came to the end of its time with units left.
    pub out_of_time: bool,
    sending: Option<Sender>,
    /// Attempts after which another has sent.
    replaced: BTreeSet<Sender>,
}

impl Target {
    pub fn enlist(&mut self) -> Sender {
        self.senders += 1;
        self.senders
    }

    pub fn shard(&mut self, place: &Place) -> &mut Shard {
        if !self.shards.contains_key(place) {
            self.shards.insert(place.clone(), Shard::default());
        }
        self.shards.entry(place.clone()).or_default()
    }

    /// Requests arrive. The file that counts them was written before.
    pub fn take(&mut self, place: &Place, sender: Sender, count: u64) {
        if self.paused.contains(&place.0) {
            let what = format!("{place:?}: an attempt sends while all know of a pause");
            self.broken.push(("steer.pause", what));
        }
        if self.ended.contains(&place.0) {
            let what = format!("{place:?}: an attempt sends after the job has ended");
            self.broken.push(("R5.ended", what));
        }
        let shard = self.shard(place);
        shard.seen += count;
        shard.issued += count;
        if shard.sending == Some(sender) {
            return;
        }
        let before = shard.sending.replace(sender);
        shard.replaced.extend(before);
        if shard.replaced.contains(&sender) {
            let what = format!("{place:?}: an attempt sends after another has begun to");
            self.broken.push(("P1.send", what));
        }
        if before.is_some() {
            self.reached.insert(Mark::Retried);
        }
    }

    /// Units `from..end` of a shard are begun.
    pub fn begin(&mut self, place: &Place, from: u64, end: u64) {
        let shard = self.shard(place);
        let begun = shard.begun;
        shard.begun = begun.max(end);
        if from < begun && from < end {
            let what = format!("{place:?}: unit {from} is begun, and {begun} were begun before");
            self.broken.push(("R5a.once", what));
        }
    }

    /// A row of a set that must not repeat is used.
    pub fn use_row(&mut self, job: &str, set: usize, row: u64) {
        if !self.rows.entry((job.to_owned(), set)).or_default().insert(row) {
            self.broken.push(("R5a.rows", format!("{job}: row {row} of set {set} is used again")));
        }
    }

    pub fn freeze(&mut self, host: usize, frozen: bool) {
        match frozen {
            true => self.frozen.insert(host),
            false => self.frozen.remove(&host),
        };
    }

    pub fn is_frozen(&self, host: usize) -> bool {
        self.frozen.contains(&host)
    }

    /// An attempt of this shard is made. `sound`: whatever was told about it has been heard.
    pub fn prepare(&mut self, place: &Place, sound: bool) {
        if sound && self.failed.contains(place) {
            let what = format!("{place:?}: it has failed, and is tried again");
            self.broken.push(("R5.final", what));
        }
    }

    pub fn fail(&mut self, place: &Place) {
        self.failed.insert(place.clone());
    }

    /// Everybody who runs a part of this job has acknowledged that it is paused, or it may go on.
    pub fn pause(&mut self, job: &str, paused: bool) {
        match paused {
            true => self.paused.insert(job.to_owned()),
            false => self.paused.remove(job),
        };
    }

    /// Its user has the result.
    pub fn end(&mut self, job: &str) {
        self.ended.insert(job.to_owned());
    }

    pub fn abort(&mut self, job: &str) {
        self.aborted.insert(job.to_owned());
    }

    pub fn was_aborted(&self, job: &str) -> bool {
        self.aborted.contains(job)
    }

    /// A fault of an attempt itself.
    pub fn befell(&mut self, class: Class) {
        self.befallen.push(class);
    }

    pub fn reach(&mut self, mark: Mark) {
        self.reached.insert(mark);
    }

    /// Faults and marks since the last time.
    pub fn take_notes(&mut self) -> (Vec<Class>, BTreeSet<Mark>) {
        (std::mem::take(&mut self.befallen), std::mem::take(&mut self.reached))
    }

    pub fn take_broken(&mut self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut self.broken)
    }

    /// The shards of a workflow, or of a whole job.
    pub fn of(&self, job: &str, workflow: Option<usize>) -> Vec<&Shard> {
        let mine = |place: &Place| place.0 == job && workflow.is_none_or(|one| one == place.1);
        self.shards.iter().filter(|(place, _)| mine(place)).map(|(_, shard)| shard).collect()
    }

    pub fn requests(&self) -> u64 {
        self.shards.values().map(|shard| shard.seen).sum()
    }
}
