"""How long after a fault the planned load was back, by what the target saw."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import Callable, Iterable

from . import schedule
from .facts import Facts
from .gaps import touches
from .plans import COUNTED, RATE, Workload

STEP_S = 0.1
# What dips later than this after a fault has another cause.
WITHIN_S = 12.0
# Closed models have no planned rate: they are compared with their own last seconds before the fault.
BEFORE_S = 3.0


@dataclass(frozen=True)
class Recovery:
    fault: str
    seconds: float | None
    """0: no dip; None: not back before the next fault or the end."""


@dataclass(frozen=True)
class Course:
    """A workload after a fault: what was seen, what was wanted, and from which share on it counts as down or back."""

    times: list[float]
    wanted: Callable[[tuple[float, float]], float | None]
    end: float
    dipped: float
    back: float

    def count(self, a: float, b: float) -> int:
        return bisect_left(self.times, b) - bisect_left(self.times, a)


def recoveries(facts: Facts) -> list[Recovery]:
    """For each fault, the slowest workload: from the fault to the end of the first whole second as planned."""
    found = []
    faults = sorted(facts.faults, key=lambda one: one.at)
    for index, fault in enumerate(faults):
        stop = faults[index + 1].at if index + 1 < len(faults) else float("inf")
        courses = [_course(facts, one, fault.at, stop) for one in facts.plan.workloads]
        times = [_back_after(facts, course, fault.at) for course in courses if course is not None]
        known = [one for one in times if one != -1.0]
        if known:
            found.append(Recovery(fault.kind, None if None in known else max(one for one in known if one is not None)))
    return found


def _course(facts: Facts, one: Workload, at: float, stop: float) -> Course | None:
    """None: nothing can be said, the load had not begun or was over."""
    began, times = facts.began(one.name), [seen.at for seen in facts.of(one.name)]
    if began is None or at < began or not times:
        return None
    if one.kind == RATE:
        end = min(stop, schedule.load_ends(facts, one, began))
        return Course(times, lambda window: schedule.rate_at(facts, one, window), end, 0.8, 0.95)
    end = min(stop, times[-1] if one.kind == COUNTED else schedule.load_ends(facts, one, began))
    before = (bisect_left(times, at) - bisect_left(times, at - BEFORE_S)) / BEFORE_S
    if before < 5 or at - began < BEFORE_S:
        return None
    return Course(times, lambda _window: before, end, 0.7, 0.85)


def _back_after(facts: Facts, course: Course, at: float) -> float | None:
    """-1: nothing can be said, the load was paused, cancelled or changed."""
    excuses = schedule.excused(facts)
    dipped, start = False, at
    while start + 1.0 <= course.end:
        window = (start, start + 1.0)
        wanted = course.wanted(window)
        if wanted is None or touches(excuses, window):
            return -1.0
        count = course.count(*window)
        if count < course.dipped * wanted:
            dipped = True
        elif dipped and count >= course.back * wanted:
            return window[1] - at
        elif not dipped and start - at > WITHIN_S:
            return 0.0
        start += STEP_S
    if dipped:
        return None
    return 0.0 if course.end - at > 1.0 else -1.0


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
