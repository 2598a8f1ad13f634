//! Writes, from the caller's side.
//!
//! ```text
//! propose ─▶ number (once) ─▶ leader here? queue : forward once ─▶ Committed | NotCommitted | Unknown
//!                    ▲                                                              │
//!                    └────────────── retry(request): the same number ◀──────────────┘
//! ```

use fence::NodeId;
use ledger_state::{
    Busy, Command, CreateJob, Problem, Proposal, Refusal as StateRefusal, Rejection, Reply,
    RequestId, Submission, validate,
};
use tokio::time::{Duration, Instant, timeout_at};

use crate::answer::{Answer, NotCommitted, Overload, Written};
use crate::core::Core;
use crate::node::Node;
use crate::peers::{Client, Lane};
use crate::types::Member;
use crate::wire::proto::ProposeRequest;
use crate::wire::{NOT_SENT, refusal_name, seal, unseal};

impl Node {
    /// Writes a command. It is numbered once; this call tries again under the same number until it
    /// is answered or the time is over, so the command is executed once at most.
    pub async fn propose(&self, command: Command, within: Duration) -> Written {
        let began = Instant::now();
        match self.number(command, began + within).await {
            Err(why) => {
                self.core.metrics.proposals.add(why.name());
                Written::NotCommitted(why)
            }
            Ok(mut open) => {
                let written = self.drive(&open.proposal, began + within).await;
                open.finish(&written, began);
                written
            }
        }
    }

    /// Resolves an unknown outcome: commits the same request if it was not, and returns the first
    /// answer if it was. A request of another life of the node, or one that was forgotten because
    /// too many were unknown, stays unknown.
    pub async fn retry(&self, request: RequestId, within: Duration) -> Written {
        let began = Instant::now();
        let Some(proposal) = self.core.requests().retry(request) else {
            return Written::Unknown(request);
        };
        let mut open = Open { core: &self.core, proposal, finished: false };
        let written = match self.drive(&open.proposal, began + within).await {
            // That this try was not appended says nothing about the first.
            Written::NotCommitted(_) => Written::Unknown(request),
            written => written,
        };
        open.finish(&written, began);
        written
    }

    /// Takes a submission in, with the four answers of which a client can make something. A pending
    /// one is asked for by submitting it again with the same key.
    pub async fn submit(&self, job: CreateJob, within: Duration) -> Submission {
        let id = job.key.job_id(&job.tenant);
        let command = Command::CreateJob(Box::new(job));
        // What can never be accepted costs no place in the log.
        let limits = self.core.links.state_limits.get();
        if let Some(Err(problem)) = limits.map(|limits| validate(&command, limits)) {
            return Submission::Rejected(match problem {
                Problem::Key(problem) => Rejection::InvalidKey(problem),
                problem => Rejection::Invalid(problem),
            });
        }
        let after_ms = self.core.timing.election_max.as_millis() as u64;
        let later = |why| Submission::RetryLater { after_ms, why };
        match self.propose(command, within).await {
            Written::Committed { reply: Reply::Submitted(submission), .. } => submission,
            Written::Committed { reply, .. } => {
                tracing::warn!(?reply, "a submission was answered by something else");
                later(Busy::Overloaded)
            }
            Written::NotCommitted(
                NotCommitted::Overloaded { .. } | NotCommitted::TooLarge { .. },
            ) => later(Busy::Overloaded),
            Written::NotCommitted(NotCommitted::NoSpace) => later(Busy::NoSpace),
            Written::NotCommitted(_) => later(Busy::NoLeader),
            Written::Unknown(request) => {
                // The key is the client's way to ask again; the request number is not needed.
                self.core.requests().close(request.seq);
                Submission::Pending { job: id }
            }
        }
    }

    /// For commands whose outcome nobody needs: an unknown one is not kept.
    pub(crate) async fn propose_and_forget(&self, command: Command, within: Duration) {
        if let Written::Unknown(request) = self.propose(command, within).await {
            self.core.requests().close(request.seq);
        }
    }

