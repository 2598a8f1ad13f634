//! Is there an order of these operations, one at a time, that explains every answer that was given?
//!
//! The search is Wing and Gong's with Lowe's memory of where it has been: take any operation that
//! may come first (nothing that ended before it began is still waiting), ask the model whether its
//! answer fits, go on; if nothing fits, go back. An operation whose answer never came may take
//! effect at any time after it was called, or never.
//!
//! The model is the caller's, small, and written without looking at the implementation.

use std::collections::BTreeSet;

/// What one object does, one operation at a time.
pub trait Model {
    type State: Clone + Ord;
    /// The operation with the answer it got, or with none.
    type Operation;

    fn initial(&self) -> Self::State;

    /// The state afterwards; `None` if this answer cannot be given in this state.
    fn step(&self, state: &Self::State, operation: &Self::Operation) -> Option<Self::State>;
}

/// One call, with the times of the simulation between which it took effect.
#[derive(Clone, Debug)]
pub struct Call<O> {
    pub operation: O,
    /// Number of the event at which it was called; no two events of a history share a number.
    pub called: u64,
    /// Number of the event at which the answer came; `None`: it never did.
    pub answered: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Legal,
    /// No order explains the answers. The number of operations in the longest order that does.
    Illegal {
        explained: usize,
    },
    /// The search was given up.
    Undecided,
}

/// Which calls are in the order so far.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Taken(Vec<u64>);

impl Taken {
    fn new(calls: usize) -> Self {
        Self(vec![0; calls.div_ceil(64)])
    }

    fn flip(&mut self, call: usize) {
        self.0[call / 64] ^= 1 << (call % 64);
    }
}

/// Calls and answers in the order of time, as a list that calls can be taken out of and put back
/// into.
struct Timeline {
    /// Call number of each event, and whether it is the answer.
    events: Vec<(usize, bool)>,
    next: Vec<usize>,
    previous: Vec<usize>,
    /// Where the answer of each call stands; `None` if it never came.
    answer_of: Vec<Option<usize>>,
}

/// The list's anchor: stands before the first event and after the last.
const ANCHOR: usize = 0;

impl Timeline {
    fn new<O>(calls: &[Call<O>]) -> Self {
        let mut stamps: Vec<(u64, bool, usize)> = Vec::with_capacity(calls.len() * 2);
        for (number, call) in calls.iter().enumerate() {
            stamps.push((call.called, false, number));
            if let Some(answered) = call.answered {
                stamps.push((answered, true, number));
            }
        }
        // At the same stamp calls come first: that allows more orders, never fewer.
        stamps.sort_unstable();
        let mut events = vec![(usize::MAX, false)];
        let mut answer_of = vec![None; calls.len()];
        for (_, is_answer, call) in stamps {
            if is_answer {
                answer_of[call] = Some(events.len());
            }
            events.push((call, is_answer));
        }
        let count = events.len();
        let next = (0..count).map(|at| (at + 1) % count).collect();
        let previous = (0..count).map(|at| (at + count - 1) % count).collect();
        Self { events, next, previous, answer_of }
    }

    fn unlink(&mut self, at: usize) {
        let (before, after) = (self.previous[at], self.next[at]);
        self.next[before] = after;
        self.previous[after] = before;
    }

    fn relink(&mut self, at: usize) {
        let (before, after) = (self.previous[at], self.next[at]);
        self.next[before] = at;
        self.previous[after] = at;
    }

    /// Takes a call and its answer out.
    fn take(&mut self, at: usize) {
        self.unlink(at);
        if let Some(answer) = self.answer_of[self.events[at].0] {
            self.unlink(answer);
        }
    }

    /// Puts them back; the reverse of the last `take`.
    fn put_back(&mut self, at: usize) {
        if let Some(answer) = self.answer_of[self.events[at].0] {
            self.relink(answer);
        }
        self.relink(at);
    }
}

