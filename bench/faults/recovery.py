"""How long after a fault the planned load was back, by what the target saw."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import Iterable

from . import schedule
from .facts import Facts
from .gaps import touches
from .plans import RATE, Workload

# A dip below this share of the plan counts, and the load is back at that share.
DIPPED, BACK = 0.8, 0.95
STEP_S = 0.1
# What dips later than this after a fault has another cause.
WITHIN_S = 12.0


@dataclass(frozen=True)
class Recovery:
    fault: str
    seconds: float | None
    """0: no dip; None: not back before the next fault or the end."""


def recoveries(facts: Facts) -> list[Recovery]:
    """For each fault, the slowest rate of the plan: from the fault to the end of the first whole second as planned."""
    found = []
    faults = sorted(facts.faults, key=lambda one: one.at)
    for index, fault in enumerate(faults):
        stop = faults[index + 1].at if index + 1 < len(faults) else float("inf")
        times = [_of_rate(facts, one, fault.at, stop) for one in facts.plan.workloads if one.kind == RATE]
        known = [one for one in times if one != -1.0]
        if known:
            found.append(Recovery(fault.kind, None if None in known else max(one for one in known if one is not None)))
    return found


def _of_rate(facts: Facts, one: Workload, at: float, stop: float) -> float | None:
    """-1: nothing can be said, the load had not begun, was paused, cancelled or changed."""
    began = facts.began(one.name)
    if began is None or at < began:
        return -1.0
    end = min(stop, schedule.load_ends(facts, one, began))
    excuses = schedule.excused(facts)
    times = [seen.at for seen in facts.of(one.name)]
    dipped = False
    start = at
    while start + 1.0 <= end:
        window = (start, start + 1.0)
        wanted = schedule.rate_at(facts, one, window)
        if wanted is None or touches(excuses, window):
            return -1.0
        count = bisect_left(times, window[1]) - bisect_left(times, window[0])
        if count < DIPPED * wanted:
            dipped = True
        elif dipped and count >= BACK * wanted:
            return window[1] - at
        elif not dipped and start - at > WITHIN_S:
            return 0.0
        start += STEP_S
    return None if dipped else 0.0 if end - at > 1.0 else -1.0


def table(found: Iterable[Recovery]) -> str:
    """One line per kind of fault, with the distribution."""
    groups: dict[str, list[Recovery]] = defaultdict(list)
    for one in found:
        groups[one.fault].append(one)
    lines = [f"{'fault':34} {'times':>5} {'no dip':>6} {'p50':>7} {'p90':>7} {'max':>7} {'not back':>8}"]
    for kind in sorted(groups):
        done = sorted(one.seconds for one in groups[kind] if one.seconds is not None)
        values = [f"{_percentile(done, p):6.1f}s" if done else "      -" for p in (50, 90, 100)]
        lines.append(f"{kind:34} {len(groups[kind]):5} {sum(1 for s in done if s == 0.0):6} {' '.join(values)} "
                     f"{len(groups[kind]) - len(done):8}")
    return "\n".join(lines)


def _percentile(ordered: list[float], p: int) -> float:
    return ordered[min(len(ordered) - 1, len(ordered) * p // 100)]
