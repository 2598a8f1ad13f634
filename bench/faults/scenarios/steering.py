"""Pause, resume and scale, alone and across a takeover."""

from __future__ import annotations

import time

from ..facts import Facts, Violation
from ..fleet import Fleet, Job
from ..plans import standard
from .registry import scenario


def _quiet(job: Job, seconds: float, found: list[Violation]) -> None:
    """A paused job sends nothing, apart from what was under way."""
    time.sleep(1.0)
    before = len(job.requests())
    time.sleep(seconds)
    more = len(job.requests()) - before
    if more:
        found.append(Violation("R27", "pause", f"{more} requests were seen within {seconds:.0f} s of a pause"))


@scenario()
def pause_and_resume(fleet: Fleet) -> Facts:
    """A job is paused for 5 s: nothing is sent, and the schedule goes on where it stood."""
    found: list[Violation] = []
    job = fleet.submit(standard(15, with_users=True))
    job.await_schedule(4)
    job.steer("pause")
    _quiet(job, 4.0, found)
    job.steer("resume")
    facts = fleet.conclude(job)
    facts.found += found
    return facts


@scenario()
def pause_owner_killed_resume(fleet: Fleet) -> Facts:
    """A job is paused, its owner killed, the job resumed: every shard goes on, or the command says which did not."""
    found: list[Violation] = []
    job = fleet.submit(standard(20))
    job.await_schedule(4)
    job.steer("pause")
    _quiet(job, 1.0, found)
    fleet.kill("owner killed in a pause", [job.where().owner or "m1"], 7.0)
    time.sleep(1.0)
    resumed = job.steer("resume")
    time.sleep(5.0)
    for one in job.plan.workloads:
        seen = [s for s in job.requests() if s.what == one.name and s.at > resumed.answered]
        if resumed.accepted and not seen:
            found.append(Violation("P7", "resume", f"`resume` answered 0, and 5 s later {one.name} was not seen"))
    facts = fleet.conclude(job)
    facts.found += found
    return facts


@scenario()
def scale_rate(fleet: Fleet) -> Facts:
    """A rate is doubled, and the owner is killed later: the new rate stays in force."""
    job = fleet.submit(standard(22))
    job.await_schedule(4)
    job.scale_rate("rate", 120)
    time.sleep(4)
    fleet.kill("owner killed", [job.where().owner or "m1"], 1.0)
    return fleet.conclude(job)


@scenario()
def scale_rate_worker_killed(fleet: Fleet) -> Facts:
    """A rate is lowered, and its worker killed later: the next attempt goes on with the numbers of the new schedule."""
    job = fleet.submit(standard(30))
    job.await_schedule(4)
    job.scale_rate("rate", 20)
    time.sleep(3)
    fleet.kill("worker killed", [job.where().worker("rate")], None)
    return fleet.conclude(job, mend_first=False)


@scenario()
def scale_rate_twice(fleet: Fleet) -> Facts:
    """A rate is raised and lowered, owner and worker are killed in between and after: all changes stay in force."""
    job = fleet.submit(standard(35))
    job.await_schedule(4)
    job.scale_rate("rate", 120)
    time.sleep(3)
    fleet.kill("owner killed", [job.where().owner or "m1"], 1.0)
    time.sleep(4)
    job.scale_rate("rate", 30)
    time.sleep(2)
    fleet.kill("worker killed", [job.where().worker("rate")], 1.0)
    return fleet.conclude(job)


@scenario()
def scale_rate_in_a_pause(fleet: Fleet) -> Facts:
    """A rate is changed while the job is paused: the new one holds from where the schedule stands."""
    found: list[Violation] = []
    job = fleet.submit(standard(20))
    job.await_schedule(4)
    job.steer("pause")
    _quiet(job, 1.0, found)
    job.scale_rate("rate", 120)
    _quiet(job, 2.0, found)
    job.steer("resume")
    facts = fleet.conclude(job)
    facts.found += found
    return facts
