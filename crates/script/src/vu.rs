//! A virtual user that runs a script: a JavaScript runtime of its own on a stack of its own.
//!
//! ```text
//! Vu::new ──▶ init code ──▶ Ready ──call──▶ function runs, suspends, ends ──▶ Returned / Threw
//!                                    ▲                                          │
//!                                    └──────────────────────────────────────────┘
//! ```

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;

use crate::fiber::{Fiber, FiberSide};
use crate::host::{Host, Phase, VuSetup};
use crate::runtime;
use crate::thrown::Thrown;

/// What a script can be asked to do.
pub enum Command {
    /// Run the init code. Always the first.
    Init,
    /// Call an exported function.
    Call(Call),
    /// The script's `options` as JSON, and the names of its exported functions.
    Describe,
}

pub struct Call {
    pub function: Rc<str>,
    pub phase: Phase,
    pub argument: Argument,
}

/// What the function is given.
#[derive(Clone)]
pub enum Argument {
    /// What `setup()` returned, as JSON; parsed once for each virtual user.
    SetupData(Option<Arc<str>>),
    Json(Arc<str>),
}

#[derive(Debug)]
pub enum Outcome {
    Ready,
    Described(Description),
    /// The value as JSON, where somebody wants it: setup and summary.
    Returned(Option<Returned>),
    Threw(Thrown),
}

/// A function's value.
#[derive(Debug)]
pub enum Returned {
    Json(String),
    /// `handleSummary`.
    Files(Files),
}

/// Names and contents.
pub type Files = Vec<(String, Vec<u8>)>;

#[derive(Debug, Clone, Default)]
pub struct Description {
    /// JSON of `export const options`, if there is one.
    pub options: Option<String>,
    pub functions: Vec<String>,
    /// Exported names that are no functions.
    pub values: Vec<String>,
    /// Options that are written down and have the value `undefined`.
    pub undefined_options: Vec<String>,
    /// Numbers among the options that are none: `Number(undefined)`.
    pub nan_options: Vec<String>,
}

pub struct Vu {
    fiber: Fiber<Command, Outcome>,
    pub host: Rc<Host>,
    /// Why it can run nothing any more.
    broken: RefCell<Option<Thrown>>,
}

impl Vu {
    /// Makes room for it; the init code runs with [`Vu::init`].
    pub fn new(setup: VuSetup) -> std::io::Result<Vu> {
        let side = Rc::new(FiberSide::default());
        let host = Host::new(setup, side.clone());
        let inside = host.clone();
        let fiber = Fiber::new(side, move |next| runtime::serve(&inside, next))?;
        Ok(Vu { fiber, host, broken: RefCell::new(None) })
    }

    pub async fn init(&self) -> Result<(), Thrown> {
        match self.run(Command::Init).await {
            Outcome::Threw(thrown) => {
                *self.broken.borrow_mut() = Some(thrown.clone());
                Err(thrown)
            }
            _ => Ok(()),
        }
    }

    pub async fn describe(&self) -> Result<Description, Thrown> {
        match self.run(Command::Describe).await {
            Outcome::Described(description) => Ok(description),
            Outcome::Threw(thrown) => Err(thrown),
            _ => Err(Thrown::new("the script could not be described")),
        }
    }

    pub async fn call(&self, call: Call) -> Result<Option<Returned>, Thrown> {
        match self.run(Command::Call(call)).await {
            Outcome::Returned(value) => Ok(value),
            Outcome::Threw(thrown) => Err(thrown),
            _ => Ok(None),
        }
    }

    async fn run(&self, command: Command) -> Outcome {
        if let Some(thrown) = &*self.broken.borrow() {
            return Outcome::Threw(thrown.clone());
        }
        let mut command = Some(command);
        poll_fn(|context| {
            let polled = match command.take() {
                Some(command) => self.fiber.begin(command, context.waker()),
                None => self.fiber.poll(context.waker()),
            };
            polled.map(|outcome| {
                // It leaves by itself only if there was no memory for a runtime.
                outcome.unwrap_or_else(|| Outcome::Threw(Thrown::new("out of memory")))
            })
        })
        .await
    }

    /// Cuts off what it is doing. It can do nothing afterwards.
    pub fn cancel(&self) {
        let outcome = self.fiber.cancel();
        if let Some(Outcome::Threw(thrown)) = outcome
            && self.host.fiber.was_computing()
            && self.host.script().first_to_compute_too_long()
        {
            let place = thrown.stack.first().map_or("", |line| line.trim_start_matches("at "));
            self.host.warn(format!(
                "an iteration was cut off while it was computing, not waiting, in {place}"
            ));
        }
    }
}

impl Drop for Vu {
    fn drop(&mut self) {
        self.cancel();
    }
}
