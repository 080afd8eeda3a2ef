"""What is left of a process group."""

from pathlib import Path

from tests.stages.environments.processes import eventually


def living(group: int) -> list[int]:
    """Process ids of a group, those left out that have ended and only wait for their parent to notice."""
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group_id = stat.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(group_id) == group and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


def is_gone(group: int) -> bool:
    """Wait until nothing is left of a group."""
    eventually(lambda: not living(group))
    return True
