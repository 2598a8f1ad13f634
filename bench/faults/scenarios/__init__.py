"""Named scenarios, by what they do: every row of "When something dies" in docs/fleet.md, and what was once broken."""

from . import cancels, cuts, disks, ends, handovers, losses, steering  # noqa: F401  (they register themselves)
from .registry import SCENARIOS, Scenario

__all__ = ["SCENARIOS", "Scenario"]
