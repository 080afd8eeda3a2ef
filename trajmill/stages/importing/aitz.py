"""AITZ (Android in the Zoo): a JSON list of steps for each episode, with thoughts, beside its pictures.

Positions are (y, x) from 0 to 1; a dual point action is a tap if touch and lift are close (`coat/action_utils.py` of
its repository, after Android in the Wild).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from trajmill.schemas.actions import Action, Click, Swipe, SystemButton, Terminate, TypeText
from trajmill.schemas.coordinates import CoordinateSpace
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Platform
from trajmill.stages.importing import base

_TAP: Final = 0.04
"""Largest distance of touch and lift of a tap, as a share of the screen (Android in the Wild)."""
_TYPE, _DUAL_POINT = 3, 4
_PLAIN: Final[Mapping[int, Action]] = {
    5: SystemButton(button="Back"),
    6: SystemButton(button="Home"),
    7: SystemButton(button="Enter"),
    10: Terminate(status="success"),
    11: Terminate(status="failure"),
}


class AitzLayout(base.LayoutSpec):
    """Episodes of Android in the Wild with screen descriptions and thoughts."""

    expected: ClassVar[str] = "CATEGORY/EPISODE/EPISODE.json with its pictures beside it"
    kind: Literal["aitz"] = "aitz"
    """Android, with thoughts."""

    def lists(self, folder: Path) -> Sequence[Path]:
        return sorted(path for path in folder.rglob("*.json") if path.is_file())

    def read(self, file: Path, folder: Path) -> Iterator[base.ReadRecording]:
        yield base.only_recording(file, lambda episode: _recording(episode, file, folder))


def _recording(steps: Sequence[Mapping[str, Any]], file: Path, folder: Path) -> base.Recording:
    *_, category, _ = ("", *file.parent.relative_to(folder).parts) if file.parent != folder else ("", "")
    ordered = sorted(steps, key=lambda step: int(step["step_id"]))
    if [int(step["step_id"]) for step in ordered] != list(range(len(ordered))):
        raise ValueError("its steps are not numbered from 0")
    if any(one["instruction"] != other["instruction"] for one, other in pairwise(ordered)):
        raise ValueError("its steps have different instructions")
    return base.Recording(
        name=str(ordered[0]["episode_id"]),
        platform=Platform.PHONE,
        instruction=str(ordered[0]["instruction"]),
        steps=tuple(_step(step, file, folder) for step in ordered),
        task=category,
    )


def _step(step: Mapping[str, Any], file: Path, folder: Path) -> base.RecordedStep:
    stored = str(step["image_path"])
    beside = file.parent.relative_to(folder) / Path(stored).name
    screen = base.read_screen(base.within(folder, str(beside), stored), stored)
    return base.RecordedStep(
        screen._replace(elements=_elements(step, screen)),
        _action(step, screen),
        raw=str(step.get("coat_action_desc") or f"action type {step['result_action_type']}"),
        thought=str(step.get("coat_action_think") or ""),
        conclusion=str(step.get("coat_action_desc") or ""),
    )


def _action(step: Mapping[str, Any], screen: base.RecordedScreen) -> Action | None:
    kind = int(step["result_action_type"])
    if kind == _TYPE:
        return TypeText(text=str(step["result_action_text"]))
    if kind != _DUAL_POINT:
        return _PLAIN.get(kind)
    touch, lift = (_numbers(step[name]) for name in ("result_touch_yx", "result_lift_yx"))
    start, end = (screen.at(yx[1], yx[0], CoordinateSpace.UNIT) for yx in (touch, lift))
    if math.dist(touch, lift) <= _TAP:
        return Click(x=start.x, y=start.y)
    return Swipe(x=start.x, y=start.y, x2=end.x, y2=end.y)


def _elements(step: Mapping[str, Any], screen: base.RecordedScreen) -> tuple[UIElement, ...] | None:
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
