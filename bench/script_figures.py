#!/usr/bin/env python3
"""Compares k6 and volley with the same scripts. Started by bench/run, which prepares everything.

k6 and volley take turns inside a round. Ratios are made within a round and only then summarised:
median, with the smallest and the largest as the noise.
"""

import json
import os
import subprocess
import sys
import time

import tools
from figures import HERE, Run, show, spread
from tools import Bench, CouldNotRun

TOOLS = ["k6", "volley"]
CHECK_USERS, HEAVY_USERS = 50, 10
MEMORY_USERS = 1_000
MANY_USERS = 10_000
LEAST_S = 2  # with many users; before that k6 has not reached its peak
LATE_S = 0.5  # start and end of a run with few users take less
KB_PER_MB = 1024

CHECK_LIMIT, HEAVY_LIMIT = 0.25, 0.5
MEMORY_LIMIT_MB, MEMORY_LIMIT_RATIO = 0.25, 0.6
MANY_LIMIT_S = 5


def count(metrics, name, key):
    """A number of the summary; a metric that nobody used is not in it."""
    return int(metrics.get(name, {}).get(key, 0))


def failures(metrics):
    # `http_req_failed` counts failed requests as its passes
    return count(metrics, "checks", "fails") + count(metrics, "http_req_failed", "passes")


class ScriptRun(Run):
    """Everything that has been found out about scripts."""

    def __init__(self, bench, wanted, rounds, quick):
        super().__init__(bench, wanted, rounds)
        self.quick = quick
        self.dropped = set()
        self.ratio_values = {}   # figure -> one ratio per round
        self.memory_values = {}  # tool -> one (MB per user, MB in all) per round
        self.many_values = {}    # tool -> one dict per round

    def script(self, tool, name, users, duration_s=None, **options):
        """One run, compared with nginx's books; result, metrics, iterations."""
        before = self.bench.seen()
        result, metrics = tools.script(self.bench, tool, name, users, duration_s, **options)
        time.sleep(0.2)  # nginx counts a request when it ends
        seen = self.bench.seen() - before - 1
        said = count(metrics, "http_reqs", "count")
        # what was under way when the time was up
        if not 0 <= seen - said <= users:
            self.note(f"{tool}, {name}: says {said} requests, nginx saw {seen}")
        return result, metrics, count(metrics, "iterations", "count")

    def all_rounds(self, only):
        figures = [("check", lambda: self.cpu("check", CHECK_USERS)),
                   ("heavy", lambda: self.cpu("heavy", HEAVY_USERS)),
                   ("memory", self.memory),
                   ("many", self.many)]
        for turn in range(self.rounds):
            for name, figure in figures:
                if name not in only or name in self.dropped:
                    continue
                print(f"  round {turn + 1}: {name}", file=sys.stderr)
                if self.attempt(name, figure) is None:
                    self.dropped.add(name)

    def cpu(self, name, users):
        """CPU per iteration: a run for some time less one with an iteration for each user."""
        used = {tool: [] for tool in self.wanted}
        for duration_s in (None, self.bench.duration_s):
            for tool in self.wanted:
                result, metrics, iterations = self.script(tool, name, users, duration_s)
                if failures(metrics):
                    raise CouldNotRun(f"{tool}: {failures(metrics)} requests or checks failed")
                late_s = result["wall_s"] - (duration_s or result["wall_s"])
                if late_s > LATE_S:
                    self.note(f"{tool}, {name}: {users} users, {duration_s} s, but it took "
                              f"{late_s:.1f} s more to start and to end")
                used[tool].append((result["user_s"] + result["sys_s"], iterations, result))
        found = {}
        for tool, ((short_s, few, _), (long_s, many, result)) in used.items():
            if many <= few:
                raise CouldNotRun(f"{tool}: {few} iterations in the short run, {many} in the long")
            found[tool] = (long_s - short_s) * 1e6 / (many - few)
            self.by_job.setdefault(f"{tool}, {name}", []).append({
                "cpu_us": found[tool], "iterations": many, "rate": many / result["wall_s"],
                "cpu_share": long_s / result["wall_s"], "max_rss_kb": result["max_rss_kb"]})
            print(f"    {tool}: {found[tool]:.2f} us", file=sys.stderr)
        if len(found) == len(TOOLS):
            self.ratio_values.setdefault(name, []).append(found["volley"] / found["k6"])
        return found

    def memory(self):
        """What each further user costs at the peak, and all of them together."""
        peaks = {tool: [] for tool in self.wanted}
        # what grows with time is charged to the users
        for users, duration_s in ((1, 1), (MEMORY_USERS, max(self.bench.duration_s, LEAST_S))):
            for tool in self.wanted:
                result, metrics, iterations = self.script(tool, "check", users, duration_s)
                if iterations < users or failures(metrics):
                    raise CouldNotRun(f"{tool}: {iterations} iterations by {users} users, "
                                      f"{failures(metrics)} requests or checks failed")
                peaks[tool].append(result["max_rss_kb"] / KB_PER_MB)
        for tool, (one, all_of_them) in peaks.items():
            each = (all_of_them - one) / (MEMORY_USERS - 1)
            self.memory_values.setdefault(tool, []).append((each, all_of_them))
            print(f"    {tool}: {one:.1f} -> {all_of_them:.1f} MB", file=sys.stderr)
        return peaks

    def many(self):
        """When the last of 10,000 users has made its first request."""
        for tool in self.wanted:
            # for information, and it takes long: once is enough
            if tool == "k6" and (self.quick or tool in self.many_values):
                continue
            try:
                found = self.many_of(tool)
            except CouldNotRun as why:
                if tool == "volley":
                    raise
                self.note(f"{tool}, 10,000 VUs: {why}")
                continue
            self.many_values.setdefault(tool, []).append(found)
            print(f"    {tool}: {found['all_s']:.2f} s", file=sys.stderr)
        return True

    def many_of(self, tool):
        log = os.path.join(self.bench.dir, "first.log")
        open(log, "w").close()
        duration_s = max(self.bench.duration_s, LEAST_S)
        result, metrics, iterations = self.script(tool, "many", MANY_USERS, duration_s,
                                                  every_core=True)
        with open(log) as file:
            rows = [line.split() for line in file]
        users = len({user for _, _, user in rows})
        if users < MANY_USERS:
            raise CouldNotRun(f"only {users} of {MANY_USERS} users made a request: "
                              f"{result['stderr'].strip()[-300:]}")
        times = [float(when) - result["started_at"] for when, _, _ in rows]
        return {"first_s": min(times), "all_s": max(times), "iterations": iterations,
                "connections": len({connection for _, connection, _ in rows}),
                "failed": failures(metrics), "max_rss_kb": result["max_rss_kb"]}

    def summarise(self):
        for name, title, limit in [
                ("check", "one GET, 2 checks: CPU / iteration, to k6", CHECK_LIMIT),
                ("heavy", "HMAC and JSON of 10 KB: CPU / iteration, to k6", HEAVY_LIMIT)]:
            self.median_row(title, self.ratio_values.get(name), limit, "x")
        self.summarise_memory()
        self.summarise_many()

    def median_row(self, name, values, limit, unit, detail=""):
        if values:
            found = spread(values)
            self.row(name, found["median"], limit, unit, noise=found, detail=detail)

    def summarise_memory(self):
        volley, k6 = (self.memory_values.get(tool, []) for tool in ("volley", "k6"))
        self.median_row("1,000 VUs: peak memory per VU", [each for each, _ in volley],
                        MEMORY_LIMIT_MB, "MB")
        self.median_row("1,000 VUs: the same for k6", [each for each, _ in k6], None, "MB")
        pairs = list(zip(volley, k6))
        detail = ""
        if pairs:
            totals = [spread([total for _, total in values])["median"] for values in (volley, k6)]
            detail = f"({totals[0]:.0f} MB, k6 {totals[1]:.0f} MB)"
        self.median_row("1,000 VUs: peak memory, to k6", [ours[1] / theirs[1]
                                                          for ours, theirs in pairs],
                        MEMORY_LIMIT_RATIO, "x", detail)

    def summarise_many(self):
        rounds = self.many_values.get("volley", [])
        if rounds:
            last = rounds[-1]
            self.median_row("10,000 VUs: start to everyone's first request",
                            [found["all_s"] for found in rounds], MANY_LIMIT_S, "s",
                            f"(the first of them after {last['first_s']:.2f} s; peak "
                            f"{last['max_rss_kb'] / KB_PER_MB:.0f} MB)")
        for found in self.many_values.get("k6", []):
            self.row("10,000 VUs: the same for k6", found["all_s"], None, "s",
                     detail=f"(the first of them after {found['first_s']:.2f} s; peak "
                            f"{found['max_rss_kb'] / KB_PER_MB:.0f} MB)")
        if rounds:
            # the worst round: an error is no noise
            worst = max(rounds, key=shortcomings)
            self.row("10,000 VUs: failed or missing", shortcomings(worst), 0, "",
                     detail=f"({worst['iterations']} iterations, {worst['connections']} "
                            f"connections, {worst['failed']} failed requests and checks)")


