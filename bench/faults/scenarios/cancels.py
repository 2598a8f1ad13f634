"""Cancels: graceful stop and teardown happen, the outcome is CANCELLED, the exit code 103."""

from __future__ import annotations

import time

from ..facts import Facts, Violation
from ..fleet import Fleet, Job
from ..plans import COUNTED, Plan, Workload, standard
from .registry import scenario


@scenario()
def cancel_under_load(fleet: Fleet) -> Facts:
    """A job is cancelled in the middle: teardown runs once the load has stopped."""
    job = fleet.submit(standard(20, with_users=True, teardown_ms=2000))
    job.await_schedule(5)
    job.cancel()
    return _whole_teardown(job, fleet.conclude(job))


SLOW = Plan("slow", (
    Workload("slow", COUNTED, users=2, iterations=40, delay_ms=6000, graceful_stop_s=20.0),), teardown_ms=4000)


@scenario()
def cancel_in_a_slow_iteration(fleet: Fleet) -> Facts:
    """Requests of 6 s are under way when the job is cancelled: the graceful stop lets them end."""
    job = fleet.submit(SLOW)
    job.await_schedule(2)
    job.cancel()
    facts = _whole_teardown(job, fleet.conclude(job))
    part = (facts.summary or {}).get("workflows", {}).get("slow", {})
    if part and part["iterations_interrupted"]:
        facts.found.append(Violation("R28", "graceful stop", f"{part['iterations_interrupted']} iterations of 6 s were "
                                                            "cut off, the graceful stop allows 20 s"))
    return facts


@scenario()
def cancel_in_teardown(fleet: Fleet) -> Facts:
    """A job is cancelled while its teardown runs: it is run to its end, the outcome is CANCELLED."""
    job = fleet.submit(standard(4, teardown_ms=6000))
    job.await_load("teardown", 1)
    time.sleep(1.5)
    job.cancel()
    return _whole_teardown(job, fleet.conclude(job))


@scenario()
def cancel_then_owner_killed(fleet: Fleet) -> Facts:
    """The owner is killed right after a cancel was accepted: it holds whoever dies, and teardown still runs."""
    job = fleet.submit(standard(25, teardown_ms=1000))
    job.await_schedule(5)
    owner = job.where().owner or "m1"
    job.cancel()
    fleet.kill("owner killed", [owner], 1.0)
    return _whole_teardown(job, fleet.conclude(job))


def _whole_teardown(job: Job, facts: Facts) -> Facts:
    """Teardown was not killed half-way: its request was answered and counted."""
    if facts.summary is None or not facts.of("teardown"):
        return facts
    step = facts.summary["steps"].get("teardown: teardown") or {}
    requests = step.get("requests") or {}
    if not requests.get("count") or requests.get("interrupted"):
        facts.found.append(Violation("R28", "teardown", f"teardown was begun and cut off: its step counts {requests}"))
    if "teardown" in str(facts.summary.get("notes")):
        facts.found.append(Violation("R28", "teardown", f"notes: {facts.summary['notes']}"))
    return facts
