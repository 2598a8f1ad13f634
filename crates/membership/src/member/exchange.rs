//! Push-pull: two members show each other everything they know.
//!
//! The shell carries it over gRPC with mutual TLS, at a join and now and then afterwards. Gossip is
//! quick but tells each thing only so often; this is what makes sure.

use base::random::mix;
use fence::NodeId;
use foca::Member;
use serde::{Deserialize, Serialize};

use crate::envelope::{Claim, Rumour};
use crate::identity::Peer;
use crate::table::{Cause, State};

use super::{Phase, Swim};

/// How a node stands with the one who tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    Alive,
    Suspect,
    Dead,
    Left,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub peer: Peer,
    pub datacenter: String,
    pub incarnation: u16,
    pub standing: Standing,
}

/// Everything that a member knows. Peers that it has only heard of are not in it. After equal
/// [`Digest`]s the members are left out: each side only says who it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FullState {
    pub from: Record,
    pub members: Vec<Record>,
}

/// What two members compare before they show each other everything. When it is equal an exchange
/// would repair nothing but what each knows of the other, so the rest need not be sent: that keeps
/// exchanges cheap in a large cluster where nothing happens.
///
/// It is over all that take part, the teller among them: node, life, incarnation, and whether it is
/// suspected. The rest is left out because an exchange does not carry it on: whether a peer has
/// spoken to *us* (everybody finds that out alone), heartbeats and times (datagrams renew them),
/// and the gone whom the other does not know or has buried as well. Somebody gone here and alive
/// there is in one sum and not in the other.
///
/// It is told to members only, who could lie about the records as well. If the way to compute it
/// ever changes, digests of old and new programs differ, and they go on with the full exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    pub members: u32,
    pub sum: u64,
}

impl Digest {
    /// In any order: the parts are added up.
    fn add(&mut self, peer: &Peer, incarnation: u16, is_suspect: bool) {
        let node = peer.node.0;
        let words = [
            node as u64,
            (node >> 64) as u64,
            peer.boot.0,
            u64::from(peer.generation),
            u64::from(incarnation) << 1 | u64::from(is_suspect),
        ];
        // SplitMix64 over the words: every bit of each moves half of the result.
        let mixed = words.into_iter().fold(0, |state, word| mix(state ^ word));
        self.members = self.members.wrapping_add(1);
        self.sum = self.sum.wrapping_add(mixed);
    }
}

impl Swim {
    /// What this member has to show.
    #[must_use]
    pub fn full_state(&self) -> FullState {
        let members = self
            .table
            .iter()
            .filter_map(|entry| {
                let standing = match entry.state {
                    State::Unconfirmed => return None,
                    State::Confirmed => Standing::Alive,
                    State::Suspect => Standing::Suspect,
                    State::Dead => Standing::Dead,
                    State::Left => Standing::Left,
                };
                let (peer, datacenter) = (entry.peer, entry.datacenter.clone());
                Some(Record { peer, datacenter, incarnation: entry.incarnation, standing })
            })
            .collect();
        FullState { from: self.own_record(), members }
    }

    /// What this member says of itself.
    #[must_use]
    pub fn own_record(&self) -> Record {
        Record {
            peer: self.me,
            datacenter: self.datacenter.clone(),
            incarnation: self.incarnation,
            standing: Standing::Alive,
        }
    }

    /// To be compared with another's before anything is exchanged.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        digest.add(&self.me, self.incarnation, false);
        for entry in self.table.iter() {
            match entry.state {
                State::Unconfirmed | State::Confirmed => {
                    digest.add(&entry.peer, entry.incarnation, false);
                }
                State::Suspect => digest.add(&entry.peer, entry.incarnation, true),
                State::Dead | State::Left => {}
            }
        }
        digest
    }

    pub(super) fn merge(&mut self, state: FullState) {
        if self.phase != Phase::Member || state.from.peer.node == self.me.node {
            return;
        }
        let (teller, teller_life) = (state.from.peer.node, state.from.peer.life());
        let records = std::iter::once(state.from).chain(state.members);
        let mut kept = Vec::new();
        let mut doubted = Vec::new();
        for record in records.take(self.settings.nodes_max) {
            if let Some(update) = self.sift(&record, teller, &mut doubted) {
                kept.push(update);
            }
        }
        let touched: Vec<NodeId> = kept.iter().map(|update| update.id().node).collect();
        // Not passed on as gossip: a join of thousands would drown it. The others exchange as well.
        self.with_core(|core, out| core.apply_many(kept.into_iter(), false, out));
        self.observe(&touched);
        for node in doubted {
            if let Some(suspicion) = self.suspicions.get_mut(node) {
                suspicion.last_chance = true;
            }
        }
        // It has spoken to us itself, if not by datagram.
        let now = self.now;
        if let Some(entry) = self.table.edit(teller)
            && entry.peer.life() == teller_life
            && (entry.state.is_live() || entry.state == State::Unconfirmed)
        {
            entry.last_heard = Some(now);
            if entry.state == State::Unconfirmed {
                self.table.set(teller, State::Confirmed, Cause::Direct, now);
            }
        }
    }

    fn sift(
        &mut self,
        record: &Record,
        teller: NodeId,
        doubted: &mut Vec<NodeId>,
    ) -> Option<Member<Peer>> {
        let (peer, incarnation) = (record.peer, record.incarnation);
        let is_about_me = peer.node == self.me.node;
        let known_live = self.table.get(peer.node).is_some_and(|entry| entry.state.is_live());
        let held = self.suspicions.get(peer.node).filter(|s| s.held && s.life == peer.life());
        let held = held.map(|suspicion| suspicion.incarnation);
        let state = match record.standing {
            Standing::Alive => foca::State::Alive,
            Standing::Suspect => foca::State::Suspect,
            // It has had its time, and we only waited for others to agree. They did, while we were
            // away, and no longer say so by themselves. Which incarnation they saw last does not
            // matter: it is the same life.
            Standing::Dead if held.is_some() => foca::State::Down,
            // Second-hand and perhaps old: whoever we see alive gets the chance to contradict.
            Standing::Dead if known_live => foca::State::Suspect,
            Standing::Dead if is_about_me => foca::State::Down,
            Standing::Dead => return None,
            Standing::Left => {
                let claim = Claim::Left;
                let (about, life) = (peer.node, peer.life());
                self.hear_farewell(&Rumour { claim, about, life, incarnation, origin: teller });
                return None;
            }
        };
        let incarnation = held.map_or(incarnation, |of_held| incarnation.max(of_held));
        self.judge(Member::new(peer, incarnation, state), doubted)
    }
}
