"""The edges of a job: setup, teardown, the last words of its workers, results that are asked for early."""

from __future__ import annotations

import time

from .. import oracle
from ..facts import Facts, Violation
from ..fleet import Fleet, Job
from ..plans import Plan, rate, standard
from .registry import scenario

EDGES = Plan("edges", (rate(6),), setup_ms=4000, teardown_ms=4000)


def _worker_of(job: Job, what: str) -> str:
    job.await_load(what, 1)
    return next(one.source for one in job.requests() if one.what == what)


@scenario()
def setup_worker_killed(fleet: Fleet) -> Facts:
    """The worker that runs setup is killed: setup runs at least once, and its repetition is marked."""
    job = fleet.submit(EDGES)
    worker = _worker_of(job, "setup")
    fleet.kill("setup's worker killed", [worker], 1.0)
    return fleet.conclude(job)


@scenario()
def teardown_worker_killed(fleet: Fleet) -> Facts:
    """The worker that runs teardown is killed: teardown runs at least once, and its repetition is marked."""
    job = fleet.submit(EDGES)
    worker = _worker_of(job, "teardown")
    fleet.kill("teardown's worker killed", [worker], 1.0)
    return fleet.conclude(job)


@scenario()
def results_of_a_running_job(fleet: Fleet) -> Facts:
    """`results --summary FILE` of a running job says that it runs, and leaves no file behind."""
    job = fleet.submit(standard(8))
    job.await_schedule(2)
    path = fleet.lab.folder / "early.json"
    done = fleet.lab.client("results", job.id, "--summary", path.name)
    fleet.note(f"results of a running job: {done.returncode} {(done.stdout + done.stderr).strip()[:200]}")
    facts = fleet.conclude(job)
    if path.exists():
        size = path.stat().st_size
        facts.found.append(Violation("P5", "early result", f"`results --summary FILE` of a running job ended with "
                                                           f"{done.returncode} and left a file of {size} bytes"))
    if done.returncode == 0:
        facts.found.append(Violation("P5", "early result", "`results` of a running job ended with 0"))
    return facts


LATE = Plan("late", (rate(14), rate(14, 30, name="other")))


def _unheard_at_the_end(fleet: Fleet, job: Job) -> Facts:
    """The result while a worker is unheard of, and the corrected one when it is back: both must hold."""
    ended, _ = fleet.await_end(job, patience_s=90.0)
    if ended is None:
        return fleet.conclude(job, mend_first=False, patience_s=1.0)
    early, code = fleet.result(job)
    first = Facts(plan=job.plan, requests=job.requests(), summary=early, exit_code=code, submitted=job.submitted,
                  ended=ended, faults=fleet.faults, steering=job.steering)
    found = list(oracle.bounds(first)) + list(oracle.run_and_dropped(first))
    fleet.mend()
    time.sleep(12.0)
    facts = fleet.conclude(job)
    facts.ended = ended
    facts.found += [Violation(one.promise, f"{one.check} (before the worker is back)", one.text) for one in found
                    if one.check != "no issued"]
    if early is not None and facts.summary is not None:
        facts.found += oracle.unchanged(early, facts.summary)
        facts.found += oracle.heard_again(early, facts.summary)
        for one in facts.summary.get("addenda", []):
            fleet.note(f"addendum: {one}")
    facts.outcomes = ("COMPLETED", "PARTIAL")
    return facts


@scenario()
def worker_unreachable_at_the_end(fleet: Fleet) -> Facts:
    """A worker is cut off from all nodes 5 s before the end and until after it; it still reaches the target."""
    job = fleet.submit(LATE)
    job.await_schedule(9)
    fleet.cut("worker cut off at the end", job.where().worker("rate"), fleet.lab.nodes, None)
    return _unheard_at_the_end(fleet, job)


@scenario()
def worker_frozen_at_the_end(fleet: Fleet) -> Facts:
    """A worker is frozen 3 s before the end, for 20 s."""
    job = fleet.submit(LATE)
    job.await_schedule(11)
    worker = job.where().worker("rate")
    fleet.freeze("worker frozen at the end", [worker], 20.0)
    return _unheard_at_the_end(fleet, job)


@scenario()
def worker_killed_at_the_end(fleet: Fleet) -> Facts:
    """A worker is killed 2 s before the end and stays away: its last word is missing."""
    job = fleet.submit(LATE)
    job.await_schedule(12)
    fleet.kill("worker killed at the end", [job.where().worker("rate")], None)
    return _unheard_at_the_end(fleet, job)
