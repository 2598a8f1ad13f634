"""Random faults from a seed: what happens when, and to whom, follows from the number.

A seed chooses the length of a run, the shape of the fleet, and a list of faults with times between them. Who owns the
job or leads the ledger is found out when a fault is due, so a seed is the same plan of attack every time, on a fleet
that moves a little differently.

A shard is tried four times. A run therefore contains at most three faults that can take a shard from its worker: beyond
that, a job that fails is what the documents promise.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Callable

from .facts import Facts
from .fleet import Fleet, Job
from .network import BOTH, DEAF, MUTE, CouldNotRun
from .plans import everything
from .scenarios.registry import Scenario

LENGTHS_S = (60, 180)
QUIET_FIRST_S = 4.0
QUIET_LAST_S = 12.0
LOSSES_MAX = 3
CANCEL_SHARE = 0.15
SMALL_DISKS_SHARE = 0.3


@dataclass(frozen=True)
class Blow:
    """A kind of fault. `losses`: how many times it can take a shard from its worker."""

    name: str
    weight: int
    losses: int
    act: Callable[[Attack], None]
    fills: bool = False
    """It needs small disks."""


class Attack:
    """One run of the nemesis: a job, its fleet, and the dice."""

    def __init__(self, fleet: Fleet, job: Job, dice: random.Random) -> None:
        self.fleet, self.job, self.dice = fleet, job, dice

    def owner(self) -> str:
        return self.job.where().owner or self.manager()

    def leader(self) -> str:
        return self.job.where().leader or self.manager()

    def manager(self) -> str:
        return self.dice.choice(self.fleet.lab.managers)

    def worker(self) -> str:
        return self.dice.choice(self.fleet.lab.workers)

    def seconds(self, least: float, most: float) -> float:
        return round(self.dice.uniform(least, most), 1)

    def direction(self) -> str:
        return self.dice.choice((BOTH, DEAF, MUTE))


def _kill_worker(a: Attack) -> None:
    a.fleet.kill("worker killed", [a.worker()], a.seconds(0.1, 12))


def _freeze_worker_briefly(a: Attack) -> None:
    a.fleet.freeze("worker frozen < lease", [a.worker()], a.seconds(0.5, 3.5))


def _freeze_worker(a: Attack) -> None:
    a.fleet.freeze("worker frozen > lease", [a.worker()], a.seconds(6.5, 15))


def _kill_owner(a: Attack) -> None:
    a.fleet.kill("owner killed", [a.owner()], a.seconds(0.2, 10))


def _kill_leader(a: Attack) -> None:
    a.fleet.kill("leader killed", [a.leader()], a.seconds(0.2, 10))


def _freeze_owner(a: Attack) -> None:
    a.fleet.freeze("owner frozen", [a.owner()], a.seconds(1, 12))


def _kill_managers(a: Attack) -> None:
    a.fleet.kill("managers killed", a.fleet.lab.managers, a.seconds(0.3, 15))


def _power_loss(a: Attack) -> None:
    a.fleet.kill("power loss", a.fleet.lab.nodes, a.seconds(0.5, 8))


def _cut_worker(a: Attack) -> None:
    a.fleet.cut("worker cut off", a.worker(), a.fleet.lab.nodes, a.seconds(2, 15), a.direction())


def _cut_worker_from_managers(a: Attack) -> None:
    a.fleet.cut("worker cut from managers", a.worker(), a.fleet.lab.managers, a.seconds(4, 20), a.direction())


def _cut_worker_from_owner(a: Attack) -> None:
    a.fleet.cut("worker cut from owner", a.worker(), [a.owner()], a.seconds(4, 15), a.direction())


def _cut_worker_from_target(a: Attack) -> None:
    a.fleet.cut("worker cut from target", a.worker(), ["target"], a.seconds(1, 4))


def _cut_owner_from_managers(a: Attack) -> None:
    a.fleet.cut("owner cut from managers", a.owner(), a.fleet.lab.managers, a.seconds(2, 15), a.direction())


def _cut_managers_apart(a: Attack) -> None:
    lab, seconds = a.fleet.lab, a.seconds(1, 10)
    with a.fleet.fault("managers cut apart", f"managers do not reach each other for {seconds} s"):
        for name in lab.managers:
            lab.network.cut(name, lab.managers)
        time.sleep(seconds)
        lab.network.heal(*lab.managers)


def _fill_worker(a: Attack) -> None:
    a.fleet.full_disk("worker's disk full", a.worker(), a.seconds(3, 12))


def _fill_manager(a: Attack) -> None:
    a.fleet.full_disk("manager's disk full", a.manager(), a.seconds(3, 12))


def _rolling_restart(a: Attack) -> None:
    order = list(a.fleet.lab.managers)
    a.dice.shuffle(order)
    a.fleet.restart_in_turn(order, between_s=a.seconds(0.2, 2))


def _restart_owner(a: Attack) -> None:
    a.fleet.restart_in_turn([a.owner()], kind="owner ended")


def _pause(a: Attack) -> None:
    a.job.steer("pause")
    time.sleep(a.seconds(1, 5))
    if a.dice.random() < 0.4:
        a.fleet.kill("owner killed in a pause", [a.owner()], a.seconds(0.5, 4))
    for _ in range(5):
        if a.job.steer("resume").accepted:
            return
        time.sleep(2.0)


def _scale(a: Attack) -> None:
    a.job.scale_rate("rate", a.dice.choice((20, 60, 80)))


BLOWS = (
    Blow("worker killed", 4, 1, _kill_worker), Blow("worker frozen briefly", 2, 0, _freeze_worker_briefly),
    Blow("worker frozen", 3, 1, _freeze_worker), Blow("owner killed", 4, 0, _kill_owner),
    Blow("leader killed", 2, 0, _kill_leader), Blow("owner frozen", 2, 0, _freeze_owner),
    Blow("managers killed", 2, 1, _kill_managers), Blow("power loss", 1, 1, _power_loss),
    Blow("worker cut off", 3, 1, _cut_worker), Blow("worker cut from managers", 3, 1, _cut_worker_from_managers),
    Blow("worker cut from owner", 2, 1, _cut_worker_from_owner),
    Blow("worker cut from target", 1, 0, _cut_worker_from_target),
    Blow("owner cut from managers", 3, 0, _cut_owner_from_managers),
    Blow("managers cut apart", 2, 1, _cut_managers_apart), Blow("worker's disk full", 3, 0, _fill_worker, fills=True),
    Blow("manager's disk full", 3, 0, _fill_manager, fills=True), Blow("rolling restart", 2, 0, _rolling_restart),
    Blow("owner ended", 3, 0, _restart_owner), Blow("pause", 2, 0, _pause), Blow("scale", 1, 0, _scale),
)


def of_seed(seed: int) -> Scenario:
    """The run of a seed, as a scenario."""
    dice = random.Random(f"volley faults {seed}")
    length = dice.randint(*LENGTHS_S)
    # Always a core more than the four workloads need, so that they run beside each other.
    workers, cores = dice.choice(((3, 2), (5, 1), (6, 1), (4, 2)))
    small_disks = dice.random() < SMALL_DISKS_SHARE
    return Scenario(f"seed-{seed}", "random faults", lambda fleet: attack(fleet, dice, length, small_disks), 3, workers,
                    cores, small_disks=small_disks)


def attack(fleet: Fleet, dice: random.Random, length_s: float, small_disks: bool) -> Facts:
    job = fleet.submit(everything(length_s))
    job.await_schedule(QUIET_FIRST_S)
    began = job.began() or time.monotonic()
    run = Attack(fleet, job, dice)
    losses, cancels = 0, dice.random() < CANCEL_SHARE
    while True:
        time.sleep(dice.choice((0.3, 2.0, 5.0, 9.0)))
        if time.monotonic() > began + length_s - QUIET_LAST_S or over(job):
            break
        allowed = [blow for blow in BLOWS if losses + blow.losses <= LOSSES_MAX and (small_disks or not blow.fills)]
        blow = dice.choices(allowed, [one.weight for one in allowed])[0]
        losses += blow.losses
        try:
            blow.act(run)
        except CouldNotRun as error:
            fleet.note(f"{blow.name} could not be done: {error}")
            fleet.mend()
    if cancels and not over(job):
        job.cancel()
    return fleet.conclude(job)


def over(job: Job) -> bool:
    try:
        return job.status()["state"] == "ended"
    except CouldNotRun:
        return False
