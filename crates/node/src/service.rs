//! What a member answers over gRPC. The caller's certificate is looked at before its words.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::{Stream, stream};
use membership::agent::{KeyChange, View};
use membership::envelope::KeyId;
use membership::health::{Assessment, Progress, Verdict};
use membership::member::Record;
use membership::{Change, Digest, Role, State};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;
use tonic::{Request, Response, Status, Streaming};
use trust::{Expected, Identity};

use crate::client::Place;
use crate::member::{ExchangeError, Inner, answer_compare, answer_exchange, lock};
use crate::network::Caller;
use crate::secret;
use crate::wire::proto::membership_server::Membership;
use crate::wire::proto::{self, MembersPart, StatePart};
use crate::wire::{self, Malformed};

/// How many watches one node serves; one more is told to come back.
pub(crate) const WATCHES_MAX: usize = 256;
/// How long a worker may take to answer what is passed on to it; shorter than an operator waits.
const PASS_ON_DEADLINE: Duration = Duration::from_secs(4);
/// What a join token does not give.
const RECRUIT: &str = "a join token is for becoming a worker, and for nothing else";
/// Rows or changes in one part.
const PART_ROWS: usize = 256;

/// The service of one member.
pub(crate) struct Service(Arc<Inner>);

type Parts<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Service {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self(inner)
    }

    fn refuse(&self, kind: &'static str, status: Status) -> Status {
        self.0.numbers.calls_refused.add(kind);
        tracing::debug!(kind, "a call is refused: {}", status.message());
        status
    }

    fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let found = request.extensions().get::<Caller>().cloned();
        // Every connection of ours has one; without it nobody is trusted.
        found.ok_or_else(|| self.refuse("no_identity", Status::unauthenticated("who is calling?")))
    }

    /// Words about a sender must agree with its certificate, and it must be one of our membership.
    fn confirm(&self, caller: &Caller, claimed: &Identity) -> Result<(), Status> {
        let Some(peer) = &caller.peer else { return Ok(()) };
        trust::confirm(&peer.identity, claimed).map_err(|refusal| {
            self.refuse(refusal.kind(), Status::permission_denied(refusal.to_string()))
        })
    }

    /// Whoever wants to exchange must be who its certificate says, of our membership, and in no
    /// life that others have outlived.
    fn admit_exchange(
        &self,
        caller: &Caller,
        from: &Record,
        said: Option<proto::Introduction>,
    ) -> Result<(), ExchangeError> {
        let inner = &self.0;
        let introduction = wire::introduction_in(said)?;
        let identity = &introduction.hello.identity;
        self.confirm(caller, identity)?;
        if !inner.is_of_domain(identity) {
            let why = format!("{} {} is not of this membership", identity.role, identity.node);
            return Err(Status::permission_denied(why).into());
        }
        introduction.understand().map_err(ExchangeError::Protocol)?;
        let peer = from.peer;
        if (peer.node, peer.role, peer.boot)
            != (identity.node, identity.role, introduction.hello.boot)
        {
            return Err(ExchangeError::Impostor);
        }
        if inner.contradiction(&introduction).is_some() {
            let why = "your data folder was lost or is a copy; say hello to hear more";
            return Err(Status::failed_precondition(why).into());
        }
        inner.take_note(&introduction);
        Ok(())
    }

    fn no_exchange(&self, error: ExchangeError) -> Status {
        let kind = error.kind();
        let status = match error {
            ExchangeError::Refused(status) => *status,
            ExchangeError::Stopped => Status::unavailable(error.to_string()),
            ExchangeError::TimedOut => Status::deadline_exceeded(error.to_string()),
            // The caller says hello then, and is told.
            ExchangeError::LostData => Status::failed_precondition(error.to_string()),
            ExchangeError::Protocol(refusal) => wire::not_understood(&refusal),
            _ => Status::invalid_argument(error.to_string()),
        };
        self.refuse(kind, status)
    }

    /// Operators are people: a client certificate from this machine, or one that is listed. Nobody
    /// but managers reaches a worker, so there a manager speaks for an operator whom it has let in.
    fn operator(&self, caller: &Caller) -> Result<(), Status> {
        let Some(peer) = &caller.peer else { return Ok(()) };
        let Identity { role, node, .. } = &peer.identity;
        let is_listed = self.0.config.operators.contains(node);
        if *role == Role::Client && (caller.address.ip().is_loopback() || is_listed) {
            return Ok(());
        }
        let colleagues = self.0.config.colleagues.as_ref();
        if *role == Role::Manager
            && self.0.identity.role == Role::Worker
            && colleagues.is_none_or(|is_colleague| is_colleague(*node))
        {
            return Ok(());
        }
        let why = format!(
            "{role} {node} may not touch the gossip keys: it takes a client certificate, from this machine or listed \
             among the operators"
        );
        Err(self.refuse("not_an_operator", Status::permission_denied(why)))
    }

    /// Passes a step of a rotation on to a worker.
    async fn pass_on(&self, mut request: proto::KeysRequest) -> Result<proto::KeysReply, Status> {
        let node =
            wire::node(&request.member).map_err(|error| self.refuse("malformed", error.into()))?;
        let view = self.0.agent.view();
        let at = view.entries.binary_search_by_key(&node, |entry| entry.peer.node);
        let worker = at.ok().and_then(|at| view.entries.get(at)).map(|entry| entry.peer);
        let worker = worker
            .filter(|peer| self.0.identity.role == Role::Manager && peer.role == Role::Worker);
        let Some(worker) = worker else {
            let why = format!("this {} knows no worker {node}", self.0.identity.role);
            return Err(self.refuse("unknown_member", Status::not_found(why)));
        };
        let expected = Expected { role: Role::Worker, node: Some(node) };
        let channel = self.0.channels.to(worker.address, expected);
        let mut client = proto::membership_client::MembershipClient::new(channel);
        request.member.clear();
        match timeout(PASS_ON_DEADLINE, client.keys(request)).await {
            Ok(answered) => answered.map(Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded("the worker does not answer")),
        }
    }
}

