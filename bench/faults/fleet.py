"""A fleet under test: a lab whose nodes are up, one job, the faults that are done to it, and the facts at the end."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterable, Iterator

from .facts import Facts, Fault, Interval, Seen, Steering, Violation, read_log
from .lab import Lab, wait_until
from .network import BOTH, CouldNotRun
from .plans import ROWS_FILE, Plan

READY_S = 90.0
# A job that has not ended this long after its planned end, the last fault and its last request hangs.
PATIENCE_S = 75.0
SETTLE_S = 30.0


@dataclass
class Where:
    """Who does what for the job at the moment."""

    owner: str | None
    leader: str | None
    workers: dict[tuple[str, int], str]
    """By (workload, shard)."""

    def worker(self, workload: str, shard: int = 0) -> str:
        found = self.workers.get((workload, shard))
        if found is None:
            raise CouldNotRun(f"nobody runs shard {shard} of {workload}: {self.workers}")
        return found


class Job:
    """One job, with what was asked of it and done while it ran."""

    def __init__(self, fleet: Fleet, plan: Plan, tag: str, job: str, submitted: float) -> None:
        self.fleet, self.plan, self.tag, self.id, self.submitted = fleet, plan, tag, job, submitted
        self.steering: list[Steering] = []

    def status(self) -> dict[str, Any]:
        return self.fleet.ask("status", self.id)

    def where(self) -> Where:
        """Asked until somebody knows."""
        end = time.monotonic() + 20.0
        while True:
            try:
                nodes, job = self.fleet.ask("status"), self.status()
                break
            except CouldNotRun:
                if time.monotonic() > end:
                    raise
                time.sleep(0.3)
        names = {one["node"]: self.fleet.name_of(one["address"]) for one in nodes["nodes"]}
        leader = next((names[one["node"]] for one in nodes["nodes"] if one["leads"]), None)
        workers = {(flow["name"], shard["shard"]): names[shard["worker"]]
                   for flow in job["workflows"] for shard in flow["shards"] if shard["worker"] in names}
        return Where(names.get(job["owner"]), leader, workers)

    def requests(self) -> list[Seen]:
        return self.fleet.requests(self.tag)

    def await_load(self, workload: str, count: int = 1, seconds: float = 60.0) -> None:
        """Until the target has seen so many requests of a workload."""
        wait_until(lambda: sum(1 for one in self.requests() if one.what == workload) >= count, seconds,
                   f"{count} requests of {workload}")

    def await_schedule(self, seconds: float) -> None:
        """Until so many seconds after the load began."""
        wait_until(lambda: self.began() is not None, 60.0, "load")
        time.sleep(max(0.0, (self.began() or 0.0) + seconds - time.monotonic()))

    def began(self) -> float | None:
        names = {one.name for one in self.plan.workloads}
        return next((one.at for one in self.requests() if one.what in names), None)

    def steer(self, what: str, *words: str, **changed: Any) -> Steering:
        sent = time.monotonic()
        command = ("cancel", self.id, *words) if what == "cancel" else ("ctl", "--job", self.id, what, *words)
        done = self.fleet.lab.client(*command, timeout_s=40.0)
        self.fleet.note(f"{' '.join(command)}: {done.returncode} {(done.stdout + done.stderr).strip()[:200]}")
        one = Steering(what, sent, time.monotonic(), done.returncode == 0, **changed)
        self.steering.append(one)
        return one

    def cancel(self) -> Steering:
        return self.steer("cancel", "--reason", "the campaign wants it")

    def scale_rate(self, workload: str, per_second: float) -> Steering:
        return self.steer("scale", "--rate", f"{per_second:g}/s", "--workflow", workload, workload=workload,
                          per_second=per_second)


class Fleet:
    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.faults: list[Fault] = []
        self.target_cuts: list[Interval] = []
        self.notes: list[str] = []
        self.found: list[Violation] = []
        self.begun = time.monotonic()
        self.jobs = 0

    def note(self, text: str) -> None:
        self.notes.append(f"{time.monotonic() - self.begun:7.2f} s  {text}")
        (self.lab.folder / "notes.txt").write_text("\n".join(self.notes) + "\n")

    def up(self) -> None:
        self.lab.start(*self.lab.nodes)
        # Each manager hears of the workers by itself, and any of them may become the job's owner.
        wait_until(lambda: not any(map(self.unrest, self.lab.managers)), READY_S, "the fleet to come up", every_s=0.3)
        time.sleep(1.0)

    def unrest(self, manager: str | None = None) -> str | None:
        """Why the fleet is not whole and idle, as one or any manager sees it; None: it is."""
        try:
            status = self.ask("status", manager=manager)
        except CouldNotRun as error:
            return f"`volley status`: {error}"
        if not any(one["leads"] for one in status["nodes"]):
            return "nobody leads the ledger"
        workers = {self.name_of(one["address"]): one for one in status["nodes"]
                   if one["role"] == "worker" and one["state"] == "alive"}
        absent = [name for name in self.lab.workers if name not in workers]
        if absent:
            return f"workers that are up are not alive for the managers: {', '.join(absent)}"
        busy = [f"{name}: {one['cores_free']} of {one['cores']} cores free, {one['shards']} shards"
                for name, one in workers.items() if one["cores_free"] != one["cores"] or one["shards"]]
        return f"cores are still taken: {'; '.join(busy)}" if busy else None

    def ask(self, *words: str, manager: str | None = None) -> dict[str, Any]:
        done = self.lab.client(*words, "--json", "--timeout", "2s", manager=manager, timeout_s=20.0)
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip()[-300:]
            raise CouldNotRun(f"volley {' '.join(words)}: {done.returncode} {said}")
        return json.loads(done.stdout)

    def name_of(self, address: str) -> str:
        return self.lab.network.names().get(address.rsplit(":", 1)[0], address)

    def requests(self, tag: str) -> list[Seen]:
        return read_log(self.lab.target_log, tag, self.lab.network.names())[0]

    def submit(self, plan: Plan, *more: str) -> Job:
        done, job = self.try_submit(plan, *more)
        if job is None:
            raise CouldNotRun(f"volley submit: {done.returncode} {(done.stdout + done.stderr).strip()[-500:]}")
        return job

    def try_submit(self, plan: Plan, *more: str) -> tuple[subprocess.CompletedProcess[str], Job | None]:
        self.jobs += 1
        tag = f"j{self.jobs}"
        path = self.lab.folder / f"plan-{tag}.yaml"
        path.write_text(plan.text(self.lab.target, tag))
        if plan.has_rows:
            (self.lab.folder / ROWS_FILE).write_text(plan.rows_text())
        sent = time.monotonic()
        done = self.lab.client("submit", path.name, "--json", *more)
        if done.returncode != 0:
            return done, None
        job = Job(self, plan, tag, json.loads(done.stdout)["job"], sent)
        self.note(f"submitted {job.id}")
        return done, job

    # ── faults ───────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def fault(self, kind: str, text: str) -> Iterator[None]:
        """Writes down when something was done, and until when."""
        at = time.monotonic()
        self.note(f"{kind}: {text}")
        try:
            yield
        finally:
            self.faults.append(Fault(kind, at, time.monotonic(), text))
            self.note(f"{kind}: over")

    def kill(self, kind: str, names: Iterable[str], down_s: float | None) -> None:
        """kill -9; started again after `down_s`, if it is given."""
        names = list(names)
        with self.fault(kind, f"kill -9 of {' '.join(names)}, down for {down_s} s"):
            self.lab.kill(*names)
            if down_s is not None:
                time.sleep(down_s)
                self.lab.start(*names)

    def freeze(self, kind: str, names: Iterable[str], seconds: float) -> None:
        names = list(names)
        with self.fault(kind, f"SIGSTOP of {' '.join(names)} for {seconds:.1f} s"):
            self.lab.freeze(*names)
            time.sleep(seconds)
            self.lab.thaw(*names)

    def cut(self, kind: str, name: str, others: Iterable[str], seconds: float | None, direction: str = BOTH) -> None:
        """Without `seconds` the cut stays."""
        others = [other for other in others if other != name]
        with self.fault(kind, f"{name} cut off from {' '.join(others)} ({direction}) for {seconds} s"):
            begun = time.monotonic()
            self.lab.network.cut(name, others, direction)
            if seconds is not None:
                time.sleep(seconds)
                self.lab.network.heal(name)
            if "target" in others:
                self.target_cuts.append((begun, time.monotonic()))

    def refuse(self, kind: str, name: str, others: Iterable[str], seconds: float) -> None:
        """Connections between a node and others are refused and reset."""
        others = [other for other in others if other != name]
        with self.fault(kind, f"a firewall refuses connections of {name} with {' '.join(others)} for {seconds} s"):
            self.lab.network.refuse(name, others)
            time.sleep(seconds)
            self.lab.network.heal(name)

    def restart_in_turn(self, names: Iterable[str], between_s: float = 0.5, kind: str = "rolling restart") -> None:
        """As the documents advise: end one, start it again, wait until it is ready, go on with the next."""
        for name in names:
            with self.fault(kind, f"SIGTERM of {name}, and started again"):
                if not self.lab.end(name):
                    self.found.append(Violation("P7", "no end", f"{name} did not end within 30 s of SIGTERM"))
                self.lab.start(name)
                self.await_ready(name)
            time.sleep(between_s)

    def await_ready(self, name: str) -> None:
        """A node that was started on its own data becomes ready by itself."""
        try:
            wait_until(lambda: self.lab.is_ready(name), READY_S, f"{name} to be ready")
        except CouldNotRun as error:
            self.found.append(Violation("P7", "not ready", str(error)))

    def full_disk(self, kind: str, name: str, seconds: float) -> None:
        with self.fault(kind, f"the disk of {name} is full for {seconds:.1f} s"):
            self.lab.disks.fill(name)
            time.sleep(seconds)
            self.lab.disks.empty(name)

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    def mend(self) -> None:
        """Takes back every fault that is still there."""
        self.lab.network.heal()
        self.lab.thaw(*list(self.lab.frozen))
        for name in self.lab.nodes:
            self.lab.disks.empty(name)
            if not self.lab.is_up(name) and name in self.lab.ended_by_us:
                self.lab.start(name)

    def await_end(self, job: Job, patience_s: float = PATIENCE_S) -> tuple[float | None, dict[str, Any] | None]:
        """When the job was first seen ended, and its last status."""
        limit = max(time.monotonic(), job.submitted + job.plan.length_s) + patience_s
        status: dict[str, Any] | None = None
        while True:
            if time.monotonic() > limit:
                # With too few cores workloads run one after the other: who still sends does not hang.
                limit = max((one.at for one in job.requests()[-1:]), default=0.0) + patience_s
                if time.monotonic() > limit:
                    return None, status
            try:
                status = job.status()
                if status["state"] == "ended":
                    return time.monotonic(), status
            except CouldNotRun as error:
                status = status or {"state": "not reached", "detail": str(error)[:200]}
            time.sleep(0.3)

    def conclude(self, job: Job, *, mend_first: bool = True, patience_s: float = PATIENCE_S) -> Facts:
        """Waits for the end, lets everything settle, and collects what is known."""
        if mend_first:
            self.mend()
        ended, status = self.await_end(job, patience_s)
        given_up = None if ended else time.monotonic()
        self.mend()
        unrest = self._settle() if ended else "the job had not ended"
        summary, code = self.result(job) if ended else (None, None)
        time.sleep(0.15)
        requests, stalls = read_log(self.lab.target_log, job.tag, self.lab.network.names())
        return Facts(
            plan=job.plan, requests=requests, summary=summary, exit_code=code, submitted=job.submitted, ended=ended,
            given_up=given_up, steering=job.steering, faults=self.faults, target_cuts=self.target_cuts, stalls=stalls,
            alarms=self.lab.alarms(), settled=unrest if ended else None, last_status=status,
            found=list(self.found))

    def _settle(self) -> str | None:
        end = time.monotonic() + SETTLE_S
        while (unrest := self.unrest()) is not None and time.monotonic() < end:
            time.sleep(0.5)
        return unrest

    def result(self, job: Job) -> tuple[dict[str, Any] | None, int | None]:
        """The summary document and the exit code; a result may need a moment to be everywhere."""
        path: Path = self.lab.folder / f"summary-{job.tag}.json"
        for _ in range(5):
            path.unlink(missing_ok=True)
            done = self.lab.client("results", job.id, "--quiet", "--summary", path.name)
            if path.exists() and path.stat().st_size > 0:
                return json.loads(path.read_text()), done.returncode
            self.note(f"results: {done.returncode} {(done.stdout + done.stderr).strip()[-200:]}")
            time.sleep(1.0)
        return None, done.returncode
