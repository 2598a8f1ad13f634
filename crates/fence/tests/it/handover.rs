//! The handover of one shard, in every schedule that fits the bounds.
//!
//! The actors use the real `CommandFence`, `ExecutionLease` and `Handover`. Around them: a ledger
//! whose reads and writes are atomic (it is linearizable), an owner that may be replaced, two
//! workers whose clocks have different origins, and a network that keeps every message for ever and
//! may deliver it never, late, again, or before an earlier one. A pause needs no step of its own:
//! time may pass between any two steps, and a worker that takes none stands still. The check before
//! a send and the send are one step, so a worker *may act* exactly while its lease says so, and P1
//! is asked of every state.
//!
//! Each test with a broken rule shows that the check has teeth: the same model then finds two
//! holders.

#![allow(clippy::disallowed_methods, reason = "measures real time, outside of any simulation")]

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fence::invariant::{Holder, one_holder};
use fence::{
    Act, Admission, Attempt, BootId, Capacity, CommandFence, Epoch, ExecutionLease, Fence,
    FencedCommand, GroupId, Handover, Holding, JobId, Lapse, LeaseTerms, Moment, NodeId, ShardKey,
    Step, Ticket, WorkflowNo,
};
use stateright::{Checker, HasDiscoveries, Model, Property};

const CLUSTER: u64 = 7;
const JOB: JobId = JobId(1);
const SHARD: ShardKey = ShardKey { job: JOB, workflow: WorkflowNo(0), shard: 0 };
/// One tick of the model is a nanosecond; L is four ticks, so the owner waits five.
const LEASE_TICKS: u64 = 4;

fn terms(ticks: u64) -> LeaseTerms {
    LeaseTerms::new(Duration::from_nanos(ticks))
}

fn epoch(index: u8) -> Epoch {
    Epoch::at(GroupId { cluster: CLUSTER, generation: 0 }, u64::from(index), 0)
}

fn node(worker: usize) -> NodeId {
    NodeId(worker as u128 + 1)
}

/// Which rule is broken, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    AsWritten,
    /// The owner waits 0.75 L.
    ShortWait,
    /// The owner counts its wait from the proposal of the revoke.
    WaitFromProposal,
    /// The owner takes suspicion for proof.
    StartOnSuspicion,
    /// The worker counts its lease from the arrival of the grant.
    LeaseFromArrival,
    /// The worker obeys whatever arrives.
    NoTurnstile,
    /// The worker does not look at the boot id that a command names.
    AnyLife,
    /// The manager grants without asking the ledger.
    GrantWithoutRead,
}

/// How far the model goes.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    ticks: u64,
    attempts: u32,
    claims: u8,
    restarts: u64,
    renewals: usize,
}

#[derive(Clone, Debug)]
struct OneShard {
    rules: Rules,
    bounds: Bounds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Message {
    Command { to: usize, boot: BootId, epoch: u8, step: Step },
    StopAcknowledged { worker: usize, boot: BootId, attempt: Attempt },
    Started { worker: usize, boot: BootId },
    Renewal { worker: usize, boot: BootId, epoch: u8, attempt: Attempt, ticket: Ticket },
    Grant { worker: usize, boot: BootId, ticket: Ticket },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    TimePasses,
    Deliver(Message),
    /// Another owner is granted the next epoch.
    Claim,
    /// The owner's revoke is committed.
    Revoke,
    /// The owner sees it committed, and sends a stop.
    SeeRevoke,
    /// The owner commits the next attempt, on this worker, and sends it.
    StartNext(usize),
    AskRenewal(usize),
    Restart(usize),
}

/// The ledger's entry about the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entry {
    epoch: u8,
    attempt: Attempt,
    worker: usize,
    boot: BootId,
    revoked: bool,
    /// By what proof the present attempt was started; the first needs none.
    after: Option<Lapse>,
}

#[derive(Clone, Debug)]
struct Worker {
    door: CommandFence<()>,
    epoch: u8,
    lease: Option<ExecutionLease>,
}

impl Worker {
    fn new(boot: BootId) -> Self {
        let room = Capacity { keys: 1, tombstones: 1 };
        Self { door: CommandFence::new(boot, CLUSTER, room, room), epoch: 0, lease: None }
    }

    fn boot(&self) -> BootId {
        self.door.boot()
    }

    /// All that decides what this worker does next. Counters do not, and answers are given at once.
    fn essence(&self) -> impl Hash + Eq + '_ {
        let floors = (self.door.epoch(&JOB), self.door.step(&SHARD));
        (self.boot(), floors, self.epoch, &self.lease)
    }
}

