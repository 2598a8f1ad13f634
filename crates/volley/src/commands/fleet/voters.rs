//! Which voters of a ledger are there, as they say themselves: each of them is asked, and the
//! ledger for something that only a majority can confirm. Gossip keeps a manager that was killed as
//! `suspect` for as long as it has no majority; it must not be counted on.

use std::collections::HashMap;
use std::time::Duration;

use ::fleet::client::{FleetClient, FleetError};
use ::fleet::wire::proto::{LedgerMember, ManagersReply, NodeState};
use tokio::task::JoinSet;

use super::ClusterAccess;
use crate::failure::Failure;

/// For the answer of one manager.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Why a manager has not answered.
#[derive(Debug)]
pub struct Silent {
    why: String,
    /// Nobody listens there: no network between it and us can be the reason.
    is_refused: bool,
}

impl Silent {
    fn of(error: &FleetError) -> Silent {
        let is_refused = match error {
            FleetError::Nobody { failures, .. } => failures.iter().any(|one| one.was_refused()),
            _ => false,
        };
        let why = match error {
            FleetError::Nobody { failures, .. } => {
                failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            }
            other => other.to_string(),
        };
        Silent { why, is_refused }
    }

    /// Somebody else listens where it did.
    fn replaced_by(other: &str) -> Silent {
        let other = other.get(..8).unwrap_or(other);
        let why = format!("another node ({other}) answers at its address");
        Silent { why, is_refused: true }
    }

    #[cfg(test)]
    pub fn refused() -> Silent {
        Silent { why: "Connection refused".to_owned(), is_refused: true }
    }

    #[cfg(test)]
    pub fn unreached() -> Silent {
        Silent { why: "no answer within 2s".to_owned(), is_refused: false }
    }
}

/// The managers as one of them lists them, and as they answer.
pub struct Seen {
    pub known: ManagersReply,
    /// Voters that did not answer.
    pub silent: HashMap<String, Silent>,
    /// Why nothing can be decided now, if that is so.
    pub undecided: Option<String>,
}

impl Seen {
    pub async fn look(access: &ClusterAccess, client: &FleetClient) -> Result<Seen, Failure> {
        let known = client.managers().await.map_err(|error| access.explain(&error))?;
        let mut asked = JoinSet::new();
        for member in known.members.iter().filter(|member| member.voter) {
            let Some(address) = manager_at(&member.address) else { continue };
            let (client, node) = (client.clone(), member.node.clone());
            asked.spawn(async move {
                let silent = match client.answers_at(&address, ANSWER_WITHIN).await {
                    Ok(other) if other != node => Some(Silent::replaced_by(&other)),
                    Ok(_) => None,
                    Err(error) => Some(Silent::of(&error)),
                };
                silent.map(|silent| (node, silent))
            });
        }
        let decided = match known.members.is_empty() {
            true => Ok(()),
            false => client.can_decide().await,
        };
        let silent = asked.join_all().await.into_iter().flatten().collect();
        Ok(Seen { known, silent, undecided: decided.err().map(|error| error.to_string()) })
    }

    /// It answers; or the others hear it, and only the way from here to it is blocked.
    pub fn is_there(&self, member: &LedgerMember) -> bool {
        let has_part = !matches!(member.state(), NodeState::Waiting | NodeState::Left);
        match self.silent.get(&member.node) {
            None if member.voter => has_part,
            None => member.state() == NodeState::Alive,
            Some(silent) => {
                member.state() == NodeState::Alive && !silent.is_refused && self.undecided.is_none()
            }
        }
    }

    /// How many voters there are, how many of them are there, and how many have to be.
    pub fn counts(&self) -> (usize, usize, usize) {
        let voters: Vec<&LedgerMember> =
            self.known.members.iter().filter(|one| one.voter).collect();
        let there = voters.iter().filter(|one| self.is_there(one)).count();
        (voters.len(), there, voters.len() / 2 + 1)
    }

    pub fn can_decide(&self) -> bool {
        let (_, there, majority) = self.counts();
        self.undecided.is_none() && (there >= majority || self.known.members.is_empty())
    }

    /// What gossip says of a member, and what it says itself.
    pub fn state_of(&self, member: &LedgerMember) -> String {
        let (known, state) = (member.state(), member.state().word());
        match self.silent.get(&member.node) {
            Some(_) if self.is_there(member) => format!("{state}, not reached from here"),
            Some(_) if matches!(known, NodeState::Alive | NodeState::Suspect) => {
                format!("{state}, does not answer")
            }
            None if member.voter && matches!(known, NodeState::Suspect | NodeState::Dead) => {
                format!("{state}, but answers")
            }
            _ => state,
        }
    }

    /// Voters that count as lost, and why.
    pub fn silent(&self) -> impl Iterator<Item = (&LedgerMember, &str)> {
        let lost = self.known.members.iter();
        let lost =
            lost.filter(|member| !self.is_there(member) && member.state() != NodeState::Waiting);
        lost.filter_map(|member| Some((member, self.silent.get(&member.node)?.why.as_str())))
    }

    /// How many may be lost, or that too many are.
    pub fn summary(&self) -> String {
        let (voters, there, majority) = self.counts();
        let answer = if there == 1 { "answers" } else { "answer" };
        match (there.checked_sub(majority), &self.undecided) {
            (None, _) => format!(
                "{there} of {voters} voters {answer}, and {majority} are needed: nothing can be decided, and jobs wait \
                 until more are back"
            ),
            (Some(_), Some(why)) => format!(
                "{there} of {voters} voters {answer}, but nothing can be decided now: {why}; if that stays so, is the \
                 network between the managers cut?"
            ),
            (Some(0), None) => {
                format!("{there} of {voters} voters are there: none of them may be lost")
            }
            (Some(spare), None) => {
                format!("{there} of {voters} voters are there: {spare} of them may be lost")
            }
        }
    }

    /// Why the others could decide nothing any more if this one did not run, if that is so.
    pub fn too_few_without(&self, node: &str) -> Option<String> {
        let one = self.known.members.iter().find(|member| member.node == node && member.voter)?;
        let (voters, there, needed) = self.counts();
        let is_there = self.is_there(one);
        let left = there - usize::from(is_there);
        (is_there && left < needed).then(|| {
            format!(
                "without it {left} of {voters} voters would be there, and {needed} are needed: no job could go on"
            )
        })
    }
}

/// A ledger is found one port above its manager.
pub fn manager_at(ledger: &str) -> Option<String> {
    let (host, port) = ledger.rsplit_once(':')?;
    Some(format!("{host}:{}", port.parse::<u16>().ok()?.checked_sub(1)?))
}
