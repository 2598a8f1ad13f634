//! Who may found a Raft group: the rule that keeps one cluster one.
//!
//! 1. A node with a group in its data folder belongs to that group, and to no other, ever.
//! 2. A node without one founds one only if the configuration names it among the founding voters,
//!    it has looked around, it has met no group of its domain, and a majority of the named voters
//!    (itself included) is there, each without a group and each with the same list.
//! 3. Every other node waits until a group that exists admits it.
//! 4. Two groups, or two different lists of founders, in one domain are a conflict. Nothing is
//!    founded and nothing is joined; a person decides.
//!
//! Why this is enough: a group comes to life only by an election among the listed voters, which
//! takes a majority of the list; two majorities of one list share a node, and that node has one
//! data folder. Voters are listed by node id and never by address, because a node that has lost its
//! folder must not vote again under its old name: it comes back with a new id, is on no list, and
//! waits by rule 3. The group's id is a function of the list, so founders that act at the same
//! moment found the same group. A list of one is a cluster of one; it is founded as soon as its
//! node has looked around.
//!
//! A domain is what has one group: the managers of one datacenter, or the gates.

use std::collections::{BTreeMap, BTreeSet};

use fence::{GroupId, NodeId};
use trust::{Identity, Role};

use super::Hello;

/// What the local node brings.
#[derive(Clone, Debug)]
pub struct Founder<'a> {
    pub identity: &'a Identity,
    pub group: Option<GroupId>,
    /// The configured founding voters; empty on nodes that are added later.
    pub voters: &'a BTreeSet<NodeId>,
    /// [`super::Bootstrap::looked_around`].
    pub looked_around: bool,
}

/// What to do about the Raft group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Formation {
    /// We have one.
    Member(GroupId),
    /// Initialise the group with exactly the configured voters. Every founder may do it; all do the
    /// same.
    Found(GroupId),
    /// A group exists; ask it for admission.
    AskFor(GroupId),
    Wait(Waiting),
    Conflict(Conflict),
}

/// What is being waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The configuration does not name us; somebody else founds, or admits us.
    NotAFounder,
    LookingAround,
    /// Not enough founders are there yet.
    Founders {
        present: usize,
        needed: usize,
        missing: Vec<NodeId>,
    },
}

/// Two truths where there may be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// More than one group in this domain.
    Groups(BTreeSet<GroupId>),
    /// These founders have another list than we have.
    Lists { others: Vec<NodeId> },
}

/// Whether two nodes must be of the same group if they are of any.
#[must_use]
pub fn same_group_domain(one: &Identity, other: &Identity) -> bool {
    let one_cluster = one.cluster == other.cluster && one.environment == other.environment;
    let domain = match (one.role, other.role) {
        (Role::Gate, Role::Gate) => true,
        (Role::Manager, Role::Manager) => one.datacenter == other.datacenter,
        _ => false,
    };
    one_cluster && domain
}

/// A fixed hash (FNV-1a, 64 bit), equal on every machine and in every version.
fn hash(parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            state = (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for part in parts {
        // Lengths stand before the parts, so that no two lists of parts read the same.
        add(&(part.as_ref().len() as u64).to_be_bytes());
        add(part.as_ref());
    }
    state
}

/// A list of founding voters as one number, for [`Hello::voters`].
#[must_use]
pub fn digest(voters: &BTreeSet<NodeId>) -> Option<u64> {
    (!voters.is_empty()).then(|| hash(voters.iter().map(|node| node.0.to_be_bytes())))
}

/// The group that these voters found.
#[must_use]
pub fn founding_group(identity: &Identity, voters: &BTreeSet<NodeId>) -> GroupId {
    let datacenter = if identity.role == Role::Gate { "" } else { &identity.datacenter };
    let names = [&identity.cluster, &identity.environment, identity.role.name(), datacenter];
    let mut parts: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    parts.extend(voters.iter().map(|node| node.0.to_be_bytes().to_vec()));
    GroupId { cluster: hash(parts), generation: 1 }
}

/// The rule. `seen` are the latest hellos of the nodes that are alive now.
#[must_use]
pub fn decide(me: &Founder<'_>, seen: &BTreeMap<NodeId, Hello>) -> Formation {
    let here = || seen.values().filter(|hello| same_group_domain(me.identity, &hello.identity));
    let mut groups: BTreeSet<GroupId> = here().filter_map(|hello| hello.group).collect();
    groups.extend(me.group);
    if groups.len() > 1 {
        return Formation::Conflict(Conflict::Groups(groups));
    }
    if let Some(group) = me.group {
        return Formation::Member(group);
    }
    if let Some(group) = groups.first() {
        return Formation::AskFor(*group);
    }
    let ours = digest(me.voters);
    // A node without a list is one that is added later; a node with another list is a mistake, on
    // it or on us.
    let others: Vec<NodeId> =
        here().filter(|h| h.voters.is_some() && h.voters != ours).map(Hello::node).collect();
    if ours.is_some() && !others.is_empty() {
        return Formation::Conflict(Conflict::Lists { others });
    }
    if !me.voters.contains(&me.identity.node) {
        return Formation::Wait(Waiting::NotAFounder);
    }
    if !me.looked_around {
        return Formation::Wait(Waiting::LookingAround);
    }
    let agrees = |node: &NodeId| {
        *node == me.identity.node || here().any(|h| h.node() == *node && h.voters == ours)
    };
    let missing: Vec<NodeId> = me.voters.iter().filter(|node| !agrees(node)).copied().collect();
    let (present, needed) = (me.voters.len() - missing.len(), me.voters.len() / 2 + 1);
    if present < needed {
        return Formation::Wait(Waiting::Founders { present, needed, missing });
    }
    Formation::Found(founding_group(me.identity, me.voters))
}
