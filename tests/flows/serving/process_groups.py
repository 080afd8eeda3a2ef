"""What is left of a process group."""

from tests.stages.environments.processes import eventually
from trajmill.stages.reaper import with_descendants


def living(group: int) -> list[int]:
    """Process ids of a group, those left out that have ended and only wait for their parent to notice."""
    return sorted(with_descendants((), groups=[group]))


def is_gone(group: int) -> bool:
    """Wait until nothing is left of a group."""
    eventually(lambda: not living(group))
    return True
