//! The runtime that openraft runs on: tokio, with a generator that a simulation can seed.
//!
//! openraft draws its election time-outs from "the thread's generator". The default one takes its
//! seed from the operating system and would make every simulated run different; this one is seeded
//! from there too, unless [`seed`] was called on the thread before.

use std::cell::RefCell;
use std::future::Future;
use std::time::Duration;

use openraft::{AsyncRuntime, OptionalSend, TokioInstant, TokioRuntime};
use rand08::rngs::StdRng;
use rand08::{Error, RngCore, SeedableRng};

thread_local! {
    static GENERATOR: RefCell<Option<StdRng>> = const { RefCell::new(None) };
}

/// Fixes what this thread draws from now on.
pub fn seed(seed: u64) {
    GENERATOR.with_borrow_mut(|slot| *slot = Some(StdRng::seed_from_u64(seed)));
}

fn draw<T>(take: impl FnOnce(&mut StdRng) -> T) -> T {
    GENERATOR.with_borrow_mut(|slot| take(slot.get_or_insert_with(StdRng::from_entropy)))
}

/// A number of at most `below - 1`, from the thread's generator.
pub(crate) fn random_below(below: u64) -> u64 {
    draw(|rng| rng.next_u64() % below.max(1))
}

/// 64 random bits, from the thread's generator.
pub(crate) fn random_u64() -> u64 {
    draw(RngCore::next_u64)
}

/// The wall clock in milliseconds since 1970, for stamps that people read. A simulation hands in
/// its own.
#[allow(clippy::disallowed_methods)]
pub(crate) fn wall_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

/// The thread's generator, as openraft wants to hold it.
pub struct ThreadGenerator;

impl RngCore for ThreadGenerator {
    fn next_u32(&mut self) -> u32 {
        draw(RngCore::next_u32)
    }

    fn next_u64(&mut self) -> u64 {
        draw(RngCore::next_u64)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        draw(|rng| rng.fill_bytes(bytes));
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        self.fill_bytes(bytes);
        Ok(())
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Runtime;

type Tokio = TokioRuntime;

impl AsyncRuntime for Runtime {
    type JoinError = <Tokio as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <Tokio as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <Tokio as AsyncRuntime>::Sleep;
    type Instant = TokioInstant;
    type TimeoutError = <Tokio as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = <Tokio as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = ThreadGenerator;
    type OneshotSender<T: OptionalSend> = <Tokio as AsyncRuntime>::OneshotSender<T>;
    type OneshotReceiverError = <Tokio as AsyncRuntime>::OneshotReceiverError;
    type OneshotReceiver<T: OptionalSend> = <Tokio as AsyncRuntime>::OneshotReceiver<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        Tokio::spawn(future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        Tokio::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        Tokio::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(
        duration: Duration,
        future: F,
    ) -> Self::Timeout<R, F> {
        Tokio::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(
        deadline: Self::Instant,
        future: F,
    ) -> Self::Timeout<R, F> {
        Tokio::timeout_at(deadline, future)
    }

    fn is_panic(error: &Self::JoinError) -> bool {
        Tokio::is_panic(error)
    }

    fn thread_rng() -> Self::ThreadLocalRng {
        ThreadGenerator
    }

    fn oneshot<T>() -> (Self::OneshotSender<T>, Self::OneshotReceiver<T>)
    where
        T: OptionalSend,
    {
        Tokio::oneshot()
    }
}