def shortcomings(found):
    missing = max(0, MANY_USERS - found["iterations"]) + max(0, MANY_USERS - found["connections"])
    return found["failed"] + missing


def version(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=30)
    return (done.stdout.strip().splitlines() or ["unknown version"])[0]


def versions(bench):
    found = {tool: version(bench.paths[tool], "version" if tool == "k6" else "--version")
             for tool in TOOLS if tool in bench.paths}
    found["nginx"] = version(os.environ["BENCH_NGINX"], "-v")
    return found


def main():
    load = os.getloadavg()
    bench = Bench()
    wanted = [tool for tool in TOOLS if tool in bench.paths]
    quick = bool(os.environ.get("BENCH_QUICK"))
    run = ScriptRun(bench, wanted, int(os.environ["BENCH_ROUNDS"]), quick)
    found = versions(bench)
    machine = (f"{os.cpu_count()} cores, load average {load[0]:.2f} {load[1]:.2f} {load[2]:.2f} "
               f"at the beginning; rounds: {run.rounds} of {bench.duration_s} s")
    for note in os.environ.get("BENCH_NOTES", "").splitlines():
        run.note(note)
    if load[0] > 0.5:
        run.note("the machine was not idle at the beginning: look at min..max")
    run.all_rounds(os.environ["BENCH_ONLY"].split(","))
    run.summarise()
    print("\n".join([*found.values(), machine, ""]))
    show(run, "iteration")
    path = os.path.join(HERE, "results", "scripts.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        json.dump({
            "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "cores": os.cpu_count(), "load_average": load, "versions": found,
            "rounds": run.rounds, "duration_s": bench.duration_s, "quick": quick,
            "runs": run.by_job, "memory": run.memory_values, "many": run.many_values,
            "figures": run.rows, "notes": run.notes,
        }, file, indent=2)
        file.write("\n")
    over = any(row["ok"] is False for row in run.rows)
    return 1 if over or run.failed or os.environ.get("BENCH_MISSING") else 0


if __name__ == "__main__":
    sys.exit(main())
