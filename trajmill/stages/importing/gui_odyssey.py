"""GUI-Odyssey: a JSON file for each episode in `annotations/`, its pictures in `screenshots/` or in parts of it.

Positions are 0 to 1000 on both axes; a press can be a key (`introduction.md` and `data/` of the set's repository).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from trajmill.schemas.actions import Action, Click, LongPress, Swipe, SystemButton, Terminate, TypeText
from trajmill.schemas.coordinates import CoordinateSpace
from trajmill.schemas.geometry import Point
from trajmill.schemas.tables.query import Platform
from trajmill.stages.importing import base

_KEYS: Final[Mapping[str, Action]] = {
    "KEY_HOME": SystemButton(button="Home"),
    "KEY_BACK": SystemButton(button="Back"),
    "KEY_APPSELECT": SystemButton(button="Menu"),
}


class GuiOdysseyLayout(base.LayoutSpec):
    """Human demonstrations over several apps of Android devices."""

    expected: ClassVar[str] = "annotations/EPISODE.json and screenshots/NAME.png"
    kind: Literal["gui-odyssey"] = "gui-odyssey"
    """Android, across apps."""

    def lists(self, folder: Path) -> Sequence[Path]:
        return sorted((folder / "annotations").glob("*.json"))

    def read(self, file: Path, folder: Path) -> Iterator[base.ReadRecording]:
        yield base.only_recording(file, lambda episode: _recording(episode, folder))


def _recording(episode: Mapping[str, Any], folder: Path) -> base.Recording:
    task = episode["task_info"]
    return base.Recording(
        name=str(episode["episode_id"]),
        platform=Platform.PHONE,
        instruction=str(task["instruction"]),
        steps=tuple(_step(step, folder) for step in episode["steps"]),
        apps=tuple(map(str, task["app"])),
        task=str(task["category"]),
    )


def _step(step: Mapping[str, Any], folder: Path) -> base.RecordedStep:
    name = str(step["screenshot"])
    # As they are downloaded, they lie in parts of the folder that the set's own script would join.
    parts = (f"screenshots/{part.name}/{name}" for part in sorted(folder.glob("screenshots/*/")))
    screen = base.read_screen(base.within(folder, f"screenshots/{name}", name) or base.within(folder, *parts), name)
    return base.RecordedStep(
        screen,
        _action(str(step["action"]), step["info"], screen),
        raw=f"{step['action']} {step['info']}",
        thought=str(step.get("intention") or ""),
        conclusion=str(step.get("low_level_instruction") or ""),
    )


def _action(kind: str, info: Any, screen: base.RecordedScreen) -> Action | None:
    def at(place: Sequence[float]) -> Point:
        return screen.at(float(place[0]), float(place[1]), CoordinateSpace.PER_MILLE)

    match kind, info:
        case "CLICK" | "LONG_PRESS", str(key):
            return _KEYS.get(key)
        case "HOME" | "BACK", _:
            return _KEYS[f"KEY_{kind}"]
        case "CLICK", _:
            return Click(**at(info[0])._asdict())
        case "LONG_PRESS", _:
            return LongPress(**at(info[0])._asdict())
        case "SCROLL", _:
            start, end = at(info[0]), at(info[1])
            return Swipe(x=start.x, y=start.y, x2=end.x, y2=end.y)
        case "TYPE" | "TEXT", str(text):
            return TypeText(text=text)
        case "COMPLETE", _:
            return Terminate(status="success")
        case "INCOMPLETE" | "IMPOSSIBLE", _:
            return Terminate(status="failure")
        case _:
            return None