#[tonic::async_trait]
impl Membership for Service {
    async fn hello(
        &self,
        request: Request<proto::HelloRequest>,
    ) -> Result<Response<proto::HelloReply>, Status> {
        let caller = self.caller(&request)?;
        let proto::HelloRequest { from, you } = request.into_inner();
        let introduction =
            wire::introduction_in(from).map_err(|error| self.refuse("malformed", error.into()))?;
        let identity = &introduction.hello.identity;
        self.confirm(&caller, identity)?;
        let why = match identity.role {
            Role::Client => "a client is no member; ask for `Members`",
            Role::Recruit => RECRUIT,
            Role::Gate | Role::Manager | Role::Worker => "",
        };
        if !why.is_empty() {
            return Err(self.refuse("role", Status::permission_denied(why)));
        }
        if let Err(refusal) = introduction.understand() {
            let (node, program) = (identity.node, &introduction.program);
            tracing::warn!(%node, program, kind = refusal.kind(), "a node is refused: {refusal}");
            return Err(self.refuse(refusal.kind(), wire::not_understood(&refusal)));
        }
        let inner = &self.0;
        inner.numbers.hellos_in.fetch_add(1, Ordering::Relaxed);
        let known = if inner.is_of_domain(identity) && identity.node != inner.life.node {
            if let Some(known) = you.filter(|_| inner.believes(identity.role)) {
                inner.told_of_self(identity.node, &known);
            }
            let known = inner.contradiction(&introduction);
            match known {
                Some(_) => inner.numbers.calls_refused.add("lost_data"),
                None => inner.take_note(&introduction),
            }
            known
        } else {
            if identity.node == inner.life.node {
                inner.met_self(introduction.hello.boot);
            }
            None
        };
        Ok(Response::new(proto::HelloReply {
            from: Some(wire::introduction_out(&inner.introduction())),
            you: known.map(wire::known_out),
        }))
    }

    type ExchangeStream = Parts<StatePart>;

    async fn exchange(
        &self,
        request: Request<Streaming<StatePart>>,
    ) -> Result<Response<Self::ExchangeStream>, Status> {
        let caller = self.caller(&request)?;
        let Ok(_place) = Arc::clone(&self.0.exchanges).try_acquire_owned() else {
            let why = Status::resource_exhausted("too many exchanges at once; come back later");
            return Err(self.refuse("busy", why));
        };
        let gathered =
            crate::member::gather(request.into_inner(), self.0.nodes_max, |from, said| {
                self.admit_exchange(&caller, from, said)
            });
        let theirs = timeout(crate::member::EXCHANGE_DEADLINE, gathered).await;
        let answered = match theirs.unwrap_or(Err(ExchangeError::TimedOut)) {
            Ok(theirs) => answer_exchange(&self.0, theirs).await,
            Err(error) => Err(error),
        };
        match answered {
            Ok(parts) => Ok(Response::new(Box::pin(stream::iter(parts.into_iter().map(Ok))))),
            Err(error) => Err(self.no_exchange(error)),
        }
    }

