"""Sets of demonstrations on Android phones, with a JSON file for each episode: AITZ, AMEX and GUI-Odyssey.

AITZ (Android in the Zoo): a list of steps with thoughts. Positions are (y, x) from 0 to 1; a dual point action is a tap
if touch and lift are close (`coat/action_utils.py` of its repository, after Android in the Wild).

AMEX (a test set of CES, 5.1): positions are pixels of `device_dim`, which the stored picture may have been scaled from.
A tap has one position, a swipe also `lift_coord`. An unknown action is kept as a step without an action.

GUI-Odyssey: positions are 0 to 1000 on both axes; a press can be a key (`introduction.md` and `data/` of its
repository).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from trajmill.schemas.actions import Action, Click, LongPress, Swipe, SystemButton, Terminate, TypeText
from trajmill.schemas.coordinates import CoordinateSpace
from trajmill.schemas.geometry import Box, Point
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Platform
from trajmill.stages.importing import base

_BACK, _HOME, _ENTER, _MENU = (SystemButton(button=name) for name in ("Back", "Home", "Enter", "Menu"))
_SUCCESS, _FAILURE = Terminate(status="success"), Terminate(status="failure")


class _EpisodeFiles(base.LayoutSpec):
    files: ClassVar[str]
    """Pattern of the episodes' files in the folder."""

    def lists(self, folder: Path) -> Sequence[Path]:
        return sorted(path for path in folder.glob(self.files) if path.is_file())

    def read(self, file: Path, folder: Path) -> Iterator[base.ReadRecording]:
        yield base.only_recording(file, lambda episode: self.recording(episode, file, folder))

    @abstractmethod
    def recording(self, episode: Any, file: Path, folder: Path) -> base.Recording:
        """Return the recording of a file's JSON; raises what untrusted content can raise."""


def _swipe(start: Point, end: Point) -> Swipe:
    return Swipe(x=start.x, y=start.y, x2=end.x, y2=end.y)


class AitzLayout(_EpisodeFiles):
    """Episodes of Android in the Wild with screen descriptions and thoughts."""

    expected: ClassVar[str] = "CATEGORY/EPISODE/EPISODE.json with its pictures beside it"
    files: ClassVar[str] = "**/*.json"
    kind: Literal["aitz"] = "aitz"
    """Android, with thoughts."""

    def recording(self, episode: Any, file: Path, folder: Path) -> base.Recording:
        *_, category, _ = ("", *file.parent.relative_to(folder).parts) if file.parent != folder else ("", "")
        ordered = sorted(episode, key=lambda step: int(step["step_id"]))
        if [int(step["step_id"]) for step in ordered] != list(range(len(ordered))):
            raise ValueError("its steps are not numbered from 0")
        if any(one["instruction"] != other["instruction"] for one, other in pairwise(ordered)):
            raise ValueError("its steps have different instructions")
        return base.Recording(
            name=str(ordered[0]["episode_id"]),
            platform=Platform.PHONE,
            instruction=str(ordered[0]["instruction"]),
            steps=tuple(_aitz_step(step, file, folder) for step in ordered),
            task=category,
        )


_TAP: Final = 0.04
"""Largest distance of touch and lift of a tap, as a share of the screen (Android in the Wild)."""
_TYPE, _DUAL_POINT = 3, 4
_AITZ_ACTIONS: Final[Mapping[int, Action]] = {5: _BACK, 6: _HOME, 7: _ENTER, 10: _SUCCESS, 11: _FAILURE}


def _aitz_step(step: Mapping[str, Any], file: Path, folder: Path) -> base.RecordedStep:
    stored = str(step["image_path"])
    beside = file.parent.relative_to(folder) / Path(stored).name
    screen = base.read_screen(base.within(folder, str(beside), stored), stored)
    return base.RecordedStep(
        screen._replace(elements=_aitz_elements(step, screen)),
        _aitz_action(step, screen),
        raw=str(step.get("coat_action_desc") or f"action type {step['result_action_type']}"),
        thought=str(step.get("coat_action_think") or ""),
        conclusion=str(step.get("coat_action_desc") or ""),
    )


def _aitz_action(step: Mapping[str, Any], screen: base.RecordedScreen) -> Action | None:
    kind = int(step["result_action_type"])
    if kind == _TYPE:
        return TypeText(text=str(step["result_action_text"]))
    if kind != _DUAL_POINT:
        return _AITZ_ACTIONS.get(kind)
    touch, lift = (_numbers(step[name]) for name in ("result_touch_yx", "result_lift_yx"))
    start, end = (screen.at(yx[1], yx[0], CoordinateSpace.UNIT) for yx in (touch, lift))
    return Click(x=start.x, y=start.y) if math.dist(touch, lift) <= _TAP else _swipe(start, end)


def _aitz_elements(step: Mapping[str, Any], screen: base.RecordedScreen) -> tuple[UIElement, ...] | None:
    """Return the detected elements: boxes as [y, x, height, width], in pixels or as shares of the screen."""
    boxes, texts, types = (_list(step.get(name)) for name in ("ui_positions", "ui_text", "ui_types"))
    if not boxes:
        return None
    rows = [_numbers(box) for box in boxes]
    shares = all(value <= 1.0 for row in rows for value in row)
    high, wide = (screen.height, screen.width) if shares else (1, 1)
    return tuple(
        UIElement(
            "text" if str(kind) == "TEXT" else "icon",
            str(text),
            Box(round(x * wide), round(y * high), round((x + width) * wide), round((y + height) * high)),
        )
        for (y, x, height, width), text, kind in zip(rows, texts, types, strict=True)
    )


