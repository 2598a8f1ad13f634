"""What the plan asks for at each moment, steering included.

A workload's schedule begins with the load, stands still while the job is paused, and ends with a cancel. A command
takes effect somewhere between its sending and its answer, a new rate a moment later: it holds from one time of the
schedule on, which its owner chooses a little ahead of where the schedule stands, and changes nothing before. So what is
planned is a range, and both ends are computed.
"""

from __future__ import annotations

from dataclasses import dataclass

from .facts import Facts, Interval, Steering
from .gaps import union
from .plans import RATE, Workload

# A new rate holds from so much later on, at most.
AHEAD_S = 0.3
# After a resume or a change of rate the load may need this long until it is as planned.
SETTLE_S = 2.0


@dataclass(frozen=True)
class Range:
    least: float
    most: float


def pauses(facts: Facts) -> list[Interval]:
    """Times in which the job may have been paused, from the sending of a pause to the answer of a resume."""
    found: list[Interval] = []
    since: float | None = None
    for one in facts.steering:
        if one.what == "pause" and since is None:
            since = one.sent
        elif one.what == "resume" and since is not None and one.accepted:
            found.append((since, one.answered))
            since = None
    if since is not None:
        found.append((since, _over(facts)))
    return found


def paused_for(facts: Facts) -> Range:
    """How long the job was paused, least and most."""
    least = most = 0.0
    pause: Steering | None = None
    for one in facts.steering:
        if one.what == "pause" and pause is None:
            pause = one
        elif one.what == "resume" and pause is not None and one.accepted:
            most += one.answered - pause.sent
            least += max(0.0, one.sent - pause.answered) if pause.accepted else 0.0
            pause = None
    return Range(least, most)


def _over(facts: Facts) -> float:
    ends = [at for at in (facts.ended, facts.given_up) if at is not None]
    if ends:
        return ends[0]
    return facts.requests[-1].at if facts.requests else facts.submitted


def rates(facts: Facts, one: Workload) -> list[tuple[float, float, float]]:
    """Changes of a rate: (earliest, latest, arrivals per second from then on)."""
    changes = [(float("-inf"), float("-inf"), one.per_second)]
    for steering in facts.steering:
        applies = steering.workload in (None, one.name)
        if steering.what == "scale" and applies and steering.per_second is not None:
            value = steering.per_second
            if not steering.accepted:
                # Nobody knows whether it was taken; both are possible, so nothing is asked of this stretch.
                value = float("nan")
            changes.append((steering.sent, steering.answered + AHEAD_S, value))
    return changes


def load_ends(facts: Facts, one: Workload, began: float) -> float:
    """When the schedule of a rate or of constant users is over, at the earliest; not later than the job."""
    ends = [began + one.length_s + paused_for(facts).least]
    if facts.cancel:
        ends.append(facts.cancel.sent)
    if facts.ended is not None:
        ends.append(facts.ended)
    return min(ends)


def planned(facts: Facts, one: Workload, began: float) -> Range | None:
    """Iterations that a workload was asked for. None: as many as there is time for, or it cannot be known."""
    whole = one.planned
    if one.kind != RATE or whole is None:
        # A cancel changes nothing: what is not begun then is dropped and counted.
        return None if whole is None else Range(whole, whole)
    changes = rates(facts, one)
    if any(value != value for _, _, value in changes):
        return None
    cancel, away = facts.cancel, pauses(facts)
    if cancel is None and len(changes) == 1:
        slack = 2.0 + facts.shards(one.name)
        return Range(whole - slack, whole + slack)
    limit = paused_for(facts)
    stop_early = cancel.sent if cancel else began + one.length_s + limit.least
    stop_late = _over(facts) if cancel else began + one.length_s + limit.most
    stop_late = min(stop_late, began + one.length_s + limit.most)
    highest = max(value for _, _, value in changes)
    sums = [_integral(changes, least, began, stop, away) for least in (True, False) for stop in (stop_early, stop_late)]
    slack = 2.0 + facts.shards(one.name) + highest * (0.5 + 0.5 * len(away)) if (cancel or away) else 4.0
    return Range(min(sums) - slack, max(sums) + slack)


def _integral(changes: list[tuple[float, float, float]], least: bool, began: float, stop: float,
              away: list[Interval]) -> float:
    """Arrivals between two moments, the fewest or the most that there can be: for these each change takes effect at its
    earliest or its latest time, whichever that is. A slower rate costs the most when it comes early."""
    moments = [began]
    for before, change in zip(changes, changes[1:]):
        slower = change[2] < before[2]
        moments.append(max(moments[-1], change[0] if slower == least else change[1]))
    total = 0.0
    for (_, _, value), a, b in zip(changes, moments, [*moments[1:], stop]):
        b = min(b, stop)
        if b > a:
            stood = sum(max(0.0, min(b, y) - max(a, x)) for x, y in away)
            total += value * (b - a - stood)
    return total


def rate_at(facts: Facts, one: Workload, window: Interval) -> float | None:
    """Planned arrivals per second in a window; None: it changes there, or it is not known."""
    value = one.per_second
    for earliest, latest, changed in rates(facts, one)[1:]:
        if latest + SETTLE_S <= window[0]:
            value = changed
        elif earliest < window[1]:
            return None
    return None if value != value else value


def lowest_rate(facts: Facts, one: Workload, window: Interval) -> float:
    """The least that may be planned in a window in which the rate may change."""
    value, least = one.per_second, one.per_second
    for earliest, latest, changed in rates(facts, one)[1:]:
        if latest + SETTLE_S <= window[0]:
            value = least = changed
        elif earliest < window[1]:
            least = min(least, changed)
    # Nobody knows whether a change was taken.
    return 0.0 if value != value or least != least else least


def excused(facts: Facts) -> list[Interval]:
    """Times in which missing load is not the product's fault, or was wanted."""
    times = [(a, b + SETTLE_S) for a, b in pauses(facts)]
    times += [(a - 0.5, b + SETTLE_S + 1.0) for a, b in facts.target_cuts]
    times += [(a - 0.7, b + 0.7) for a, b in facts.stalls]
    if facts.cancel:
        times.append((facts.cancel.sent, float("inf")))
    # A change of the number of users or of a rate is no hole.
    times += [(one.sent, one.answered + SETTLE_S) for one in facts.steering if one.what == "scale"]
    return union(times)
