//! What must hold: after every change of a table, at every look at all of them, and in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::membership::envelope::Refusal;
use ::membership::lifeguard::Patience;
use ::membership::{Cause, Life, Notice, Settings, State, Swim};

use crate::event;
use crate::outcome::Violation;

use super::plan::{Mark, Plan};
use super::world::{Seen, World, index_of, node_id};

/// What an observer's changes have said of a subject so far.
#[derive(Clone, Copy, Debug)]
struct Belief {
    state: Option<State>,
    life: Life,
    /// By the observer's clock.
    since: Duration,
    /// It has been confirmed in this life.
    met: bool,
}

pub struct Checks {
    pub marks: BTreeSet<String>,
    pub counts: BTreeMap<String, u64>,
    pub violations: Vec<Violation>,
    settings: Settings,
    only_loss: Option<f64>,
    beliefs: BTreeMap<(usize, usize), Belief>,
    versions: BTreeMap<usize, u64>,
    /// The highest heartbeat that an observer has had of a life.
    beats: BTreeMap<(usize, usize, u64), u64>,
    beat: u64,
    /// Lives that said goodbye while all was well.
    left_in_peace: BTreeSet<(usize, u64)>,
    false_deaths: BTreeSet<(usize, Life)>,
    /// Taken back in a life that had been buried.
    risen: Vec<(usize, usize)>,
    quiet: bool,
}

/// So many violations are kept: the first ones explain the others.
const VIOLATIONS_MAX: usize = 10;

impl Checks {
    pub fn new(plan: &Plan) -> Self {
        Self {
            marks: BTreeSet::new(),
            counts: BTreeMap::new(),
            violations: Vec::new(),
            settings: plan.settings.clone(),
            only_loss: plan.only_loss,
            beliefs: BTreeMap::new(),
            versions: BTreeMap::new(),
            beats: BTreeMap::new(),
            beat: 0,
            left_in_peace: BTreeSet::new(),
            false_deaths: BTreeSet::new(),
            risen: Vec::new(),
            quiet: false,
        }
    }

    pub fn failed(&self) -> bool {
        !self.violations.is_empty()
    }

    pub fn violate(&mut self, invariant: &str, at: Duration, detail: String) {
        event!("VIOLATION {invariant}: {detail}");
        if self.violations.len() < VIOLATIONS_MAX {
            let at_ms = at.as_millis() as u64;
            self.violations.push(Violation { invariant: invariant.to_owned(), at_ms, detail });
        }
    }

    fn must(
        &mut self,
        holds: bool,
        invariant: &str,
        at: Duration,
        detail: impl FnOnce() -> String,
    ) {
        if !holds {
            self.violate(invariant, at, detail());
        }
    }

    fn mark(&mut self, mark: Mark) {
        self.marks.insert(mark.name().to_owned());
    }

    pub fn add(&mut self, name: &str, count: u64) {
        *self.counts.entry(name.to_owned()).or_default() += count;
    }

    /// From now on nobody has a reason to suspect anybody.
    pub fn expect_quiet(&mut self) {
        self.quiet = true;
    }

    /// This life ends without a word.
    pub fn crashed(&mut self, world: &mut World, index: usize) {
        self.changes(world);
        self.count_one(world, index);
    }

    /// It has just said goodbye. In peace: nothing is wrong anywhere, and everybody knows it.
    pub fn leaves(&mut self, world: &mut World, index: usize, in_peace: bool) {
        self.changes(world);
        self.count_one(world, index);
        if in_peace {
            event!("{index} leaves in peace");
            self.left_in_peace.insert((index, world.boot(index)));
        }
    }

    /// Its table is empty again.
    pub fn restarts(&mut self, world: &mut World, index: usize) {
        self.changes(world);
        let suspected = self.beliefs.iter().any(|((_, subject), belief)| {
            *subject == index && belief.state.is_some_and(State::is_live)
        });
        if suspected {
            self.mark(Mark::Missed);
        }
        self.beliefs.retain(|(observer, _), _| *observer != index);
        self.beats.retain(|(observer, ..), _| *observer != index);
        self.versions.remove(&index);
    }

    /// Checks every change since the last call.
    pub fn changes(&mut self, world: &mut World) {
        let log = world.log.replace(Vec::new()).unwrap_or_default();
        for seen in log {
            self.change(world, &seen);
        }
        for (observer, subject) in std::mem::take(&mut self.risen) {
            let met = self.beliefs.get(&(observer, subject)).is_some_and(|belief| belief.met);
            self.must(met, "MEMB.forward", world.now, || {
                format!("{observer} took {subject} back on the word of others")
            });
        }
        for (index, notice) in std::mem::take(&mut world.notices) {
            event!("{index}: {notice:?}");
            match notice {
                Notice::DeathRefuted { .. } => self.mark(Mark::Outlived),
                Notice::Stalled { .. } => self.mark(Mark::Stalled),
                Notice::MassDeath { .. } => self.mark(Mark::Held),
                Notice::LaterLifeTold { .. } => {
                    let what = format!("{index} was told of a later life of itself");
                    self.violate("MEMB.superseded", world.now, what);
                }
                _ => {}
            }
        }
    }

