"""A fleet of real processes on one machine, each in a namespace of its own, and what can be done to it.

Nodes are called m1.. (managers), w1.. (workers), `client` and `target`. A lab is a context manager: when it is left, by
whatever way, its processes, namespaces and mounts are gone. A process that is started here dies with this one, even if
this one is killed.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable

from .disks import Disks
from .network import CouldNotRun, Network, run

PORT = 7500
TARGET_PORT = 8080
METRICS = "127.0.0.1:9100"
ALARM = re.compile(r"panicked|invariant|\bBUG\b", re.I)
MANAGERS_MAX, WORKERS_MAX = 5, 8


def environment() -> dict[str, str]:
    """This process's, without the user's own settings of Volley."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VOLLEY")}
    return kept | {"NO_COLOR": "1", "VOLLEY_LOG": os.environ.get("VOLLEY_FAULTS_LOG", "info")}


def make_certificates(volley: str, folder: Path) -> None:
    """A certificate for every node that a lab may have."""
    def volley_certs(*words: str) -> None:
        run(volley, "certs", *words)

    ca = str(folder / "ca")
    volley_certs("init", ca)
    roles = [("manager", f"m{n}") for n in range(1, MANAGERS_MAX + 1)]
    roles += [("worker", f"w{n}") for n in range(1, WORKERS_MAX + 1)] + [("client", "client")]
    for role, name in roles:
        volley_certs("issue", "--ca", ca, "--role", role, "--datacenter", "dc1", "--out", str(folder / name))


class Lab:
    def __init__(self, lane: int, folder: Path, volley: str, certs: Path, managers: int = 3, workers: int = 3,
                 cores: int = 1, small_disks: bool = False) -> None:
        self.volley, self.certs, self.folder, self.cores = volley, certs, folder, cores
        self.managers = [f"m{n + 1}" for n in range(managers)]
        self.workers = [f"w{n + 1}" for n in range(workers)]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.flags: dict[str, list[str]] = {name: [] for name in self.nodes}
        self.ended_by_us: set[str] = set()
        self.frozen: set[str] = set()
        folder.mkdir(parents=True, exist_ok=True)
        self.network = Network(lane)
        self.disks = Disks(folder / "data", small_disks)

    @property
    def nodes(self) -> list[str]:
        return self.managers + self.workers

    @property
    def peers(self) -> str:
        return ",".join(f"{self.network.addresses[name]}:{PORT}" for name in self.managers)

    @property
    def target(self) -> str:
        return f"http://{self.network.addresses['target']}:{TARGET_PORT}"

    @property
    def target_log(self) -> Path:
        return self.folder / "target.log"

    def __enter__(self) -> Lab:
        try:
            for number, name in enumerate(self.managers):
                self.network.add(name, 11 + number)
            for number, name in enumerate(self.workers):
                self.network.add(name, 21 + number)
            self.network.add("client", 98)
            self.network.add("target", 99)
            for name in self.nodes:
                self.disks.make(name)
            script = Path(__file__).with_name("target.py")
            self._spawn("target", [sys.executable, str(script), self.network.addresses["target"], str(TARGET_PORT),
                                   str(self.target_log)])
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
        self.network.close()
        self.disks.close()

    # ── processes ────────────────────────────────────────────────────────────────────────────────

    def _spawn(self, name: str, command: list[str]) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            log.write(f"--- started at {time.monotonic():.3f}: {' '.join(command)}\n".encode())
            log.flush()
            self.processes[name] = subprocess.Popen(
                self.network.inside(name) + command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=environment(), cwd=self.folder, start_new_session=True)
        self.ended_by_us.discard(name)
        self.frozen.discard(name)

    def start(self, *names: str) -> None:
        for name in names:
            command = [self.volley, "manager" if name in self.managers else "worker", "--certs", str(self.certs / name),
                       "--data", str(self.disks.folder / name / "node"), "--metrics", METRICS,
                       "--bind", f"{self.network.addresses[name]}:{PORT}"]
            command += ["--peers", self.peers] if name in self.managers \
                else ["--seed", self.peers, "--cores", str(self.cores)]
            self._spawn(name, command + self.flags[name])

    def kill(self, *names: str) -> None:
        """kill -9 of all of them at one instant."""
        self.ended_by_us.update(names)
        for name in names:
            self.processes[name].kill()
        for name in names:
            self.processes[name].wait()

    def freeze(self, *names: str) -> None:
        self.frozen.update(names)
        for name in names:
            self._signal(name, signal.SIGSTOP)

    def thaw(self, *names: str) -> None:
        self.frozen.difference_update(names)
        for name in names:
            self._signal(name, signal.SIGCONT)

    def tell_to_end(self, name: str) -> None:
        """As an operator does it: SIGTERM."""
        self.ended_by_us.add(name)
        self._signal(name, signal.SIGTERM)

    def end(self, name: str, within_s: float = 30.0) -> bool:
        """SIGTERM, and time to leave. False: it had to be killed."""
        self.tell_to_end(name)
        return self.await_ended(name, within_s)

    def await_ended(self, name: str, within_s: float = 30.0) -> bool:
        try:
            self.processes[name].wait(within_s)
            return True
        except subprocess.TimeoutExpired:
            self.kill(name)
            return False

    def _signal(self, name: str, number: signal.Signals) -> None:
        if self.processes[name].poll() is None:
            self.processes[name].send_signal(number)

    def is_up(self, name: str) -> bool:
        return name in self.processes and self.processes[name].poll() is None

    def died(self) -> list[str]:
        """Nodes whose process has ended though nobody here wanted it to."""
        return [f"{name} ended by itself with {self.processes[name].returncode}" for name in self.nodes
                if name in self.processes and name not in self.ended_by_us and not self.is_up(name)]

    def is_ready(self, name: str) -> bool:
        """What its own `/readyz` says."""
        question = f"import urllib.request as u; u.urlopen('http://{METRICS}/readyz', timeout=2)"
        done = subprocess.run(self.network.inside(name) + [sys.executable, "-S", "-c", question], capture_output=True)
        return done.returncode == 0

    # ── commands ─────────────────────────────────────────────────────────────────────────────────

    def client(self, *words: str, manager: str | None = None,
               timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """A command of the client's; 124 if it took too long."""
        at = f"{self.network.addresses[manager]}:{PORT}" if manager else self.peers
        command = self.network.inside("client") + [
            self.volley, *words, "--manager", at, "--certs", str(self.certs / "client")]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, cwd=self.folder,
                                  env=environment(), stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, "", f"no end within {timeout_s} s")

    def watch(self, *words: str, into: str) -> subprocess.Popen[bytes]:
        """A command of the client's that goes on beside everything else."""
        command = self.network.inside("client") + [
            self.volley, *words, "--manager", self.peers, "--certs", str(self.certs / "client")]
        with open(self.folder / into, "wb") as log:
            self.processes[f"client {into}"] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, env=environment(),
                start_new_session=True)
        return self.processes[f"client {into}"]

    # ── what was left behind ─────────────────────────────────────────────────────────────────────

    def alarms(self) -> list[str]:
        found: list[str] = []
        for name in self.nodes:
            path = self.folder / f"{name}.log"
            if path.exists():
                with path.open(errors="replace") as lines:
                    found += [f"{name}: {line.strip()[:300]}" for line in lines if ALARM.search(line)]
        return found + self.died()


def wait_until(holds: Callable[[], bool], seconds: float, what: str, every_s: float = 0.2) -> None:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise CouldNotRun(f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(every_s)