    /// Gives a command its number, after the session is open.
    async fn number(&self, command: Command, deadline: Instant) -> Result<Open<'_>, NotCommitted> {
        self.core.serving().map_err(|refusal| NotCommitted::Stopped(refusal.to_string()))?;
        self.open_session(deadline, false).await?;
        let begun = self.core.requests().begin();
        let (request, settled) =
            begun.ok_or(NotCommitted::Overloaded { what: Overload::OpenRequests })?;
        let proposal = Proposal { request, settled, at: self.core.stamp(), command };
        Ok(Open { core: &self.core, proposal, finished: false })
    }

    /// Opens this life's session, once.
    async fn open_session(&self, deadline: Instant, again: bool) -> Result<(), NotCommitted> {
        let opening = timeout_at(deadline, self.core.session_open.lock()).await;
        let mut open = opening.map_err(|_| NotCommitted::Deadline)?;
        if *open && !again {
            return Ok(());
        }
        let request = RequestId { session: self.core.session, seq: 0 };
        let at = self.core.stamp();
        let proposal = Proposal { request, settled: 0, at, command: Command::OpenSession };
        match self.drive(&proposal, deadline).await {
            Written::Committed { reply: Reply::SessionOpened { .. }, .. } => {
                *open = true;
                Ok(())
            }
            Written::Committed { reply: Reply::Refused(refusal), .. } => Err(match refusal {
                StateRefusal::StaleBoot { .. } | StateRefusal::SessionClosed { .. } => {
                    NotCommitted::SessionClosed
                }
                refusal => NotCommitted::Refused(refusal.to_string()),
            }),
            Written::Committed { reply, .. } => Err(NotCommitted::Refused(format!("{reply:?}"))),
            Written::NotCommitted(why) => Err(why),
            // The command itself was never sent.
            Written::Unknown(_) => Err(NotCommitted::Deadline),
        }
    }

    /// A word from time to time keeps the session from being closed to make room for others.
    pub(crate) async fn refresh_session(&self, within: Duration) {
        if *self.core.session_open.lock().await
            && let Err(why) = self.open_session(Instant::now() + within, true).await
        {
            tracing::debug!(%why, "the session was not refreshed");
        }
    }

    /// Tries until there is an answer or the time is over. Unknown as soon as one try may have been
    /// appended.
    async fn drive(&self, proposal: &Proposal, deadline: Instant) -> Written {
        let mut perhaps = false;
        loop {
            let answer = self.attempt(proposal, deadline).await;
            let why = match answer {
                Answer::Committed { reply, epoch } => return Written::Committed { reply, epoch },
                Answer::Unknown => {
                    perhaps = true;
                    NotCommitted::Deadline
                }
                Answer::Not(why) => why,
            };
            let try_again = matches!(
                why,
                NotCommitted::NotLeader { .. } | NotCommitted::NoLeader | NotCommitted::Deadline
            );
            let stopping = self.core.serving().is_err();
            let late = Instant::now() >= deadline;
            if !perhaps && (late || stopping || !try_again) {
                let why = match why {
                    NotCommitted::NotLeader { leader: None } => NotCommitted::NoLeader,
                    why => why,
                };
                return Written::NotCommitted(why);
            }
            if late || stopping {
                return Written::Unknown(proposal.request);
            }
            self.pause(deadline).await;
        }
    }

    /// Until something changes, a little while, or the deadline.
    async fn pause(&self, deadline: Instant) {
        let mut standing = self.core.standing.clone();
        standing.borrow_and_update();
        let until = deadline.min(Instant::now() + self.core.timing.heartbeat / 4);
        let leader = standing.borrow().leader.as_ref().map(|(id, _)| *id);
        let changed = standing.wait_for(|standing| {
            standing.leader.as_ref().map(|(id, _)| *id) != leader || standing.stopped.is_some()
        });
        let _ = timeout_at(until, changed).await;
    }

    async fn attempt(&self, proposal: &Proposal, deadline: Instant) -> Answer {
        let standing = self.core.standing();
        if standing.leading {
            return self.core.take(proposal.clone(), deadline).await;
        }
        match standing.leader {
            Some((node, member)) if node != self.core.me.node => {
                self.forward(proposal, node, &member, deadline).await
            }
            _ => Answer::Not(NotCommitted::NoLeader),
        }
    }

    /// Hands a proposal to the leader. It is not handed on from there.
    async fn forward(
        &self,
        proposal: &Proposal,
        node: NodeId,
        member: &Member,
        deadline: Instant,
    ) -> Answer {
        let core = &self.core;
        let within = deadline.saturating_duration_since(Instant::now());
        let sealed = match seal(proposal) {
            Ok(sealed) if sealed.len() <= core.config.limits.proposal_bytes => sealed,
            Ok(sealed) => {
                let limit = core.config.limits.proposal_bytes as u64;
                return Answer::Not(NotCommitted::TooLarge { bytes: sealed.len() as u64, limit });
            }
            Err(refusal) => return Answer::Not(NotCommitted::Refused(refusal.to_string())),
        };
        let Ok(header) = core.links.header(node, member) else {
            return Answer::Not(NotCommitted::NoLeader);
        };
        let request = ProposeRequest {
            header: Some(header.to_wire()),
            sealed,
            within_ms: within.as_millis() as u64,
        };
        core.metrics.forwarded.add(1);
        let call = |mut client: Client| async move { client.propose(request).await };
        let calling =
            core.links.peers.call(Lane::Work, &member.address, core.at_most(within), call);
        let mut standing = core.standing.clone();
        let moved = standing.wait_for(|standing| {
            standing.stopped.is_some()
                || standing.leader.as_ref().is_none_or(|(leader, _)| *leader != node)
        });
        let reply = tokio::select! {
            biased;
            reply = calling => reply,
            // Another leader: the old one may never answer, and the new one can tell.
            _ = moved => return Answer::Unknown,
        };
        match reply {
            Ok(reply) => match unseal(&reply.sealed) {
                // It stops, and has appended nothing; another one will lead.
                Ok(Answer::Not(NotCommitted::Stopped(_))) => Answer::Not(NotCommitted::NoLeader),
                Ok(answer) => answer,
                Err(_) => Answer::Unknown,
            },
            Err(status) => match refusal_name(&status) {
                Some(NOT_SENT | "stopped") => Answer::Not(NotCommitted::NoLeader),
                Some(name) => {
                    Answer::Not(NotCommitted::Refused(format!("{name}: {}", status.message())))
                }
                None => Answer::Unknown,
            },
        }
    }
}

/// A request that somebody waits for. If the waiting is given up, its outcome is unknown, and it
/// can be taken up again.
struct Open<'a> {
    core: &'a Core,
    proposal: Proposal,
    finished: bool,
}

impl Open<'_> {
    fn finish(&mut self, written: &Written, began: Instant) {
        let Self { core, proposal, .. } = self;
        match written {
            Written::Committed { reply, .. } => {
                core.metrics.proposals.add("committed");
                core.metrics.commit_micros.record_micros(began.elapsed());
                core.observer.acknowledged(core.me.node, proposal.request, reply);
            }
            Written::NotCommitted(why) => core.metrics.proposals.add(why.name()),
            Written::Unknown(_) => return,
        }
        core.requests().close(proposal.request.seq);
        self.finished = true;
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.core.metrics.proposals.add("unknown");
            self.core.requests().unknown(self.proposal.clone());
        }
    }
}
