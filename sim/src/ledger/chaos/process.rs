//! Faults of processes: death, loss of power, standing still, loss of memory.

use std::path::Path;
use std::time::Duration;

use turmoil::Sim;
use wal::faulty::CrashMode;

use super::net::{Trouble, name};
use super::{Action, Chaos};
use crate::event;
use crate::ledger::class::{Class, Mark};
use crate::ledger::plan::millis;
use crate::ledger::world::Life;
use crate::panics;

impl Chaos {
    fn running(&self) -> Vec<usize> {
        let hosts = self.world.hosts.iter().enumerate();
        hosts
            .filter(|(_, host)| *host.life.borrow() == Life::Running)
            .map(|(number, _)| number)
            .collect()
    }

    /// A host to take down. Mostly a majority stays up, so that something goes on; now and then it
    /// does not.
    fn pick_victim(&mut self) -> Option<usize> {
        let running = self.running();
        let majority = self.world.plan.nodes / 2 + 1;
        if running.is_empty() || running.len() <= majority && self.random.u8(0..10) > 0 {
            return None;
        }
        Some(running[self.random.usize(0..running.len())])
    }

    pub(super) fn fire_process(&mut self, sim: &mut Sim<'_>, class: Class) {
        match class {
            Class::Kill => {
                let Some(host) = self.pick_victim() else { return };
                self.world.injected(class, &name(host));
                self.take_down(sim, host, None);
                self.start_later(host);
            }
            Class::PowerLoss => {
                let Some(host) = self.pick_victim() else { return };
                self.world.injected(class, &name(host));
                self.take_down(sim, host, Some(CrashMode::Random));
                self.start_later(host);
            }
            Class::AllDown => {
                self.world.injected(class, "");
                for host in self.running() {
                    self.take_down(sim, host, Some(CrashMode::Random));
                    self.start_later(host);
                }
            }
            Class::Fuse => {
                let Some(host) = self.pick_victim() else { return };
                let calls = self.random.u64(0..40);
                event!("n{} loses power after {calls} calls", host + 1);
                self.world.hosts[host].disk.fail_power_after(calls);
            }
            Class::Pause => self.pause(sim),
            Class::Amnesia => self.forget(sim),
            _ => {}
        }
    }

    /// The power goes first: a crash runs destructors, and a destructor that could still write
    /// would make it a clean end.
    fn take_down(&self, sim: &mut Sim<'_>, host: usize, power_loss: Option<CrashMode>) {
        let slot = &self.world.hosts[host];
        slot.disk.power_off();
        *slot.node.borrow_mut() = None;
        *slot.inbox.borrow_mut() = None;
        *slot.applied.borrow_mut() = None;
        panics::while_crashing(|| sim.crash(name(host)));
        match power_loss {
            Some(mode) => slot.disk.crash(mode),
            None => slot.disk.kill(),
        }
        *slot.life.borrow_mut() = Life::Down;
    }

    fn start_later(&mut self, host: usize) {
        let length = self.length();
        self.at(length, Action::Start(host));
    }

    pub(super) fn start(&self, sim: &mut Sim<'_>, host: usize) {
        let slot = &self.world.hosts[host];
        if *slot.life.borrow() == Life::Running {
            return;
        }
        // One that stopped by itself has to be cleared away first.
        if *slot.life.borrow() != Life::Down {
            self.take_down(sim, host, None);
        }
        slot.disk.power_on();
        *slot.life.borrow_mut() = Life::Running;
        sim.bounce(name(host));
    }

    /// A fuse that has blown takes the host with it.
    pub(super) fn blow_fuses(&mut self, sim: &mut Sim<'_>) {
        for host in self.running() {
            if !self.world.hosts[host].disk.powered() {
                event!("n{} has lost power", host + 1);
                self.take_down(sim, host, Some(CrashMode::Random));
                self.start_later(host);
            }
        }
    }

    /// What a supervisor does with a process that ended by itself.
    pub(super) fn restart_stopped(&mut self, sim: &mut Sim<'_>) {
        for host in 0..self.world.plan.nodes {
            let why = match &*self.world.hosts[host].life.borrow() {
                Life::Stopped(why) => why.clone(),
                Life::Running | Life::Down => continue,
            };
            event!("n{} stopped: {why}", host + 1);
            self.world.reach(Mark::NodeStoppedItself);
            self.take_down(sim, host, None);
            let after = millis(&mut self.random, 100..=1_500);
            self.at(after, Action::Start(host));
        }
    }

    /// turmoil runs every host in every step, so a pause is made of what it looks like from both
    /// sides: the others hear nothing and are not heard, and the host finds, all at once, that the
    /// time has passed.
    fn pause(&mut self, sim: &mut Sim<'_>) {
        let Some(host) = self.pick_victim() else { return };
        let links = self.net.links_of(host);
        let mut held = Vec::new();
        for link in links {
            if self.net.trouble(sim, link, Trouble::Held, &mut self.random) {
                held.push(link);
            }
        }
        let paused = millis(&mut self.random, 300..=8_000);
        self.world.injected(Class::Pause, &format!("n{} for {paused:?}", host + 1));
        // The host is stepped for a moment and then finds the rest of the time gone.
        self.at(Duration::from_millis(20), Action::Resume { host, paused });
        self.at(paused, Action::Relieve(held));
    }

    pub(super) fn resume(&self, _: &mut Sim<'_>, host: usize, paused: Duration) {
        let slot = &self.world.hosts[host];
        slot.stall_ms.set(paused.as_millis() as u64);
        slot.stall.notify_one();
    }

    /// The disk is lost; who the node is, is not (an operator restored the identity, or it lies
    /// elsewhere).
    fn forget(&mut self, sim: &mut Sim<'_>) {
        // One at a time, and of a whole group: one that loses half of its disks has lost its word,
        // and no code can help.
        let amnesic = self.world.hosts.iter().any(|host| host.amnesic.get());
        if amnesic || self.world.member_out.get() || self.world.calm.get() {
            return;
        }
        let Some(host) = self.pick_victim() else { return };
        // Before there is a group there is nothing to forget.
        if self.world.hosts[host].state(ledger_state::State::applied).unwrap_or(0) == 0 {
            return;
        }
        self.take_down(sim, host, Some(CrashMode::LoseAll));
        let slot = &self.world.hosts[host];
        let identity = Path::new(super::super::host::FOLDER).join("identity");
        if slot.disk.dump(&identity).is_none() {
            // It has never come as far as having one; then there is nothing to forget either.
            self.start_later(host);
            return;
        }
        for file in slot.disk.files() {
            if file != identity {
                slot.disk.erase(&file);
            }
        }
        slot.amnesic.set(true);
        slot.forgot_ms.set(Some(crate::trace::now_ms()));
        self.world.injected(Class::Amnesia, &name(host));
        self.start_later(host);
    }
}
