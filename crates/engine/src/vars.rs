//! What one virtual user knows while it works through an iteration.
//!
//! A variable is a slot, numbered when the plan is compiled. A slot that this iteration has not set
//! falls back to the base: values from the plan's and the workflow's setup and from earlier
//! workflows, shared by all and changed by none (EXEC-40, EXEC-41). Slots keep their memory from
//! one iteration to the next, their values never.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use plan::Rows;

/// Values under the slots, fixed before the load starts; see [`pack`] for their form.
pub type Base = Arc<[Option<Box<[u8]>>]>;

pub struct Vars {
    slots: RefCell<Vec<Slot>>,
    base: RefCell<Base>,
    /// The row of each data set that this iteration uses.
    pub rows: RefCell<Vec<usize>>,
    pub data: Arc<Vec<Rows>>,
    pub rng: RefCell<fastrand::Rng>,
    pub vu_id: Cell<u64>,
    pub vu_iteration: Cell<u64>,
    /// Number within the workflow, unique over all shards.
    pub iteration: Cell<u64>,
}

/// What a value is, where that makes a difference: in a JSON body.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    #[default]
    Text,
    /// A number, flag, list or object from a JSON body, or `null`: written there without quotes.
    Json,
}

#[derive(Default, Clone)]
struct Slot {
    state: State,
    form: Form,
    value: Vec<u8>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// This iteration has not touched it: the base counts.
    #[default]
    Untouched,
    Set,
    /// This iteration has looked for a value and found none; an older one would be a lie.
    Missing,
}

impl Vars {
    pub fn new(slots: usize, base: Base, data: Arc<Vec<Rows>>, seed: u64) -> Rc<Vars> {
        debug_assert_eq!(slots, base.len());
        Rc::new(Vars {
            slots: RefCell::new(vec![Slot::default(); slots]),
            base: RefCell::new(base),
            rows: RefCell::new(vec![0; data.len()]),
            data,
            rng: RefCell::new(fastrand::Rng::with_seed(seed)),
            vu_id: Cell::new(0),
            vu_iteration: Cell::new(0),
            iteration: Cell::new(0),
        })
    }

    /// A new iteration knows nothing of the last one.
    pub fn forget(&self) {
        for slot in self.slots.borrow_mut().iter_mut() {
            slot.state = State::Untouched;
        }
    }

    /// Makes what is set now the ground on which all further iterations start.
    pub fn rebase(&self) {
        let merged = self.all();
        *self.base.borrow_mut() = merged;
    }

    pub fn set(&self, slot: usize, value: &[u8]) {
        self.set_as(slot, value, Form::Text);
    }

    pub fn set_as(&self, slot: usize, value: &[u8], form: Form) {
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[slot];
        slot.state = State::Set;
        slot.form = form;
        slot.value.clear();
        slot.value.extend_from_slice(value);
    }

    /// There is no value, whatever there was before.
    pub fn clear(&self, slot: usize) {
        self.slots.borrow_mut()[slot].state = State::Missing;
    }

    /// Hands the value to `use_it`; `None` if neither this iteration nor the base has one.
    pub fn with<T>(&self, slot: usize, use_it: impl FnOnce(Option<(&[u8], Form)>) -> T) -> T {
        let slots = self.slots.borrow();
        let found = &slots[slot];
        match found.state {
            State::Set => use_it(Some((&found.value, found.form))),
            State::Missing => use_it(None),
            State::Untouched => use_it(self.base.borrow()[slot].as_deref().map(unpack)),
        }
    }

    pub fn has(&self, slot: usize) -> bool {
        self.with(slot, |value| value.is_some())
    }

    pub fn get(&self, slot: usize) -> Option<Vec<u8>> {
        self.with(slot, |value| value.map(|(value, _)| value.to_vec()))
    }

    /// Every slot's value, the base's included.
    pub fn all(&self) -> Base {
        let slots = self.slots.borrow();
        let packed = |slot| self.with(slot, |value| value.map(|(value, form)| pack(value, form)));
        (0..slots.len()).map(packed).collect()
    }
}

/// A value that is left to others, on this machine or another, is bytes and nothing else. Text is
/// itself; JSON begins with a mark, and so does the rare text that could be taken for one.
fn pack(value: &[u8], form: Form) -> Box<[u8]> {
    match form {
        Form::Json => [b"\0j", value].concat().into(),
        Form::Text if value.first() == Some(&0) => [b"\0t", value].concat().into(),
        Form::Text => value.into(),
    }
}

fn unpack(packed: &[u8]) -> (&[u8], Form) {
    match packed {
        [0, b'j', value @ ..] => (value, Form::Json),
        [0, b't', value @ ..] => (value, Form::Text),
        value => (value, Form::Text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_left_to_others_keeps_its_form() {
        for value in [&b"12"[..], b"", b"\0j1", b"\0"] {
            for form in [Form::Text, Form::Json] {
                assert_eq!(unpack(&pack(value, form)), (value, form));
            }
        }
        assert_eq!(&*pack(b"t1", Form::Text), b"t1");
    }

    #[test]
    fn a_slot_that_was_cleared_does_not_fall_back_to_the_base() {
        let base: Base = vec![Some(Box::from(*b"old"))].into();
        let vars = Vars::new(1, base, Arc::default(), 1);
        assert_eq!(vars.get(0).as_deref(), Some(&b"old"[..]));
        vars.clear(0);
        assert!(!vars.has(0));
        vars.forget();
        assert!(vars.has(0));
    }
}
