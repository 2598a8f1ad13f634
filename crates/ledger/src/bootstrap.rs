//! How a group begins.
//!
//! Exactly one node of a list may found it: the one with the lowest address. It does so when every
//! listed node has answered, was started with the same list, and belongs to no group. So two lists
//! that differ, or a founder that has lost its disk, can never make a second group beside the
//! first.

use std::collections::BTreeMap;
use std::sync::Arc;

use fence::{GroupId, NodeId};
use openraft::error::{InitializeError, RaftError};
use sha2::{Digest, Sha256};
use tokio::time::sleep;

use crate::config::Bootstrap;
use crate::core::Core;
use crate::peers::{Client, Lane};
use crate::runtime::random_u64;
use crate::standing::first_eight;
use crate::types::{DiskId, Member};
use crate::wire::node_from;
use crate::wire::proto::{HelloReply, HelloRequest};

/// Of the sorted list. 0 stands for "no list".
pub(crate) fn digest(bootstrap: &Bootstrap) -> u64 {
    let Bootstrap::Peers(peers) = bootstrap else { return 0 };
    let mut sorted: Vec<&String> = peers.iter().collect();
    sorted.sort();
    let mut hash = Sha256::new();
    for address in sorted {
        hash.update((address.len() as u64).to_be_bytes());
        hash.update(address.as_bytes());
    }
    first_eight(&hash.finalize()).max(1)
}

/// What a listed node said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) node: NodeId,
    pub(crate) disk: DiskId,
    pub(crate) group: Option<GroupId>,
    pub(crate) initialised: bool,
    pub(crate) digest: u64,
}

impl Greeting {
    pub(crate) fn from_wire(hello: &HelloReply) -> Option<Self> {
        Some(Self {
            node: node_from(&hello.node).ok()?,
            disk: DiskId(hello.disk),
            group: hello.cluster.map(|cluster| GroupId { cluster, generation: hello.generation }),
            initialised: hello.initialised,
            digest: hello.peers_digest,
        })
    }
}

/// What the founder does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Founding {
    Wait(String),
    /// Something is wrong that waiting alone does not cure.
    Refuse(String),
    Found(BTreeMap<NodeId, Member>),
}

/// Whether the group may be founded. `mine` is the group that this node has already drawn, if it
/// was interrupted after that.
pub(crate) fn judge(
    mine: Option<GroupId>,
    digest: u64,
    answers: &BTreeMap<String, Option<Greeting>>,
) -> Founding {
    let mut members = BTreeMap::new();
    let mut missing = Vec::new();
    for (address, answer) in answers {
        let Some(greeting) = answer else {
            missing.push(address.as_str());
            continue;
        };
        if greeting.initialised || (greeting.group.is_some() && greeting.group != mine) {
            let group =
                greeting.group.map_or("a group".to_owned(), |group| format!("group {group}"));
            return Founding::Refuse(format!(
                "{address} already belongs to {group}; this node must be admitted to it, not found another one"
            ));
        }
        if greeting.digest != digest {
            return Founding::Refuse(format!(
                "{address} was started with another list of peers; start all of them with the same list"
            ));
        }
        let member = Member { address: address.clone(), disk: greeting.disk };
        if let Some(other) = members.insert(greeting.node, member) {
            return Founding::Refuse(format!(
                "{address} and {} are the same node {}; was a data folder copied?",
                other.address, greeting.node
            ));
        }
    }
    if missing.is_empty() {
        Founding::Found(members)
    } else {
        Founding::Wait(format!("no answer yet from {}", missing.join(", ")))
    }
}

/// Runs until this node belongs to a group that is founded, if it is this node's part to found it.
pub(crate) async fn run(core: Arc<Core>) {
    let initialised = match core.raft.is_initialized().await {
        Ok(initialised) => initialised,
        Err(error) => return core.fail(&error.to_string()),
    };
    if initialised {
        core.waiting.send_replace(None);
        return;
    }
    match core.config.bootstrap.clone() {
        // A group that is known and not there was lost with the log: never found it again.
        _ if core.storage.identity().awaits_admission => {
            let why = "the log was lost; this node has to be admitted again".to_owned();
            core.waiting.send_replace(Some(why));
        }
        Bootstrap::Join => {
            core.waiting.send_replace(Some("waiting to be admitted to a group".to_owned()));
        }
        Bootstrap::Alone => {
            let member = Member { address: core.config.address.clone(), disk: core.me.disk };
            found(&core, BTreeMap::from([(core.me.node, member)])).await;
        }
        Bootstrap::Peers(mut peers) => {
            peers.sort();
            if peers.len() % 2 == 0 {
                tracing::warn!(
                    peers = peers.len(),
                    "an even number of voters survives no more failures than one less"
                );
            }
            if peers.first() == Some(&core.config.address) {
                found_with(&core, &peers).await;
            } else {
                let founder = peers.first().cloned().unwrap_or_default();
                core.waiting
                    .send_replace(Some(format!("waiting for {founder} to found the group")));
            }
        }
    }
}

