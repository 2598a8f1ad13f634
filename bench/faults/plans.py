"""Plans of the campaign: what is asked of the fleet, in a form that the oracle can compute with.

Every request carries its workload, its iteration and its data row in the path, so that the target's log alone says what
was generated twice and what was not generated at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

RATE, COUNTED, USERS = "rate", "counted", "users"
ROWS_FILE = "rows.csv"


@dataclass(frozen=True)
class Workload:
    """One workflow of a plan."""

    name: str
    kind: str
    per_second: float = 0.0
    """Arrivals, of a rate."""
    length_s: float = 0.0
    """Duration, of a rate and of constant users."""
    iterations: int = 0
    """Of a counted workload; of each user if `per_user`."""
    users: int = 0
    per_user: bool = False
    delay_ms: int = 0
    """How long the target takes for an answer."""
    think_ms: int = 0
    graceful_stop_s: float | None = None
    rows: bool = False
    """Each iteration takes a row of a set whose rows must not repeat."""
    cores: int | None = None
    """None: a share of the fleet, so that there are several shards of what one core could do."""

    @property
    def planned(self) -> int | None:
        """Iterations that the plan asks for when nothing is steered; None: as many as there is time for."""
        if self.kind == RATE:
            return round(self.per_second * self.length_s)
        if self.kind == COUNTED:
            return self.iterations * (self.users if self.per_user else 1)
        return None

    @property
    def quiet_s(self) -> float:
        """The longest pause between two requests of a user that is none of the generator's doing."""
        return (self.delay_ms + self.think_ms) / 1000

    def text(self, tag: str) -> str:
        """This workflow in the plan's language."""
        query = "it=${iteration}&vu=${vu.id}&vi=${vu.iteration}"
        if self.rows:
            query += "&row=${data.rows.id}"
        if self.delay_ms:
            query += f"&ms={self.delay_ms}"
        steps = f'{{ name: {self.name}, get: "/{tag}/{self.name}?{query}" }}'
        if self.think_ms:
            steps += f", {{ think: {self.think_ms}ms }}"
        share = f"cores: {self.cores}" if self.cores else "priority: normal"
        return f"  - name: {self.name}\n    {share}\n    load: {{ {self._load()} }}\n    steps: [ {steps} ]\n"

    def _load(self) -> str:
        load = self._amount()
        return load if self.graceful_stop_s is None else f"{load}, graceful_stop: {self.graceful_stop_s:g}s"

    def _amount(self) -> str:
        if self.kind == RATE:
            return f"rate: {self.per_second:g}/s, duration: {self.length_s:g}s, max_vus: 60"
        if self.kind == COUNTED:
            executor = "executor: per-vu-iterations, " if self.per_user else ""
            return f"{executor}vus: {self.users}, iterations: {self.iterations}"
        return f"vus: {self.users}, duration: {self.length_s:g}s"


@dataclass(frozen=True)
class Plan:
    name: str
    workloads: tuple[Workload, ...]
    setup: bool = True
    teardown: bool = True
    setup_ms: int = 0
    teardown_ms: int = 0
    row_count: int = 40_000

    @property
    def length_s(self) -> float:
        """How long the load takes if nothing happens; an estimate for counted workloads."""
        return max(_length(one) for one in self.workloads)

    @property
    def has_rows(self) -> bool:
        return any(one.rows for one in self.workloads)

    def workload(self, name: str) -> Workload:
        return next(one for one in self.workloads if one.name == name)

    def text(self, target: str, tag: str) -> str:
        parts = [f"name: {self.name}\ntarget: {target}\n"]
        if self.has_rows:
            parts.append(f"data:\n  rows: {{ file: {ROWS_FILE}, order: unique-per-iteration, when_exhausted: stop }}\n")
        edges = (("setup", self.setup, self.setup_ms), ("teardown", self.teardown, self.teardown_ms))
        for what, wanted, delay in edges:
            if wanted:
                parts.append(f'{what}: [ {{ name: {what}, get: "/{tag}/{what}?ms={delay}", timeout: 60s }} ]\n')
        parts.append("workflows:\n")
        for one in self.workloads:
            parts.append(one.text(tag))
        return "".join(parts)

    def rows_text(self) -> str:
        return "id\n" + "".join(f"{number}\n" for number in range(self.row_count))


def _length(one: Workload) -> float:
    if one.kind != COUNTED:
        return one.length_s
    each = max(one.quiet_s, 0.005)
    return (one.planned or 0) * each / max(one.users, 1)


def rate(length_s: float, per_second: float = 60, name: str = "rate", rows: bool = False) -> Workload:
    return Workload(name, RATE, per_second=per_second, length_s=length_s, rows=rows)


def counted(iterations: int, users: int = 6, delay_ms: int = 100, name: str = "counted", per_user: bool = False,
            cores: int | None = None) -> Workload:
    return Workload(name, COUNTED, iterations=iterations, users=users, delay_ms=delay_ms, per_user=per_user,
                    cores=cores)


def constant_users(length_s: float, users: int = 4, name: str = "users") -> Workload:
    return Workload(name, USERS, length_s=length_s, users=users, think_ms=100)


def standard(length_s: float = 20, *, with_users: bool = False, teardown_ms: int = 0) -> Plan:
    """A rate and a counted workload that both take about `length_s`."""
    workloads = [rate(length_s), counted(round(length_s * 45))]
    if with_users:
        workloads.append(constant_users(length_s))
    return Plan("standard", tuple(workloads), teardown_ms=teardown_ms)


def everything(length_s: float) -> Plan:
    """All four kinds of load beside each other, rows that must not repeat among them. It takes five cores."""
    return Plan("everything", (
        replace(rate(length_s, 40), cores=1), counted(round(length_s * 40), cores=2),
        replace(constant_users(length_s), cores=1), replace(rate(length_s, 15, name="unique", rows=True), cores=1)))
