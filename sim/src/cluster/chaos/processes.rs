//! Processes that crash, start again, or stand still.

use std::time::Duration;

use base::lock;
use turmoil::Sim;
use wal::faulty::CrashMode;

use super::{Action, Chaos, Link, Trouble};
use crate::cluster::world::Life;
use crate::{event, panics};

impl Chaos {
    pub(super) fn crash(
        &mut self,
        sim: &mut Sim<'_>,
        host: usize,
        power: bool,
        ms: std::ops::Range<u64>,
    ) {
        self.take_down(sim, host, power);
        let length = self.some_ms(ms);
        self.at(length, Action::Start(host));
    }

    /// The power goes first: a crash runs destructors, and a destructor that could still write
    /// would make it a clean end.
    fn take_down(&mut self, sim: &mut Sim<'_>, host: usize, power: bool) {
        let slot = &self.world.hosts[host];
        slot.disk.power_off();
        panics::while_crashing(|| sim.crash(slot.name.as_str()));
        match power {
            true => slot.disk.crash(CrashMode::Random),
            false => slot.disk.kill(),
        }
        *slot.life.borrow_mut() = Life::Down;
        lock(&self.world.target).freeze(host, false);
    }

    pub(super) fn start(&mut self, sim: &mut Sim<'_>, host: usize) {
        let is_running = *self.world.hosts[host].life.borrow() == Life::Running;
        if is_running || self.world.hosts[host].retired.get() {
            return;
        }
        if *self.world.hosts[host].life.borrow() != Life::Down {
            self.take_down(sim, host, false);
        }
        let slot = &self.world.hosts[host];
        slot.disk.power_on();
        *slot.life.borrow_mut() = Life::Running;
        event!("{} starts", slot.name);
        sim.bounce(slot.name.as_str());
    }

    /// What a supervisor does with a process that has ended.
    pub(super) fn restart_ended(&mut self) {
        for host in 0..self.world.hosts.len() {
            if self.world.hosts[host].retired.get() {
                continue;
            }
            let why = match &*self.world.hosts[host].life.borrow() {
                Life::Ended(why) => why.clone(),
                Life::Running | Life::Down => continue,
            };
            let waits = self
                .agenda
                .values()
                .any(|action| matches!(action, Action::Start(other) if *other == host));
            if !waits {
                if why != "told to end" {
                    self.world.count("nodes that ended by themselves", 1);
                }
                let after = self.some_ms(100..1_500);
                self.at(after, Action::Start(host));
            }
        }
    }

    /// turmoil runs every host in every step, so a pause is made of what it looks like from both
    /// sides: the others hear nothing and are not heard, nothing is sent to the target, and the
    /// host finds, all at once, that time has passed.
    pub(super) fn pause(&mut self, sim: &mut Sim<'_>, host: usize, ms: std::ops::Range<u64>) {
        let links: Vec<Link> =
            self.links().into_iter().filter(|(a, b)| *a == host || *b == host).collect();
        let held: Vec<Link> =
            links.into_iter().filter(|link| self.trouble(sim, *link, Trouble::Held)).collect();
        let paused = self.some_ms(ms);
        lock(&self.world.target).freeze(host, true);
        self.at(Duration::from_millis(20), Action::Resume { host, paused });
        self.at(paused, Action::Relieve(held));
        self.at(paused, Action::Thaw(host));
    }
}