def _list(value: Any) -> list[Any]:
    """Return a list, which the files store as the text of a JSON list."""
    found = base.parse_json(value.encode()) if isinstance(value, str) and value else value or []
    if not isinstance(found, list):
        raise ValueError("a list was expected")
    return found


def _numbers(value: Any) -> list[float]:
    found = [float(number) for number in _list(value)]
    if not all(map(math.isfinite, found)):
        raise ValueError("a position is not finite")
    return found


class AmexLayout(_EpisodeFiles):
    """Human demonstrations in single apps of Android devices."""

    expected: ClassVar[str] = "instruction_anno/EPISODE.json and screenshot/NAME.png"
    files: ClassVar[str] = "instruction_anno/*.json"
    kind: Literal["amex"] = "amex"
    """Android, in single apps."""

    def recording(self, episode: Any, file: Path, folder: Path) -> base.Recording:
        return base.Recording(
            name=str(episode.get("episode_id") or file.stem),
            platform=Platform.PHONE,
            instruction=str(episode["instruction"]),
            steps=tuple(_amex_step(step, folder) for step in episode["steps"]),
        )


_AMEX_ACTIONS: Final[Mapping[str, Action]] = {
    **{"PRESS_BACK": _BACK, "PRESS_HOME": _HOME, "PRESS_ENTER": _ENTER},
    **{"TASK_COMPLETE": _SUCCESS, "TASK_IMPOSSIBLE": _FAILURE},
}


def _amex_step(step: Mapping[str, Any], folder: Path) -> base.RecordedStep:
    name = str(step["image_path"])
    screen = base.read_screen(base.within(folder, f"screenshot/{name}", name), name)
    told = {key: step.get(key) for key in ("touch_coord", "lift_coord", "type_text") if step.get(key)}
    return base.RecordedStep(screen, _amex_action(step, screen), raw=f"{step['action']} {told}")


def _amex_action(step: Mapping[str, Any], screen: base.RecordedScreen) -> Action | None:
    wide, high = step.get("device_dim") or (screen.width, screen.height)

    def at(key: str) -> Point:
        x, y = step[key]
        return screen.at(float(x) / float(wide), float(y) / float(high), CoordinateSpace.UNIT)

    match kind := step["action"]:
        case "TAP" | "CLICK":
            return Click(**at("touch_coord")._asdict())
        case "SWIPE" | "SCROLL":
            return _swipe(at("touch_coord"), at("lift_coord"))
        case "TYPE":
            return TypeText(text=str(step["type_text"]))
        case _:
            return _AMEX_ACTIONS.get(str(kind))


class GuiOdysseyLayout(_EpisodeFiles):
    """Human demonstrations over several apps of Android devices."""

    expected: ClassVar[str] = "annotations/EPISODE.json and screenshots/NAME.png"
    files: ClassVar[str] = "annotations/*.json"
    kind: Literal["gui-odyssey"] = "gui-odyssey"
    """Android, across apps."""

    def recording(self, episode: Any, file: Path, folder: Path) -> base.Recording:
        task = episode["task_info"]
        return base.Recording(
            name=str(episode["episode_id"]),
            platform=Platform.PHONE,
            instruction=str(task["instruction"]),
            steps=tuple(_odyssey_step(step, folder) for step in episode["steps"]),
            apps=tuple(map(str, task["app"])),
            task=str(task["category"]),
        )


_ODYSSEY_KEYS: Final[Mapping[str, Action]] = {"KEY_HOME": _HOME, "KEY_BACK": _BACK, "KEY_APPSELECT": _MENU}


def _odyssey_step(step: Mapping[str, Any], folder: Path) -> base.RecordedStep:
    name = str(step["screenshot"])
    # As they are downloaded, they lie in parts of the folder that the set's own script would join.
    parts = (f"screenshots/{part.name}/{name}" for part in sorted(folder.glob("screenshots/*/")))
    screen = base.read_screen(base.within(folder, f"screenshots/{name}", name) or base.within(folder, *parts), name)
    return base.RecordedStep(
        screen,
        _odyssey_action(str(step["action"]), step["info"], screen),
        raw=f"{step['action']} {step['info']}",
        thought=str(step.get("intention") or ""),
        conclusion=str(step.get("low_level_instruction") or ""),
    )


def _odyssey_action(kind: str, info: Any, screen: base.RecordedScreen) -> Action | None:
    def at(place: Sequence[float]) -> Point:
        return screen.at(float(place[0]), float(place[1]), CoordinateSpace.PER_MILLE)

    match kind, info:
        case "CLICK" | "LONG_PRESS", str(key):
            return _ODYSSEY_KEYS.get(key)
        case "HOME" | "BACK", _:
            return _ODYSSEY_KEYS[f"KEY_{kind}"]
        case "CLICK", _:
            return Click(**at(info[0])._asdict())
        case "LONG_PRESS", _:
            return LongPress(**at(info[0])._asdict())
        case "SCROLL", _:
            return _swipe(at(info[0]), at(info[1]))
        case "TYPE" | "TEXT", str(text):
            return TypeText(text=text)
        case "COMPLETE", _:
            return _SUCCESS
        case "INCOMPLETE" | "IMPOSSIBLE", _:
            return _FAILURE
        case _:
            return None
