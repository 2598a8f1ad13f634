//! Deadlines for requests, at the price of two stores each.
//!
//! A timer per request would cost more than parsing the answer. Instead every exchange has a slot
//! that holds its deadline and its task's waker; one sweep per core looks at all slots every few
//! milliseconds and wakes those whose time has come. A woken exchange sees that its deadline has
//! passed and gives up.

use base::clock;
use fence::Moment;
use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

/// All deadlines of one core.
#[derive(Default)]
pub struct Deadlines {
    slots: RefCell<Slots>,
}

#[derive(Default)]
struct Slots {
    entries: Vec<Entry>,
    free: Vec<usize>,
}

struct Entry {
    deadline: Moment,
    waker: Option<Waker>,
}

/// One exchange's place; given back when dropped.
pub struct Deadline {
    owner: Rc<Deadlines>,
    index: usize,
}

impl Deadlines {
    pub fn slot(self: &Rc<Self>) -> Deadline {
        let mut slots = self.slots.borrow_mut();
        let index = slots.free.pop().unwrap_or_else(|| {
            slots.entries.push(Entry { deadline: Moment::MAX, waker: None });
            slots.entries.len() - 1
        });
        Deadline { owner: self.clone(), index }
    }

    /// Wakes every exchange whose deadline has passed.
    pub fn sweep(&self, now: Moment) {
        for entry in &mut self.slots.borrow_mut().entries {
            if entry.deadline <= now
                && let Some(waker) = entry.waker.take()
            {
                waker.wake();
            }
        }
    }

    /// Sweeps for ever; `grain` bounds how late a deadline is noticed.
    pub async fn sweep_every(self: Rc<Self>, grain: Duration) {
        let mut tick = tokio::time::interval(grain);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            self.sweep(clock::now());
        }
    }
}

impl Deadline {
    #[inline]
    pub fn arm(&self, at: Moment) {
        self.owner.slots.borrow_mut().entries[self.index].deadline = at;
    }

    #[inline]
    pub fn disarm(&self) {
        self.arm(Moment::MAX);
    }

    pub fn at(&self) -> Moment {
        self.owner.slots.borrow().entries[self.index].deadline
    }

    /// Called when an exchange is about to wait: true if it must not.
    #[inline]
    pub fn expired_or_register(&self, context: &mut Context<'_>) -> bool {
        let mut slots = self.owner.slots.borrow_mut();
        let entry = &mut slots.entries[self.index];
        // The usual case is a fresh deadline far away: no clock is read for it.
        match &entry.waker {
            Some(waker) if waker.will_wake(context.waker()) => false,
            _ => {
                entry.waker = Some(context.waker().clone());
                // The sweep took the waker: either this deadline has passed, or it woke for an
                // older one.
                entry.deadline != Moment::MAX && entry.deadline <= clock::now()
            }
        }
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        let mut slots = self.owner.slots.borrow_mut();
        slots.entries[self.index] = Entry { deadline: Moment::MAX, waker: None };
        slots.free.push(self.index);
    }
}
