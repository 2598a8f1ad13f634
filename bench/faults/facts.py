"""What is known of one job when it is over: everything that the oracle may look at, and nothing else.

All times are readings of this machine's monotonic clock, in seconds, unless a name says otherwise.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .plans import Plan

Interval = tuple[float, float]

# A workload that is first seen so much later than the first one belongs to a later wave.
NEXT_WAVE_S = 5.0


@dataclass(frozen=True)
class Seen:
    """A request, as the target saw it."""

    at: float
    source: str
    """Name of the node it came from."""
    what: str
    """Name of the workload, `setup` or `teardown`."""
    iteration: int | None = None
    row: str | None = None


@dataclass(frozen=True)
class Fault:
    """Something that was done to the fleet."""

    kind: str
    at: float
    until: float
    text: str


@dataclass(frozen=True)
class Steering:
    """`volley ctl` or `volley cancel`: it took effect between `sent` and `answered`, if it was accepted."""

    what: str
    """`pause`, `resume`, `scale` or `cancel`."""
    sent: float
    answered: float
    accepted: bool
    workload: str | None = None
    per_second: float | None = None
    users: int | None = None


@dataclass(frozen=True)
class Violation:
    promise: str
    """P1..P10 are the fleet's promises, R27 and R28 the rulings that make them precise."""
    check: str
    text: str

    def __str__(self) -> str:
        return f"{self.promise} {self.check}: {self.text}"


@dataclass
class Facts:
    plan: Plan
    requests: list[Seen]
    summary: dict[str, Any] | None
    """The document of `volley results --summary`."""
    exit_code: int | None
    """Of `volley results`."""
    submitted: float
    ended: float | None
    """When the job was first seen ended; None: it was not, and waiting was given up."""
    given_up: float | None = None
    steering: list[Steering] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    target_cuts: list[Interval] = field(default_factory=list)
    """Times in which requests may not have reached the target, by the campaign's own doing."""
    stalls: list[Interval] = field(default_factory=list)
    """Times in which this machine did not let the target's process run."""
    alarms: list[str] = field(default_factory=list)
    """Lines of logs that no fault excuses, and processes that ended by themselves."""
    settled: str | None = None
    """Why the fleet did not come to rest; None: it did."""
    last_status: dict[str, Any] | None = None
    outcomes: tuple[str, ...] = ("COMPLETED",)
    """What the job may end as, apart from a cancel."""
    found: list[Violation] = field(default_factory=list)
    """What a scenario has found broken by itself."""
    stalls_forbidden: bool = False
    """What was done is a handover: load must not notice (R28)."""

    @property
    def cancel(self) -> Steering | None:
        """The first cancel that was accepted."""
        return next((one for one in self.steering if one.what == "cancel" and one.accepted), None)

    @property
    def first(self) -> float | None:
        """When the target saw the job's first request."""
        return self.requests[0].at if self.requests else None

    def of(self, what: str) -> list[Seen]:
        return [one for one in self.requests if one.what == what]

    def of_any_load(self) -> list[Seen]:
        names = {one.name for one in self.plan.workloads}
        return [one for one in self.requests if one.what in names]

    def load_began(self) -> float | None:
        """When the first request of any workload was seen."""
        load = self.of_any_load()
        return load[0].at if load else None

    def began(self, workload: str) -> float | None:
        """When a workload began: with the load, as workloads of one wave start at one instant.

        With too few cores for all they run one after the other: one that is first seen much later began then."""
        seen, load = next((one.at for one in self.requests if one.what == workload), None), self.load_began()
        if seen is None or load is None:
            return None
        return load if seen - load < NEXT_WAVE_S else seen

    def shards(self, workload: str) -> int:
        """In how many parts a workload was divided; part k has the iterations i with i mod n = k."""
        found = ((self.summary or {}).get("workflows") or {}).get(workload) or {}
        return max(int(found.get("cores") or 0), 1)


def read_log(path: Path, tag: str, names: dict[str, str]) -> tuple[list[Seen], list[Interval]]:
    """Requests of the job `tag` and the machine's stalls, from the target's log. `names`: nodes by address."""
    requests: list[Seen] = []
    stalls: list[Interval] = []
    if not path.exists():
        return requests, stalls
    with path.open(errors="replace") as lines:
        for line in lines:
            parts = line.split()
            if len(parts) != 3 or not line.endswith("\n"):
                continue
            at, source, path_text = float(parts[0]), parts[1], parts[2]
            if source == "stall":
                stalls.append((at - float(path_text), at))
            elif (one := _parse(at, names.get(source, source), path_text, tag)) is not None:
                requests.append(one)
    requests.sort(key=lambda one: one.at)
    return requests, stalls


def _parse(at: float, source: str, text: str, tag: str) -> Seen | None:
    path, _, query = text.partition("?")
    pieces = path.split("/")
    if len(pieces) != 3 or pieces[1] != tag:
        return None
    values = dict(pair.split("=", 1) for pair in query.split("&") if "=" in pair)
    iteration = values.get("it")
    return Seen(at, source, pieces[2], int(iteration) if iteration is not None else None, values.get("row"))


def save(facts: Facts, folder: Path) -> None:
    """The facts as a file, for people who look into a violation."""
    document = {
        "plan": facts.plan.name, "submitted": facts.submitted, "ended": facts.ended, "given_up": facts.given_up,
        "exit_code": facts.exit_code, "seen": len(facts.requests),
        "faults": [vars(one) for one in facts.faults], "steering": [vars(one) for one in facts.steering],
        "target_cuts": facts.target_cuts, "stalls": facts.stalls, "alarms": facts.alarms, "settled": facts.settled,
        "last_status": facts.last_status,
    }
    (folder / "facts.json").write_text(json.dumps(document, indent=1))
