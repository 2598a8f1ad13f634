//! Who may command this worker: the members of the managers' group (`control::group`), asked of the
//! managers themselves now and then, and at once when somebody unknown calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use control::group::{Group as Known, Statement};
use fence::{GroupId, NodeId};
use node::Member;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tonic::Status;

use super::job::lock;
use super::managers::Managers;
use crate::wire::proto::{GroupReply, GroupRequest};

/// How often all managers are asked, and how often while nothing is known.
const ASK_EVERY: Duration = Duration::from_secs(5);
const ASK_FIRST: Duration = Duration::from_millis(100);
/// Strangers that call do not make this worker ask more often than this.
const ASK_AT_MOST: Duration = Duration::from_secs(1);
/// For one answer.
const ANSWER_WITHIN: Duration = Duration::from_millis(1_500);
/// More managers than a group has.
const ASKED_MAX: usize = 32;

pub(super) struct Group {
    /// Counts whom it refuses.
    member: Weak<Member>,
    managers: Arc<Managers>,
    known: Mutex<Known>,
    /// When the last round ended; one round at a time.
    asked: tokio::sync::Mutex<Option<Instant>>,
}

impl Group {
    pub fn new(member: Weak<Member>, managers: Arc<Managers>) -> Self {
        Self { member, managers, known: Mutex::default(), asked: tokio::sync::Mutex::new(None) }
    }

    /// What is known now; `None`: nothing.
    pub fn admits(&self, manager: NodeId) -> Option<bool> {
        lock(&self.known).admits(manager)
    }

    /// Lets members of the group in. One that is not known is asked about first.
    pub async fn admit(&self, manager: NodeId) -> Result<(), Status> {
        if self.admits(manager) != Some(true) {
            self.ask(ASK_AT_MOST).await;
        }
        match self.admits(manager) {
            Some(true) => Ok(()),
            Some(false) => {
                if let Some(member) = self.member.upgrade() {
                    member.count_refused("not_a_member");
                }
                Err(Status::permission_denied(format!(
                    "manager {manager} is not a member of the managers' group; `volley managers add` admits it"
                )))
            }
            None => {
                Err(Status::unavailable("the managers' group is not known here yet; ask again"))
            }
        }
    }

    /// Asks everybody, unless that was done a moment ago.
    async fn ask(&self, at_most_every: Duration) {
        let mut asked = self.asked.lock().await;
        let is_known = self.admits(NodeId::default()).is_some();
        if is_known && asked.is_some_and(|at| at.elapsed() < at_most_every) {
            return;
        }
        let mut answers = JoinSet::new();
        for manager in self.managers.all().into_iter().take(ASKED_MAX) {
            let Some(mut reports) = self.managers.reports(manager) else { continue };
            answers.spawn(async move {
                let answered = timeout(ANSWER_WITHIN, reports.group(GroupRequest {})).await;
                Some((manager, statement(answered.ok()?.ok()?.get_ref())?))
            });
        }
        let mut said = BTreeMap::new();
        while let Some(answer) = answers.join_next().await {
            said.extend(answer.ok().flatten());
        }
        if lock(&self.known).hear(&said) {
            tracing::info!(managers = said.len(), "the managers' group is known, or has changed");
        }
        *asked = Some(Instant::now());
    }

    /// Keeps it known, until dropped.
    pub async fn run(self: Arc<Self>) {
        loop {
            self.ask(Duration::ZERO).await;
            let is_known = self.admits(NodeId::default()).is_some();
            sleep(if is_known { ASK_EVERY } else { ASK_FIRST }).await;
        }
    }
}

/// None: it has no group, or says nonsense.
fn statement(reply: &GroupReply) -> Option<Statement> {
    let members = reply.members.iter().map(|node| ledger::wire::node_from(node).ok());
    let members = members.collect::<Option<_>>()?;
    let group = GroupId { cluster: reply.cluster, generation: reply.generation };
    Some(Statement { group, members }).filter(|statement| !statement.members.is_empty())
}
