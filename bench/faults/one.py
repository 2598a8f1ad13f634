"""One run in a process of its own: `python3 -m faults.one`, started by the campaign.

It writes `outcome.json` into its folder. Everything else there is kept only if a promise was broken.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, TextIO

from . import nemesis, oracle
from .disks import unmount_below
from .facts import Facts, save
from .fleet import Fleet
from .lab import Lab
from .network import CouldNotRun, take_lane
from .recovery import recoveries
from .scenarios import SCENARIOS
from .scenarios.registry import Scenario

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """The campaign may be killed; its runs then end in order, and clean up."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)

    def stop(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def forget_earlier(lock: TextIO, folder: Path) -> None:
    """The lane's lock says where its last run had its disks; one that was killed has left them mounted."""
    lock.seek(0)
    earlier = lock.read().strip()
    if earlier:
        unmount_below(Path(earlier))
    lock.truncate(0)
    lock.write(str(folder))
    lock.flush()


def perform(one: Scenario, folder: Path, volley: str, certs: Path) -> tuple[Facts, Fleet]:
    lane, lock = take_lane()
    forget_earlier(lock, folder)
    with lock, Lab(lane, folder, volley, certs, one.managers, one.workers, one.cores,
                         one.small_disks) as lab:
        for name in lab.managers:
            lab.flags[name] = list(one.manager_flags)
        fleet = Fleet(lab)
        fleet.up()
        return one.act(fleet), fleet


def outcome_of(facts: Facts) -> dict[str, Any]:
    summary = facts.summary or {}
    return {
        "violations": [vars(one) for one in oracle.judge(facts)],
        "recoveries": [vars(one) for one in recoveries(facts)],
        "faults": [one.kind for one in facts.faults] + [one.what for one in facts.steering],
        "outcome": summary.get("outcome"),
        "verdict": (summary.get("verdict") or {}).get("state"),
        "seen": len(facts.requests),
    }


def main() -> int:
    die_with_parent()
    options = argparse.ArgumentParser()
    options.add_argument("--volley", required=True)
    options.add_argument("--certs", type=Path, required=True)
    options.add_argument("--folder", type=Path, required=True)
    what = options.add_mutually_exclusive_group(required=True)
    what.add_argument("--scenario")
    what.add_argument("--seed", type=int)
    args = options.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    try:
        one = SCENARIOS[args.scenario] if args.scenario else nemesis.of_seed(args.seed)
        facts, _ = perform(one, args.folder, args.volley, args.certs)
        save(facts, args.folder)
        told = outcome_of(facts)
    except CouldNotRun as error:
        told = {"error": str(error)}
    except KeyboardInterrupt:
        told = {"error": "interrupted"}
    except Exception:
        told = {"error": traceback.format_exc()}
    told["took_s"] = round(time.monotonic() - begun, 1)
    (args.folder / "outcome.json").write_text(json.dumps(told, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
