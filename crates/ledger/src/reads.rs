//! Reads: EVENTUAL from what is here, STRONG after a majority has confirmed the leader (LEDG-115).
//!
//! A strong read fixes an index first: everything that anybody was told is committed lies at or
//! below it. Then it waits until this node has applied that far. A leader that is cut off cannot
//! confirm, and answers nothing.

use ledger_state::State;
use openraft::error::{CheckIsLeaderError, RaftError};
use tokio::time::{Duration, Instant, sleep_until, timeout_at};

use crate::answer::{Read, ReadError, ReadLevel};
use crate::core::Core;
use crate::peers::{Client, Lane};
use crate::wire::proto::BarrierRequest;

/// On the leader: the index that a strong read has to see.
pub(crate) async fn confirm(core: &Core, deadline: Instant) -> Result<u64, ReadError> {
    loop {
        if let Some(why) = core.failure() {
            return Err(ReadError::Stopped(why));
        }
        let standing = core.standing();
        if !standing.leading {
            return Err(ReadError::NoLeader);
        }
        if !standing.claims(Instant::now(), core.timing.election_max) {
            return Err(ReadError::NoQuorum);
        }
        let confirmed = timeout_at(deadline, core.raft.get_read_log_id()).await;
        match confirmed.map_err(|_| ReadError::NoQuorum)? {
            Ok((read, _)) => {
                let index = read.map_or(0, |read| read.index);
                // A leader that was restarted leads on under its old vote, and may have forgotten
                // how far it had committed. Whatever was in its log then has to be applied first.
                return Ok(match core.restarted_at {
                    Some((vote, floor)) if vote == standing.vote => index.max(floor),
                    _ => index,
                });
            }
            Err(RaftError::Fatal(error)) => return Err(ReadError::Stopped(error.to_string())),
            Err(RaftError::APIError(CheckIsLeaderError::ForwardToLeader(_))) => {
                return Err(ReadError::NoLeader);
            }
            Err(RaftError::APIError(CheckIsLeaderError::QuorumNotEnough(_))) => {
                pause(core, deadline).await.map_err(|_| ReadError::NoQuorum)?;
            }
        }
    }
}

/// Waits a little before another try; an error if that would be too late.
async fn pause(core: &Core, deadline: Instant) -> Result<(), ()> {
    let until = Instant::now() + core.timing.heartbeat / 2;
    if until >= deadline {
        return Err(());
    }
    sleep_until(until).await;
    Ok(())
}

/// Asks whoever leads.
async fn barrier(core: &Core, deadline: Instant) -> Result<u64, ReadError> {
    let standing = core.standing();
    if standing.leading {
        return confirm(core, deadline).await;
    }
    let (node, member) = standing.leader.ok_or(ReadError::NoLeader)?;
    let within = deadline.saturating_duration_since(Instant::now());
    let header = core.links.header(node, &member).map_err(|_| ReadError::NoLeader)?;
    let request =
        BarrierRequest { header: Some(header.to_wire()), within_ms: within.as_millis() as u64 };
    let within = core.at_most(within);
    let call = |mut client: Client| async move { client.barrier(request).await };
    let reply = core.links.peers.call(Lane::Work, &member.address, within, call).await;
    let reply = reply.map_err(|_| ReadError::NoLeader)?;
    match reply.refused.as_str() {
        "" => Ok(reply.index),
        "no_quorum" => Err(ReadError::NoQuorum),
        _ => Err(ReadError::NoLeader),
    }
}

/// Waits until the state has this entry.
async fn applied(core: &Core, index: u64, deadline: Instant) -> Result<(), ReadError> {
    let mut watch = core.applied.watch();
    let there = watch.wait_for(|applied| applied.unwrap_or(0) >= index);
    match timeout_at(deadline, there).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => Err(ReadError::Stopped("the state machine has stopped".to_owned())),
        Err(_) => Err(ReadError::Deadline),
    }
}

/// Until a leader is found that can confirm, or the deadline.
pub(crate) async fn strong(core: &Core, within: Duration) -> Result<u64, ReadError> {
    let deadline = Instant::now() + within;
    loop {
        if let Some(why) = core.failure() {
            return Err(ReadError::Stopped(why));
        }
        match barrier(core, deadline).await {
            Ok(index) => {
                applied(core, index, deadline).await?;
                return Ok(index);
            }
            // A cut-off leader refuses at once; a follower may find another leader.
            Err(ReadError::NoQuorum) if core.standing.borrow().leading => {
                return Err(ReadError::NoQuorum);
            }
            Err(error @ (ReadError::NoLeader | ReadError::NoQuorum)) => {
                pause(core, deadline).await.map_err(|()| error)?;
            }
            Err(error) => return Err(error),
        }
    }
}

pub(crate) async fn read<T>(
    core: &Core,
    level: ReadLevel,
    within: Duration,
    look: impl FnOnce(&State) -> T,
) -> Result<Read<T>, ReadError> {
    if level == ReadLevel::Strong {
        let result = strong(core, within).await;
        core.metrics.reads.add(match &result {
            Ok(_) => "strong",
            Err(ReadError::NoLeader) => "strong_no_leader",
            Err(ReadError::NoQuorum) => "strong_no_quorum",
            Err(ReadError::Deadline) => "strong_deadline",
            Err(ReadError::Stopped(_)) => "strong_stopped",
        });
        result?;
    } else {
        core.metrics.reads.add("eventual");
    }
    // Read before the look, so that it is never more than the state has.
    let applied = core.applied.index().unwrap_or(0);
    let last = core.standing.borrow().last_log.unwrap_or(0);
    let value = core.applied.read(look);
    Ok(Read { value, applied, lag: last.saturating_sub(applied) })
}
