//! Push-pull with another member, in parts: at a join, and every half minute with somebody at
//! random.
//!
//! Gossip tells each thing a limited number of times; this makes sure. Mostly both know the same:
//! then they compare digests, and that is all. A part holds a few hundred records; parts and
//! records are bounded on both sides, so neither can be made to hold more than a membership has
//! members.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use membership::agent::Stopped;
use membership::member::Record;
use membership::{Digest, Entry, FullState, Peer};
use rand010::rngs::StdRng;
use rand010::{Rng, SeedableRng};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;
use tonic::{Code, Status};
use trust::{Expected, Gates};

use super::search::greet;
use super::{Inner, roles_of_domain};
use crate::wire::{self, Malformed, proto};

/// Records in one part: some 40 KiB.
const PART_RECORDS: usize = 512;
/// The largest part that is taken.
pub(crate) const PART_BYTES_MAX: usize = 256 << 10;
/// How many exchanges are answered at once; one more is told to come back.
pub(crate) const EXCHANGES_MAX: usize = 8;
/// How long one exchange may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);
/// How often it is tried while nothing was pulled yet.
const EVERY_UNSYNCED: Duration = Duration::from_secs(1);

/// Why an exchange came to nothing.
#[derive(Debug)]
pub enum ExchangeError {
    Stopped,
    TimedOut,
    Refused(Box<Status>),
    Malformed(Malformed),
    /// More than a membership can have.
    TooMany,
    /// Somebody else's state.
    Impostor,
    /// One that is known here with a later life or another data folder.
    LostData,
    /// One that speaks another protocol.
    Protocol(trust::Refusal),
}

impl ExchangeError {
    /// A short name for metrics; the set is fixed.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::TimedOut => "timed_out",
            Self::Refused(_) => "refused",
            Self::Malformed(_) => "malformed",
            Self::TooMany => "too_many",
            Self::Impostor => "impostor",
            Self::LostData => "lost_data",
            Self::Protocol(refusal) => refusal.kind(),
        }
    }
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("membership has ended"),
            Self::TimedOut => f.write_str("the exchange took too long"),
            Self::Refused(status) => write!(f, "the exchange failed: {}", status.message()),
            Self::Malformed(error) => error.fmt(f),
            Self::TooMany => f.write_str("more members than a membership may have"),
            Self::Impostor => f.write_str("the state is told by another node than the one asked"),
            Self::LostData => {
                f.write_str("the node has lost its data folder, or runs on a copy of it")
            }
            Self::Protocol(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for ExchangeError {}

impl From<Stopped> for ExchangeError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

impl From<Malformed> for ExchangeError {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error)
    }
}

