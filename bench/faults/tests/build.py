"""Facts of jobs that never were: a healthy one, to be damaged by each test in its own way."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable

from ..facts import Facts, Seen
from ..plans import COUNTED, RATE, Plan, Workload, constant_users, counted, rate

LENGTH_S = 20
ZERO = 1000.0
BEGAN = ZERO + 0.1
PLAN = Plan("test", (
    rate(LENGTH_S), counted(900), constant_users(LENGTH_S), rate(LENGTH_S, 15, name="unique", rows=True)))


def requests_of(one: Workload, source: str) -> list[Seen]:
    if one.kind == RATE:
        return [Seen(BEGAN + i / one.per_second, source, one.name, i, str(i) if one.rows else None)
                for i in range(one.planned or 0)]
    if one.kind == COUNTED:
        return [Seen(BEGAN + 0.02 * i, source, one.name, i) for i in range(one.planned or 0)]
    return [Seen(BEGAN + 0.025 * i, source, one.name, i) for i in range(int(one.length_s / 0.025))]


def healthy(plan: Plan = PLAN) -> Facts:
    """Everything as planned, counted and told."""
    sources = {one.name: f"w{index + 1}" for index, one in enumerate(plan.workloads)}
    seen = [Seen(ZERO, "w1", "setup")] + [s for one in plan.workloads for s in requests_of(one, sources[one.name])]
    seen.append(Seen(BEGAN + LENGTH_S + 0.1, "w1", "teardown"))
    seen.sort(key=lambda one: one.at)
    workflows = {one.name: {
        "iterations": sum(1 for s in seen if s.what == one.name), "iterations_interrupted": 0, "dropped": {},
        "cores": 1, "started_s": 0.1, "ended_s": 0.1 + LENGTH_S} for one in plan.workloads}
    requests = {"count": len(seen), "sent": len(seen), "failed": 0, "interrupted": 0, "retried": 0, "issued": len(seen),
                "issued_is": "exact"}
    summary = {"outcome": "COMPLETED", "exit_code": 0, "exit_reason": "all held", "elapsed_s": LENGTH_S + 0.2,
               "verdict": {"state": "valid", "reasons": []}, "timeline": [], "requests": requests,
               "workflows": workflows}
    return Facts(plan=plan, requests=seen, summary=summary, exit_code=0, submitted=ZERO - 0.5,
                 ended=ZERO + LENGTH_S + 0.7)


def without(facts: Facts, lost: Callable[[Seen], bool], *, cause: str | None = "worker_lost") -> Facts:
    """The target did not see these; with a cause they are counted as dropped."""
    for one in [s for s in facts.requests if lost(s)]:
        part = facts.summary["workflows"][one.what]
        part["iterations"] -= 1
        facts.summary["requests"]["count"] -= 1
        facts.summary["requests"]["issued"] -= 1
        if cause:
            part["dropped"][cause] = part["dropped"].get(cause, 0) + 1
    return replace(facts, requests=[s for s in facts.requests if not lost(s)])


def more(facts: Facts, *seen: Seen) -> Facts:
    """The target saw these too, and they are counted."""
    facts.summary["requests"]["count"] += len(seen)
    facts.summary["requests"]["issued"] += len(seen)
    return replace(facts, requests=sorted([*facts.requests, *seen], key=lambda one: one.at))


def degraded(facts: Facts, *reasons: str, timeline: tuple[tuple[float, str], ...] = ()) -> Facts:
    facts.summary["verdict"] = {"state": "degraded", "reasons": list(reasons)}
    facts.summary["timeline"] = [{"at_s": at, "event": event} for at, event in timeline]
    return facts