/// Searches for an order, trying at most `budget` steps of the model.
pub fn check<M: Model>(model: &M, calls: &[Call<M::Operation>], budget: u64) -> Verdict {
    let answered = calls.iter().filter(|call| call.answered.is_some()).count();
    let mut timeline = Timeline::new(calls);
    let mut state = model.initial();
    let mut taken = Taken::new(calls.len());
    let mut seen: BTreeSet<(Taken, M::State)> = BTreeSet::new();
    // The order so far: where each call stands, and the state before it.
    let mut order: Vec<(usize, M::State)> = Vec::new();
    let (mut done, mut explained, mut steps) = (0, 0, 0_u64);
    let mut at = timeline.next[ANCHOR];
    while done < answered {
        let (call, is_answer) = timeline.events[at];
        if at != ANCHOR && !is_answer {
            steps += 1;
            if steps > budget {
                return Verdict::Undecided;
            }
            if let Some(after) = model.step(&state, &calls[call].operation) {
                taken.flip(call);
                if seen.insert((taken.clone(), after.clone())) {
                    order.push((at, std::mem::replace(&mut state, after)));
                    timeline.take(at);
                    done += usize::from(calls[call].answered.is_some());
                    explained = explained.max(done);
                    at = timeline.next[ANCHOR];
                    continue;
                }
                taken.flip(call);
            }
            at = timeline.next[at];
            continue;
        }
        // An answer whose call is not in the order: nothing after it can come first. (At the
        // anchor: only calls without an answer are left, and those were tried.)
        let Some((last, before)) = order.pop() else { return Verdict::Illegal { explained } };
        state = before;
        let call = timeline.events[last].0;
        taken.flip(call);
        done -= usize::from(calls[call].answered.is_some());
        timeline.put_back(last);
        at = timeline.next[last];
    }
    Verdict::Legal
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A register: writes always work, reads give the last value.
    struct Register;

    #[derive(Clone, Debug)]
    enum Access {
        Write(u8),
        Read(u8),
    }

    impl Model for Register {
        type State = u8;
        type Operation = Access;

        fn initial(&self) -> u8 {
            0
        }

        fn step(&self, state: &u8, operation: &Access) -> Option<u8> {
            match operation {
                Access::Write(value) => Some(*value),
                Access::Read(value) => (value == state).then_some(*state),
            }
        }
    }

    fn call(called: u64, answered: u64, operation: Access) -> Call<Access> {
        Call { operation, called, answered: (answered > 0).then_some(answered) }
    }

    use Access::{Read, Write};

    #[test]
    fn overlapping_calls_may_be_reordered() {
        let history = [call(1, 6, Write(1)), call(2, 3, Read(0)), call(4, 5, Read(1))];
        assert_eq!(check(&Register, &history, 1_000), Verdict::Legal);
    }

    /// A read that began after a write was answered must see it.
    #[test]
    fn a_stale_read_is_illegal() {
        let history = [call(1, 2, Write(1)), call(3, 4, Read(0))];
        assert_eq!(check(&Register, &history, 1_000), Verdict::Illegal { explained: 1 });
    }

    #[test]
    fn a_read_that_goes_back_is_illegal() {
        let history = [call(1, 8, Write(1)), call(2, 3, Read(1)), call(4, 5, Read(0))];
        assert!(matches!(check(&Register, &history, 1_000), Verdict::Illegal { .. }));
    }

    /// A call without an answer may take effect late ...
    #[test]
    fn an_unknown_write_may_take_effect_later() {
        let history = [call(1, 0, Write(1)), call(2, 3, Read(0)), call(4, 5, Read(1))];
        assert_eq!(check(&Register, &history, 1_000), Verdict::Legal);
    }

    /// ... or never ...
    #[test]
    fn an_unknown_write_may_never_take_effect() {
        let history = [call(1, 0, Write(1)), call(2, 3, Read(0)), call(4, 5, Read(0))];
        assert_eq!(check(&Register, &history, 1_000), Verdict::Legal);
    }

    /// ... but not twice, and not before it was called.
    #[test]
    fn an_unknown_write_takes_effect_once_and_not_early() {
        let twice =
            [call(1, 0, Write(1)), call(2, 3, Read(1)), call(4, 5, Write(2)), call(6, 7, Read(1))];
        assert!(matches!(check(&Register, &twice, 1_000), Verdict::Illegal { .. }));
        let early = [call(1, 2, Read(1)), call(3, 0, Write(1))];
        assert!(matches!(check(&Register, &early, 1_000), Verdict::Illegal { .. }));
    }

    #[test]
    fn the_search_ends_with_its_budget() {
        let mut history: Vec<_> =
            (0..24).map(|n| call(n + 1, 100 + n, Write(n as u8 + 1))).collect();
        history.push(call(200, 201, Read(99)));
        assert_eq!(check(&Register, &history, 10_000), Verdict::Undecided);
    }

    /// Against trying every order: all histories of four calls over small times.
    #[test]
    fn agrees_with_trying_every_order() {
        let mut random = fastrand::Rng::with_seed(5);
        let (mut legal, mut illegal) = (0, 0);
        for _ in 0..2_000 {
            let mut stamps: Vec<u64> = (1..=8).collect();
            random.shuffle(&mut stamps);
            let history: Vec<_> = stamps
                .chunks(2)
                .map(|pair| {
                    let operation =
                        if random.bool() { Write(random.u8(1..3)) } else { Read(random.u8(0..3)) };
                    let (from, to) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
                    call(from, if random.u8(0..4) == 0 { 0 } else { to }, operation)
                })
                .collect();
            let expected = some_order_fits(&history, &mut Vec::new(), 0);
            let verdict = check(&Register, &history, 100_000);
            assert_eq!(verdict == Verdict::Legal, expected, "{history:?}");
            *(if expected { &mut legal } else { &mut illegal }) += 1;
        }
        assert!(legal > 300 && illegal > 300, "{legal} legal, {illegal} illegal");
    }

    fn some_order_fits(history: &[Call<Access>], order: &mut Vec<usize>, state: u8) -> bool {
        let all = (0..history.len()).all(|n| order.contains(&n) || history[n].answered.is_none());
        if all {
            return true;
        }
        for next in 0..history.len() {
            let first = (0..history.len()).all(|other| {
                order.contains(&other)
                    || history[other].answered.is_none_or(|end| end > history[next].called)
            });
            if order.contains(&next) || !first {
                continue;
            }
            if let Some(after) = Register.step(&state, &history[next].operation) {
                order.push(next);
                if some_order_fits(history, order, after) {
                    return true;
                }
                order.pop();
            }
        }
        false
    }
}
