"""The list of scenarios: each is a function that is given a fleet that is up, and gives back the facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from ..facts import Facts
from ..fleet import Fleet

Act = Callable[[Fleet], Facts]


@dataclass(frozen=True)
class Scenario:
    name: str
    about: str
    act: Act
    managers: int = 3
    workers: int = 3
    cores: int = 1
    manager_flags: tuple[str, ...] = ()
    small_disks: bool = False


SCENARIOS: dict[str, Scenario] = {}


def scenario(*, managers: int = 3, workers: int = 3, cores: int = 1, manager_flags: tuple[str, ...] = (),
             small_disks: bool = False) -> Callable[[Act], Act]:
    """Makes a scenario of a function: its name with hyphens, and the first line of its documentation."""
    def register(act: Act) -> Act:
        name = act.__name__.replace("_", "-")
        about = (act.__doc__ or "").strip().splitlines()[0]
        assert name not in SCENARIOS, f"two scenarios are called {name}"
        SCENARIOS[name] = Scenario(name, about, act, managers, workers, cores, manager_flags, small_disks)
        return act
    return register
