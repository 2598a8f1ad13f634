//! What workflows leave to later ones, and who may see it.
//!
//! ```text
//! shard reports ──lowest completed shard wins──▶ Values of a stage ──▶ ledger, then the next stage
//!                                                          │
//!                 provider names the workflow, and the workflow names the provider
//!                                                          ▼
//!                                                       Handed, in each dispatch
//! ```
//!
//! The owner is the only writer, and replaces what a workflow left as a whole. Values never leave
//! the datacenter, nor are they part of a result (EXEC-146).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::manifest::{Manifest, Part, Provided};

/// By the name of the workflow, then by key. The plan's own setup has the empty name, which no
/// workflow may have.
pub type Values = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

/// What the plan's setup leaves stands under this name.
pub const SETUP: &str = "";

/// What an attempt is given: the payload of its dispatch, see [`decode`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handed {
    /// Variables that the plan's setup has set, and over them those of the workflow's own setup.
    pub variables: BTreeMap<String, Vec<u8>>,
    /// By the key of a `use`. A key that is missing has its default, if the plan gives one
    /// (EXEC-53).
    pub uses: BTreeMap<String, Vec<u8>>,
}

#[must_use]
pub fn encode(handed: &Handed) -> Vec<u8> {
    // A vector takes any length, and there is nothing in it that postcard cannot say.
    postcard::to_allocvec(handed).expect("maps of bytes have a form in postcard")
}

/// # Errors
/// If the bytes are not those of a [`Handed`].
pub fn decode(bytes: &[u8]) -> Result<Handed, String> {
    postcard::from_bytes(bytes).map_err(|error| format!("the context cannot be read: {error}"))
}

pub(super) fn encode_values(values: &Values) -> Vec<u8> {
    postcard::to_allocvec(values).expect("maps of bytes have a form in postcard")
}

pub(super) fn decode_values(bytes: &[u8]) -> Result<Values, String> {
    postcard::from_bytes(bytes)
        .map_err(|error| format!("a committed context cannot be read: {error}"))
}

/// Of each key the value of the lowest shard that has one, or all of them as a JSON list.
pub(super) fn merge(
    provides: &[Provided],
    shards: &BTreeMap<u32, BTreeMap<String, Vec<u8>>>,
) -> BTreeMap<String, Vec<u8>> {
    let mut merged = BTreeMap::new();
    for Provided { key, collect, .. } in provides {
        let mut values = shards.values().filter_map(|values| values.get(key));
        if *collect {
            let all: Vec<_> = values.map(|value| String::from_utf8_lossy(value)).collect();
            merged.insert(key.clone(), serde_json::json!(all).to_string().into_bytes());
        } else if let Some(value) = values.next() {
            merged.insert(key.clone(), value.clone());
        }
    }
    merged
}

/// EXEC-54: a value flows from P to C only if P's provider names C and C's consumer names P.
pub(super) fn hand(manifest: &Manifest, values: &Values, workflow: usize) -> Handed {
    let mut handed =
        Handed { variables: values.get(SETUP).cloned().unwrap_or_default(), uses: BTreeMap::new() };
    let Some(part) = manifest.workflows.get(workflow) else { return handed };
    for (key, sources) in &part.uses {
        let found = sources.iter().find_map(|source| {
            let provider = &manifest.workflows[manifest.number(source)?];
            let names_us =
                provider.provide.iter().any(|one| one.key == *key && one.to.contains(&part.name));
            values.get(source)?.get(key).filter(|_| names_us)
        });
        if let Some(value) = found {
            handed.uses.insert(key.clone(), value.clone());
        }
    }
    handed
}

pub(super) fn size(values: &BTreeMap<String, Vec<u8>>) -> usize {
    values.iter().map(|(key, value)| key.len() + value.len()).sum()
}

/// What one workflow's shards, or one hook, have provided.
type Provisions = BTreeMap<String, Vec<u8>>;

/// The values of a job: those of committed stages, and those that the present ones have provided.
#[derive(Clone, Debug, Default)]
pub(super) struct Context {
    /// How many stages are committed, and what they hold.
    committed: u32,
    values: Values,
    /// The next stage is on its way into the ledger.
    committing: bool,
    /// What stages have provided that are not committed yet.
    fresh: BTreeMap<u32, Values>,
    /// By workflow and shard, until the workflow has ended.
    provided: BTreeMap<usize, BTreeMap<u32, Provisions>>,
    /// What workflows' own setups have left to their shards.
    own_setups: BTreeMap<usize, Provisions>,
}

impl Context {
    pub fn committed(&self) -> u32 {
        self.committed
    }

    pub fn values(&self) -> &Values {
        &self.values
    }

    /// So many stages are in the ledger; their values may have to be fetched first.
    pub fn restore(&mut self, committed: usize) {
        self.committed = u32::try_from(committed).unwrap_or(u32::MAX);
    }

    /// Values of a committed stage.
    pub fn read(&mut self, values: Values) {
        self.values.extend(values);
    }

    /// A shard has completed, and leaves this.
    pub fn provide(&mut self, workflow: usize, shard: u32, values: Provisions) {
        self.provided.entry(workflow).or_default().insert(shard, values);
    }

    /// The plan's setup has completed. What it leaves is a stage of its own.
    pub fn set_up(&mut self, values: Provisions) {
        self.fresh.entry(0).or_default().insert(SETUP.to_owned(), values);
    }

    /// A workflow's own setup has completed. What it leaves is for the workflow's own shards.
    pub fn set_up_workflow(&mut self, workflow: usize, values: Provisions) {
        self.own_setups.insert(workflow, values);
    }

    pub fn own_setup(&self, workflow: usize) -> Option<&Provisions> {
        self.own_setups.get(&workflow)
    }

