"""`bench/run faults`: the command line of the campaign."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from collections import Counter
from pathlib import Path

from . import campaign
from .campaign import Campaign, Order
from .scenarios import SCENARIOS

REPO = Path(__file__).resolve().parents[2]
# Command -> Debian package.
NEEDED = {"ip": "iproute2", "iptables": "iptables", "setpriv": "util-linux", "mount": "mount"}
SHORT_SCENARIOS = (
    "rolling-restart", "counted-worker-cut-9s", "worker-killed", "cancel-under-load", "owner-killed",
    "worker-cut-from-managers", "pause-owner-killed-resume", "leader-disk-full", "results-of-a-running-job",
)
SHORT_SEEDS = (1, 57)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/run faults", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Real processes in network namespaces, faults on purpose, and an oracle that compares every result "
                    "with what the target saw. Needs root; without it nothing is run and that is said.",
        epilog="Exit codes: 0 every promise held (or skipped), 1 a promise was broken, 2 something could not run.\n"
               "Without --only, --seeds and --short all scenarios are run.")
    parser.add_argument("--list", action="store_true", help="the scenarios, and what each does")
    parser.add_argument("--only", metavar="NAME", action="append", default=[],
                        help="this scenario; may be repeated, or a list")
    parser.add_argument("--repeat", metavar="N", type=int, help="each scenario so often (default: once)")
    parser.add_argument("--seeds", metavar="FROM..TO", help="random faults from these seeds, 60 to 180 s each")
    parser.add_argument("--short", action="store_true", help="about five minutes, always the same; what CI runs")
    parser.add_argument("--lanes", metavar="N", type=int, help="runs beside each other (default 1, with --short 2)")
    parser.add_argument("--volley", metavar="PATH", default=os.environ.get("VOLLEY"),
                        help="the binary (default: $VOLLEY, or a release build of this source)")
    parser.add_argument("--no-build", action="store_true", help="take the release build that is there")
    parser.add_argument("--no-install", action="store_true", help="install nothing")
    parser.add_argument("--folder", metavar="DIR", type=Path,
                        help="where runs write (default: /var/tmp/volley-faults/...)")
    parser.add_argument("--keep", action="store_true", help="keep the files of runs in which everything held")
    return parser.parse_args()


def fail(text: str) -> int:
    print(f"bench/run faults: {text}", file=sys.stderr)
    return 2


def orders(args: argparse.Namespace) -> list[Order]:
    if args.short:
        seeds = [campaign.of_seed(seed) for seed in SHORT_SEEDS]
        return seeds + [campaign.of_scenario(name) for name in SHORT_SCENARIOS]
    if args.seeds:
        first, _, last = args.seeds.partition("..")
        return [campaign.of_seed(seed) for seed in range(int(first), int(last or first) + 1)]
    names = [name for one in args.only for name in one.split(",")] or list(SCENARIOS)
    so_far: Counter[str] = Counter()
    wanted = []
    for name in names * (args.repeat or 1):
        so_far[name] += 1
        wanted.append(campaign.of_scenario(name, so_far[name]))
    return wanted


def install(allowed: bool) -> str | None:
    """What is missing and could not be installed; None: all is there."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = sorted({package for command, package in NEEDED.items() if shutil.which(command) is None})
    if missing and allowed:
        print(f"installing {' '.join(missing)}", file=sys.stderr)
        quietly = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *missing]):
            subprocess.run(["apt-get", *words], stdout=subprocess.DEVNULL, env=quietly)
    left = [command for command in NEEDED if shutil.which(command) is None]
    return ", ".join(left) or None


def can_isolate() -> bool:
    """Whether namespaces and packet filters are allowed here; in some containers they are not."""
    probe = f"volley-probe-{os.getpid()}"
    try:
        made = subprocess.run(["ip", "netns", "add", probe], capture_output=True).returncode == 0
        rule = ["ip", "netns", "exec", probe, "iptables", "-w", "-A", "INPUT", "-s", "192.0.2.1", "-j", "DROP"]
        return made and subprocess.run(rule, capture_output=True).returncode == 0
    finally:
        subprocess.run(["ip", "netns", "del", probe], capture_output=True)


def oracle_is_sound() -> bool:
    """The oracle's own tests: one that sees nothing would pass everything."""
    tests = unittest.defaultTestLoader.discover(str(Path(__file__).parent / "tests"), top_level_dir=str(REPO / "bench"))
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=0).run(tests)
    return result.wasSuccessful() and result.testsRun > 0


def find_volley(args: argparse.Namespace) -> str | None:
    if args.volley:
        return shutil.which(args.volley)
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target")) / "release" / "volley"
    if not args.no_build:
        print("building volley (release)", file=sys.stderr)
        if subprocess.run(["cargo", "build", "--release", "-q", "-p", "volley"], cwd=REPO).returncode != 0:
            return None
    return shutil.which(target)


def main() -> int:
    args = options()
    if args.list:
        width = max(map(len, SCENARIOS))
        for one in SCENARIOS.values():
            print(f"{one.name:{width}}  {one.about}")
        return 0
    try:
        wanted = orders(args)
    except ValueError:
        return fail(f"--seeds: '{args.seeds}' is not FROM..TO")
    for kind, name in (one.arguments for one in wanted):
        if kind == "--scenario" and name not in SCENARIOS:
            return fail(f"there is no scenario '{name}'; see --list")
    if not oracle_is_sound():
        return fail("the oracle's own tests fail; nothing it says can be believed")
    if os.geteuid() != 0:
        print("bench/run faults: SKIPPED: network namespaces need root; no fault was tried")
        return 0
    missing = install(not (args.no_install or os.environ.get("VOLLEY_NO_INSTALL")))
    if missing:
        print(f"bench/run faults: SKIPPED: {missing} could not be found or installed; no fault was tried")
        return 0
    if not can_isolate():
        print("bench/run faults: SKIPPED: network namespaces or iptables are not allowed here; no fault was tried")
        return 0
    volley = find_volley(args)
    if volley is None:
        return fail(f"there is no volley to run ({args.volley or 'not built'})")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    root = args.folder or Path("/var/tmp/volley-faults") / time.strftime(f"%Y%m%d-%H%M%S-{os.getpid()}")
    lanes = args.lanes or (2 if args.short else 1)
    print(f"{volley}; {len(wanted)} runs in {lanes} lanes; files in {root}; load average "
          f"{' '.join(f'{one:.2f}' for one in os.getloadavg()[:2])}", flush=True)
    return Campaign(str(Path(volley).resolve()), root.resolve(), lanes, args.keep).run(wanted)


if __name__ == "__main__":
    sys.exit(main())
