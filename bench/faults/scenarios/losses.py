"""Workers that die, freeze or lose their lease."""

from __future__ import annotations

import time

from ..facts import Facts
from ..fleet import Fleet
from ..plans import Plan, constant_users, counted, rate, standard
from .registry import scenario


@scenario()
def nothing_happens(fleet: Fleet) -> Facts:
    """No fault at all: everything is equal."""
    return fleet.conclude(fleet.submit(standard(10, with_users=True)))


@scenario()
def worker_killed(fleet: Fleet) -> Facts:
    """A worker is killed and stays away; another one goes on with its load."""
    job = fleet.submit(standard(30))
    job.await_schedule(4)
    fleet.kill("worker killed", [job.where().worker("rate")], None)
    return fleet.conclude(job, mend_first=False)


@scenario()
def worker_killed_and_back(fleet: Fleet) -> Facts:
    """The worker of a counted workload is killed and started again at once."""
    job = fleet.submit(standard(25))
    job.await_schedule(4)
    fleet.kill("worker killed", [job.where().worker("counted")], 0.2)
    return fleet.conclude(job)


@scenario(workers=2)
def all_workers_killed(fleet: Fleet) -> Facts:
    """All workers are killed at once and come back after 3 s."""
    job = fleet.submit(standard(25))
    job.await_schedule(5)
    fleet.kill("workers killed", fleet.lab.workers, 3.0)
    return fleet.conclude(job)


@scenario()
def worker_killed_policy_continue(fleet: Fleet) -> Facts:
    """A worker is killed; the job was told to go on without its share."""
    job = fleet.submit(standard(20), "--on-worker-loss", "continue")
    job.await_schedule(4)
    fleet.kill("worker killed", [job.where().worker("rate")], None)
    facts = fleet.conclude(job, mend_first=False)
    facts.outcomes = ("COMPLETED", "PARTIAL")
    return facts


@scenario()
def worker_killed_policy_fail(fleet: Fleet) -> Facts:
    """A worker is killed; the job was told to fail then."""
    job = fleet.submit(standard(20), "--on-worker-loss", "fail")
    job.await_schedule(4)
    fleet.kill("worker killed", [job.where().worker("rate")], None)
    facts = fleet.conclude(job, mend_first=False)
    facts.outcomes = ("FAILED", "PARTIAL")
    return facts


FROZEN = Plan("frozen", (rate(40), constant_users(40)))


@scenario()
def worker_frozen_7s(fleet: Fleet) -> Facts:
    """A worker is frozen for longer than its lease; its shard runs again, there or elsewhere."""
    job = fleet.submit(FROZEN)
    job.await_schedule(5)
    fleet.freeze("worker frozen", [job.where().worker("users")], 7.0)
    return fleet.conclude(job)


@scenario()
def worker_frozen_3s(fleet: Fleet) -> Facts:
    """A worker is frozen for less than its lease: nothing is moved, and the missing seconds are told."""
    job = fleet.submit(Plan("frozen", (rate(20), constant_users(20))))
    job.await_schedule(5)
    fleet.freeze("worker frozen briefly", [job.where().worker("users")], 3.0)
    return fleet.conclude(job)


@scenario()
def worker_frozen_then_owner_killed(fleet: Fleet) -> Facts:
    """A worker is frozen for 7 s, and 5 s later the owner is killed: what it knew of the loss must not be gone."""
    job = fleet.submit(FROZEN)
    job.await_schedule(5)
    fleet.freeze("worker frozen", [job.where().worker("users")], 7.0)
    time.sleep(5)
    fleet.kill("owner killed", [job.where().owner or "m1"], 0.5)
    return fleet.conclude(job)


def _counted_alone(iterations: int = 900, per_user: bool = False) -> Plan:
    one = counted(iterations // 6 if per_user else iterations, per_user=per_user)
    return Plan("counted", (one,), setup=False, teardown=False)


def _counted_worker_cut(fleet: Fleet, plan: Plan, seconds: float) -> Facts:
    job = fleet.submit(plan)
    job.await_schedule(4)
    worker = job.where().worker("counted")
    fleet.cut("worker cut off", worker, fleet.lab.nodes, seconds)
    return fleet.conclude(job)


@scenario(workers=2)
def counted_worker_cut_9s(fleet: Fleet) -> Facts:
    """The worker of a counted workload is cut off from all nodes for 9 s, longer than its lease."""
    return _counted_worker_cut(fleet, _counted_alone(), 9.0)


@scenario(workers=2)
def counted_worker_cut_15s(fleet: Fleet) -> Facts:
    """The same for 15 s: another worker has taken over when it is back."""
    return _counted_worker_cut(fleet, _counted_alone(), 15.0)


@scenario(workers=2)
def per_user_counted_worker_cut_9s(fleet: Fleet) -> Facts:
    """The worker of iterations counted per user is cut off for 9 s."""
    return _counted_worker_cut(fleet, _counted_alone(per_user=True), 9.0)


@scenario()
def managers_frozen_8s(fleet: Fleet) -> Facts:
    """All managers are frozen for longer than a lease."""
    job = fleet.submit(standard(30))
    job.await_schedule(4)
    fleet.freeze("managers frozen", fleet.lab.managers, 8.0)
    return fleet.conclude(job)


@scenario()
def shard_lost_four_times(fleet: Fleet) -> Facts:
    """A worker of a counted workload is lost four times: whatever the job ends as, every iteration is counted."""
    job = fleet.submit(Plan("long", (counted(6000, users=12, delay_ms=50),), setup=False, teardown=False))
    for _ in range(4):
        job.await_load("counted", len(job.requests()) + 20, 90.0)
        time.sleep(2.0)
        where = job.where()
        fleet.kill("worker killed", [where.worker("counted", min(shard for _, shard in where.workers))], 0.5)
        time.sleep(1.0)
    facts = fleet.conclude(job)
    facts.outcomes = ("COMPLETED", "PARTIAL", "FAILED")
    return facts


@scenario()
def managers_killed_then_worker_killed(fleet: Fleet) -> Facts:
    """All managers are killed for 3 s, later a worker: the schedule must not go back."""
    job = fleet.submit(standard(30))
    job.await_schedule(5)
    fleet.kill("managers killed", fleet.lab.managers, 3.0)
    time.sleep(7)
    fleet.kill("worker killed", [job.where().worker("rate")], 0.1)
    return fleet.conclude(job)


@scenario()
def owner_killed_then_worker_killed(fleet: Fleet) -> Facts:
    """The owner is killed twice, then a worker: the schedule must not go back."""
    job = fleet.submit(standard(35))
    job.await_schedule(4)
    for _ in range(2):
        fleet.kill("owner killed", [job.where().owner or "m1"], 0.5)
        time.sleep(6)
    fleet.kill("worker killed", [job.where().worker("rate")], 0.1)
    return fleet.conclude(job)
