"""Managers that end, die or are gone for a while. A handover is invisible to load (R28)."""

from __future__ import annotations

import time

from ..facts import Facts, Violation
from ..fleet import Fleet
from ..lab import wait_until
from ..network import CouldNotRun
from ..plans import Plan, constant_users, rate, standard
from .registry import scenario


def _owner_last(fleet: Fleet, owner: str | None) -> list[str]:
    return [name for name in fleet.lab.managers if name != owner] + ([owner] if owner else [])


def _invisible(facts: Facts) -> Facts:
    facts.stalls_forbidden = True
    return facts


@scenario()
def rolling_restart(fleet: Fleet) -> Facts:
    """All managers are ended and started one after the other under load, the owner last."""
    job = fleet.submit(standard(35, with_users=True))
    job.await_schedule(3)
    fleet.restart_in_turn(_owner_last(fleet, job.where().owner), between_s=2.0)
    return _invisible(fleet.conclude(job))


@scenario()
def owner_ended(fleet: Fleet) -> Facts:
    """The owner is ended with SIGTERM and started again."""
    job = fleet.submit(standard(25))
    job.await_schedule(3)
    fleet.restart_in_turn([job.where().owner or "m1"], kind="owner ended")
    return _invisible(fleet.conclude(job))


@scenario()
def owners_ended_in_turn(fleet: Fleet) -> Facts:
    """Six times in a job, whoever owns it is ended with SIGTERM and started again."""
    job = fleet.submit(standard(45))
    job.await_schedule(3)
    for _ in range(6):
        fleet.restart_in_turn([job.where().owner or "m1"], between_s=3.0, kind="owner ended")
    return _invisible(fleet.conclude(job))


@scenario()
def owner_ended_while_a_worker_pauses(fleet: Fleet) -> Facts:
    """A worker does not run for 0.7 s while the owner hands over: it learns of the new owner before it speaks again."""
    job = fleet.submit(standard(35))
    job.await_schedule(3)
    for _ in range(4):
        where = job.where()
        owner, worker = where.owner or "m1", where.worker("counted")
        with fleet.fault("owner ended, worker pausing", f"SIGTERM of {owner}, SIGSTOP of {worker} for 0.7 s"):
            fleet.lab.freeze(worker)
            fleet.lab.tell_to_end(owner)
            time.sleep(0.7)
            fleet.lab.thaw(worker)
            fleet.lab.await_ended(owner)
            fleet.lab.start(owner)
            fleet.await_ready(owner)
        time.sleep(3.0)
    return _invisible(fleet.conclude(job))


@scenario()
def owner_drained(fleet: Fleet) -> Facts:
    """The owner is drained by command, and started again later."""
    job = fleet.submit(standard(25))
    job.await_schedule(3)
    owner = job.where().owner or "m1"
    with fleet.fault("owner drained", f"volley drain {owner}"):
        address = f"{fleet.lab.network.addresses[owner]}:7500"
        fleet.lab.ended_by_us.add(owner)
        done = fleet.lab.client("drain", address, "--wait", "15s")
        fleet.note(f"drain: {done.returncode} {(done.stdout + done.stderr).strip()[:200]}")
        wait_until(lambda: not fleet.lab.is_up(owner), 30, f"{owner} to end")
        fleet.lab.start(owner)
        fleet.await_ready(owner)
    return _invisible(fleet.conclude(job))


@scenario()
def owner_killed(fleet: Fleet) -> Facts:
    """The owner is killed and stays away: another manager adopts what runs."""
    job = fleet.submit(standard(25))
    job.await_schedule(4)
    fleet.kill("owner killed", [job.where().owner or "m1"], None)
    return _invisible(fleet.conclude(job, mend_first=False))


@scenario()
def leader_killed(fleet: Fleet) -> Facts:
    """The ledger's leader is killed: running load does not notice."""
    job = fleet.submit(standard(20))
    job.await_schedule(4)
    fleet.kill("leader killed", [job.where().leader or "m1"], None)
    return _invisible(fleet.conclude(job, mend_first=False))


@scenario()
def managers_killed_2s(fleet: Fleet) -> Facts:
    """All managers are killed and are back within the lease: they find everything running."""
    job = fleet.submit(standard(25))
    job.await_schedule(5)
    fleet.kill("managers killed", fleet.lab.managers, 1.0)
    return fleet.conclude(job)


@scenario()
def managers_killed_20s(fleet: Fleet) -> Facts:
    """No manager for 20 s: attempts stop themselves and are retried; the time without an owner is time."""
    job = fleet.submit(standard(30))
    job.await_schedule(6)
    fleet.kill("managers killed", fleet.lab.managers, 20.0)
    return fleet.conclude(job)


@scenario()
def two_managers_killed_12s(fleet: Fleet) -> Facts:
    """No quorum for 12 s."""
    job = fleet.submit(standard(30))
    job.await_schedule(5)
    owner = job.where().owner
    fleet.kill("no quorum", [name for name in fleet.lab.managers if name != owner][:2], 12.0)
    return fleet.conclude(job)


@scenario()
def power_loss(fleet: Fleet) -> Facts:
    """Every node is killed at once; all are back after 2 s."""
    job = fleet.submit(standard(25))
    job.await_schedule(6)
    fleet.kill("power loss", fleet.lab.nodes, 2.0)
    return fleet.conclude(job)


@scenario()
def power_loss_15s(fleet: Fleet) -> Facts:
    """Every node is killed at once; all are back after 15 s."""
    job = fleet.submit(standard(30))
    job.await_schedule(6)
    fleet.kill("power loss", fleet.lab.nodes, 15.0)
    return fleet.conclude(job)


@scenario()
def power_loss_after_submit(fleet: Fleet) -> Facts:
    """Every node is killed right after a job was accepted: it exists, once."""
    job = fleet.submit(standard(10))
    fleet.kill("power loss", fleet.lab.nodes, 2.0)
    wait_until(lambda: _known(fleet), 60, "the managers to answer")
    same = [one for one in fleet.ask("jobs", "--ended")["jobs"] if one["job"] == job.id]
    facts = fleet.conclude(job)
    if len(same) != 1:
        facts.found.append(Violation("P2", "job", f"the accepted job exists {len(same)} times after the power loss"))
    return facts


def _known(fleet: Fleet) -> bool:
    try:
        fleet.ask("jobs", "--ended")
        return True
    except CouldNotRun:
        return False


@scenario(manager_flags=("--lease", "30s"))
def lease_shortened_in_a_rolling_restart(fleet: Fleet) -> Facts:
    """Managers come back with a shorter lease, then a worker is cut off from all nodes but not from the target."""
    job = fleet.submit(Plan("leases", (rate(55), constant_users(55))))
    job.await_schedule(3)
    for name in fleet.lab.managers:
        fleet.lab.flags[name] = ["--lease", "6s"]
    fleet.restart_in_turn(_owner_last(fleet, job.where().owner), between_s=1.0)
    time.sleep(1.0)
    fleet.cut("worker cut off", job.where().worker("rate"), fleet.lab.nodes, None)
    return fleet.conclude(job, mend_first=False)


@scenario()
def client_killed(fleet: Fleet) -> Facts:
    """A client that watches is killed: nothing happens to the job."""
    job = fleet.submit(standard(12))
    watcher = fleet.lab.watch("watch", job.id, "--json", into="watch.txt")
    job.await_schedule(4)
    with fleet.fault("client killed", "kill -9 of `volley watch`"):
        watcher.kill()
    return _invisible(fleet.conclude(job))
