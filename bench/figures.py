#!/usr/bin/env python3
"""Runs the comparison and prints the table. Started by bench/run, which prepares everything.

Tools take turns (A B C, A B C, ...), so that a machine that gets slower or busier does so for all
of them. Ratios are made within a round and only then summarised: median, with the smallest and
the largest as the noise.
"""

import json
import os
import statistics
import sys
import time
from subprocess import SubprocessError

import single
import tools
from tools import Bench, CouldNotRun

HERE = os.path.dirname(os.path.abspath(__file__))
CONNECTIONS = 64
CONNECTIONS_MANY = 10_000
H2_CONNECTIONS, H2_STREAMS = 8, 10


def jobs(bench):
    """What is run in each round: name, tool, how."""
    time_is = ("duration: 5s", f"duration: {bench.duration_s}s")
    # Opening 10,000 connections takes half a second of CPU; in a short run it would be the figure.
    many_s = 3 * bench.duration_s
    many = [("duration: 5s", f"duration: {many_s}s"), ("vus: 64", f"vus: {CONNECTIONS_MANY}")]
    # What is compared most closely runs next to each other: the machine changes by the minute.
    return [
        ("wrk", "wrk", lambda b: tools.wrk(b, CONNECTIONS)),
        ("volley", "volley", lambda b: tools.volley(b, "get", replace=[time_is])),
        ("volley, checks", "volley", lambda b: tools.volley(b, "checks", replace=[time_is])),
        ("oha", "oha", lambda b: tools.oha(b, CONNECTIONS)),
        ("k6", "k6", lambda b: tools.k6(b, CONNECTIONS)),
        ("h2load", "h2load", lambda b: tools.h2load(b, H2_CONNECTIONS, H2_STREAMS)),
        ("volley, HTTP/2", "volley",
         lambda b: tools.volley(b, "http2", url=b.url_h2, replace=[time_is])),
        ("wrk, 10,000", "wrk", lambda b: tools.wrk(b, CONNECTIONS_MANY, many_s)),
        ("volley, 10,000", "volley", lambda b: tools.volley(b, "get", replace=many)),
    ]


# name, what is divided by what, limit of the ratio (None: for information)
RATIOS = [
    ("one GET: CPU / request, to wrk", "volley", "wrk", 1.0),
    ("one GET: CPU / request, to oha", "volley", "oha", None),
    ("one GET: CPU / request, to k6", "volley", "k6", None),
    ("3 checks + extraction: CPU / request, to wrk", "volley, checks", "wrk", 1.8),
    ("HTTP/2, 8 x 10 streams: CPU / request, to h2load", "volley, HTTP/2", "h2load", 1.3),
    ("64 -> 10,000 VUs: growth of CPU / request", "volley, 10,000", "volley", 1.6),
    ("64 -> 10,000 connections: growth for wrk", "wrk, 10,000", "wrk", None),
]


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


