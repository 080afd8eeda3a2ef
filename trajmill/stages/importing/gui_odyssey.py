"""Reads GUI-Odyssey: a JSON file for each episode in `annotations/`, its pictures in `screenshots/` or in parts of it.

Positions are 0 to 1000 on both axes; a press can be a key (`introduction.md` and `data/` of the set's repository).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from trajmill.schemas.actions import Action, Click, LongPress, Swipe, SystemButton, Terminate, TypeText
from trajmill.schemas.coordinates import CoordinateFrame, CoordinateSpace
from trajmill.schemas.geometry import Point, Size
from trajmill.schemas.tables.query import Platform
from trajmill.stages.importing.base import (
    LayoutSpec,
    ReadRecording,
    RecordedScreen,
    RecordedStep,
    Recording,
)
from trajmill.stages.importing.files import only_recording, read_screen, within

_KEYS: Final[Mapping[str, Action]] = {
    "KEY_HOME": SystemButton(button="Home"),
    "KEY_BACK": SystemButton(button="Back"),
    "KEY_APPSELECT": SystemButton(button="Menu"),
}


class GuiOdysseyLayout(LayoutSpec):
    """Human demonstrations over several apps of Android devices."""

    kind: Literal["gui-odyssey"] = "gui-odyssey"
    """Android, across apps."""

    def lists(self, folder: Path) -> Sequence[Path]:
        """The annotation files."""
        return sorted((folder / "annotations").glob("*.json"))

    def expected(self) -> str:
        """What a folder contains."""
        return "annotations/EPISODE.json and screenshots/NAME.png"

    def read(self, file: Path, folder: Path) -> Iterator[ReadRecording]:
        """The one episode of a file."""
        yield only_recording(file, lambda episode: _recording(episode, folder))


def _recording(episode: Mapping[str, Any], folder: Path) -> Recording:
    task = episode["task_info"]
    return Recording(
        name=str(episode["episode_id"]),
        platform=Platform.PHONE,
        instruction=str(task["instruction"]),
        steps=tuple(_step(step, folder) for step in episode["steps"]),
        last=None,
        agent="human",
        apps=tuple(map(str, task["app"])),
        task=str(task["category"]),
    )


def _step(step: Mapping[str, Any], folder: Path) -> RecordedStep:
    name = str(step["screenshot"])
    screen = read_screen(_picture(folder, name), name)
    return RecordedStep(
        screen,
        _action(str(step["action"]), step["info"], screen),
        raw=f"{step['action']} {step['info']}",
        thought=str(step.get("intention") or ""),
        conclusion=str(step.get("low_level_instruction") or ""),
    )


def _picture(folder: Path, name: str) -> Path | None:
    """A screenshot; as they are downloaded, they lie in parts of the folder that the set's own script would join."""
    parts = (f"screenshots/{part.name}/{name}" for part in sorted(folder.glob("screenshots/*/")))
    return within(folder, f"screenshots/{name}", name) or within(folder, *parts)


def _action(kind: str, info: Any, screen: RecordedScreen) -> Action | None:
    match kind, info:
        case "CLICK" | "LONG_PRESS", str(key):
            return _KEYS.get(key)
        case "HOME" | "BACK", _:
            return _KEYS[f"KEY_{kind}"]
        case "CLICK", _:
            return Click(**_at(info[0], screen)._asdict())
        case "LONG_PRESS", _:
            return LongPress(**_at(info[0], screen)._asdict())
        case "SCROLL", _:
            start, end = _at(info[0], screen), _at(info[1], screen)
            return Swipe(x=start.x, y=start.y, x2=end.x, y2=end.y)
        case "TYPE" | "TEXT", str(text):
            return TypeText(text=text)
        case "COMPLETE", _:
            return Terminate(status="success")
        case "INCOMPLETE" | "IMPOSSIBLE", _:
            return Terminate(status="failure")
        case _:
            return None


def _at(place: Sequence[float], screen: RecordedScreen) -> Point:
    size = Size(screen.width, screen.height)
    return CoordinateFrame(CoordinateSpace.PER_MILLE, size, size).to_pixels(float(place[0]), float(place[1]))
