"""What a datacenter survives, and what it costs: the figures of `bench/run cluster`.

    cluster.py VOLLEY [--only PART,...] [--runs N] [--rounds N]

Parts: workers (kill -9 of one of three), managers (of the owner, of the leader, of all), overhead (CPU per request against
a local run), latency (submit to first request), queue (1,000 jobs at once). Everything runs on loopback, as processes of
their own: `volley up --processes --json`. Ratios and counts; load averages are printed, because a busy machine shows.
"""

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

LEASE_S = 6.0


def load_average():
    return " ".join(f"{x:.2f}" for x in os.getloadavg()[:2])


def percentile(values, p):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * p / 100))] if ordered else float("nan")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Target:
    """`volley target`, which counts what it has seen."""

    def __init__(self, volley):
        self.port = free_port()
        self.child = subprocess.Popen(
            [volley, "target", "--listen", f"127.0.0.1:{self.port}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: self.total() is not None, 20, "the target")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def total(self):
        try:
            with urllib.request.urlopen(f"{self.url}/volley/seen", timeout=2) as answer:
                return json.load(answer)["total"]
        except OSError:
            return None

    def stop(self):
        self.child.kill()
        self.child.wait()


def wait_for(holds, seconds, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.02)
    raise SystemExit(f"waited in vain for {what}")


class Cluster:
    """A datacenter; its nodes are processes."""

    def __init__(self, volley, managers=3, workers=3, cores=1, more=()):
        self.volley = volley
        self.folder = tempfile.mkdtemp(prefix="volley-bench-")
        self.dir = os.path.join(self.folder, "dc")
        self.env = dict(os.environ, XDG_STATE_HOME=os.path.join(self.folder, "state"))
        for name in [name for name in self.env if name.startswith("VOLLEY_")]:
            del self.env[name]
        self.up = subprocess.Popen(
            [volley, "up", "--processes", "--json", "--managers", str(managers), "--workers", str(workers),
             "--cores", str(cores), "--dir", self.dir, *more],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self.env, text=True)
        self.nodes = {}
        for _ in range(managers + workers):
            node = json.loads(self.up.stdout.readline())
            self.nodes[node["name"]] = node
        wait_for(lambda: self.ready(workers), 60, "the cluster")
        # Each manager has heard of every worker a moment after the first one has.
        time.sleep(2)

    def run(self, *args, check=True, timeout=300):
        done = subprocess.run([self.volley, *args], env=self.env, capture_output=True, text=True,
                              timeout=timeout, cwd=self.folder)
        if check and done.returncode != 0:
            raise SystemExit(f"volley {' '.join(args)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def json(self, *args):
        return json.loads(self.run(*args, "--json").stdout)

    def ready(self, workers):
        done = self.run("status", "--json", check=False)
        if done.returncode != 0:
            return False
        nodes = json.loads(done.stdout)["nodes"]
        alive = [n for n in nodes if n["role"] == "worker" and n["state"] == "alive" and n["cores"]]
        return any(n["leads"] for n in nodes) and len(alive) >= workers

    def submit(self, plan, *more):
        path = os.path.join(self.folder, "plan.yaml")
        with open(path, "w") as file:
            file.write(plan)
        return self.json("submit", path, *more)["job"]

    def status(self, job):
        return self.json("status", job)

    def name_of(self, node):
        return next(name for name, known in self.nodes.items() if known["node"] == node)

    def owner(self, job):
        return self.name_of(self.status(job)["owner"])

    def leader(self):
        nodes = self.json("status")["nodes"]
        return self.name_of(next(n["node"] for n in nodes if n["leads"]))

    def kill(self, name):
        os.kill(self.nodes[name]["pid"], signal.SIGKILL)

    def cpu(self, name):
        """User and system seconds of a node's process."""
        with open(f"/proc/{self.nodes[name]['pid']}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self, name):
        with open(f"/proc/{self.nodes[name]['pid']}/status") as file:
            return int(re.search(r"VmHWM:\s+(\d+)", file.read()).group(1)) / 1024

    def restart_manager(self, name):
        """As `volley up` had started it."""
        home = os.path.join(self.dir, name)
        peers = ",".join(n["address"] for n in self.nodes.values() if n["role"] == "manager")
        log = open(os.path.join(home, "log"), "a")
        child = subprocess.Popen(
            [self.volley, "manager", "--bind", self.nodes[name]["address"], "--peers", peers,
             "--certs", os.path.join(home, "certs"), "--data", os.path.join(home, "data")],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env)
        self.nodes[name]["pid"] = child.pid
        self.restarted = getattr(self, "restarted", []) + [child]

    def dropped(self, job):
        """Iterations that were due and not begun, by cause."""
        path = os.path.join(self.folder, "result.json")
        self.run("results", job, "--quiet", "--summary", path, check=False)
        with open(path) as file:
            return {cause: count for cause, count in json.load(file)["dropped"].items() if count} or 0

    def issued_on(self, name):
        """Requests begun by the attempts of a worker that was killed: the files that outlive it."""
        folder = os.path.join(self.dir, name, "data", "issued")
        total = 0
        for file in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            with open(os.path.join(folder, file), "rb") as page:
                page = page.read()
            # One page: magic, checksum, identity; the counters begin at 64 (crates/client/src/issued.rs).
            if page[:8] == b"volyiss1":
                total += struct.unpack_from("<Q", page, 64)[0]
        return total

    def stop(self):
        self.up.send_signal(signal.SIGTERM)
        for child in getattr(self, "restarted", []):
            child.kill()
            child.wait()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.up.wait(15)
        self.up.kill()
        for node in self.nodes.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(node["pid"], signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


class Watch:
    """`volley watch --json`, with the moment at which each line came."""

    def __init__(self, cluster, job):
        self.windows, self.notes, self.final = [], [], None
        self.child = subprocess.Popen([cluster.volley, "watch", job, "--json"], env=cluster.env,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.child.stdout:
            now, told = time.monotonic(), json.loads(line)
            if "window" in told:
                self.windows.append((now, told["window"]))
            elif "note" in told:
                self.notes.append((now, told["note"]))
            elif "final" in told:
                self.final = told["final"]

    def join(self, seconds):
        self.thread.join(seconds)
        self.child.kill()
        self.thread.join()


def plan(url, load, name="bench", share="auto"):
    """`share`: `high` spreads a load over all workers that would need one core only."""
    return (f"name: {name}\ntarget: {url}\nworkflows:\n  - name: main\n    priority: {share}\n    load: {{ {load} }}\n"
            f"    steps: [ {{ name: home, get: / }} ]\n")


def until_ended(cluster, job, seconds=120):
    wait_for(lambda: cluster.status(job)["state"] == "ended", seconds, f"the end of {job}")
    return cluster.status(job)


def back_at_rate(windows, killed, rate):
    """When a whole second of load was again at 95 % of the plan, by the arrival of its last window."""
    after = [(at, w) for at, w in windows if at > killed]
    spread = []
    dipped = None
    for at, window in after:
        count = window["counted"]["requests"]
        length = window["to_s"] - window["from_s"]
        spread.append((at, count, length))
        while sum(l for _, _, l in spread) > 1.001 and len(spread) > 1:
            spread.pop(0)
        if sum(l for _, _, l in spread) < 0.95:
            continue
        now = sum(c for _, c, _ in spread) / sum(l for _, _, l in spread)
        if now < 0.9 * rate:
            dipped = dipped or at
        elif dipped and now >= 0.95 * rate:
            return at - killed
    return None if dipped else 0.0


def part_workers(args):
    """kill -9 of one of three workers at a random moment."""
    rate, length = 300, 40
    back, seen_after, gaps, bad, slow = [], [], [], 0, 0
    for run in range(args.runs):
        cluster, target = Cluster(args.volley), Target(args.volley)
        try:
            job = cluster.submit(plan(target.url, f"executor: constant-arrival-rate, rate: {rate}/s, "
                                                  f"duration: {length}s, max_vus: 100", share="high"))
            wait_for(lambda: (target.total() or 0) > rate, 30, "load")
            watch = Watch(cluster, job)
            time.sleep(random.uniform(0.5, 8))
            shards = cluster.status(job)["workflows"][0]["shards"]
            victim = cluster.name_of(random.choice(shards)["worker"])
            cluster.kill(victim)
            killed = time.monotonic()
            watch.join(length + 60)
            status = until_ended(cluster, job)
            counters = status["counters"]
            logs = cluster.run("results", job, "--logs", "--json", check=False).stdout
            attempts = [json.loads(line) for line in logs.splitlines()]
            node = cluster.nodes[victim]["node"]
            issued = sum(a["issued"] for a in attempts if a["worker"] != node) + cluster.issued_on(victim)
            seen, completed = target.total(), counters["completed"]
            again = back_at_rate(watch.windows, killed, rate)
            ok = completed <= seen <= issued and seen <= rate * length
            bad += not ok
            gaps.append(issued - completed)
            back.append(again if again is not None else float("inf"))
            lost = [(at, n["event"]) for at, n in watch.notes if "on_worker_loss" in n["event"]]
            detected = lost[0][0] - killed if lost else float("inf")
            seen_after.append(detected)
            slow += back[-1] > 1.25 * LEASE_S + detected + 2
            print(f"  run {run + 1}: {victim} killed; its loss seen after {detected:.1f} s, back at the planned rate "
                  f"after {back[-1]:.1f} s; completed {completed} <= seen {seen} <= issued {issued}: "
                  f"{'yes' if ok else 'NO'}; {status['outcome']}; {lost[0][1] if lost else ''}", flush=True)
        finally:
            target.stop()
            cluster.stop()
    print(f"workers: {args.runs} kills; loss seen: p50 {percentile(seen_after, 50):.1f} s, max {max(seen_after):.1f} s; "
          f"back at the rate: p50 {percentile(back, 50):.1f} s, max {max(back):.1f} s; later than "
          f"1.25 L + detection + 2 s: {slow}; issued - completed: max {max(gaps)}; violations {bad}")
    return bad == 0 and slow == 0


def part_managers(args):
    """kill -9 of the owner, of the leader, of all managers."""
    fine = True
    for what in ["owner", "leader", "all"]:
        resumed, lost = [], 0
        for run in range(max(3, args.runs // 2)):
            cluster, target = Cluster(args.volley, workers=2), Target(args.volley)
            try:
                rate, length = 200, 16
                job = cluster.submit(plan(target.url, f"executor: constant-arrival-rate, rate: {rate}/s, "
                                                      f"duration: {length}s, max_vus: 50", share="high"))
                wait_for(lambda: (target.total() or 0) > rate, 30, "load")
                watch = Watch(cluster, job)
                time.sleep(random.uniform(0.5, 3))
                victims = {"owner": lambda: [cluster.owner(job)], "leader": lambda: [cluster.leader()],
                           "all": lambda: [n for n in cluster.nodes if n.startswith("m")]}[what]()
                for victim in victims:
                    cluster.kill(victim)
                killed = time.monotonic()
                if what == "all":
                    for victim in victims:
                        cluster.restart_manager(victim)
                watch.join(length + 60)
                status = until_ended(cluster, job)
                seen, counters = target.total(), status["counters"]
                exact = seen == counters["completed"] == counters["issued"] == rate * length
                lost += not exact
                after = [at for at, _ in watch.windows if at > killed]
                before = max((at for at, _ in watch.windows if at <= killed), default=killed)
                pauses = [b - a for a, b in zip([before] + after, after)]
                resumed.append(max(pauses, default=float("inf")))
                print(f"  {what} {run + 1}: {' '.join(victims)} killed; windows again after {resumed[-1]:.2f} s; "
                      f"planned {rate * length}, seen {seen}, counted {counters['completed']}, "
                      f"dropped {cluster.dropped(job)}: "
                      f"{'exact' if exact else 'NOT EXACT'}; {status['outcome']}",
                      flush=True)
            finally:
                target.stop()
                cluster.stop()
        print(f"managers, {what}: {len(resumed)} kills; windows again: p50 {percentile(resumed, 50):.2f} s, "
              f"p99 {percentile(resumed, 99):.2f} s; runs that were not exact: {lost}")
        fine &= lost == 0
    return fine


def local_cpu(args, cluster, path):
    """CPU seconds per request of `volley run`, its start and end included."""
    summary = os.path.join(cluster.folder, "s.json")
    before = os.times()
    subprocess.run([args.volley, "run", path, "--quiet", "--cores", "1", "--summary", summary],
                   env=cluster.env, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return used / json.load(open(summary))["requests"]["count"]


def fleet_cpu(cluster, text):
    """CPU seconds per request of the worker, and what part of a core the managers used."""
    before, begin = {name: cluster.cpu(name) for name in cluster.nodes}, time.monotonic()
    requests = until_ended(cluster, cluster.submit(text))["counters"]["completed"]
    took = time.monotonic() - begin
    used = {name: cluster.cpu(name) - before[name] for name in cluster.nodes}
    managers = sum(used[name] for name in used if name.startswith("m"))
    return used["w1"] / requests, managers / took


def part_overhead(args):
    """A worker's CPU per request against that of a local run, and what the managers use.

    CPU per request swings by a third from one run to the next where a machine is shared, so one pair says nothing: nine
    pairs, the order turned round each time, and the median of their ratios."""
    ratios, cluster, target = [], Cluster(args.volley, workers=1), Target(args.volley)
    try:
        text = plan(target.url, "executor: constant-arrival-rate, rate: 4000/s, duration: 10s, max_vus: 100")
        path = os.path.join(cluster.folder, "local.yaml")
        with open(path, "w") as file:
            file.write(text)
        for run in range(args.rounds):
            if run % 2 == 0:
                local = local_cpu(args, cluster, path)
                worker, managers = fleet_cpu(cluster, text)
            else:
                worker, managers = fleet_cpu(cluster, text)
                local = local_cpu(args, cluster, path)
            ratios.append(worker / local)
            print(f"  run {run + 1}: local {local * 1e6:.1f} us, worker {worker * 1e6:.1f} us per request: "
                  f"{worker / local:.3f}; three managers {managers * 100:.1f} % of a core", flush=True)
    finally:
        target.stop()
        cluster.stop()
    print(f"overhead: worker to local {percentile(ratios, 50):.3f} (aim 1.05), {min(ratios):.3f}..{max(ratios):.3f} "
          f"in {len(ratios)} pairs")
    return percentile(ratios, 50) <= 1.05


def part_latency(args):
    """From `volley submit` to the first request at the target."""
    cluster, target = Cluster(args.volley, workers=1), Target(args.volley)
    times = []
    try:
        for _ in range(40):
            before = target.total()
            path = os.path.join(cluster.folder, "plan.yaml")
            with open(path, "w") as file:
                file.write(plan(target.url, "executor: shared-iterations, vus: 1, iterations: 1"))
            begin = time.monotonic()
            child = subprocess.Popen([args.volley, "submit", path, "--quiet"], env=cluster.env,
                                     stdout=subprocess.PIPE, text=True)
            # Asking counts, too: it is not one of the paths of the plan, so it is taken off by the target.
            wait_for(lambda: target.total() > before, 30, "a request")
            times.append((time.monotonic() - begin) * 1000)
            until_ended(cluster, child.communicate()[0].strip())
    finally:
        target.stop()
        cluster.stop()
    print(f"latency: submit to first request p50 {percentile(times, 50):.0f} ms (aim 150), "
          f"p99 {percentile(times, 99):.0f} ms over {len(times)} jobs, the client's own start included")
    return percentile(times, 50) < 150


def part_queue(args):
    """1,000 jobs of one second, handed in at once."""
    cluster, target = Cluster(args.volley, workers=2, cores=args.queue_cores), Target(args.volley)
    try:
        path = os.path.join(cluster.folder, "plan.yaml")
        with open(path, "w") as file:
            file.write(plan(target.url, "executor: constant-arrival-rate, rate: 10/s, duration: 1s, max_vus: 2"))
        entries = cluster.json("managers")["applied"]
        begin = time.monotonic()
        count, running = args.jobs, []
        for number in range(count):
            running.append(subprocess.Popen(
                [args.volley, "submit", path, "--quiet", "--name", f"job-{number}", "--key", f"bench-{number}"],
                env=cluster.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            if len(running) >= 16:
                running.pop(0).wait()
        codes = [child.wait() for child in running]
        accepted = time.monotonic() - begin
        def left():
            return len(cluster.json("jobs")["jobs"])
        while left():
            time.sleep(1)
        took = time.monotonic() - begin
        entries = cluster.json("managers")["applied"] - entries
        jobs = [j for j in cluster.json("jobs", "--ended", "--limit", str(count))["jobs"]]
        outcomes = {}
        for job in jobs:
            outcomes[job["outcome"]] = outcomes.get(job["outcome"], 0) + 1
        memory = {name: round(cluster.memory_mb(name)) for name in cluster.nodes}
        seen = target.total()
        print(f"queue: {count} jobs accepted in {accepted:.1f} s, all ended after {took:.1f} s "
              f"({count / took:.1f} jobs/s, {entries / took:.0f} entries of the ledger/s); outcomes {outcomes}; seen {seen} of {count * 10}; "
              f"most memory (MB) {memory}; submit codes {set(codes)}")
        return outcomes.get("COMPLETED", 0) == min(count, len(jobs)) and seen == count * 10
    finally:
        target.stop()
        cluster.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("volley")
    parser.add_argument("--only", default="workers,managers,overhead,latency,queue")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--queue-cores", type=int, default=8)
    args = parser.parse_args()
    args.volley = os.path.abspath(args.volley)
    parts = {"workers": part_workers, "managers": part_managers, "overhead": part_overhead,
             "latency": part_latency, "queue": part_queue}
    print(f"load average before: {load_average()}")
    fine = True
    for name in args.only.split(","):
        if name not in parts:
            raise SystemExit(f"there is no part '{name}', only {', '.join(parts)}")
        met = parts[name](args)
        fine &= met
        print(f"{name}: {'met' if met else 'NOT MET'}\n", flush=True)
    print(f"load average after: {load_average()}")
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