impl PartialEq for Worker {
    fn eq(&self, other: &Self) -> bool {
        self.essence() == other.essence()
    }
}

impl Eq for Worker {}

impl Hash for Worker {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.essence().hash(hasher);
    }
}

/// Shares with the state before it what the step between them did not touch.
#[derive(Clone, Debug, PartialEq, Hash)]
struct State {
    now: u64,
    ledger: Entry,
    /// What the present owner knows. A replaced owner needs no place: its entries have no effect,
    /// and what it has sent is in the network.
    handover: Option<Handover>,
    workers: [Arc<Worker>; 2],
    network: Arc<BTreeSet<Message>>,
}

impl State {
    /// Each host's clock has its own origin, so a reading that crosses hosts would show.
    fn worker_clock(&self, worker: usize) -> Moment {
        Moment::since_boot(Duration::from_nanos(self.now + 1_000 * (worker as u64 + 1)))
    }

    fn owner_clock(&self) -> Moment {
        Moment::since_boot(Duration::from_nanos(self.now + 500))
    }

    fn worker(&mut self, place: usize) -> &mut Worker {
        Arc::make_mut(&mut self.workers[place])
    }

    /// Puts a message into the network. False if it is there already.
    fn put(&mut self, message: Message) -> bool {
        !self.network.contains(&message) && Arc::make_mut(&mut self.network).insert(message)
    }

    fn send(&mut self, act: Act) {
        let Entry { epoch, attempt, worker: to, boot, .. } = self.ledger;
        let step = Step { attempt, act };
        self.put(Message::Command { to, boot, epoch, step });
    }

    fn holders(&self) -> Vec<Holder> {
        let holder = |worker: usize| {
            let one = &self.workers[worker];
            let mut lease = one.lease.clone()?;
            let attempt = lease.attempt();
            let acts = lease.may_act(self.worker_clock(worker));
            acts.then(|| Holder { shard: SHARD, attempt, worker: node(worker), boot: one.boot() })
        };
        (0..2).filter_map(holder).collect()
    }

    fn next_attempt_acts(&self, proof: impl Fn(Lapse) -> bool) -> bool {
        let acts = self.holders().iter().any(|holder| holder.attempt == self.ledger.attempt);
        self.ledger.after.is_some_and(proof) && acts
    }
}

impl OneShard {
    fn deliver(&self, state: &mut State, message: Message) {
        match message {
            Message::Command { to, boot, epoch: number, step } => {
                let worker = state.worker(to);
                let fence = Fence { epoch: epoch(number), attempt: step.attempt };
                let named = if self.rules == Rules::AnyLife { worker.boot() } else { boot };
                let order = FencedCommand::new(named, SHARD, fence, step.act);
                let admission = match self.rules {
                    Rules::NoTurnstile if named == worker.boot() => Admission::Enter,
                    _ => worker.door.admit(&order),
                };
                if let Admission::Refused(_) = admission {
                    return;
                }
                worker.epoch = number;
                if admission == Admission::Enter {
                    worker.door.answer(&SHARD, &step, ());
                    self.obey(state, to, step);
                }
            }
            Message::StopAcknowledged { worker, boot, attempt } => {
                let by = Holding { shard: SHARD, attempt, worker: node(worker), boot };
                if let Some(handover) = &mut state.handover {
                    handover.stop_acknowledged(&by);
                }
            }
            Message::Started { worker, boot } => {
                if let Some(handover) = &mut state.handover {
                    handover.boot_seen(node(worker), boot);
                }
            }
            Message::Renewal { worker, boot, epoch, attempt, ticket } => {
                let Entry { epoch: current_epoch, attempt: current, revoked, .. } = state.ledger;
                let is_current = !revoked && (epoch, attempt) == (current_epoch, current);
                if is_current || self.rules == Rules::GrantWithoutRead {
                    state.put(Message::Grant { worker, boot, ticket });
                }
            }
            Message::Grant { worker: place, boot, ticket } => {
                // The tickets of a former life are lost with it.
                if state.workers[place].boot() != boot {
                    return;
                }
                let now = state.worker_clock(place);
                let worker = state.worker(place);
                let Some(lease) = &mut worker.lease else { return };
                let ticket = match self.rules {
                    Rules::LeaseFromArrival => lease.renewal_sent(now),
                    _ => Some(ticket),
                };
                if let Some(ticket) = ticket {
                    lease.renewal_granted(&ticket, now);
                }
            }
        }
    }