    fn change(&mut self, world: &World, seen: &Seen) {
        let Seen { at, local, observer, change, undrained } = *seen;
        let (life, cause) = (change.peer.life(), change.cause);
        let subject = index_of(change.peer.node);
        event!("{observer}: {subject} {life:?} {:?} -> {:?} by {cause:?}", change.from, change.to);
        let version = self.versions.insert(observer, change.version).unwrap_or(0);
        self.must(change.version == version + 1, "MEMB.changes.version", at, || {
            format!("{observer} went from version {version} to {}", change.version)
        });
        self.must(observer != subject, "MEMB.self", at, || {
            format!("{observer} is in its own table")
        });
        let before = self.beliefs.get(&(observer, subject)).copied();
        let known = before.and_then(|belief| belief.state);
        self.must(change.from == known, "MEMB.changes.from", at, || {
            format!("{observer} moved {subject} from {:?}, which was {known:?}", change.from)
        });
        self.must(is_legal(change.from, change.to, cause), "DET-1.transition", at, || {
            format!("{observer} moved {subject} {:?} -> {:?} by {cause:?}", change.from, change.to)
        });
        self.check_life(world, seen, before);
        if change.to == Some(State::Dead) {
            self.check_death(world, seen, before);
        }
        let is_new_life = before.is_none_or(|belief| belief.life != life);
        let met = change.to == Some(State::Confirmed)
            || (!is_new_life && before.is_some_and(|belief| belief.met));
        self.beliefs
            .insert((observer, subject), Belief { state: change.to, life, since: local, met });
        if undrained && change.to == Some(State::Dead) && cause == Cause::Direct {
            let what = format!("{observer} declared {subject} dead before it read its socket");
            self.violate("MEMB.drain", at, what);
        }
        if self.quiet && matches!(change.to, Some(State::Suspect | State::Dead)) {
            let what = format!("{observer} moved {subject} to {:?} in the calm", change.to);
            self.violate("MEMB.quiet", at, what);
        }
        self.mark_change(change.from, change.to, cause);
    }

    fn mark_change(&mut self, from: Option<State>, to: Option<State>, cause: Cause) {
        let mark = match (from, to, cause) {
            (Some(State::Suspect), Some(State::Confirmed), _) => Mark::Refuted,
            (_, Some(State::Dead), Cause::Direct) => Mark::DeadDirect,
            (_, Some(State::Dead), _) => Mark::DeadGossip,
            (_, Some(State::Left), _) => Mark::Left,
            (_, _, Cause::NewLife) => Mark::NewLife,
            (_, None, Cause::NeverConfirmed) => Mark::NeverConfirmed,
            (_, None, Cause::Reaped) => Mark::Reaped,
            _ => return,
        };
        self.mark(mark);
    }

    /// Lives only go forward, and nobody believes in one that has never been.
    fn check_life(&mut self, world: &World, seen: &Seen, before: Option<Belief>) {
        let Seen { at, local, observer, change, .. } = *seen;
        let (life, subject) = (change.peer.life(), index_of(change.peer.node));
        let generation = world.get(subject).map_or(u32::MAX, |swim| swim.me().generation);
        let boot = world.boot(subject);
        let has_been = life.boot.0 < boot || (life.boot.0 == boot && life.generation <= generation);
        self.must(has_been, "MEMB.life", at, || {
            format!("{observer} believes in {subject} {life:?}, which is at boot {boot}")
        });
        let Some(before) = before else { return };
        let is_forward = match (change.cause, before.state) {
            (Cause::NewLife, _) => life > before.life,
            (_, Some(_)) => life == before.life,
            // It was taken out. Until its tombstone falls only a later life is taken in, or its own
            // word.
            (_, None) => {
                let passed = local.saturating_sub(before.since);
                let is_buried = passed < self.settings.tombstone_for.min(TOMBSTONE_MIN);
                if life == before.life && is_buried {
                    self.risen.push((observer, subject));
                }
                life >= before.life || !is_buried
            }
        };
        self.must(is_forward, "MEMB.forward", at, || {
            format!("{observer} went from {subject} {:?} to {life:?}", before.life)
        });
    }

