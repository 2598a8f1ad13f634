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

/// Values under the slots, fixed before the load starts.
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

#[derive(Default, Clone)]
struct Slot {
    set: bool,
    value: Vec<u8>,
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
            slot.set = false;
        }
    }

    /// Makes what is set now the ground on which all further iterations start.
    pub fn rebase(&self) {
        let merged = self.all();
        *self.base.borrow_mut() = merged;
    }

    pub fn set(&self, slot: usize, value: &[u8]) {
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[slot];
        slot.set = true;
        slot.value.clear();
        slot.value.extend_from_slice(value);
    }

    /// Hands the value to `use_it`; `None` if neither this iteration nor the base has one.
    pub fn with<T>(&self, slot: usize, use_it: impl FnOnce(Option<&[u8]>) -> T) -> T {
        let slots = self.slots.borrow();
        if slots[slot].set {
            return use_it(Some(&slots[slot].value));
        }
        use_it(self.base.borrow()[slot].as_deref())
    }

    pub fn get(&self, slot: usize) -> Option<Vec<u8>> {
        self.with(slot, |value| value.map(<[u8]>::to_vec))
    }

    /// Every slot's value, the base's included.
    pub fn all(&self) -> Base {
        let slots = self.slots.borrow();
        (0..slots.len()).map(|slot| self.get(slot).map(Vec::into_boxed_slice)).collect()
    }
}
