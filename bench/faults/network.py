"""A lane's network: a namespace for every node on one bridge, and cuts between them.

Everything a lane makes carries its number: namespaces `volleyN-NAME`, addresses 10.(100+N).0.x. The bridge lives in a
namespace too, so nothing of this touches the machine's own network.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Iterable, TextIO

BOTH, DEAF, MUTE = "both", "deaf", "mute"
"""Directions of a cut: nothing passes; the node does not hear the other; the other does not hear the node."""
LANES_MAX = 100
LOCKS = Path("/run")
HUB = "hub"


class CouldNotRun(Exception):
    """Something that the campaign needs failed; no word about the product."""


def run(*command: str, check: bool = True) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise CouldNotRun(f"{' '.join(command)}: {done.returncode} {done.stderr.strip()}")
    return done.stdout


def take_lane() -> tuple[int, TextIO]:
    """The first lane that nobody uses, with the lock that holds it. It is free again when the lock is closed."""
    for lane in range(LANES_MAX):
        lock = open(LOCKS / f"volley-faults-lane-{lane}.lock", "a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lane, lock
        except OSError:
            lock.close()
    raise CouldNotRun("no lane is free")


class Network:
    """The namespaces of one lane. Whoever makes one holds the lane's lock."""

    def __init__(self, lane: int) -> None:
        self.lane = lane
        self.addresses: dict[str, str] = {}
        self.sweep()
        hub = self.namespace(HUB)
        run("ip", "netns", "add", hub)
        run("ip", "-n", hub, "link", "set", "lo", "up")
        run("ip", "-n", hub, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", hub, "link", "set", "br0", "up")

    def namespace(self, name: str) -> str:
        return f"volley{self.lane}-{name}"

    def sweep(self) -> None:
        """Removes what an earlier run of this lane has left, processes included."""
        own = [line.split()[0] for line in run("ip", "netns", "list").splitlines()
               if line.startswith(f"volley{self.lane}-")]
        for namespace in own:
            for pid in run("ip", "netns", "pids", namespace, check=False).split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    continue
        for namespace in own:
            run("ip", "netns", "del", namespace, check=False)
        if own:
            time.sleep(0.2)

    def add(self, name: str, host: int) -> None:
        """A node with its own address and its own cable to the bridge."""
        namespace, hub = self.namespace(name), self.namespace(HUB)
        address, port = f"10.{100 + self.lane}.0.{host}", f"p-{name}"
        run("ip", "netns", "add", namespace)
        run("ip", "-n", namespace, "link", "set", "lo", "up")
        run("ip", "-n", namespace, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", hub)
        run("ip", "-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
        run("ip", "-n", namespace, "link", "set", "eth0", "up")
        run("ip", "-n", hub, "link", "set", port, "master", "br0", "up")
        self.addresses[name] = address

    def names(self) -> dict[str, str]:
        """Nodes by address."""
        return {address: name for name, address in self.addresses.items()}

    def inside(self, name: str) -> list[str]:
        """What stands before a command that runs in a node's namespace and ends with this process."""
        return ["ip", "netns", "exec", self.namespace(name), "setpriv", "--pdeathsig", "KILL"]

    def _rule(self, name: str, *rule: str) -> None:
        run("ip", "netns", "exec", self.namespace(name), "iptables", "-w", *rule)

    def cut(self, name: str, others: Iterable[str], direction: str = BOTH) -> None:
        """Packets between a node and others are lost, silently."""
        for other in others:
            if other == name:
                continue
            address = self.addresses[other]
            if direction in (BOTH, DEAF):
                self._rule(name, "-A", "INPUT", "-s", address, "-j", "DROP")
            if direction in (BOTH, MUTE):
                self._rule(name, "-A", "OUTPUT", "-d", address, "-j", "DROP")

    def refuse(self, name: str, others: Iterable[str]) -> None:
        """Connections between a node and others are refused and reset, as by a firewall; datagrams pass."""
        for other in others:
            if other == name:
                continue
            # The reset itself must pass.
            reset = ("-p", "tcp", "!", "--tcp-flags", "RST", "RST", "-j", "REJECT", "--reject-with", "tcp-reset")
            address = self.addresses[other]
            self._rule(name, "-A", "INPUT", "-s", address, *reset)
            self._rule(name, "-A", "OUTPUT", "-d", address, *reset)

    def lose(self, name: str, share: float, except_from: str) -> None:
        """A share of the packets that come to a node is lost, except those from one other."""
        self._rule(name, "-A", "INPUT", "!", "-s", self.addresses[except_from], "-i", "eth0", "-m", "statistic",
                   "--mode", "random", "--probability", f"{share}", "-j", "DROP")

    def heal(self, *names: str) -> None:
        """Takes back all cuts that were made at these nodes; at all of them if none is named."""
        for name in names or tuple(self.addresses):
            self._rule(name, "-F")

    def close(self) -> None:
        self.sweep()
