//! Pending windows, and what is done with one that is released.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{BACKLOG_MAX, Merge, Step};
use crate::delta::Delta;
use crate::feed::WindowEvent;
use crate::series::builtin;

/// What has come for a window that was not released yet.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub delta: Delta,
    /// Numbers of the streams whose frames are in it.
    pub told: BTreeSet<usize>,
    pub late: bool,
    pub partial: bool,
    pub coalesced: bool,
}

impl Merge {
    /// Where counts of a window go: itself, or the next one if it was released already.
    pub(super) fn window_for(&mut self, told: u64, several: bool, now: Duration) -> &mut Pending {
        let caught_up = self.catch_up.filter(|catch_up| told <= catch_up.through);
        let at = match caught_up {
            Some(catch_up) => catch_up.through,
            // An empty stretch before it is released with it.
            None => told.max(self.next).min(self.window_at(now).max(self.next)),
        };
        let late = caught_up.is_none() && told < self.next;
        let full = self.pending.len() as u64 >= BACKLOG_MAX && !self.pending.contains_key(&at);
        let newest = self.pending.last_key_value().map(|(newest, _)| *newest);
        let at = newest.filter(|_| full).unwrap_or(at);
        let pending = self.pending.entry(at).or_default();
        pending.late |= late;
        pending.coalesced |= several | full;
        pending
    }

    /// Releases what is due, and looks at the thresholds once a second. To be called every window.
    pub fn step(&mut self, now: Duration) -> Step {
        let mut step = Step::default();
        while let Some((last, partial)) = self.due(now) {
            self.release(last, partial, &mut step);
        }
        if step.ticked {
            step.waiting = self.behind(now);
            if step.waiting == 0 {
                step.broken = self.broken_abort();
            }
        }
        step
    }

    /// The last window of the stretch that may be released now, and whether somebody is missing.
    fn due(&self, now: Duration) -> Option<(u64, bool)> {
        let (last, at) = match self.catch_up {
            Some(catch_up) => (catch_up.through, catch_up.since + self.settings.silence),
            None => (self.next, self.end_of(self.next) + self.settings.lateness),
        };
        let mut live = self.streams.values().filter(|stream| stream.live).peekable();
        let nobody = live.peek().is_none();
        // Where all have ended, what they told of is complete.
        let told = self.streams.values().map(|stream| stream.next).max().unwrap_or(0);
        let complete = if nobody { last < told } else { live.all(|stream| stream.next > last) };
        if complete {
            return Some((last, false));
        }
        if now < at {
            return None;
        }
        // Far behind: as one, up to the last that is due.
        let overdue = now.saturating_sub(self.settings.lateness + self.settings.window);
        let through = self.window_at(overdue);
        let last = if through.saturating_sub(last) > BACKLOG_MAX { through } else { last };
        Some((last, !nobody))
    }

    fn release(&mut self, last: u64, partial: bool, step: &mut Step) {
        let first = self.next;
        let mut later = self.pending.split_off(&(last + 1));
        std::mem::swap(&mut later, &mut self.pending);
        let mut window = Pending { coalesced: last > first, ..Pending::default() };
        for (_, pending) in later {
            window.late |= pending.late;
            window.partial |= pending.partial;
            window.coalesced |= pending.coalesced;
            window.told.extend(pending.told);
            if window.delta.is_empty() {
                window.delta = pending.delta;
            } else {
                window.delta.merge(&pending.delta);
            }
        }
        window.partial |= partial;
        self.next = last + 1;
        self.catch_up = None;
        self.late_windows += u64::from(window.late);
        self.partial_windows += u64::from(window.partial);
        self.tally.add(&window.delta);
        self.aggregate.add_delta(&window.delta);
        step.windows.push(WindowEvent {
            first,
            last,
            late: window.late,
            partial: window.partial,
            coalesced: window.coalesced,
            told: window.told.len() as u32,
            live: self.live_streams() as u32,
            vus: self.aggregate.vus_total(),
            totals: self.shown_tally(),
            latency: window.delta.latency(),
        });
        let end = self.end_of(last);
        if end >= self.ticked + self.settings.tick {
            self.close_tick(end);
            step.ticked = true;
        }
    }

    /// Checks of a script are counted among its series.
    fn shown_tally(&self) -> crate::feed::Tally {
        let mut tally = self.tally;
        if let Some(series) = &self.aggregate.series
            && let Some(crate::series::Sink::Rate { trues, total }) = series.sink(builtin::CHECKS)
        {
            tally.checks_passed += trues;
            tally.checks_failed += total - trues;
        }
        tally
    }

    pub(super) fn close_tick(&mut self, elapsed: Duration) {
        let over = elapsed.saturating_sub(self.ticked);
        self.ticked = elapsed;
        self.aggregate.close_tick(elapsed, over);
        let vus = self.aggregate.vus_total();
        self.evaluator.observe(&self.aggregate.last, vus, elapsed, over);
        let live = self.streams.values().filter(|stream| stream.live);
        let (streams, made) =
            live.fold((0, 0), |(n, made), stream| (n + 1, made + stream.generator.vus_made));
        if let (Some(layout), Some(totals)) = (&self.schema.series, &mut self.aggregate.series) {
            if streams > 0 {
                let at = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
                totals.record(layout, builtin::VUS, vus as f64, at, &());
                totals.record(layout, builtin::VUS_MAX, made as f64, at, &());
            }
            if let Some(thresholds) = &mut self.series_thresholds {
                thresholds.evaluate(layout, totals, elapsed);
            }
        }
    }

    /// Live streams that have not told of all that was released, and may still do so.
    fn behind(&mut self, now: Duration) -> usize {
        let behind = self.streams.values().filter(|stream| stream.live && stream.next < self.next);
        let silent = |heard: Duration| now.saturating_sub(heard) >= self.settings.silence;
        let (given_up, waiting): (Vec<Duration>, Vec<Duration>) =
            behind.map(|stream| stream.heard).partition(|heard| silent(*heard));
        let waiting = waiting.len();
        if waiting == 0 {
            self.judged_without = self.judged_without.max(given_up.len());
        }
        waiting
    }

    fn broken_abort(&self) -> Option<usize> {
        let by_plan = self.evaluator.broken_abort(self.ticked);
        by_plan.or_else(|| {
            let thresholds = self.series_thresholds.as_ref()?;
            let broken = thresholds.broken_abort(self.ticked)?;
            thresholds.outcomes().iter().position(|one| std::ptr::eq(one, broken))
        })
    }
}
