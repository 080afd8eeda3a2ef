"""AMEX: a JSON file for each episode in `instruction_anno/`, its pictures in `screenshot/` (a test set of CES, 5.1).

Positions are pixels of `device_dim`, which the stored picture may have been scaled from. A tap has one position, a
swipe also `lift_coord`. An unknown action is kept as a step without an action.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from trajmill.schemas.actions import Action, Click, Swipe, SystemButton, Terminate, TypeText
from trajmill.schemas.coordinates import CoordinateSpace
from trajmill.schemas.geometry import Point
from trajmill.schemas.tables.query import Platform
from trajmill.stages.importing import base

_PLAIN: Final[Mapping[str, Action]] = {
    "PRESS_BACK": SystemButton(button="Back"),
    "PRESS_HOME": SystemButton(button="Home"),
    "PRESS_ENTER": SystemButton(button="Enter"),
    "TASK_COMPLETE": Terminate(status="success"),
    "TASK_IMPOSSIBLE": Terminate(status="failure"),
}


class AmexLayout(base.LayoutSpec):
    """Human demonstrations in single apps of Android devices."""

    expected: ClassVar[str] = "instruction_anno/EPISODE.json and screenshot/NAME.png"
    kind: Literal["amex"] = "amex"
    """Android, in single apps."""

    def lists(self, folder: Path) -> Sequence[Path]:
        return sorted((folder / "instruction_anno").glob("*.json"))

    def read(self, file: Path, folder: Path) -> Iterator[base.ReadRecording]:
        def recording(episode: Mapping[str, Any]) -> base.Recording:
            return base.Recording(
                name=str(episode.get("episode_id") or file.stem),
                platform=Platform.PHONE,
                instruction=str(episode["instruction"]),
                steps=tuple(_step(step, folder) for step in episode["steps"]),
            )

        yield base.only_recording(file, recording)


def _step(step: Mapping[str, Any], folder: Path) -> base.RecordedStep:
    name = str(step["image_path"])
    screen = base.read_screen(base.within(folder, f"screenshot/{name}", name), name)
    told = {key: step.get(key) for key in ("touch_coord", "lift_coord", "type_text") if step.get(key)}
    return base.RecordedStep(screen, _action(step, screen), raw=f"{step['action']} {told}")


def _action(step: Mapping[str, Any], screen: base.RecordedScreen) -> Action | None:
    wide, high = step.get("device_dim") or (screen.width, screen.height)

    def at(key: str) -> Point:
        x, y = step[key]
        return screen.at(float(x) / float(wide), float(y) / float(high), CoordinateSpace.UNIT)

    match kind := step["action"]:
        case "TAP" | "CLICK":
            return Click(**at("touch_coord")._asdict())
        case "SWIPE" | "SCROLL":
            start, end = at("touch_coord"), at("lift_coord")
            return Swipe(x=start.x, y=start.y, x2=end.x, y2=end.y)
        case "TYPE":
            return TypeText(text=str(step["type_text"]))
        case _:
            return _PLAIN.get(str(kind))