    async fn compare(
        &self,
        request: Request<proto::CompareRequest>,
    ) -> Result<Response<proto::CompareReply>, Status> {
        let caller = self.caller(&request)?;
        let proto::CompareRequest { from, introduction, digest } = request.into_inner();
        let admitted = || -> Result<(Record, Digest), ExchangeError> {
            let from = wire::record_in(from.ok_or(Malformed { what: "from" })?)?;
            self.admit_exchange(&caller, &from, introduction)?;
            Ok((from, wire::digest_in(digest)?))
        };
        let answered = match admitted() {
            Ok((from, digest)) => answer_compare(&self.0, from, digest).await,
            Err(error) => Err(error),
        };
        answered.map(Response::new).map_err(|error| self.no_exchange(error))
    }

    type MembersStream = Parts<MembersPart>;

    async fn members(
        &self,
        request: Request<proto::MembersRequest>,
    ) -> Result<Response<Self::MembersStream>, Status> {
        let caller = self.caller(&request)?;
        // Tokens are passed around; who is in the cluster is not told for one.
        if caller.peer.is_some_and(|peer| peer.identity.role == Role::Recruit) {
            return Err(self.refuse("role", Status::permission_denied(RECRUIT)));
        }
        let Ok(place) = Arc::clone(&self.0.watches).try_acquire_owned() else {
            let why = Status::resource_exhausted("too many watches at once; come back later");
            return Err(self.refuse("busy", why));
        };
        let proto::MembersRequest { watch, after } = request.into_inner();
        let life = self.0.life;
        // A place in another process's stream means nothing here: begin with a snapshot.
        let after = after
            .filter(|after| wire::node(&after.node) == Ok(life.node) && after.boot == life.boot.0);
        let feed = Feed {
            views: self.0.agent.watch(),
            stop: self.0.supervisor.stopping(),
            inner: Arc::clone(&self.0),
            version: after.map(|after| after.version),
            watch,
            ready: VecDeque::new(),
            _place: place,
        };
        let parts =
            stream::unfold(
                feed,
                |mut feed| async move { feed.next().await.map(|part| (part, feed)) },
            );
        Ok(Response::new(Box::pin(parts)))
    }

    async fn keys(
        &self,
        request: Request<proto::KeysRequest>,
    ) -> Result<Response<proto::KeysReply>, Status> {
        use proto::keys_request::Action;
        let caller = self.caller(&request)?;
        self.operator(&caller)?;
        let request = request.into_inner();
        if !request.member.is_empty() && request.member != wire::node_bytes(self.0.life.node) {
            return self.pass_on(request).await.map(Response::new);
        }
        let change = match request.action {
            Some(Action::List(_)) => None,
            Some(Action::Install(key)) => {
                let key = key.as_ref().try_into().map_err(|_| {
                    self.refuse("malformed", Status::invalid_argument("a key has 32 bytes"))
                })?;
                Some(KeyChange::Install(key))
            }
            Some(Action::Use(id)) => Some(KeyChange::Use(KeyId(id))),
            Some(Action::Remove(id)) => Some(KeyChange::Remove(KeyId(id))),
            None => {
                let why = Status::invalid_argument("list, install, use or remove?");
                return Err(self.refuse("malformed", why));
            }
        };
        let inner = &self.0;
        let _turn = inner.keys.lock().await;
        let ended = |_| Status::unavailable("membership has ended");
        if let Some(change) = change {
            let changed = inner.agent.keys(change).await.map_err(ended)?;
            changed.map_err(|error| {
                self.refuse("key", Status::failed_precondition(error.to_string()))
            })?;
            inner.numbers.key_changes.fetch_add(1, Ordering::Relaxed);
        }
        let ring = inner.agent.ring().await.map_err(ended)?;
        if change.is_some() {
            // It is in use already; without this the next start would not know it.
            secret::save_ring(inner.disk.as_ref(), &inner.config.data, ring.sealing, &ring.keys)
                .map_err(|error| {
                    Status::internal(format!("changed, but not kept on disk: {error}"))
                })?;
            tracing::info!(sealing = %ring.sealing, keys = ring.keys.len(), "the gossip keys have changed");
        }
        Ok(Response::new(proto::KeysReply {
            keys: ring.keys.iter().map(|(id, _)| id.0).collect(),
            sealing: ring.sealing.0,
        }))
    }
}

/// One watch: what it has been told, and what comes next. Driven by its reader, so a slow one costs
/// nothing but its own delay.
struct Feed {
    inner: Arc<Inner>,
    views: watch::Receiver<Arc<View>>,
    stop: watch::Receiver<bool>,
    /// What the reader has; `None` before a snapshot.
    version: Option<u64>,
    watch: bool,
    ready: VecDeque<MembersPart>,
    _place: OwnedSemaphorePermit,
}