    fn obey(&self, state: &mut State, to: usize, step: Step) {
        let now = state.worker_clock(to);
        let worker = state.worker(to);
        if let Some(mut former) = worker.lease.take() {
            former.stop(now);
        }
        match step.act {
            Act::Start => {
                let lease = ExecutionLease::new(SHARD, step.attempt, terms(LEASE_TICKS));
                worker.lease = Some(lease);
            }
            Act::Stop => {
                let (boot, attempt) = (worker.boot(), step.attempt);
                state.put(Message::StopAcknowledged { worker: to, boot, attempt });
            }
        }
    }

    fn see_revoke(&self, state: &mut State) {
        let Entry { attempt, worker, boot, .. } = state.ledger;
        let from = Holding { shard: SHARD, attempt, worker: node(worker), boot };
        let ticks = if self.rules == Rules::ShortWait { LEASE_TICKS - 1 } else { LEASE_TICKS };
        let now = state.owner_clock();
        state.handover = Some(Handover::revoke_seen_committed(from, terms(ticks), now));
        state.send(Act::Stop);
    }

    fn start_next(&self, state: &mut State, worker: usize) -> Option<()> {
        let proof = match self.rules {
            Rules::StartOnSuspicion => Lapse::LeaseLapsed,
            _ => state.handover.as_ref()?.may_start(state.owner_clock())?,
        };
        let Entry { epoch, attempt, .. } = state.ledger;
        state.ledger = Entry {
            epoch,
            attempt: attempt.next(),
            worker,
            boot: state.workers[worker].boot(),
            revoked: false,
            after: Some(proof),
        };
        state.handover = None;
        state.send(Act::Start);
        Some(())
    }

    fn ask_renewal(state: &mut State, place: usize) -> Option<()> {
        let now = state.worker_clock(place);
        let worker = state.worker(place);
        let lease = worker.lease.as_mut()?;
        let (epoch, attempt, boot) = (worker.epoch, lease.attempt(), worker.door.boot());
        let ticket = lease.renewal_sent(now)?;
        let renewal = Message::Renewal { worker: place, boot, epoch, attempt, ticket };
        state.put(renewal).then_some(())
    }
}

impl Model for OneShard {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let ledger = Entry {
            epoch: 1,
            attempt: Attempt(1),
            worker: 0,
            boot: BootId(1),
            revoked: false,
            after: None,
        };
        let workers = [(); 2].map(|()| Arc::new(Worker::new(BootId(1))));
        let mut state = State { now: 0, ledger, handover: None, workers, network: Arc::default() };
        state.send(Act::Start);
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let Bounds { ticks, attempts, claims, restarts, renewals } = self.bounds;
        if state.now < ticks {
            actions.push(Action::TimePasses);
        }
        actions.extend(state.network.iter().copied().map(Action::Deliver));
        if state.ledger.epoch <= claims {
            actions.push(Action::Claim);
        }
        let may_move = state.ledger.attempt.0 < attempts;
        let revoked = state.ledger.revoked;
        if may_move && !revoked {
            actions.push(Action::Revoke);
        }
        let visible = revoked || self.rules == Rules::WaitFromProposal;
        if may_move && visible && state.handover.is_none() {
            actions.push(Action::SeeRevoke);
        }
        if may_move && revoked {
            actions.extend((0..2).map(Action::StartNext));
        }
        let asked = |message: &&Message| matches!(message, Message::Renewal { .. });
        if state.network.iter().filter(asked).count() < renewals {
            actions.extend((0..2).map(Action::AskRenewal));
        }
        let restarted: u64 = state.workers.iter().map(|worker| worker.boot().0 - 1).sum();
        if restarted < restarts {
            actions.extend((0..2).map(Action::Restart));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::TimePasses => next.now += 1,
            Action::Deliver(message) => self.deliver(&mut next, message),
            Action::Claim => {
                next.ledger.epoch += 1;
                next.handover = None;
                // The new owner does not know what the former one has sent.
                if !next.ledger.revoked {
                    next.send(Act::Start);
                }
            }
            Action::Revoke => next.ledger.revoked = true,
            Action::SeeRevoke => self.see_revoke(&mut next),
            Action::StartNext(worker) => self.start_next(&mut next, worker)?,
            Action::AskRenewal(worker) => Self::ask_renewal(&mut next, worker)?,
            Action::Restart(worker) => {
                let boot = next.workers[worker].boot().next();
                next.workers[worker] = Arc::new(Worker::new(boot));
                next.put(Message::Started { worker, boot });
            }
        }
        // Most deliveries change nothing.
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("P1", |_, state: &State| one_holder(&state.holders()).is_ok()),
            Property::sometimes("moved after the wait", |_, state: &State| {
                state.next_attempt_acts(|proof| proof == Lapse::LeaseLapsed)
            }),
            Property::sometimes("moved on a stop acknowledgement", |_, state: &State| {
                state.next_attempt_acts(|proof| proof == Lapse::Stopped)
            }),
            Property::sometimes("moved on a higher boot id", |_, state: &State| {
                state.next_attempt_acts(|proof| matches!(proof, Lapse::HigherBoot(_)))
            }),
        ]
    }
}

