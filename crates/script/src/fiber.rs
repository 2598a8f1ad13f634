//! A stack of its own for each script, so that a blocking call suspends the virtual user and not
//! the core.
//!
//! ```text
//! task ──poll──▶ Fiber::poll ──resume──▶ script ──http.get──▶ Host::wait(future)
//!   ▲                                                             │ poll: not ready
//!   └───────────── Pending ◀────────────suspend───────────────────┘
//! ```
//!
//! The script sees an ordinary blocking call; the task sees an ordinary future. What is waited for
//! lives on the script's stack and is polled with the task's waker, so any future can be waited
//! for. Polling itself runs on the thread's stack, which is there once and not for every script.
//!
//! **Invariant:** a fiber is never unwound by force: there are frames of C on its stack. Whoever
//! drops it resumes it with the order to leave, until it has left by itself.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// Addresses, not memory: only what a script has touched is backed by pages.
const STACK_BYTES: usize = 4 << 20;
/// What JavaScript may use of it; the rest is for native code on top of it.
pub const SCRIPT_STACK_BYTES: usize = STACK_BYTES - (160 << 10);
/// A script that computes for longer lets the core's other users have a turn.
const TIME_SLICE: Duration = Duration::from_millis(5);

/// The script was told to leave: its run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

enum Suspended<R> {
    /// Waits for something, or gives way.
    Waiting,
    /// One command is done; there may be another.
    Done(R),
}

/// The side that the script holds.
#[derive(Default)]
pub struct FiberSide {
    waker: RefCell<Option<Waker>>,
    /// Valid while the fiber runs: it lives at the bottom of the fiber's own stack.
    suspend: Cell<Option<*const dyn Suspend>>,
    cancelled: Cell<bool>,
    /// It was computing, not waiting, when it was told to leave.
    was_computing: Cell<bool>,
    slice_began: Cell<Option<Instant>>,
    /// The lowest address of the stack.
    stack_end: Cell<usize>,
}

trait Suspend {
    fn wait(&self);

    /// Runs something on the thread's own stack. It must not wait.
    fn outside(&self, work: &mut dyn FnMut());
}

impl<C, R> Suspend for Yielder<Option<C>, Suspended<R>> {
    fn wait(&self) {
        let command = self.suspend(Suspended::Waiting);
        debug_assert!(command.is_none(), "a command while another is under way");
    }

    fn outside(&self, work: &mut dyn FnMut()) {
        let work = Outside(work);
        self.on_parent_stack(move || work.run());
    }
}

/// Work for the thread's own stack.
struct Outside<'a>(&'a mut dyn FnMut());

// SAFETY: it stays on its thread. The bound is there to keep the way back to the fiber's stack out
// of it, and polling a future never suspends the fiber.
unsafe impl Send for Outside<'_> {}

impl Outside<'_> {
    fn run(self) {
        (self.0)();
    }
}

impl FiberSide {
    /// Waits on the script's stack; only the virtual user is suspended.
    pub fn wait<F: Future>(&self, future: F) -> Result<F::Output, Cancelled> {
        let mut future = pin!(future);
        loop {
            if self.cancelled.get() {
                return Err(Cancelled);
            }
            {
                let waker = self.waker.borrow();
                let mut context = Context::from_waker(waker.as_ref().unwrap_or(Waker::noop()));
                let mut polled = Poll::Pending;
                // On the thread's stack: what a client needs of it is then needed once, and not by
                // every virtual user.
                self.outside(&mut || polled = future.as_mut().poll(&mut context));
                if let Poll::Ready(output) = polled {
                    return Ok(output);
                }
            }
            self.suspend();
        }
    }

    /// Called now and then while a script computes. True: it must stop.
    pub fn breathe(&self) -> bool {
        if self.cancelled.get() {
            self.was_computing.set(true);
            return true;
        }
        if self.slice_began.get().is_some_and(|began| began.elapsed() >= TIME_SLICE) {
            // Not a mere wake: the scheduler then looks at sockets and timers before it comes back.
            let _ = self.wait(tokio::task::yield_now());
        }
        if self.cancelled.get() {
            self.was_computing.set(true);
        }
        self.cancelled.get()
    }