    fn check_death(&mut self, world: &World, seen: &Seen, before: Option<Belief>) {
        let Seen { at, local, observer, change, .. } = *seen;
        let (life, subject) = (change.peer.life(), index_of(change.peer.node));
        if self.left_in_peace.contains(&(subject, life.boot.0)) {
            let what = format!("{observer} declared {subject} dead, which had said goodbye");
            self.violate("MEMB.leave", at, what);
        }
        if change.cause == Cause::Direct
            && let Some(before) = before
        {
            // Counted after the death, when the cluster is smaller and the time shorter.
            let live = world.get(observer).map_or(0, |swim| swim.table().live());
            let least = Patience::of(&self.settings, live + 1).min;
            let waited = local.saturating_sub(before.since);
            self.must(waited >= least, "MEMB.minimum", at, || {
                format!("{observer} gave {subject} {waited:?}, and {least:?} is the least")
            });
        }
        let is_false = world.boot(subject) == life.boot.0
            && world.get(subject).is_some_and(|swim| swim.me().generation == life.generation);
        if !is_false {
            self.add("deaths recorded", 1);
            return;
        }
        self.mark(Mark::FalseDeath);
        self.add("false deaths recorded", 1);
        if self.false_deaths.insert((subject, life))
            && let Some(loss) = self.only_loss
        {
            let what = format!("{observer} declared {subject} dead for {:.0} % loss", loss * 100.0);
            self.violate("P8.loss", at, what);
        }
    }

    /// What the next heartbeat of this member says: a number that rises.
    pub fn next_beat(&mut self, world: &World, index: usize) -> Vec<u8> {
        self.beat += 1;
        [world.boot(index).to_be_bytes(), self.beat.to_be_bytes()].concat()
    }

    /// Looks at every table as a whole.
    pub fn look(&mut self, world: &World) {
        for observer in 0..world.count() {
            let Some(swim) = world.get(observer) else { continue };
            self.look_at(world, observer, swim);
        }
    }

    fn look_at(&mut self, world: &World, observer: usize, swim: &Swim) {
        let at = world.now;
        for entry in swim.table().iter() {
            let subject = index_of(entry.peer.node);
            let believed = self.beliefs.get(&(observer, subject)).and_then(|belief| belief.state);
            self.must(believed == Some(entry.state), "MEMB.changes.table", at, || {
                format!("{observer} has {subject} as {:?}, told {believed:?}", entry.state)
            });
            let has_timer = swim.suspicions().get(entry.peer.node).is_some();
            self.must(has_timer == (entry.state == State::Suspect), "MEMB.timer", at, || {
                format!("{observer} has {subject} as {:?}, timer {has_timer}", entry.state)
            });
            self.look_at_heartbeat(at, (observer, subject), &entry.heartbeat, entry.peer.life());
        }
        let patience = swim.patience();
        let local = world.local(observer);
        let slack = self.settings.probe_period * 2;
        for (node, suspicion) in swim.suspicions().iter() {
            let age = local.saturating_sub(suspicion.start);
            let is_late = age > patience.max * Patience::CAP + slack && !suspicion.held;
            // Whoever does not run, or has nobody left, judges nobody.
            let judges =
                world.fault(observer).is_none() && swim.table().count(State::Confirmed) > 0;
            self.must(!(is_late && judges), "MEMB.cap", at, || {
                format!("{observer} has suspected {} for {age:?}", index_of(node))
            });
            if suspicion.confirmations() > 0 {
                self.mark(Mark::Confirmations);
            }
        }
        let counters = swim.counters();
        let marks = [
            (counters.deaths_doubted, Mark::Doubted),
            (counters.deaths_stale, Mark::Stale),
            (counters.nacks_in, Mark::Nack),
            (swim.refusals().of(Refusal::Replayed), Mark::Replayed),
            (swim.refusals().of(Refusal::StaleBoot), Mark::StaleBoot),
        ];
        for (count, mark) in marks {
            if count > 0 {
                self.mark(mark);
            }
        }
    }

    /// Heartbeats that overtake each other do not roll it back.
    fn look_at_heartbeat(&mut self, at: Duration, who: (usize, usize), bytes: &[u8], life: Life) {
        let (Some(boot), Some(beat)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) else {
            return;
        };
        let (boot, beat) = (u64::from_be_bytes(*boot), u64::from_be_bytes(*beat));
        let (observer, subject) = who;
        self.must(boot == life.boot.0, "MEMB.heartbeat", at, || {
            format!("{observer} holds a heartbeat of boot {boot} for {subject} {life:?}")
        });
        let highest = self.beats.entry((observer, subject, boot)).or_default();
        let (last, is_back) = (*highest, beat < *highest);
        *highest = last.max(beat);
        self.must(!is_back, "MEMB.heartbeat", at, || {
            format!("{observer} went back from beat {last} of {subject} to {beat}")
        });
    }