async fn found_with(core: &Arc<Core>, peers: &[String]) {
    loop {
        if *core.stopping.borrow() || core.failure().is_some() {
            return;
        }
        if core.raft.is_initialized().await.unwrap_or(true) {
            core.waiting.send_replace(None);
            return;
        }
        let mut answers = BTreeMap::new();
        for address in peers {
            let greeting = if *address == core.config.address {
                Greeting::from_wire(&crate::service::identity(core, false))
            } else {
                greet(core, address).await
            };
            answers.insert(address.clone(), greeting);
        }
        let why = match judge(core.group(), core.peers_digest, &answers) {
            Founding::Found(members) => {
                found(core, members).await;
                return;
            }
            Founding::Wait(why) => why,
            Founding::Refuse(why) => {
                tracing::error!(node = %core.me.node, why, "no group is founded");
                why
            }
        };
        core.waiting.send_replace(Some(why));
        sleep(core.timing.greeting).await;
    }
}

/// Asks a node who it is.
pub(crate) async fn greet(core: &Core, address: &str) -> Option<Greeting> {
    let request = HelloRequest { peers_digest: core.peers_digest };
    let call = |mut client: Client| async move { client.hello(request).await };
    let hello = core.links.peers.call(Lane::Work, address, core.timing.connect, call).await.ok()?;
    Greeting::from_wire(&hello)
}

async fn found(core: &Core, members: BTreeMap<NodeId, Member>) {
    let _one = core.adopting.lock().await;
    let group = match core.group() {
        Some(group) => group,
        None => {
            let group = GroupId { cluster: random_u64(), generation: 1 };
            let limits = core.config.state_limits.clone();
            if let Err(error) = core.storage.set_group(group, limits.clone()).await {
                return core.fail(&error.to_string());
            }
            let _ = core.links.state_limits.set(limits);
            core.group.send_replace(Some(group));
            group
        }
    };
    tracing::info!(node = %core.me.node, %group, members = members.len(), "founding a group");
    match core.raft.initialize(members).await {
        Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {
            core.waiting.send_replace(None);
        }
        Err(error) => core.fail(&format!("the group could not be founded: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(node: u128) -> Greeting {
        Greeting {
            node: NodeId(node),
            disk: DiskId(node as u64),
            group: None,
            initialised: false,
            digest: 5,
        }
    }

    fn answers(change: impl FnOnce(&mut Greeting)) -> BTreeMap<String, Option<Greeting>> {
        let mut second = greeting(2);
        change(&mut second);
        BTreeMap::from([("a:1".to_owned(), Some(greeting(1))), ("b:1".to_owned(), Some(second))])
    }

    /// Only an agreed list of empty nodes makes a group.
    #[test]
    fn a_group_is_founded_once_and_by_agreement() {
        let Founding::Found(members) = judge(None, 5, &answers(|_| ())) else { panic!() };
        assert_eq!(members.len(), 2);
        assert_eq!(members[&NodeId(2)].address, "b:1");

        let mut silent = answers(|_| ());
        silent.insert("c:1".to_owned(), None);
        assert!(matches!(judge(None, 5, &silent), Founding::Wait(why) if why.contains("c:1")));

        let group = GroupId { cluster: 9, generation: 1 };
        type Change = fn(&mut Greeting);
        let refused: [(Change, &str); 4] = [
            (|other| other.digest = 6, "another list"),
            (|other| other.initialised = true, "already belongs"),
            (|other| other.group = Some(GroupId { cluster: 9, generation: 1 }), "already belongs"),
            (|other| other.node = NodeId(1), "same node"),
        ];
        for (change, part) in refused {
            let result = judge(None, 5, &answers(change));
            assert!(matches!(&result, Founding::Refuse(why) if why.contains(part)), "{result:?}");
        }
        let interrupted = judge(Some(group), 5, &answers(|other| other.group = Some(group)));
        assert!(matches!(interrupted, Founding::Found(_)), "our own first try, cut off half way");
    }

    #[test]
    fn the_digest_is_of_the_sorted_list() {
        let list = |addresses: &[&str]| {
            digest(&Bootstrap::Peers(addresses.iter().map(|a| (*a).to_owned()).collect()))
        };
        assert_eq!(list(&["a:1", "b:1"]), list(&["b:1", "a:1"]));
        assert_ne!(list(&["a:1", "b:1"]), list(&["a:1", "b:1", "c:1"]));
        assert_ne!(list(&["a:1"]), list(&["a:", "1"]));
        assert_eq!(digest(&Bootstrap::Alone), 0);
    }
}
