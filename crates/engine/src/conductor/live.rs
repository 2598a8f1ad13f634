//! Steering a running test: pause, resume, scale, stop. Each is one moment for all cores, and on
//! record.

use base::clock;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use plan::{Executor, Rate};
use schedule::job::Event;
use schedule::{self, Arrivals};
use stats::{RunState, Snapshot, StopReason, WorkflowState};

use super::{Conductor, Input, TICK};
use crate::core::Command;
use crate::options::{Control, Request};
use crate::shard::Stop;

/// A new rate holds from a little later on, so that no shard has passed the moment already
/// (`schedule`, rates).
const RATE_CHANGE_AHEAD: Duration = Duration::from_millis(50);

impl Conductor {
    /// A run that begins paused: all is ready and nothing has begun, not even `setup()`. The clock
    /// starts when it is resumed, as in k6.
    pub(super) fn wait_for_resume(&mut self, publish: &mut dyn FnMut(Snapshot)) {
        if !self.options.paused || self.job.is_done() {
            return;
        }
        self.state = RunState::Running;
        let _ = self.pause();
        while self.paused.is_some() && !self.job.is_done() {
            self.started = clock::now();
            publish(self.snapshot());
            self.show_progress();
            match self.inbox.recv_timeout(TICK) {
                Ok(Input::Report(report)) => self.take_report(report),
                Ok(Input::Request(request)) => self.take_request(request),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        // It was no part of the run.
        self.paused_ns = 0;
    }

    pub(super) fn take_request(&mut self, request: Request) {
        let result = self.obey(&request.control);
        if result.is_ok() {
            self.note_event(request.control.describe());
        }
        if let Some(answer) = request.answer {
            // Whoever asked may have gone.
            let _ = answer.send(result);
        }
    }

    fn obey(&mut self, control: &Control) -> Result<String, String> {
        match control {
            Control::Pause => self.pause(),
            Control::Resume => self.resume(),
            Control::Scale(factor) => self.scale(*factor),
            Control::SetVus { workflow, vus } => self.set_vus(workflow.as_deref(), *vus),
            Control::SetRate { workflow, rate } => self.set_rate(workflow.as_deref(), *rate),
            Control::Stop => Ok(self.stop(StopReason::Cancelled)),
            Control::Interrupt => Ok(self.stop(StopReason::Interrupted)),
        }
    }

    fn stop(&mut self, reason: StopReason) -> String {
        if self.state == RunState::Stopping {
            self.broadcast(|| Command::Stop { how: Stop::Now });
            return "stopping at once".to_owned();
        }
        if self.paused.is_some() {
            // Iterations that wait for the end of a pause could not end.
            let _ = self.resume();
        }
        self.step(Event::StopRequested { reason });
        if self.script.is_some() {
            // As in k6: whoever stops a test wants it to stop.
            self.broadcast(|| Command::Stop { how: Stop::Now });
            return "stopping at once".to_owned();
        }
        "stopping; running iterations may finish".to_owned()
    }

    fn pause(&mut self) -> Result<String, String> {
        if self.paused.is_some() {
            return Err("the run is paused already".to_owned());
        }
        if self.state != RunState::Running {
            return Err("the run is not running".to_owned());
        }
        let at = clock::now();
        self.paused = Some(at);
        self.state = RunState::Paused;
        self.broadcast(|| Command::Pause { at });
        Ok("paused; the schedule stands still".to_owned())
    }

    fn resume(&mut self) -> Result<String, String> {
        let Some(since) = self.paused.take() else {
            return Err("the run is not paused".to_owned());
        };
        let at = clock::now();
        self.paused_ns += at.nanos_since(since);
        self.state = RunState::Running;
        self.broadcast(|| Command::Resume { at });
        Ok("resumed".to_owned())
    }

    /// Running workflows that `fits`, by name if one is given.
    fn running(
        &self,
        name: Option<&str>,
        what: &str,
        fits: impl Fn(&Executor) -> bool,
    ) -> Result<Vec<usize>, String> {
        if let Some(name) = name
            && !self.plan.workflows.iter().any(|workflow| workflow.name == name)
        {
            let known: Vec<_> = self.plan.workflows.iter().map(|w| w.name.as_str()).collect();
            return Err(format!("no workflow `{name}`; there are: {}", known.join(", ")));
        }
        let found: Vec<usize> = (0..self.plan.workflows.len())
            .filter(|&index| {
                let workflow = &self.plan.workflows[index];
                name.is_none_or(|name| workflow.name == name)
                    && self.job.state(index) == WorkflowState::Running
                    && fits(&workflow.load.executor)
            })
            .collect();
        if found.is_empty() {
            return Err(self.nothing_to_set(name, what));
        }
        Ok(found)
    }

    /// What the running workflows have instead.
    fn nothing_to_set(&self, name: Option<&str>, what: &str) -> String {
        let running = self.plan.workflows.iter().enumerate().find(|(index, workflow)| {
            name.is_none_or(|name| workflow.name == name)
                && self.job.state(*index) == WorkflowState::Running
        });
        let Some((_, workflow)) = running else {
            return format!("no running workflow has {what} to set");
        };
        let (has, flag) = match is_open(&workflow.load.executor) {
            true => ("a rate", "--rate 50/s"),
            false => ("virtual users", "--vus 50"),
        };
        format!(
            "no running workflow has {what} to set: `{}` has {has}, so `{flag}`, or `--by 2`",
            workflow.name
        )
    }

    fn set_vus(&mut self, workflow: Option<&str>, vus: u32) -> Result<String, String> {
        let found = self.running(workflow, "virtual users", |executor| !is_open(executor))?;
        for &index in &found {
            if let Some(most) = self.most_vus(index)
                && vus > most
            {
                let name = self.job.name(index);
                return Err(format!("{name} has at most {most} virtual users (maxVUs)"));
            }
        }
        for &index in &found {
            self.set_vus_of(index, vus);
        }
        Ok(format!("virtual users set to {vus} in {}", self.names(&found)))
    }

    fn set_vus_of(&mut self, workflow: usize, vus: u32) {
        self.workflows[workflow].vus_override = Some(vus);
        self.broadcast(|| Command::SetVus { workflow, vus });
    }

    fn set_rate(&mut self, workflow: Option<&str>, rate: Rate) -> Result<String, String> {
        let found = self.running(workflow, "a rate", is_open)?;
        self.refuse_more_rates(&found)?;
        for &index in &found {
            self.set_rate_of(index, rate);
        }
        Ok(format!("rate set to {} in {}", schedule::per(rate), self.names(&found)))
    }

    /// All changes are kept, since the numbers of arrivals depend on them.
    fn refuse_more_rates(&self, workflows: &[usize]) -> Result<(), String> {
        let most = schedule::RATE_CHANGES_MAX;
        match workflows.iter().find(|&&index| self.workflows[index].rate_changes >= most) {
            Some(&index) => {
                Err(format!("the rate of {} was set {most} times already", self.job.name(index)))
            }
            None => Ok(()),
        }
    }

    fn set_rate_of(&mut self, workflow: usize, rate: Rate) {
        let from = self.schedule_time(workflow) + RATE_CHANGE_AHEAD;
        let running = &mut self.workflows[workflow];
        running.rate_override = Some(rate);
        running.rate_changes += 1;
        self.broadcast(|| Command::SetRate { workflow, rate, from });
    }

    fn scale(&mut self, factor: f64) -> Result<String, String> {
        if !(factor > 0.0 && factor.is_finite()) {
            return Err(format!("cannot scale by {factor}"));
        }
        let found = self.running(None, "virtual users or a rate", |_| true)?;
        self.refuse_more_rates(&found)?;
        for &index in &found {
            let load = self.plan.workflows[index].load.clone();
            let t = self.schedule_time(index);
            let known = &self.workflows[index];
            if let Some(arrivals) = Arrivals::new(&load.executor) {
                let now = match known.rate_override {
                    Some(rate) => rate.events as f64 / rate.per.as_secs_f64(),
                    None => arrivals.rate_at(t),
                };
                self.set_rate_of(index, schedule::rate_per_second(now * factor));
            } else {
                let now = known.vus_override.unwrap_or_else(|| schedule::vus_at(&load, t));
                self.set_vus_of(index, schedule::scaled_vus(now, factor));
            }
        }
        Ok(format!("scaled {} by {factor}", self.names(&found)))
    }

    fn names(&self, workflows: &[usize]) -> String {
        let names: Vec<_> = workflows.iter().map(|&index| self.job.name(index)).collect();
        names.join(", ")
    }

    /// A workflow's own time: since its load began, pauses left out.
    pub(super) fn schedule_time(&self, workflow: usize) -> Duration {
        let running = &self.workflows[workflow];
        let Some(start) = running.start else { return Duration::ZERO };
        let now = self.paused.unwrap_or_else(clock::now);
        let paused = self.paused_ns - running.paused_before;
        Duration::from_nanos(now.nanos_since(start).saturating_sub(paused))
    }
}

fn is_open(executor: &Executor) -> bool {
    matches!(executor, Executor::ConstantArrivalRate { .. } | Executor::RampingArrivalRate { .. })
}

impl Control {
    /// For the timeline.
    fn describe(&self) -> String {
        match self {
            Control::Pause => "paused".to_owned(),
            Control::Resume => "resumed".to_owned(),
            Control::Scale(factor) => format!("scaled by {factor}"),
            Control::SetVus { vus, .. } => format!("virtual users set to {vus}"),
            Control::SetRate { rate, .. } => format!("rate set to {}", schedule::per(*rate)),
            Control::Stop => "stop requested".to_owned(),
            Control::Interrupt => "interrupted".to_owned(),
        }
    }
}
