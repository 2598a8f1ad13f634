"""Checks of the load itself, second by second: nothing twice, nothing missing without a word."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from typing import Any, Iterable

from . import schedule
from .facts import Facts, Interval, Seen, Violation
from .gaps import declared, overlap_s, shown, touches, union, widened, without
from .plans import COUNTED, RATE, Workload

# Requests that a thread may still send after its lease's check had passed, per shard.
IN_FLIGHT = 2
# A source that was quiet for this long has stopped; what it sends later is another attempt.
SILENCE_S = 1.0
# Load that is missing for longer than this must be in the result.
HOLE_S = 1.0
# A shard's own pace is known about as well as this.
SLOWER = 1.25
# Iterations are granted for five quarters of a lease.
GRANTED_AHEAD_S = 7.5
# How the timeline says that a worker was lost, or gave a shard up.
LOSS = re.compile(r"on_worker_loss|gave up")
# How far off the times of a result may be.
TIME_SLACK_S = 1.5


def nothing_twice(facts: Facts) -> Iterable[Violation]:
    """No iteration of a counted or rate workload and no unique row is seen twice."""
    for one in facts.plan.workloads:
        seen = facts.of(one.name)
        if one.planned is not None:
            yield from _repeated(one, "iterations", [s.iteration for s in seen if s.iteration is not None])
        if one.rows:
            yield from _repeated(one, "rows", [s.row for s in seen if s.row is not None])


def _repeated(one: Workload, what: str, values: list) -> Iterable[Violation]:
    twice = sorted(value for value, count in Counter(values).items() if count > 1)
    if twice:
        yield Violation("P1", "twice", f"{len(twice)} {what} of {one.name} were seen more than once by the target, "
                                       f"for example {twice[:5]}")


def shards_of(facts: Facts, one: Workload) -> dict[int, list[Seen]]:
    """A workload's requests by shard: iteration i belongs to shard i mod n."""
    count = facts.shards(one.name)
    parts: dict[int, list[Seen]] = {number: [] for number in range(count)}
    for seen in facts.of(one.name):
        if seen.iteration is not None:
            parts[seen.iteration % count].append(seen)
    return parts


def one_source(facts: Facts) -> Iterable[Violation]:
    """At most one attempt of a shard generates load at any instant."""
    zero = facts.first or 0.0
    for one in facts.plan.workloads:
        for number, seen in shards_of(facts, one).items():
            for a, b, seconds, extra in _overlaps(seen):
                if extra > IN_FLIGHT and not _late_delivery(facts, seconds):
                    yield Violation("P1", "two sources",
                                    f"{a} and {b} both generated shard {number} of {one.name}: {extra} requests of the "
                                    f"one within the load of the other, {shown(seconds, zero)}")


def _late_delivery(facts: Facts, seconds: list[Interval]) -> bool:
    """Requests that were held up on the way to the target, by a cut of the campaign's own, arrive late."""
    cuts = widened(facts.target_cuts, 0.0, 5.0)
    return bool(cuts) and all(touches(cuts, one) for one in seconds)


def _overlaps(seen: list[Seen]) -> Iterable[tuple[str, str, list[Interval], int]]:
    times: dict[str, list[float]] = defaultdict(list)
    for one in seen:
        times[one.source].append(one.at)
    busy = {source: _segments(at) for source, at in times.items()}
    names = sorted(busy)
    for index, a in enumerate(names):
        for b in names[index + 1:]:
            if overlap_s(busy[a], busy[b]) <= 0.0:
                continue
            both = [(max(x, u), min(y, v)) for x, y in busy[a] for u, v in busy[b] if min(y, v) > max(x, u)]
            within = [sum(1 for at in times[source] for x, y in both if x <= at <= y) for source in (a, b)]
            yield a, b, both, min(within)


def _segments(times: list[float]) -> list[Interval]:
    segments: list[Interval] = []
    for at in times:
        if segments and at - segments[-1][1] <= SILENCE_S:
            segments[-1] = (segments[-1][0], at)
        else:
            segments.append((at, at))
    return segments


def holes(facts: Facts) -> dict[str, list[Interval]]:
    """Times in which planned load was missing, by workload, whatever the result says of them."""
    excuses = schedule.excused(facts)
    found = {}
    for one in facts.plan.workloads:
        began = facts.began(one.name)
        if began is None:
            continue
        times: list[Interval] = []
        for number, seen in shards_of(facts, one).items():
            times += _rate_holes(facts, one, seen, began, excuses) if one.kind == RATE \
                else _closed_holes(facts, one, number, seen, began, excuses)
        if times:
            found[one.name] = union(times)
    return found


