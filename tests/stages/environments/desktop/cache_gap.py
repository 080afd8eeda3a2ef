"""Takes a program's menu bar out of what the bulk cache tells, and looks whether it is found.

Run as `python -m tests.stages.environments.desktop.cache_gap FOLDER`, in a process of its own, which adopts and ends
what it starts. Prints two lines: what was taken out of what shows, and what was found.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from trajmill.schemas.geometry import Size
from trajmill.stages.environments.desktop.local.atspi import (
    Bus,
    CachedObject,
    Reference,
    programs_call,
    read_item,
    tree_call,
)
from trajmill.stages.environments.desktop.local.processes import adopt_orphans, end_descendants
from trajmill.stages.environments.desktop.local.session import Session
from trajmill.stages.environments.desktop.local.tree import read_uncached

_SECONDS = 30.0


def main() -> None:
    """Start a session, compare, end it."""
    folder = Path(sys.argv[1])
    adopt_orphans()
    try:
        session = Session(folder / "home", folder, Size(800, 600))
        session.launch(["mousepad"])
        cached = _until_shown(session.accessibility)
        left_out = _below_menu_bar(cached)
        rest = [item for item in cached if item.reference not in left_out]
        found = read_uncached(session.accessibility, rest)
        print(_names([item for item in cached if item.shown and item.reference in left_out]))
        print(_names(found))
    finally:
        end_descendants(os.getpid())


def _until_shown(bus: Bus) -> list[CachedObject]:
    """What the bulk cache tells once there is a menu bar in it."""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        programs = bus.ask_one(programs_call(), _SECONDS)
        for owner, _ in programs[0] if programs else ():
            answer = bus.ask_one(tree_call(owner), _SECONDS)
            items = [read_item(row) for row in answer[0]] if answer else []
            if any(item.role == "menu-bar" and item.shown for item in items):
                return items
        time.sleep(0.05)
    raise TimeoutError("mousepad shows no menu bar")


def _below_menu_bar(items: list[CachedObject]) -> set[Reference]:
    found = {item.reference for item in items if item.role == "menu-bar"}
    while more := {item.reference for item in items if item.parent in found} - found:
        found |= more
    return found


def _names(items: list[CachedObject]) -> str:
    return "; ".join(sorted({f"{item.role} {item.name}" for item in items}))


if __name__ == "__main__":
    main()
