"""Full disks."""

from __future__ import annotations

import time

from ..facts import Facts, Violation
from ..fleet import Fleet
from ..network import CouldNotRun
from ..plans import Plan, rate, standard
from .registry import scenario

SHORT = Plan("short", (rate(3, 20),), setup=False, teardown=False)


@scenario(small_disks=True)
def worker_disk_full_before(fleet: Fleet) -> Facts:
    """A worker's disk is full when a job comes that wants all cores: it runs elsewhere, or is told the true reason."""
    with fleet.fault("worker's disk full", "the disk of w1 is full from before the submission"):
        fleet.lab.disks.fill("w1")
        time.sleep(2.0)
        job = fleet.submit(standard(8, with_users=True))
        told, runs = "", False
        for _ in range(50):
            time.sleep(0.4)
            if (runs := job.began() is not None):
                break
            told = job.status().get("detail") or told
    facts = fleet.conclude(job, mend_first=False)
    if not runs and "disk" not in told and "space" not in told:
        facts.found.append(Violation("P7", "reason", f"nothing ran for 20 s because a worker's disk was full; the job "
                                                     f"was told {told!r}"))
    return facts


@scenario(small_disks=True)
def worker_disk_full_under_load(fleet: Fleet) -> Facts:
    """A worker's disk fills up while it runs load: what runs there goes on."""
    job = fleet.submit(standard(20))
    job.await_schedule(4)
    fleet.full_disk("worker's disk full", job.where().worker("counted"), 8.0)
    facts = fleet.conclude(job)
    facts.stalls_forbidden = True
    return facts


@scenario(small_disks=True)
def leader_disk_full(fleet: Fleet) -> Facts:
    """The leader's disk is full: submissions are refused with the reason, running jobs go on, it recovers by itself."""
    job = fleet.submit(standard(30))
    job.await_schedule(3)
    leader = job.where().leader or "m1"
    wrong: list[Violation] = []
    with fleet.fault("leader's disk full", f"the disk of {leader} is full for 12 s"):
        fleet.lab.disks.fill(leader)
        time.sleep(3.0)
        led_before, tried, taken, told = _leads(fleet, leader), 0, 0, ""
        for _ in range(5):
            done, extra = fleet.try_submit(SHORT, "--patience", "1s")
            tried += 1
            if extra is not None:
                taken += 1
            else:
                told = (done.stdout + done.stderr).strip()
                fleet.note(f"refused: {told[:200]}")
            time.sleep(0.3)
        led_after = _leads(fleet, leader)
        time.sleep(3.0)
        fleet.lab.disks.empty(leader)
    if led_before and led_after and taken:
        wrong.append(Violation("P9", "full disk", f"the leader's disk is full, and {taken} of {tried} submissions were "
                                                  "accepted"))
    if told and "disk" not in told:
        wrong.append(Violation("P9", "full disk", f"a submission was refused without the reason: {told[:200]!r}"))
    facts = fleet.conclude(job)
    done, again = fleet.try_submit(SHORT, "--patience", "20s")
    if again is None:
        wrong.append(Violation("P9", "full disk", f"there is room again, and a submission is refused: "
                                                  f"{(done.stdout + done.stderr).strip()[:200]!r}"))
    else:
        fleet.await_end(again)
    facts.found += wrong
    facts.stalls_forbidden = True
    return facts


def _leads(fleet: Fleet, name: str) -> bool:
    try:
        status = fleet.ask("status")
    except CouldNotRun:
        return False
    return any(one["leads"] and fleet.name_of(one["address"]) == name for one in status["nodes"])
