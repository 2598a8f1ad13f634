//! What an attempt has counted: asked of its thread ten times a second, summed, told in frames.

use base::clock;
use fence::Moment;
use std::time::Duration;

use control::message::Task;
use control::worker::Progress;
use engine::attempt::Counted;
use ledger_state::Counters;
use stats::wire::{Content, FailureMessage};
use stats::{Delta, Window};

use super::{Attempt, Body, MachineUse};

/// A window of statistics.
const WINDOW: Duration = Duration::from_millis(100);

impl Attempt {
    pub(super) fn ask_counts(&mut self) {
        if let Body::Shard(shard, _) = &self.body {
            shard.swap(self.spare.take(), None);
            self.swaps_asked += 1;
        }
    }

    /// Ten times a second. Asks for what was counted, if the last answer is here.
    pub fn tick(&mut self, machine: MachineUse) {
        (self.generator.memory_max_bytes, self.generator.descriptors_limit) =
            (machine.memory_max, machine.descriptors_limit);
        self.generator.descriptors_max = self.generator.descriptors_max.max(machine.descriptors);
        let now = clock::now();
        if self.started.is_none_or(|started| now < started.at) {
            return;
        }
        if let Body::Hook(..) = &self.body {
            // It counts when it is over; until then there is word of every window all the same.
            let content = Content { generator: self.generator.clone(), ..Content::default() };
            self.push(now, content);
            self.answers += 1;
        } else if self.swaps_asked == self.swaps_heard {
            self.ask_counts();
        }
    }

    /// True: this is the answer by which its thread has seen the shut permit.
    pub fn counted(&mut self, counted: Counted) -> bool {
        self.swaps_heard += 1;
        self.answers += 1;
        let content = self.take(counted);
        if self.started.is_some() {
            self.push(clock::now(), content);
            if std::mem::take(&mut self.hurry) {
                self.job.nudge.notify_one();
            }
        }
        let seen = self.shut_at.is_some_and(|at| self.swaps_heard >= at);
        if seen {
            self.shut_at = None;
        }
        seen
    }

    /// Adds it to the sums, and makes a frame's content of it.
    pub(super) fn take(&mut self, counted: Counted) -> Content {
        let Counted {
            mut window,
            series,
            vus,
            taken,
            held,
            messages,
            samples_dropped,
            cpu,
            loop_lag,
            ..
        } = counted;
        add(&mut self.counters, &window);
        self.counters.begun = taken.saturating_sub(self.begun_before).max(self.counters.begun);
        let workflow = match self.task {
            Task::Load => self.run.shard.workflow.0,
            Task::Setup { of } | Task::Teardown { of } => of.unwrap_or(self.run.shard.workflow).0,
        };
        self.generator.vus = vec![(workflow, vus)];
        self.generator.vus_made = self.generator.vus_made.max(vus);
        (self.generator.cpu_user, self.generator.cpu_system) = cpu;
        self.generator.samples_dropped += samples_dropped;
        self.generator.issued = self.counters().issued;
        self.generator.begun = self.counters.begun;
        self.generator.held = held;
        let counts = Delta::of(&window);
        window.clear();
        self.spare = Some(window);
        let messages = messages.into_iter().map(|(step, kind, message)| FailureMessage {
            step: u32::try_from(step).unwrap_or(u32::MAX),
            kind,
            text: message.text,
            exchange: message.exchange,
        });
        Content {
            counts,
            series,
            messages: messages.take(stats::wire::MESSAGES_MAX).collect(),
            loop_lag: loop_lag.to_sparse(),
            generator: self.generator.clone(),
        }
    }

    pub(super) fn push(&self, now: Moment, content: Content) {
        let window = self.window(now);
        if let Some(key) = self.stream {
            self.job.stream(key, |sender| sender.push(window, content));
        }
    }

    /// Everything that was granted is begun: whoever grants more should hear of it now, not at the
    /// next round.
    pub fn units_wanted(&mut self) {
        if self.swaps_asked == self.swaps_heard {
            self.ask_counts();
        }
        self.hurry = true;
    }

    /// The number of the window in which the job's clock stands.
    pub(super) fn window(&self, now: Moment) -> u64 {
        let Some(started) = self.started else { return 0 };
        let clock = started.clock + Duration::from_nanos(now.nanos_since(started.at));
        u64::try_from(clock.as_nanos() / WINDOW.as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn counters(&self) -> Counters {
        let issued = self.issued.as_ref().map_or(0, |file| file.counts().issued);
        Counters { issued, ..self.counters }
    }

    /// Its thread does not say any more how much it has begun, and the file does: units that were
    /// begun and not counted are then lost ones (R27).
    pub(super) fn begun_by_its_file(&mut self) {
        let taken = self.issued.as_ref().map_or(0, |file| file.counts().taken);
        self.counters.begun = taken.saturating_sub(self.begun_before).max(self.counters.begun);
    }

    pub fn progress(&self) -> Progress {
        let frames = self.stream.and_then(|key| self.job.stream(key, |sender| sender.cut()));
        let elapsed = self.started.map_or(Duration::ZERO, |started| {
            let now = started.paused_at.unwrap_or_else(clock::now);
            let run = Duration::from_nanos(now.nanos_since(started.at));
            (started.elapsed + run).saturating_sub(started.paused)
        });
        let (counters, frames) = (self.counters(), frames.unwrap_or_default());
        Progress { counters, elapsed, frames, answers: self.answers }
    }
}

fn add(counters: &mut Counters, window: &Window) {
    for block in window.blocks.iter().flatten() {
        counters.iterations += block.iterations;
        counters.interrupted += block.iterations_interrupted;
        counters.dropped += block.dropped.iter().sum::<u64>();
        for check in &block.checks {
            counters.checks_passed += check.passes;
            counters.checks_failed += check.fails;
        }
        for step in &block.steps {
            counters.sent += step.sent;
            counters.completed += step.completed;
            counters.failed += step.failed;
            counters.bytes_sent += step.bytes_sent;
            counters.bytes_received += step.bytes_received;
        }
    }
}
