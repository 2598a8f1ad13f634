//! What an attempt has counted: asked of its thread ten times a second, summed, told in frames; and how far it may go
//! by those of them that are durable.

use std::time::Duration;

use control::fleet::message::Task;
use control::fleet::worker::Progress;
use control::ledger::Counters;
use engine::attempt::{Counted, Mono};
use stats::wire::{Content, FailureMessage};
use stats::{Delta, Window};

use super::{Attempt, Body, MachineUse};

/// A window of statistics.
const WINDOW: Duration = Duration::from_millis(100);
/// Frames of which nobody knows yet whether they are durable.
const WORDS_MAX: usize = 4_096;

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
        let now = Mono::now();
        if self.started.is_none_or(|started| now < started.at) {
            return;
        }
        self.hear_what_is_durable();
        if let Body::Aside(..) = &self.body {
            // It counts when it is over; until then there is word of every window all the same.
            let content = Content { generator: self.generator.clone(), ..Content::default() };
            self.push(now, content);
            self.answers += 1;
        } else if self.swaps_asked == self.swaps_heard {
            self.ask_counts();
        }
    }

    /// True: this is the answer by which its thread has seen the shut gate.
    pub fn counted(&mut self, counted: Counted) -> bool {
        self.swaps_heard += 1;
        let word = counted.word;
        self.answers += 1;
        let content = self.take(counted);
        if self.started.is_some() {
            let frame = self.push(Mono::now(), content);
            self.words.extend(frame.zip(word.map(|word| word.number)));
            if self.words.len() > WORDS_MAX {
                // A later one says as much.
                self.words.pop_front();
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
            word,
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
        // Whoever goes on in its place must begin behind all that it may have begun by then (R5a).
        let ahead = word.map_or(0, |word| word.end.saturating_sub(self.begun_before));
        self.generator.begun = self.counters.begun.max(ahead);
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

    /// The number of the frame that it is told with.
    pub(super) fn push(&self, now: Mono, content: Content) -> Option<u64> {
        let window = self.window(now);
        self.job.stream(self.stream?, |sender| {
            sender.push(window, content);
            sender.cut()
        })
    }

    /// It may go as far as the newest durable frame says.
    pub(super) fn hear_what_is_durable(&mut self) {
        let Some(key) = self.stream.filter(|_| !self.words.is_empty()) else { return };
        let Some(durable) = self.job.stream(key, |sender| sender.heard_through()) else { return };
        let mut heard = None;
        while let Some((frame, word)) = self.words.front().copied().filter(|one| one.0 <= durable) {
            self.words.pop_front();
            heard = Some((frame, word));
        }
        if let (Some((_, word)), Body::Shard(shard, _)) = (heard, &self.body) {
            shard.word_is_durable(word);
        }
    }

    /// The number of the window in which the job's clock stands.
    pub(super) fn window(&self, now: Mono) -> u64 {
        let Some(started) = self.started else { return 0 };
        let clock = started.clock + Duration::from_nanos(now.since(started.at));
        u64::try_from(clock.as_nanos() / WINDOW.as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn counters(&self) -> Counters {
        let issued = self.issued.as_ref().map_or(0, |file| file.counts().issued);
        Counters { issued, ..self.counters }
    }

    pub fn progress(&self) -> Progress {
        let frames = self.stream.and_then(|key| self.job.stream(key, |sender| sender.cut()));
        let elapsed = self.started.map_or(Duration::ZERO, |started| {
            let now = started.paused_at.unwrap_or_else(Mono::now);
            let run = Duration::from_nanos(now.since(started.at));
            (started.elapsed + run).saturating_sub(started.paused)
        });
        let (counters, frames) = (self.counters(), frames.unwrap_or_default());
        Progress { counters, elapsed, frames, answers: self.answers }
    }
}

fn add(counters: &mut Counters, window: &Window) {
    for block in window.blocks.iter().flatten() {
        counters.iterations += block.iterations;
        counters.dropped += block.dropped.iter().sum::<u64>();
        for check in &block.checks {
            counters.checks_passed += check.passes;
            counters.checks_failed += check.fails;
        }
        for step in &block.steps {
            counters.completed += step.completed;
            counters.failed += step.failed;
            counters.bytes_sent += step.bytes_sent;
            counters.bytes_received += step.bytes_received;
        }
    }
}
