"""Networks that are cut: both ways, one way, between some and not between others."""

from __future__ import annotations

import time

from ..facts import Facts, Violation
from ..fleet import Fleet
from ..network import DEAF, MUTE
from ..plans import standard
from .registry import scenario


@scenario()
def worker_cut_from_managers(fleet: Fleet) -> Facts:
    """A worker is cut off from the managers only, for good; other workers still reach it."""
    job = fleet.submit(standard(30))
    job.await_schedule(4)
    fleet.cut("worker cut from managers", job.where().worker("rate"), fleet.lab.managers, None)
    return fleet.conclude(job, mend_first=False)


@scenario()
def worker_cut_from_managers_then_cancel(fleet: Fleet) -> Facts:
    """The same, and the job is cancelled 3 s later."""
    job = fleet.submit(standard(30))
    job.await_schedule(4)
    fleet.cut("worker cut from managers", job.where().worker("rate"), fleet.lab.managers, None)
    time.sleep(3)
    job.cancel()
    return fleet.conclude(job, mend_first=False)


def _worker_cut(fleet: Fleet, direction: str) -> Facts:
    job = fleet.submit(standard(30))
    job.await_schedule(4)
    worker = job.where().worker("rate")
    fleet.cut(f"worker {direction}", worker, fleet.lab.nodes, 12.0, direction)
    return fleet.conclude(job)


@scenario()
def worker_deaf(fleet: Fleet) -> Facts:
    """A worker hears nobody for 12 s, and everybody hears it."""
    return _worker_cut(fleet, DEAF)


@scenario()
def worker_mute(fleet: Fleet) -> Facts:
    """Nobody hears a worker for 12 s, and it hears everybody."""
    return _worker_cut(fleet, MUTE)


@scenario()
def worker_cut_from_its_owner(fleet: Fleet) -> Facts:
    """A worker reaches every manager but the owner: it renews, so it is not lost."""
    job = fleet.submit(standard(30))
    job.await_schedule(4)
    where = job.where()
    fleet.cut("worker cut from owner", where.worker("counted"), [where.owner or "m1"], 15.0)
    return fleet.conclude(job)


@scenario()
def owner_cut_from_managers(fleet: Fleet) -> Facts:
    """The owner is cut off from the other managers for 20 s; workers reach all of them."""
    job = fleet.submit(standard(35))
    job.await_schedule(4)
    fleet.cut("owner cut from managers", job.where().owner or "m1", fleet.lab.managers, 20.0)
    facts = fleet.conclude(job)
    facts.stalls_forbidden = True
    return facts


@scenario()
def owner_cut_from_managers_for_good(fleet: Fleet) -> Facts:
    """The same, and the cut stays until the job has ended."""
    job = fleet.submit(standard(30))
    job.await_schedule(4)
    fleet.cut("owner cut from managers", job.where().owner or "m1", fleet.lab.managers, None)
    facts = fleet.conclude(job, mend_first=False)
    facts.stalls_forbidden = True
    return facts


@scenario()
def worker_refused_by_its_owner(fleet: Fleet) -> Facts:
    """A firewall refuses connections between a worker and the owner for 10 s: others reach it, so it is not lost."""
    job = fleet.submit(standard(30))
    job.await_schedule(4)
    where = job.where()
    fleet.refuse("worker refused by owner", where.worker("rate"), [where.owner or "m1"], 10.0)
    facts = fleet.conclude(job)
    facts.stalls_forbidden = True
    return facts


@scenario(workers=6)
def worker_refused_by_managers_five_times(fleet: Fleet) -> Facts:
    """A firewall refuses connections between a worker and all managers for a second, five times.

    Each time the worker may be taken for gone, and lived: more often than a shard is retried, so the job ends
    COMPLETED only if such a loss uses no retry."""
    job = fleet.submit(standard(45))
    job.await_schedule(4)
    for _ in range(5):
        fleet.refuse("worker refused", job.where().worker("rate"), fleet.lab.managers, 1.0)
        time.sleep(4.0)
    return fleet.conclude(job)


@scenario()
def owner_cut_off(fleet: Fleet) -> Facts:
    """The owner is cut off from everybody for 15 s."""
    job = fleet.submit(standard(30))
    job.await_schedule(4)
    fleet.cut("owner cut off", job.where().owner or "m1", fleet.lab.nodes, 15.0)
    facts = fleet.conclude(job)
    facts.stalls_forbidden = True
    return facts


@scenario()
def leader_deaf(fleet: Fleet) -> Facts:
    """The ledger's leader can send but not hear for 10 s."""
    job = fleet.submit(standard(25))
    job.await_schedule(4)
    fleet.cut("leader deaf", job.where().leader or "m1", fleet.lab.managers, 10.0, DEAF)
    facts = fleet.conclude(job)
    facts.stalls_forbidden = True
    return facts


@scenario()
def minority_refuses(fleet: Fleet) -> Facts:
    """A manager that is cut off from the others refuses a submission and says why; the job goes on."""
    job = fleet.submit(standard(20))
    job.await_schedule(4)
    where = job.where()
    alone = next(name for name in fleet.lab.managers if name not in (where.owner, where.leader))
    with fleet.fault("manager cut off", f"{alone} cut off from the other managers for 8 s"):
        fleet.lab.network.cut(alone, fleet.lab.managers)
        time.sleep(3.0)
        done = fleet.lab.client("submit", f"plan-{job.tag}.yaml", "--patience", "2s", manager=alone, timeout_s=30.0)
        said = (done.stdout + done.stderr).strip()
        fleet.note(f"submit to {alone}: {done.returncode} {said[:300]}")
        time.sleep(3.0)
        fleet.lab.network.heal(alone)
    facts = fleet.conclude(job)
    facts.stalls_forbidden = True
    if done.returncode in (0, 124) or not said:
        facts.found.append(Violation("P3", "minority", f"a manager without a majority answered a submission with "
                                                       f"{done.returncode}: {said[:200]!r}"))
    return facts


@scenario()
def loss_30_percent(fleet: Fleet) -> Facts:
    """Every node loses 30 % of what comes from other nodes, for 15 s."""
    job = fleet.submit(standard(30))
    job.await_schedule(4)
    with fleet.fault("loss", "30 % of packets between nodes for 15 s"):
        for name in fleet.lab.nodes:
            fleet.lab.network.lose(name, 0.3, except_from="target")
        time.sleep(15)
        fleet.lab.network.heal()
    return fleet.conclude(job)


@scenario()
def bridge_flapping(fleet: Fleet) -> Facts:
    """All traffic between nodes is cut every other second, for 9 s."""
    job = fleet.submit(standard(25))
    job.await_schedule(4)
    with fleet.fault("flapping", "nodes cut off from each other every other second for 9 s"):
        for _ in range(5):
            for name in fleet.lab.nodes:
                fleet.lab.network.lose(name, 1.0, except_from="target")
            time.sleep(1.0)
            fleet.lab.network.heal()
            time.sleep(1.0)
    return fleet.conclude(job)


@scenario()
def worker_cut_from_target(fleet: Fleet) -> Facts:
    """A worker does not reach the target for 6 s: requests fail or wait, nothing is lost or doubled."""
    job = fleet.submit(standard(20))
    job.await_schedule(4)
    fleet.cut("worker cut from target", job.where().worker("rate"), ["target"], 6.0)
    return fleet.conclude(job)