def _rate_holes(facts: Facts, one: Workload, seen: list[Seen], began: float, excuses: list[Interval]) -> list[Interval]:
    """Whole seconds with less than half of the planned arrivals, unless these were only late, by less than a second."""
    end = schedule.load_ends(facts, one, began)
    shards = facts.shards(one.name)
    times = [s.at for s in seen]
    is_fixed = one.planned is not None and len(schedule.rates(facts, one)) == 1
    if seen and is_fixed and max(s.iteration for s in seen) >= (one.planned or 0) - shards:
        # The last arrival has come: a clock that was taken over may be ahead by half a round trip, and then the load
        # is over that much earlier. Nothing of it is missing.
        end = min(end, times[-1])
    found = []
    for second in range(int(end - began)):
        window = (began + second, began + second + 1.0)
        wanted = schedule.rate_at(facts, one, window)
        if wanted is None or touches(excuses, window):
            continue
        after = schedule.lowest_rate(facts, one, (window[1], window[1] + HOLE_S)) / shards
        if _count(times, window) < 0.5 * wanted / shards and not _made_good(times, window, wanted / shards, after):
            found.append(window)
    return found


def _count(times: list[float], window: Interval) -> int:
    return bisect_left(times, window[1]) - bisect_left(times, window[0])


def _made_good(times: list[float], window: Interval, wanted: float, after: float) -> bool:
    """What was due has come within the next second, beside what was due then, and there was no pause of a second around it."""
    a, b = window
    first, last = max(0, bisect_left(times, a) - 1), bisect_left(times, b) + 1
    near = times[first:last]
    pause = max((y - x for x, y in zip(near, near[1:])), default=HOLE_S)
    # An arrival that is late by less than a second comes up to that and an interval after the one before it.
    return pause < HOLE_S + 1.0 / max(wanted, 1.0) and _count(times, (a, b + HOLE_S)) >= 0.95 * (wanted + after)


def _closed_holes(facts: Facts, one: Workload, number: int, seen: list[Seen], began: float,
                  excuses: list[Interval]) -> list[Interval]:
    """Stretches of more than a second without a request of the shard, while it had work left."""
    limit = HOLE_S + one.quiet_s
    moments = [began] + [s.at for s in seen]
    end = _work_ends(facts, one, number, seen, began)
    if end is not None and end > moments[-1]:
        moments.append(end)
    gaps = [(a, b) for a, b in zip(moments, moments[1:]) if b - a > limit]
    return [(a, b) for a, b in without(gaps, excuses) if b - a > limit]


def _work_ends(facts: Facts, one: Workload, number: int, seen: list[Seen], began: float) -> float | None:
    """Until when the shard had work. None: it had done all of it with its last request."""
    if one.kind != COUNTED:
        return schedule.load_ends(facts, one, began) - one.quiet_s
    shards = facts.shards(one.name)
    share = len(range(number, one.planned or 0, shards))
    if len({s.iteration for s in seen}) >= share:
        return None
    summary = facts.summary
    if summary is None:
        return facts.ended or facts.given_up
    part = summary["workflows"].get(one.name, {})
    missing = share - len({s.iteration for s in seen})
    if missing <= _lost_at_most(facts, one, part, seen, began) or part.get("ended_s") is None:
        return None
    # The clock of the result is checked elsewhere; here the later of both is the safe side for the product.
    return (facts.first or began) + float(part["ended_s"]) - one.quiet_s


def _lost_at_most(facts: Facts, one: Workload, part: dict[str, Any], seen: list[Seen], began: float) -> int:
    """Iterations of one shard that may have been lost with workers: each loss takes what the shard was granted ahead,
    and interrupts what was under way, of which the target has not seen all."""
    events = [entry["event"] for entry in (facts.summary or {}).get("timeline", [])]
    losses = sum(1 for event in events if f"shards of {one.name}" in event and LOSS.search(event))
    if not seen or not losses:
        return 0
    pace = len(seen) / max(seen[-1].at - began, 1.0)
    each = SLOWER * pace * GRANTED_AHEAD_S + 2 * one.users
    unseen = part.get("dropped", {}).get("worker_lost", 0) + part.get("iterations_interrupted", 0)
    return min(unseen, int(losses * each))


def every_hole_is_told(facts: Facts) -> Iterable[Violation]:
    """Every second without planned load is in the timeline or the verdict, and then the verdict is not `valid`."""
    found = holes(facts)
    if not found or facts.first is None:
        return
    zero = facts.first
    for name, times in found.items():
        missing = sum(b - a for a, b in times)
        if facts.stalls_forbidden:
            yield Violation("R28", "stall", f"{name} stood still for {missing:.1f} s in a handover that load must not "
                                            f"notice: {shown(times, zero)}")
        if facts.summary is None:
            continue
        state = facts.summary["verdict"]["state"]
        if state == "valid":
            yield Violation("R27", "hole", f"{missing:.1f} s of planned load of {name} were missing "
                                           f"({shown(times, zero)}), and the verdict is valid")
            continue
        told = widened(declared(facts.summary, zero), TIME_SLACK_S, TIME_SLACK_S)
        untold = [one for one in without(times, told) if one[1] - one[0] >= 0.5]
        if untold:
            yield Violation("R27", "hole", f"{sum(b - a for a, b in untold):.1f} s without planned load of {name} "
                                           f"({shown(untold, zero)}) are in neither timeline nor verdict")