    /// Gives back the memory of the stack below what is in use now. For after something that went
    /// deeper than what follows will go.
    pub fn trim_stack(&self) {
        const PAGE: usize = 4096;
        let marker = 0u8;
        let here = std::ptr::from_ref(&marker) as usize;
        let end = self.stack_end.get();
        // Some room for the calls from here on, and for the frame that we are in.
        let top = here.saturating_sub(2 * PAGE) & !(PAGE - 1);
        if end != 0 && top > end {
            // SAFETY: within this fiber's own stack, below everything that is in use.
            unsafe { libc::madvise(end as *mut _, top - end, libc::MADV_DONTNEED) };
        }
    }

    pub fn was_computing(&self) -> bool {
        self.was_computing.get()
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.get()
    }

    fn outside(&self, work: &mut dyn FnMut()) {
        match self.suspend.get() {
            // SAFETY: as in `suspend`.
            Some(suspend) => unsafe { (*suspend).outside(work) },
            None => work(),
        }
    }

    fn suspend(&self) {
        let Some(suspend) = self.suspend.get() else { return };
        // SAFETY: set by the fiber itself to what lives at the bottom of its stack, and read only
        // by code that runs on that stack.
        unsafe { (*suspend).wait() }
    }

    fn resumed(&self, waker: &Waker) {
        let mut known = self.waker.borrow_mut();
        match &mut *known {
            Some(known) => known.clone_from(waker),
            None => *known = Some(waker.clone()),
        }
        self.slice_began.set(Some(Instant::now()));
    }
}

/// Runs commands one after another on a stack of its own.
pub struct Fiber<C: 'static, R: 'static> {
    coroutine: RefCell<Coroutine<Option<C>, Suspended<R>, (), DefaultStack>>,
    side: Rc<FiberSide>,
}

impl<C: 'static, R: 'static> Fiber<C, R> {
    /// `body` runs on the new stack, from the first command on. It gets its side and a function
    /// that hands over a result and brings the next command; `None`: leave.
    pub fn new(
        side: Rc<FiberSide>,
        body: impl FnOnce(&dyn Fn(Option<R>) -> Option<C>) + 'static,
    ) -> std::io::Result<Fiber<C, R>> {
        let stack = DefaultStack::new(STACK_BYTES)?;
        side.stack_end.set(stack.limit().get());
        let inner = side.clone();
        let coroutine = Coroutine::with_stack(
            stack,
            move |yielder: &Yielder<Option<C>, Suspended<R>>, first| {
                let suspend: &dyn Suspend = yielder;
                // SAFETY: only the lifetime is forgotten; see `FiberSide::suspend`.
                let suspend: *const (dyn Suspend + 'static) =
                    unsafe { std::mem::transmute(std::ptr::from_ref(suspend)) };
                inner.suspend.set(Some(suspend));
                let first = RefCell::new(Some(first));
                body(&|result| match result {
                    None => first.borrow_mut().take().flatten(),
                    Some(result) => yielder.suspend(Suspended::Done(result)),
                });
                inner.suspend.set(None);
            },
        );
        Ok(Fiber { coroutine: RefCell::new(coroutine), side })
    }

    /// Begins a command. [`Fiber::poll`] brings its result.
    pub fn begin(&self, command: C, waker: &Waker) -> Poll<Option<R>> {
        self.resume(Some(command), waker)
    }

    /// `None`: it has left.
    pub fn poll(&self, waker: &Waker) -> Poll<Option<R>> {
        self.resume(None, waker)
    }

    fn resume(&self, command: Option<C>, waker: &Waker) -> Poll<Option<R>> {
        let mut coroutine = self.coroutine.borrow_mut();
        if coroutine.done() {
            return Poll::Ready(None);
        }
        self.side.resumed(waker);
        match coroutine.resume(command) {
            CoroutineResult::Yield(Suspended::Waiting) => Poll::Pending,
            CoroutineResult::Yield(Suspended::Done(result)) => Poll::Ready(Some(result)),
            CoroutineResult::Return(()) => Poll::Ready(None),
        }
    }

    /// Makes the script leave, whatever it is doing, and waits until it has. What came of the
    /// command that was under way, if there was one.
    pub fn cancel(&self) -> Option<R> {
        self.side.cancelled.set(true);
        let mut coroutine = self.coroutine.borrow_mut();
        let mut outcome = None;
        while coroutine.started() && !coroutine.done() {
            // Every wait ends at once now, and computing is interrupted.
            if let CoroutineResult::Yield(Suspended::Done(result)) = coroutine.resume(None) {
                outcome = Some(result);
            }
        }
        outcome
    }
}

impl<C: 'static, R: 'static> Drop for Fiber<C, R> {
    fn drop(&mut self) {
        self.cancel();
    }
}
