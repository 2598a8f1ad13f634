//! Warnings that are said once in a run, however many virtual users have reason for them.

use std::sync::atomic::{AtomicU32, Ordering};

use rquickjs::{Ctx, Exception};

use crate::host::Host;
use crate::thrown::Thrown;

/// What has been warned of.
#[derive(Debug, Clone, Copy)]
pub enum Said {
    /// A key of request params that there is not.
    Param,
    /// A URL with `undefined` in it.
    Url,
    /// A body that is sent as a form and announced as JSON.
    FormAsJson,
    /// `check()` was given a promise.
    Promise,
    /// `check()` was given no object of checks.
    NoChecks,
    /// `sleep()` was given what is no number.
    NoNumber,
    /// A member of a response that there is not.
    Member,
    /// A body that was not kept.
    NoBody,
    /// A header with `undefined` in it.
    Header,
    /// An object inside of a form.
    NestedForm,
    /// A time limit of a few milliseconds.
    Timeout,
    /// A path of another language that found nothing in a JSON answer.
    Selector,
    /// The path of a file in the place of its content.
    FilePath,
    /// Credentials where the name of a method belongs.
    Auth,
    /// A response in the place of a request.
    Batch,
    /// A sleep that is longer than the rest of the test.
    LongSleep,
}

#[derive(Debug, Default)]
pub struct SaidSet {
    flags: AtomicU32,
    looks: [AtomicU32; Said::LongSleep as usize + 1],
}

/// Odd things are looked at so often and no longer, because each look costs.
const LOOKS_MAX: u32 = 1_000;

impl SaidSet {
    pub fn has(&self, what: Said) -> bool {
        self.flags.load(Ordering::Relaxed) & (1 << what as u32) != 0
    }

    /// Whether it is worth looking at something odd once more.
    pub fn may_look(&self, what: Said) -> bool {
        let looks = &self.looks[what as usize];
        !self.has(what)
            && looks.load(Ordering::Relaxed) < LOOKS_MAX
            && looks.fetch_add(1, Ordering::Relaxed) < LOOKS_MAX
    }

    /// True for the first who says it.
    fn first(&self, what: Said) -> bool {
        let flag = 1 << what as u32;
        self.flags.fetch_or(flag, Ordering::Relaxed) & flag == 0
    }
}

impl Host {
    /// With the place in the script that is being run now.
    pub fn warn_once(&self, ctx: &Ctx<'_>, what: Said, message: &str) {
        if !self.script().said.first(what) {
            return;
        }
        match self.place(ctx) {
            Some(place) => self.warn(format!("{place}: {message}")),
            None => self.warn(message),
        }
    }

    /// `s.js:4:12` of the innermost code that is the user's.
    fn place(&self, ctx: &Ctx<'_>) -> Option<String> {
        let error = Exception::from_message(ctx.clone(), "").ok()?;
        let sources = &self.script().sources;
        let stack = Thrown::from_value(&error.into_value(), sources).stack;
        let line = stack.iter().find(|line| line.contains("file://"))?;
        let begin = line.find("file://")?;
        Some(sources.shown_place(line[begin..].trim_end_matches(')')))
    }
}