/// Checks every schedule within the bounds.
fn holds(bounds: Bounds) {
    let began = Instant::now();
    let model = OneShard { rules: Rules::AsWritten, bounds };
    let checker = model.checker().spawn_bfs().join();
    println!(
        "{bounds:?}: {} states, {} steps, depth {}, {:.1?}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        began.elapsed()
    );
    assert!(checker.is_done());
    if let Some(path) = checker.discovery("P1") {
        let violation = one_holder(&path.last_state().holders());
        panic!("{violation:?} by {:#?}", path.into_actions());
    }
    for way in ["moved after the wait", "moved on a stop acknowledgement"] {
        assert!(checker.discovery(way).is_some(), "the bounds are too narrow: never {way}");
    }
    let rebooted = checker.discovery("moved on a higher boot id").is_some();
    assert_eq!(rebooted, bounds.restarts > 0);
}

/// P1, R3, R4: no schedule of delays, repeats, losses, pauses, restarts and changes of owner gives
/// a shard two holders.
#[test]
fn no_schedule_gives_a_shard_two_holders() {
    holds(Bounds { ticks: 6, attempts: 2, claims: 1, restarts: 1, renewals: 2 });
}

/// P1, R4: the same with a lease that is renewed before it is moved, and room to lapse and stay
/// silent.
#[test]
fn no_schedule_of_renewals_gives_a_shard_two_holders() {
    holds(Bounds { ticks: 7, attempts: 2, claims: 0, restarts: 0, renewals: 3 });
}

/// P1: the same, further. Run it after a change to the rules:
/// `cargo test --release -p fence -- --ignored`.
#[test]
#[ignore = "minutes, and gigabytes"]
fn no_longer_schedule_gives_a_shard_two_holders() {
    holds(Bounds { ticks: 8, attempts: 3, claims: 0, restarts: 1, renewals: 3 });
}

/// Breaks a rule, and expects the check to notice within bounds that are no wider than those above.
fn finds_two_holders(rules: Rules, restarts: u64) {
    let began = Instant::now();
    let bounds = Bounds { ticks: 6, attempts: 2, claims: 0, restarts, renewals: 2 };
    let checker = OneShard { rules, bounds }
        .checker()
        .finish_when(HasDiscoveries::AnyOf(["P1"].into()))
        .spawn_bfs()
        .join();
    let path = checker.discovery("P1").expect("a broken rule must be found");
    let violation = one_holder(&path.last_state().holders()).expect_err("the last state is it");
    println!("{rules:?}: {} states, {:.1?}", checker.unique_state_count(), began.elapsed());
    for action in path.into_actions() {
        println!("  {action:?}");
    }
    println!("  {violation}");
    assert_eq!(violation.id, "P1");
}

#[test]
fn a_wait_shorter_than_the_lease_is_found() {
    finds_two_holders(Rules::ShortWait, 0);
}

#[test]
fn a_wait_from_the_proposal_is_found() {
    finds_two_holders(Rules::WaitFromProposal, 0);
}

#[test]
fn a_start_on_suspicion_is_found() {
    finds_two_holders(Rules::StartOnSuspicion, 0);
}

#[test]
fn a_lease_from_the_arrival_of_the_grant_is_found() {
    finds_two_holders(Rules::LeaseFromArrival, 0);
}

#[test]
fn a_receiver_without_a_turnstile_is_found() {
    finds_two_holders(Rules::NoTurnstile, 0);
}

#[test]
fn a_receiver_that_takes_commands_for_another_life_is_found() {
    finds_two_holders(Rules::AnyLife, 1);
}

#[test]
fn a_grant_without_a_read_is_found() {
    finds_two_holders(Rules::GrantWithoutRead, 0);
}