impl Feed {
    async fn next(&mut self) -> Option<Result<MembersPart, Status>> {
        loop {
            if let Some(part) = self.ready.pop_front() {
                return Some(Ok(part));
            }
            let Some(version) = self.version else {
                let view = self.views.borrow_and_update().clone();
                self.version = Some(view.version);
                self.ready = snapshot(&self.inner, &view);
                continue;
            };
            if !self.watch {
                return None;
            }
            match self.inner.agent.changes(version).await {
                Ok(Ok(changes)) if !changes.is_empty() => self.queue(&changes),
                // Away for too long: the table as it is now says everything that still matters.
                Ok(Err(_)) => self.version = None,
                Ok(Ok(_)) => {
                    tokio::select! {
                        biased;
                        _ = self.stop.wait_for(|stop| *stop) => return None,
                        changed = self.views.wait_for(|view| view.version > version) => {
                            if changed.is_err() {
                                return None;
                            }
                        }
                    }
                }
                Err(_) => return None,
            }
        }
    }

    fn queue(&mut self, changes: &[Change]) {
        let view = self.views.borrow_and_update().clone();
        for change in changes.iter().take(PART_ROWS) {
            self.version = Some(change.version);
            let part = proto::members_part::Part::Change(change_out(&self.inner, &view, change));
            let place = Some(place_out(&self.inner, change.version));
            self.ready.push_back(MembersPart { part: Some(part), place });
        }
    }
}

fn place_out(inner: &Inner, version: u64) -> proto::Place {
    let Place { node, boot, version } =
        Place { node: inner.life.node, boot: inner.life.boot, version };
    proto::Place { node: wire::node_bytes(node), boot: boot.0, version }
}

fn snapshot(inner: &Inner, view: &View) -> VecDeque<MembersPart> {
    let mut rows: Vec<_> = Vec::with_capacity(view.entries.len() + 1);
    rows.push(this_node(inner, view));
    rows.extend(
        view.entries
            .iter()
            .map(|entry| wire::member_out(entry, inner.assessment(entry.peer.node), view.age)),
    );
    let count = rows.len().div_ceil(PART_ROWS);
    let mut rows = rows.into_iter();
    (0..count)
        .map(|at| {
            let part = proto::SnapshotPart {
                first: at == 0,
                members: rows.by_ref().take(PART_ROWS).collect(),
                local_health: view.health.into(),
            };
            MembersPart {
                part: Some(proto::members_part::Part::Snapshot(part)),
                place: (at + 1 == count).then(|| place_out(inner, view.version)),
            }
        })
        .collect()
}

/// This node's own row: it is in its own table as little as anybody sees their own face.
fn this_node(inner: &Inner, view: &View) -> proto::Member {
    let heartbeat = *lock(&inner.numbers.heartbeat);
    let ready = inner.is_ready() && heartbeat.is_some_and(|beat| beat.is_ready());
    let progress = match heartbeat {
        Some(beat) if beat.work.runnable > 0 => Progress::Normal,
        _ => Progress::Idle,
    };
    let verdict = Verdict::of(true, ready, progress);
    let (short_of_memory, evict) = (false, false);
    let health = Assessment { live: true, ready, progress, verdict, short_of_memory, evict };
    let ms = u64::try_from(view.age.as_millis()).unwrap_or(u64::MAX);
    proto::Member {
        node: wire::node_bytes(view.me.node),
        role: wire::role_code(view.me.role).into(),
        datacenter: view.datacenter.clone(),
        address: view.me.address.to_string(),
        state: wire::state_code(State::Confirmed).into(),
        boot: view.me.boot.0,
        generation: view.me.generation,
        incarnation: view.incarnation.into(),
        known_for_ms: ms,
        in_state_for_ms: ms,
        heard_ago_ms: Some(0),
        rtt_us: None,
        two_way: true,
        deaths: 0,
        health: Some(wire::health_out(health, heartbeat)),
        is_self: true,
    }
}

fn change_out(inner: &Inner, view: &View, change: &Change) -> proto::Change {
    let node = change.peer.node;
    let at = view.entries.binary_search_by_key(&node, |entry| entry.peer.node);
    let entry = at.ok().and_then(|at| view.entries.get(at));
    let state =
        |state: Option<State>| state.map_or(proto::State::Unspecified, wire::state_code).into();
    proto::Change {
        version: change.version,
        node: wire::node_bytes(node),
        role: wire::role_code(change.peer.role).into(),
        boot: change.peer.boot.0,
        generation: change.peer.generation,
        incarnation: change.incarnation.into(),
        from: state(change.from),
        to: state(change.to),
        cause: wire::cause_code(change.cause).into(),
        member: entry.map(|entry| wire::member_out(entry, inner.assessment(node), view.age)),
    }
}
