"""Operations on the icons of a file manager."""

from __future__ import annotations

from random import Random

from trajmill.stages.environments.screen_goal import KEY
from trajmill.stages.queries.atomic.base import HOME, AtomicTask, Objects, file, folder, launch, output_is, path_step


def click(objects: Objects, rng: Random) -> AtomicTask:
    """Select one of three files."""
    names = rng.sample(objects.files, 3)
    return AtomicTask(
        "click",
        "pcmanfm",
        {"file": names[0]},
        [*(file(f"{HOME}/{name}", "") for name in names), launch("pcmanfm", HOME)],
        (path_step("tap", f"pcmanfm/icon:{names[0]}"),),
        {KEY: [{"role": "text", "text": _status_of_empty(names[0])}]},
    )


def double_click(objects: Objects, rng: Random) -> AtomicTask:
    """Open one of three folders."""
    folders = rng.sample(objects.folders, 3)
    return AtomicTask(
        "double_click",
        "pcmanfm",
        {"folder": folders[0]},
        [*map(folder, folders), launch("pcmanfm", HOME)],
        (path_step("double_tap", f"pcmanfm/icon:{folders[0]}"),),
        {KEY: [{"role": "heading", "text": folders[0], "state": "title"}]},
    )


def right_click(objects: Objects, rng: Random) -> AtomicTask:
    """Open the context menu of one of three files."""
    names = rng.sample(objects.files, 3)
    return AtomicTask(
        "right_click",
        "pcmanfm",
        {"file": names[0]},
        [*(file(f"{HOME}/{name}", "") for name in names), launch("pcmanfm", HOME)],
        (path_step("right_tap", f"pcmanfm/icon:{names[0]}"),),
        {KEY: [{"role": "menu_item", "text": "Rename..."}, {"role": "text", "text": _status_of_empty(names[0])}]},
    )


def drag_move(objects: Objects, rng: Random) -> AtomicTask:
    """Move a file into one of two folders."""
    (name, other), folders = rng.sample(objects.files, 2), rng.sample(objects.folders, 2)
    made = [folder(each) for each in folders] + [file(f"{HOME}/{each}", each) for each in (name, other)]
    return AtomicTask(
        "drag_move",
        "pcmanfm",
        {"file": name, "folder": folders[0]},
        [*made, launch("pcmanfm", HOME)],
        (path_step("drag", f"pcmanfm/icon:{name}", f"pcmanfm/icon:{folders[0]}"),),
        output_is(["ls", f"{HOME}/{folders[0]}"], name),
    )


def _status_of_empty(name: str) -> str:
    """The status line for a selected empty text file; it is checked because a menu may cover the file itself."""
    return f'"{name}" (0 bytes) plain text document'