    /// Whether everybody knows who is there, and in which life, and who is not.
    pub fn is_whole(&self, world: &World) -> bool {
        (0..world.count()).all(|observer| {
            world.get(observer).is_none()
                || (0..world.count()).all(|subject| self.amiss(world, observer, subject).is_none())
        })
    }

    fn amiss(&self, world: &World, observer: usize, subject: usize) -> Option<String> {
        let swim = world.get(observer)?;
        if observer == subject {
            return None;
        }
        let entry = swim.table().get(node_id(subject));
        let state = entry.map(|entry| entry.state);
        let holds = match world.get(subject) {
            Some(other) => entry.is_some_and(|entry| {
                entry.state == State::Confirmed && entry.peer.life() == other.me().life()
            }),
            None => match state {
                None | Some(State::Dead | State::Left) => true,
                // Never met: it cannot be suspected, and is forgotten in its own time (DET-10).
                Some(State::Unconfirmed) => {
                    !self.beliefs.get(&(observer, subject)).is_some_and(|belief| belief.met)
                }
                // Too many at once, and no voters that could agree to it: held for ever.
                Some(State::Suspect) => {
                    let suspicion = swim.suspicions().get(node_id(subject));
                    self.settings.voters.is_empty() && suspicion.is_some_and(|known| known.held)
                }
                Some(State::Confirmed) => false,
            },
        };
        let actual = world.get(subject).map(|other| other.me().life());
        let believed = entry.map(|entry| entry.peer.life());
        (!holds)
            .then(|| format!("{observer} has {subject} as {state:?} {believed:?}, is {actual:?}"))
    }

    pub fn what_is_amiss(&self, world: &World) -> String {
        let all: Vec<String> = (0..world.count())
            .flat_map(|observer| (0..world.count()).map(move |subject| (observer, subject)))
            .filter_map(|(observer, subject)| self.amiss(world, observer, subject))
            .collect();
        let shown = all.iter().take(5).cloned().collect::<Vec<_>>().join("; ");
        format!("{} beliefs are wrong: {shown}", all.len())
    }

    fn count_one(&mut self, world: &World, index: usize) {
        let Some(swim) = world.get(index) else { return };
        let counters = swim.counters().clone();
        let refused = swim.refusals().total();
        if counters.deaths_held > 0 && counters.deaths_direct > 0 {
            self.mark(Mark::Corroborated);
        }
        for (name, count) in [
            ("datagrams sent", counters.datagrams_out),
            ("datagrams refused", refused),
            ("probes failed", counters.probes_failed),
            ("suspicions", counters.suspicions_started),
            ("suspicions refuted", counters.suspicions_refuted),
            ("deaths held back", counters.deaths_held),
            ("errors of the core", counters.core_errors),
        ] {
            self.add(name, count);
        }
    }

    /// What those who still run have counted.
    pub fn count_all(&mut self, world: &World) {
        (0..world.count()).for_each(|index| self.count_one(world, index));
        let distinct = self.false_deaths.len() as u64;
        self.add("false deaths, distinct", distinct);
    }
}

/// The shortest that a tombstone stands here: ten times the time after which a manager is given up
/// unmet.
const TOMBSTONE_MIN: Duration = Duration::from_secs(900);

/// The table of legal steps (DET-1), written down a second time.
fn is_legal(from: Option<State>, to: Option<State>, cause: Cause) -> bool {
    use Cause::{Direct, Gossip, Leave, NeverConfirmed, NewLife, Reaped};
    use State::{Confirmed, Dead, Left, Suspect, Unconfirmed};
    let Some(from) = from else {
        return matches!((to, cause), (Some(Unconfirmed), Gossip) | (Some(Confirmed), Direct));
    };
    let Some(to) = to else {
        let is_unmet = from == Unconfirmed && matches!(cause, NeverConfirmed | Gossip);
        return is_unmet || (matches!(from, Dead | Left) && cause == Reaped);
    };
    match cause {
        NewLife => matches!(to, Unconfirmed | Confirmed),
        Leave => matches!(from, Unconfirmed | Confirmed | Suspect) && to == Left,
        Direct => matches!(
            (from, to),
            (Unconfirmed | Suspect, Confirmed) | (Confirmed, Suspect) | (Suspect, Dead)
        ),
        Gossip => matches!((from, to), (Confirmed, Suspect | Dead) | (Suspect, Confirmed | Dead)),
        NeverConfirmed | Reaped => false,
    }
}