    /// What the plan's setup has left, as long as it is not committed.
    pub fn fresh_setup(&self) -> Option<&Provisions> {
        self.fresh.get(&0).and_then(|values| values.get(SETUP))
    }

    /// A workflow of this stage has ended. If it has completed, what its shards provide is handed
    /// on.
    pub fn end(&mut self, workflow: usize, part: &Part, stage: u32, completed: bool) {
        let shards = self.provided.remove(&workflow).unwrap_or_default();
        let merged = merge(&part.provide, &shards);
        if completed && !merged.is_empty() && stage >= self.committed {
            self.fresh.entry(stage).or_default().insert(part.name.clone(), merged);
        }
    }

    /// The values of the next stage, to be committed; `None`: they are on their way.
    pub fn begin_commit(&mut self) -> Option<Values> {
        let begins = !std::mem::replace(&mut self.committing, true);
        begins.then(|| self.fresh.remove(&self.committed).unwrap_or_default())
    }

    /// The ledger has answered; `None`: it has refused.
    pub fn end_commit(&mut self, values: Option<Values>) {
        self.committing = false;
        if let Some(values) = values {
            self.committed += 1;
            self.values.extend(values);
        }
    }

    /// All that is handed on by now. Of a workflow that runs, its lowest shard stands for all.
    pub fn bytes(&self) -> usize {
        let committed: usize = self.values.values().map(size).sum();
        let fresh: usize = self.fresh.values().flat_map(|values| values.values()).map(size).sum();
        let lowest = self.provided.values().filter_map(|shards| shards.values().next());
        committed + fresh + lowest.map(size).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::Policy;

    fn values(of: &[(&str, &str)]) -> Provisions {
        of.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
    }

    /// Workflows a and b of one layer; a provides `key` to b.
    fn manifest() -> Manifest {
        let text = "target: http://localhost
workflows:
  - { name: a, load: { executor: constant-vus, vus: 1, duration: 1s }, steps: [ { get: / } ] }
  - { name: b, load: { executor: constant-vus, vus: 1, duration: 1s }, steps: [ { get: / } ] }";
        let env = |_: &str| None;
        let (format, options) = (plan::Format::Yaml, plan::ReadOptions::new(&env));
        let plan = plan::read_str(text, format, std::path::Path::new("."), &options).unwrap();
        let mut manifest = Manifest::of(&plan, Policy::default());
        let to = vec!["b".to_owned()];
        manifest.workflows[0].provide =
            vec![Provided { key: "key".to_owned(), to, collect: false }];
        manifest
    }

    #[test]
    fn a_stage_is_committed_once_at_a_time_and_its_values_count_when_the_ledger_has_them() {
        let mut context = Context::default();
        context.set_up(values(&[("token", "1")]));
        assert_eq!(context.fresh_setup(), Some(&values(&[("token", "1")])));
        let stage = context.begin_commit().unwrap();
        assert_eq!(context.begin_commit(), None, "it is on its way");
        assert!(context.values().is_empty());
        context.end_commit(Some(stage));
        assert_eq!(context.committed(), 1);
        assert_eq!(context.values()[SETUP], values(&[("token", "1")]));
        assert_eq!(context.begin_commit(), Some(Values::new()), "the next one provides nothing");
        context.end_commit(None);
        assert_eq!(context.committed(), 1, "a refusal commits nothing");
    }

    #[test]
    fn a_workflow_hands_on_what_its_lowest_shard_provides_and_only_if_it_has_completed() {
        let manifest = manifest();
        let part = &manifest.workflows[0];
        for (completed, stage, expected) in
            [(true, 0, Some("low")), (false, 0, None), (true, 1, None)]
        {
            let mut context = Context::default();
            context.provide(0, 4, values(&[("key", "high")]));
            context.provide(0, 2, values(&[("key", "low"), ("other", "x")]));
            context.end(0, part, stage, completed);
            let next = context.begin_commit().unwrap();
            let handed = next.get("a").and_then(|values| values.get("key"));
            assert_eq!(handed.map(Vec::as_slice), expected.map(str::as_bytes), "{stage}");
        }
    }

    #[test]
    fn what_belongs_to_a_stage_that_is_committed_already_is_not_handed_on_again() {
        let manifest = manifest();
        let mut context = Context::default();
        context.restore(2);
        context.provide(0, 0, values(&[("key", "late")]));
        context.end(0, &manifest.workflows[0], 1, true);
        context.end_commit(Some(Values::new()));
        assert_eq!(context.bytes(), 0);
    }

    #[test]
    fn bytes_are_those_of_committed_fresh_and_running_stages() {
        let mut context = Context::default();
        context.read(Values::from([("a".to_owned(), values(&[("k", "123")]))]));
        assert_eq!(context.bytes(), 4);
        context.set_up(values(&[("k", "1")]));
        assert_eq!(context.bytes(), 6);
        context.provide(1, 3, values(&[("k", "12345678")]));
        context.provide(1, 0, values(&[("k", "12")]));
        assert_eq!(context.bytes(), 9, "only the lowest shard of a workflow that runs");
    }

    #[test]
    fn a_value_goes_only_where_both_sides_name_each_other() {
        let mut manifest = manifest();
        let all = Values::from([("a".to_owned(), values(&[("key", "v")]))]);
        assert!(hand(&manifest, &all, 1).uses.is_empty(), "b does not ask for it");
        manifest.workflows[1].uses = vec![("key".to_owned(), vec!["a".to_owned()])];
        assert_eq!(hand(&manifest, &all, 1).uses, values(&[("key", "v")]));
        manifest.workflows[0].provide[0].to.clear();
        assert!(hand(&manifest, &all, 1).uses.is_empty(), "a does not give it to b");
    }
}