impl From<Status> for ExchangeError {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

/// A state in parts.
pub(crate) fn parts(inner: &Inner, state: &FullState) -> Vec<proto::StatePart> {
    let total = u32::try_from(state.members.len()).unwrap_or(u32::MAX);
    let mut parts: Vec<_> = state
        .members
        .chunks(PART_RECORDS)
        .map(|records| proto::StatePart {
            members: records.iter().map(wire::record_out).collect(),
            ..proto::StatePart::default()
        })
        .collect();
    if parts.is_empty() {
        parts.push(proto::StatePart::default());
    }
    parts[0].from = Some(wire::record_out(&state.from));
    parts[0].introduction = Some(wire::introduction_out(&inner.introduction()));
    parts[0].total = total;
    parts
}

/// Puts parts together again. `admit` looks at the first one before any other is read.
pub(crate) async fn gather(
    mut parts: impl Stream<Item = Result<proto::StatePart, Status>> + Unpin,
    records_max: usize,
    admit: impl FnOnce(&Record, Option<proto::Introduction>) -> Result<(), ExchangeError>,
) -> Result<FullState, ExchangeError> {
    let first = parts.next().await.ok_or(Malformed { what: "from" })??;
    let total = first.total as usize;
    if total > records_max {
        return Err(ExchangeError::TooMany);
    }
    let from = wire::record_in(first.from.ok_or(Malformed { what: "from" })?)?;
    admit(&from, first.introduction)?;
    let mut members = Vec::new();
    let mut records = first.members;
    loop {
        if members.len() + records.len() > total {
            return Err(ExchangeError::TooMany);
        }
        for record in records {
            members.push(wire::record_in(record)?);
        }
        match parts.next().await {
            Some(part) => records = part?.members,
            None if members.len() == total => return Ok(FullState { from, members }),
            // Half a state is not a state: it would look as if the others were unknown there.
            None => return Err(Malformed { what: "total" }.into()),
        }
        if records.is_empty() {
            // An empty part brings nothing forward; a stream of them would never end.
            return Err(Malformed { what: "members" }.into());
        }
    }
}

/// Exchanges with a member unless both know the same, and believes it.
pub(crate) async fn exchange(inner: &Inner, with: &Peer) -> Result<(), ExchangeError> {
    let within = inner.scaled(DEADLINE).max(DEADLINE);
    let done = timeout(within, exchange_now(inner, with)).await;
    let outcome = done.unwrap_or(Err(ExchangeError::TimedOut));
    match &outcome {
        Ok(done) => {
            let count = match done {
                Done::Same => &inner.numbers.exchanges_spared,
                Done::Exchanged => &inner.numbers.exchanges_out,
            };
            count.fetch_add(1, Ordering::Relaxed);
            inner.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
        }
        Err(error) => {
            inner.numbers.exchange_failures.add(error.kind());
            tracing::debug!(with = %with.node, %error, "no exchange");
        }
    }
    outcome.map(drop)
}

/// How an exchange ended well.
#[derive(Clone, Copy)]
enum Done {
    /// There was nothing to exchange.
    Same,
    Exchanged,
}

type Client = proto::membership_client::MembershipClient<Channel>;

async fn exchange_now(inner: &Inner, with: &Peer) -> Result<Done, ExchangeError> {
    let expected = Expected { role: with.role, node: Some(with.node) };
    let channel = inner.channels.to(with.address, expected);
    let mut client = Client::new(channel).max_decoding_message_size(PART_BYTES_MAX);
    // Whoever has pulled nothing yet knows that it differs.
    let is_synced = *inner.synced.borrow();
    if is_synced && compare(inner, &mut client, with).await? {
        return Ok(Done::Same);
    }
    let state = inner.agent.full_state().await?;
    let asked = match client.exchange(stream::iter(parts(inner, &state))).await {
        Ok(answer) => answer,
        Err(status) => {
            if status.code() == Code::FailedPrecondition {
                // It knows something of us that we should know; a greeting brings it.
                let _ = greet(inner, &mut client, None).await;
            }
            return Err(status.into());
        }
    };
    let gathered = gather(asked.into_inner(), inner.nodes_max, |from, introduction| {
        admit_answer(inner, with, from, introduction)
    });
    let theirs = match gathered.await {
        Err(ExchangeError::LostData) => return Err(lost_data(inner, &mut client).await),
        gathered => gathered?,
    };
    inner.agent.merge(theirs).await?;
    Ok(Done::Exchanged)
}

/// Whether the other one knows the same. Then each has still heard who the other is now.
async fn compare(inner: &Inner, client: &mut Client, with: &Peer) -> Result<bool, ExchangeError> {
    let (own, digest) = inner.agent.digest().await?;
    let request = proto::CompareRequest {
        from: Some(wire::record_out(&own)),
        introduction: Some(wire::introduction_out(&inner.introduction())),
        digest: Some(wire::digest_out(digest)),
    };
    let reply = match client.compare(request).await {
        Ok(reply) => reply.into_inner(),
        // An older program: it knows exchanges only.
        Err(status) if status.code() == Code::Unimplemented => return Ok(false),
        Err(status) => {
            if status.code() == Code::FailedPrecondition {
                let _ = greet(inner, client, None).await;
            }
            return Err(status.into());
        }
    };
    if !reply.same {
        return Ok(false);
    }
    let from = wire::record_in(reply.from.ok_or(Malformed { what: "from" })?)?;
    match admit_answer(inner, with, &from, reply.introduction) {
        Err(ExchangeError::LostData) => return Err(lost_data(inner, client).await),
        admitted => admitted?,
    }
    inner.agent.merge(FullState { from, members: Vec::new() }).await?;
    Ok(true)
}

/// Looks at who has answered.
fn admit_answer(
    inner: &Inner,
    with: &Peer,
    from: &Record,
    introduction: Option<proto::Introduction>,
) -> Result<(), ExchangeError> {
    let introduction = wire::introduction_in(introduction)?;
    let identity = &introduction.hello.identity;
    let claims = [from.peer.node, identity.node] == [with.node; 2];
    if !claims || from.peer.role != with.role || !inner.is_of_domain(identity) {
        return Err(ExchangeError::Impostor);
    }
    introduction.understand().map_err(ExchangeError::Protocol)?;
    if inner.contradiction(&introduction).is_some() {
        return Err(ExchangeError::LostData);
    }
    inner.take_note(&introduction);
    Ok(())
}

/// The other one has lost its data folder, and hears it from a greeting.
async fn lost_data(inner: &Inner, client: &mut Client) -> ExchangeError {
    let _ = greet(inner, client, None).await;
    ExchangeError::LostData
}

/// Our side of a comparison: whether an exchange is needed, and who we are.
pub(crate) async fn answer_compare(
    inner: &Inner,
    from: Record,
    theirs: Digest,
) -> Result<proto::CompareReply, ExchangeError> {
    let (own, ours) = inner.agent.digest().await?;
    let same = ours == theirs;
    if same {
        inner.agent.merge(FullState { from, members: Vec::new() }).await?;
    }
    Ok(proto::CompareReply {
        from: Some(wire::record_out(&own)),
        introduction: Some(wire::introduction_out(&inner.introduction())),
        same,
    })
}

/// Our side of an exchange that another has begun.
pub(crate) async fn answer(
    inner: &Inner,
    theirs: FullState,
) -> Result<Vec<proto::StatePart>, ExchangeError> {
    // What we had before: telling it its own words would be of no use.
    let ours = inner.agent.full_state().await?;
    inner.agent.merge(theirs).await?;
    inner.numbers.exchanges_in.fetch_add(1, Ordering::Relaxed);
    Ok(parts(inner, &ours))
}

/// Whom we can have an exchange with: alive, of our membership, and of a role that we may open a
/// connection to.
fn partners(inner: &Inner) -> Vec<Peer> {
    let roles = roles_of_domain(inner.identity.role);
    let gates = inner.config.gates == Gates::Configured;
    let may = |entry: &&Entry| {
        entry.state.is_live()
            && roles.contains(&entry.peer.role)
            && inner.identity.role.may_open(entry.peer.role, gates)
    };
    inner.agent.view().entries.iter().filter(may).map(|entry| entry.peer).collect()
}

/// Exchanges every so often with somebody at random, until told to stop.
pub(crate) async fn anti_entropy(
    inner: Arc<Inner>,
    seed: [u8; 32],
    mut stop: watch::Receiver<bool>,
) {
    let mut rng = StdRng::from_seed(seed);
    loop {
        let every = if *inner.synced.borrow() {
            inner.config.membership().exchange_period()
        } else {
            inner.scaled(EVERY_UNSYNCED)
        };
        let share = f64::from(rng.next_u32()) / f64::from(u32::MAX);
        let pause = every.mul_f64(0.75 + 0.5 * share);
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = sleep(pause) => {}
        }
        let partners = partners(&inner);
        if partners.is_empty() {
            // Nobody to pull from: whoever has looked around and found nobody is the first.
            if inner.search.borrow().looked_around && inner.agent.view().entries.is_empty() {
                inner.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
            }
            continue;
        }
        let chosen = partners[(rng.next_u64() % partners.len() as u64) as usize];
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            _ = exchange(&inner, &chosen) => {}
        }
    }
}
