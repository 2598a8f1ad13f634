"""Intervals: which times a result itself calls bad, and the arithmetic of times.

A result says that load was missing in its verdict's reasons and in its timeline. Both are sentences. These forms are
understood, in a reason or in an event at the time T; times are seconds of the job's own clock:

    ... from A s until B s ...        ... from A s to B s ...        ... between A s and B s ...      A..B s
    ... from A s until the end ...    ... is missing from then on     (T until the end)
    ... for N s ...                   (T - N until T)
"""

from __future__ import annotations

import re
from typing import Any, Iterable

from .facts import Interval

NUMBER = r"(\d+(?:\.\d+)?)"
FROM_UNTIL = re.compile(rf"from {NUMBER} ?s (?:until|to) {NUMBER} ?s")
SPAN = re.compile(rf"{NUMBER} ?(?:s )?(?:\.\.|–) ?{NUMBER} ?s")
BETWEEN = re.compile(rf"between {NUMBER} ?s and {NUMBER} ?s")
UNTIL_END = re.compile(rf"from {NUMBER} ?s until the end")
FOR = re.compile(rf"for {NUMBER} ?s\b")
FROM_THEN_ON = re.compile(r"from then on")
# Events that have a length and are no loss of load.
NOT_A_GAP = re.compile(r"^(resumed|paused|extended)\b")


def declared(summary: dict[str, Any], anchor: float) -> list[Interval]:
    """Times that the result calls bad. `anchor`: the job's own zero."""
    end = float(summary.get("elapsed_s") or 0.0)
    found: list[Interval] = []
    for reason in (summary.get("verdict") or {}).get("reasons") or []:
        found += _spans(reason, end)
    for entry in summary.get("timeline") or []:
        text, at = entry["event"], float(entry["at_s"])
        if NOT_A_GAP.search(text):
            continue
        spans = _spans(text, end)
        if not spans:
            spans = [(at - float(length), at) for length in FOR.findall(text)]
        if FROM_THEN_ON.search(text):
            spans.append((at, end))
        found += spans
    return union((anchor + a, anchor + b) for a, b in found)


def _spans(text: str, end: float) -> list[Interval]:
    spans = [(float(a), float(b)) for form in (FROM_UNTIL, BETWEEN, SPAN) for a, b in form.findall(text)]
    spans += [(float(a), max(end, float(a))) for a in UNTIL_END.findall(text)]
    return spans


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same times as ordered intervals that do not touch."""
    merged: list[Interval] = []
    for a, b in sorted(one for one in intervals if one[1] >= one[0]):
        if merged and a <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], b))
        else:
            merged.append((a, b))
    return merged


def widened(intervals: Iterable[Interval], before: float, after: float) -> list[Interval]:
    return union((a - before, b + after) for a, b in intervals)


def without(intervals: Iterable[Interval], removed: Iterable[Interval]) -> list[Interval]:
    """What is left of `intervals` outside of `removed`."""
    left = union(intervals)
    for a, b in union(removed):
        left = [piece for x, y in left for piece in ((x, min(y, a)), (max(x, b), y)) if piece[1] > piece[0]]
    return left


def overlap_s(a: Iterable[Interval], b: Iterable[Interval]) -> float:
    """Seconds that are in both."""
    a, b = union(a), union(b)
    return sum(max(0.0, min(y, v) - max(x, u)) for x, y in a for u, v in b)


def touches(intervals: Iterable[Interval], one: Interval) -> bool:
    return any(a < one[1] and one[0] < b for a, b in intervals)


def shown(intervals: Iterable[Interval], zero: float, most: int = 4) -> str:
    """For people: `5.0..12.3 s, 20.1..22.0 s`, since `zero`."""
    parts = [f"{a - zero:.1f}..{b - zero:.1f} s" for a, b in intervals]
    more = f" and {len(parts) - most} more" if len(parts) > most else ""
    return ", ".join(parts[:most]) + more