class Run:
    """Everything that has been found out, and what could not be."""

    def __init__(self, bench, wanted, rounds):
        self.bench, self.wanted, self.rounds = bench, wanted, rounds
        self.by_job = {}   # name -> one dict per round
        self.rows = []     # figures with a limit
        self.notes = []
        self.failed = False

    def attempt(self, what, run):
        try:
            return run()
        except (CouldNotRun, OSError, LookupError, ValueError, SubprocessError) as why:
            text = str(why) if isinstance(why, CouldNotRun) else repr(why)
            self.note(f"{what}: could not run: {text}")
            self.failed = True
            return None

    def note(self, text):
        print("  " + text, file=sys.stderr)
        if text not in self.notes:
            self.notes.append(text)

    def all_rounds(self):
        dropped = set()
        for turn in range(self.rounds):
            for name, tool, run in jobs(self.bench):
                if tool not in self.wanted or name in dropped:
                    continue
                figures = self.attempt(name, lambda: tools.counted(self.bench, run))
                if figures is None:
                    dropped.add(name)
                    self.by_job.pop(name, None)
                    continue
                self.by_job.setdefault(name, []).append(figures)
                print(f"  round {turn + 1}: {name}: {figures['cpu_us']:.2f} us, "
                      f"{figures['rate']:.0f}/s", file=sys.stderr)
                self.cross_check(name, figures)
                time.sleep(0.3)

    def cross_check(self, name, figures):
        """Both books must agree but for what was under way when the time was up."""
        difference = figures["seen_by_server"] - figures["requests"]
        allowed = CONNECTIONS_MANY if "10,000" in name else max(CONNECTIONS, 80)
        if not 0 <= difference <= allowed:
            self.note(f"{name}: says {figures['requests']} requests, nginx saw "
                      f"{figures['seen_by_server']}")

    def ratios(self):
        for name, top, bottom, limit in RATIOS:
            pairs = zip(self.by_job.get(top, []), self.by_job.get(bottom, []))
            values = [above["cpu_us"] / below["cpu_us"] for above, below in pairs]
            if values:
                found = spread(values)
                self.row(name, found["median"], limit, "x", noise=found)

    def row(self, name, value, limit, unit, noise=None, at_least=False, detail=""):
        ok = None
        if limit is not None:
            ok = value >= limit if at_least else value <= limit
        self.rows.append({"figure": name, "value": value, "unit": unit, "limit": limit,
                          "at_least": at_least, "ok": ok, "noise": noise, "detail": detail})

    def singles(self):
        if "volley" not in self.wanted:
            return
        for what, run in single.ALL:
            print(f"  {what}", file=sys.stderr)
            for row in self.attempt(what, lambda: run(self.bench)) or []:
                self.row(**row)


def show(run, each="request"):
    print(f"{'generator':<16} {'CPU us/' + each:>16} {'min..max':>17} {each + 's/s':>12} "
          f"{'core':>5} {'peak MB':>8}")
    for name, rounds in run.by_job.items():
        cpu = spread([r["cpu_us"] for r in rounds])
        median = {key: statistics.median(r[key] for r in rounds)
                  for key in ("rate", "cpu_share", "max_rss_kb")}
        noise = f"{cpu['min']:.2f}..{cpu['max']:.2f}"
        print(f"{name:<16} {cpu['median']:>16.2f} {noise:>17} {median['rate']:>12.0f} "
              f"{median['cpu_share']:>5.0%} {median['max_rss_kb'] / 1024:>8.1f}")
    if run.rows:
        print(f"\n{'figure':<52} {'measured':>12} {'noise':>13} {'limit':>12}")
    for row in run.rows:
        noise = row["noise"]
        noise = f"{noise['min']:.2f}..{noise['max']:.2f}" if noise else ""
        sign = ">=" if row["at_least"] else "<="
        limit = "" if row["limit"] is None else f"{sign} {row['limit']:g} {row['unit']}"
        verdict = {None: "", True: "ok", False: "OVER"}[row["ok"]]
        if row["ok"] is False and row["at_least"]:
            verdict = "UNDER"
        print(f"{row['figure']:<52} {row['value']:>9.4g} {row['unit']:<2} {noise:>13} "
              f"{limit:>12}  {verdict:<5} {row['detail']}".rstrip())
    for note in run.notes:
        print("note: " + note)


def main():
    bench = Bench()
    wanted = os.environ["BENCH_ONLY"].split(",")
    wanted = [tool for tool in wanted if tool in bench.paths]
    run = Run(bench, wanted, int(os.environ["BENCH_ROUNDS"]))
    for note in os.environ.get("BENCH_NOTES", "").splitlines():
        run.note(note)
    if run.rounds > 0:
        run.all_rounds()
        run.ratios()
    if not os.environ.get("BENCH_NO_SINGLE"):
        run.singles()
    show(run)
    path = os.path.join(HERE, "results", "latest.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        json.dump({
            "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "cores": os.cpu_count(), "rounds": run.rounds, "duration_s": bench.duration_s,
            "tools": bench.paths, "runs": run.by_job, "figures": run.rows, "notes": run.notes,
        }, file, indent=2)
        file.write("\n")
    return 1 if run.failed or os.environ.get("BENCH_MISSING") else 0


if __name__ == "__main__":
    sys.exit(main())
