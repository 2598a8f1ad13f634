"""The oracle: pure functions from what is known of a job to the promises that were broken.

The load itself is judged by `loadcheck`. Here are the counts, the outcome, setup and teardown, the clock, and the end.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Iterable

from . import loadcheck, schedule
from .facts import Facts, Violation
from .plans import RATE

ELAPSED_SLACK_S = 1.5
REPEATED = re.compile(r"\b(again|repeat\w*|twice|second time|once more|rerun|re-run|more than once)\b", re.I)


def judge(facts: Facts) -> list[Violation]:
    """Every promise that was broken, the gravest first."""
    checks: list[Callable[[Facts], Iterable[Violation]]] = [
        loadcheck.nothing_twice, loadcheck.one_source, ended, outcome, run_and_dropped, bounds, corrected_bounds,
        loadcheck.every_hole_is_told, setup_and_teardown, elapsed, alarms, settled,
    ]
    return [violation for check in checks for violation in check(facts)] + facts.found


def ended(facts: Facts) -> Iterable[Violation]:
    if facts.ended is None:
        state = facts.last_status or {}
        waited = (facts.given_up or 0.0) - facts.submitted
        yield Violation("P7", "hang", f"the job had not ended after {waited:.0f} s (its plan takes "
                                      f"{facts.plan.length_s:.0f} s): {state.get('state')}, {state.get('detail')}")
    elif facts.summary is None:
        yield Violation("P5", "no result", f"the job has ended, and `volley results` gave {facts.exit_code} and no "
                                           f"document")
    if facts.ended is not None and facts.cancel is None:
        silent = [one.name for one in facts.plan.workloads if not facts.of(one.name)]
        if silent:
            yield Violation("P7", "no load", f"the job ended without a request of {', '.join(silent)}")


def outcome(facts: Facts) -> Iterable[Violation]:
    summary = facts.summary
    if summary is None:
        return
    got, code = summary["outcome"], summary["exit_code"]
    told = f"outcome {got}, exit code {code} ({summary.get('exit_reason')})"
    if facts.exit_code is not None and facts.exit_code != code:
        yield Violation("R5", "exit code", f"`volley results` ended with {facts.exit_code}, its document says {code}")
    if facts.cancel is not None:
        if got != "CANCELLED" or code != 103:
            yield Violation("R5", "outcome", f"the job was cancelled, and ended with {told}; CANCELLED and 103 were "
                                             "promised to whoever cancelled")
        return
    if got not in facts.outcomes:
        yield Violation("P7", "outcome", f"expected {' or '.join(facts.outcomes)}: {told}")
    elif got == "COMPLETED":
        fine = {0, 99} if summary["requests"]["failed"] and facts.target_cuts else {0}
        if code not in fine:
            yield Violation("R5", "exit code", f"expected 0: {told}")


def run_and_dropped(facts: Facts) -> Iterable[Violation]:
    """Run + dropped = planned, for every workload whose plan can be counted."""
    if facts.summary is None:
        return
    for one in facts.plan.workloads:
        part, began = facts.summary["workflows"].get(one.name), facts.began(one.name)
        wanted = None if began is None else schedule.planned(facts, one, began)
        if part is None or wanted is None:
            continue
        run = part["iterations"] + part["iterations_interrupted"]
        dropped = sum(part["dropped"].values())
        if not wanted.least <= run + dropped <= wanted.most:
            shown = f"{wanted.most:.0f}" if wanted.least == wanted.most else f"{wanted.least:.0f}..{wanted.most:.0f}"
            yield Violation("R27", "run + dropped", f"{one.name}: {run} run + {dropped} dropped ({part['dropped']}) = "
                                                    f"{run + dropped}, planned {shown}")
        distinct = len({s.iteration for s in facts.of(one.name)})
        if one.kind != RATE and part["dropped"].get("time_over") and facts.cancel is None:
            yield Violation("R27", "time_over", f"{one.name}: {part['dropped']['time_over']} iterations dropped as "
                                                f"time_over, and its time was not over ({distinct} seen)")


def bounds(facts: Facts) -> Iterable[Violation]:
    """completed <= seen by the target <= issued."""
    if facts.summary is None:
        return
    requests, seen = facts.summary["requests"], len(facts.requests)
    completed = requests["count"] - requests["failed"] - requests["interrupted"] - requests["retried"]
    if completed > seen:
        yield Violation("P5", "completed > seen", f"the result counts {completed} answered requests, the target saw "
                                                  f"{seen}")
    if "issued" not in requests:
        more = f"; sent is {requests['sent']}, below the {seen} that the target saw" if requests["sent"] < seen else ""
        yield Violation("P5", "no issued", f"`requests.issued` is not in the summary{more}")
        return
    issued, exactness = requests["issued"], requests.get("issued_is")
    if exactness not in ("exact", "bound", "unknown"):
        yield Violation("P5", "issued_is", f"`requests.issued_is` is {exactness!r}")
    if exactness == "unknown":
        if issued is not None:
            yield Violation("P5", "issued_is", f"issued is unknown, and given as {issued}")
    elif issued is None or seen > issued:
        yield Violation("P5", "seen > issued", f"the target saw {seen} requests, issued is {issued} ({exactness})")
    elif exactness == "exact" and not facts.faults and issued != seen:
        yield Violation("P5", "issued", f"nothing was lost, issued is {issued} and the target saw {seen}")


def corrected_bounds(facts: Facts) -> Iterable[Violation]:
    """The same with what workers have said since: they were all there is if the number is exact."""
    addenda, corrected = (facts.summary or {}).get("addenda"), (facts.summary or {}).get("corrected")
    if not addenda or corrected is None:
        if addenda or corrected:
            yield Violation("P5", "addenda", f"{len(addenda or [])} addenda, and corrected is {corrected}")
        return
    requests, seen = corrected["requests"], len(facts.requests)
    issued, exactness, completed = requests["issued"], requests["issued_is"], requests["completed"]
    if completed > seen:
        yield Violation("P5", "corrected completed > seen", f"with its addenda the result counts {completed} answered "
                                                            f"requests, the target saw {seen}")
    if exactness != "unknown" and (issued is None or seen > issued):
        yield Violation("P5", "seen > corrected issued", f"the target saw {seen} requests, issued is {issued} with all "
                                                         f"addenda ({exactness})")
    told = [(one["worker"], one["workflow"], one["shard"], one["attempt"]) for one in addenda]
    if len(set(told)) < len(told):
        yield Violation("P5", "addenda", f"an attempt has several addenda: {told}")


def unchanged(early: dict[str, Any], late: dict[str, Any]) -> Iterable[Violation]:
    """A worker that comes back adds to a result, and changes nothing in it."""
    for key in ("outcome", "exit_code"):
        if early[key] != late[key]:
            yield Violation("R5", f"{key} changed", f"{early[key]} became {late[key]} when a worker came back")
    for key in ("verdict", "requests", "iterations", "dropped"):
        if early[key] != late[key]:
            yield Violation("R5", "result changed", f"{key}: {early[key]} became {late[key]} when a worker came back")


def heard_again(early: dict[str, Any], late: dict[str, Any]) -> Iterable[Violation]:
    """Once every worker is back, the number of issued requests is exact."""
    if early["requests"]["issued_is"] == "exact":
        return
    corrected = late.get("corrected")
    if corrected is None or corrected["requests"]["issued_is"] != "exact":
        yield Violation("P5", "not corrected", f"issued was {early['requests']['issued_is']}, every worker is back, and "
                                               f"corrected is {corrected}")


def setup_and_teardown(facts: Facts) -> Iterable[Violation]:
    """Setup before the load, teardown after it, a repetition is marked."""
    plan, began = facts.plan, facts.load_began()
    setups, teardowns = facts.of("setup"), facts.of("teardown")
    loads = facts.of_any_load()
    if plan.setup and began is not None and (not setups or setups[0].at > began):
        yield Violation("P7", "setup", "load began before any setup had")
    if facts.ended is not None and plan.teardown and setups and began is not None and not facts.target_cuts:
        if not teardowns:
            yield Violation("R28" if facts.cancel else "P7", "teardown",
                            "teardown was not run" + (" after the cancel" if facts.cancel else ""))
        elif loads and loads[-1].at > teardowns[0].at + 0.5:
            yield Violation("P1", "teardown", f"load was seen {loads[-1].at - teardowns[0].at:.1f} s after teardown "
                                              "had begun")
    events = [entry["event"] for entry in (facts.summary or {}).get("timeline", [])]
    for what, seen in (("setup", setups), ("teardown", teardowns)):
        marked = any(what in event and REPEATED.search(event) for event in events)
        if len(seen) > 1 and facts.summary is not None and not marked:
            yield Violation("P5", f"{what} repeated", f"{what} ran {len(seen)} times, and no entry of the timeline "
                                                      "says so")


def elapsed(facts: Facts) -> Iterable[Violation]:
    """Time without an owner is time: elapsed lies between what the target saw and what the client saw."""
    if facts.summary is None or facts.first is None or facts.ended is None:
        return
    told = float(facts.summary["elapsed_s"])
    least, most = facts.requests[-1].at - facts.first, facts.ended - facts.first
    if not least - ELAPSED_SLACK_S <= told <= most + ELAPSED_SLACK_S:
        yield Violation("R27", "elapsed", f"elapsed is {told:.1f} s; the target saw requests over {least:.1f} s, and "
                                          f"the job was over {most:.1f} s after the first of them")


def alarms(facts: Facts) -> Iterable[Violation]:
    for line in facts.alarms[:5]:
        yield Violation("P10", "alarm", line)


def settled(facts: Facts) -> Iterable[Violation]:
    if facts.settled is not None:
        yield Violation("P7", "not settled", facts.settled)
