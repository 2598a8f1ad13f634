//! What workflows leave to later ones, and who may see it.
//!
//! ```text
//! shard reports ──lowest completed shard wins (X35)──▶ Values of a stage ──▶ ledger, before the next stage starts
//!                                                          │
//!                 provider names the workflow, and the workflow names the provider (X36)
//!                                                          ▼
//!                                                       Handed, in each dispatch
//! ```
//!
//! The owner is the only writer, and replaces what a workflow left as a whole (X26). Values never leave the datacenter,
//! nor are they part of a result (EXEC-146).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::manifest::{Manifest, Provided};

/// By the name of the workflow, then by key. The plan's own setup has the empty name, which no workflow may have.
pub type Values = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

/// What the plan's setup leaves stands under this name.
pub const SETUP: &str = "";

/// What an attempt is given: the payload of its dispatch, see [`decode`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handed {
    /// Variables that the plan's setup has set, and over them those of the workflow's own setup.
    pub variables: BTreeMap<String, Vec<u8>>,
    /// By the key of a `use`. A key that is missing has its default, if the plan gives one (EXEC-53).
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

/// X35: of each key the value of the lowest shard that has one, or all of them as a JSON list.
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

/// EXEC-54, X36: a value flows from P to C only if P's provider names C and C's consumer names P.
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
