"""Runs in lanes beside each other, one line for each, and what they add up to."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .disks import unmount_below
from .lab import make_certificates
from .recovery import Recovery, table

RUN_S_MAX = 900.0
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Order:
    """Something to run: a scenario by name, or the nemesis with a seed."""

    label: str
    arguments: tuple[str, str]


def of_scenario(name: str, number: int = 1) -> Order:
    return Order(f"{name}-{number}" if number > 1 else name, ("--scenario", name))


def of_seed(seed: int) -> Order:
    return Order(f"seed-{seed}", ("--seed", str(seed)))


@dataclass
class Campaign:
    volley: str
    root: Path
    lanes: int
    keep: bool = False
    broken: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    recoveries: list[Recovery] = field(default_factory=list)
    done: int = 0
    _running: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _children: set[subprocess.Popen[bytes]] = field(default_factory=set)

    def run(self, orders: list[Order]) -> int:
        """0: every promise held. 1: one was broken. 2: something could not be run."""
        self.root.mkdir(parents=True, exist_ok=True)
        certs = self.root / "certs"
        if not certs.exists():
            certs.mkdir()
            make_certificates(self.volley, certs)
        waiting = list(reversed(orders))
        begun = time.monotonic()
        self._running = self.lanes
        for _ in range(self.lanes):
            threading.Thread(target=self._lane, args=(waiting, certs), daemon=True).start()
        try:
            # Not `join`: an interrupt there makes Python take a thread for ended that is not.
            while self._running > 0:
                time.sleep(0.2)
        except KeyboardInterrupt:
            print("stopping; what runs is cleaned up", file=sys.stderr, flush=True)
            self._stop()
            return 130
        return self._tell(len(orders), time.monotonic() - begun)

    def _lane(self, waiting: list[Order], certs: Path) -> None:
        try:
            while not self._stopping.is_set():
                with self._lock:
                    if not waiting:
                        return
                    order = waiting.pop()
                try:
                    self._one(order, certs)
                except Exception as error:
                    self.failed.append(order.label)
                    print(f"COULD NOT RUN {order.label}: {error!r}", flush=True)
        finally:
            with self._lock:
                self._running -= 1

    def _one(self, order: Order, certs: Path) -> None:
        folder = self.root / order.label
        unmount_below(folder)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        command = [sys.executable, "-m", "faults.one", "--volley", self.volley, "--certs", str(certs), "--folder",
                   str(folder), *order.arguments]
        with open(folder / "run.txt", "wb") as log:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                     cwd=HERE.parent, env=os.environ | {"PYTHONPATH": str(HERE.parent)})
        self._children.add(child)
        try:
            child.wait(RUN_S_MAX)
        except subprocess.TimeoutExpired:
            self._end(child)
        self._children.discard(child)
        if not self._stopping.is_set():
            self._note(order, folder)

    def _note(self, order: Order, folder: Path) -> None:
        path = folder / "outcome.json"
        told: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {
            "error": f"the run ended without a word: {(folder / 'run.txt').read_text()[-400:]}"}
        violations = [f"{one['promise']} {one['check']}: {one['text']}" for one in told.get("violations", [])]
        with self._lock:
            self.done += 1
            self.recoveries += [Recovery(**one) for one in told.get("recoveries", [])]
            print(line(order.label, told, violations), flush=True)
            for violation in violations:
                print(f"    {violation}", flush=True)
            if "error" in told:
                self.failed.append(order.label)
                print(f"    could not run: {told['error'].strip()}", flush=True)
            elif violations:
                self.broken.append(order.label)
            if violations or "error" in told:
                print(f"    files: {folder}", flush=True)
            elif not self.keep:
                shutil.rmtree(folder, ignore_errors=True)
        if violations:
            (folder / "violations.txt").write_text("\n".join(violations) + "\n")

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _stop(self) -> None:
        self._stopping.set()
        for child in list(self._children):
            child.send_signal(signal.SIGTERM)
        end = time.monotonic() + 40
        while self._running > 0 and time.monotonic() < end:
            time.sleep(0.1)
        for child in list(self._children):
            child.kill()

    def _tell(self, ordered: int, took_s: float) -> int:
        print(f"\n{self.done} of {ordered} runs in {took_s / 60:.1f} min, {self.lanes} lanes: "
              f"{len(self.broken)} with broken promises, {len(self.failed)} could not run")
        if self.recoveries:
            print("\nfrom a fault to the planned rate, as the target saw it:")
            print(table(self.recoveries))
        for name, found in (("broken", self.broken), ("could not run", self.failed)):
            if found:
                print(f"\n{name}: {' '.join(found)}")
        sys.stdout.flush()
        return 1 if self.broken else 2 if self.failed else 0


def line(label: str, told: dict[str, Any], violations: list[str]) -> str:
    state = "COULD NOT RUN" if "error" in told else f"{len(violations)} BROKEN" if violations else "ok"
    back = " ".join("-" if one["seconds"] is None else f"{one['seconds']:.1f}" for one in told.get("recoveries", []))
    faults = ", ".join(told.get("faults", []))
    text = (f"{state:9} {label:38} {told.get('took_s', 0):6.1f} s  {told.get('outcome')}/{told.get('verdict')}  "
            f"seen {told.get('seen')}")
    return text + (f"  [{faults}]" if faults else "") + (f"  back after {back} s" if back else "")
