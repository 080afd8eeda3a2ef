"""Actions of foreign calls: Harbor's `computer_action`, Anthropic's `computer`, and the tools of our families."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from trajmill.schemas.actions import Action
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import ANY, FAMILIES, Family
from trajmill.schemas.dialects.published_tools import COMPUTER_USE, MOBILE_USE
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.query import Platform
from trajmill.stages.export.formats.computer_action import (
    COMPUTER_ACTION,
    TASK_COMPLETE,
    WHEEL_CLICK,
    read_computer_action,
    read_task_complete,
)

_ANTHROPIC: Final = "computer"
_LONGEST_EDGE: Final = 1568
_MOST_PIXELS: Final = 1_150_000
"""Anthropic's models see a larger screenshot smaller, and write positions in it."""
_KEYS: Final = {COMPUTER_ACTION: "type", _ANTHROPIC: "action"}
"""The argument of a tool that says what to do."""
_LOOKS: Final = ("screenshot", "cursor_position", "zoom")
_POINTED: Final = {"left_click": "click", "middle_click": "middle_click", "mouse_move": "mouse_move"} | {
    name: name for name in ("right_click", "double_click", "triple_click")
}
_WHEEL: Final = {"up": ("scroll_y", -1), "down": ("scroll_y", 1), "left": ("scroll_x", -1), "right": ("scroll_x", 1)}
_PIXEL_FAMILIES: Final = (ANY, FAMILIES["gui-owl-1.5"])
"""Their dialects have all actions of the published tools between them."""


def look_of(name: str, arguments: Mapping[str, Any]) -> str:
    """Return how a call looks at the screen without changing it; empty if it acts."""
    return next((look for look in _LOOKS if arguments.get(_KEYS.get(name, "")) == look), "")


def read_call(
    name: str, arguments: Mapping[str, Any], screen: Size, platform: Platform, family: Family
) -> Action | None:
    """Return the action of a call on a screen; None for an unknown tool, and for arguments that are no action."""
    try:
        if name == TASK_COMPLETE:
            return read_task_complete(arguments)
        if name in (COMPUTER_USE, MOBILE_USE):
            return _published(name, arguments, screen, platform, family)
        if name == _ANTHROPIC:
            return read_computer_action(_of_anthropic(arguments, screen))
        return read_computer_action(arguments) if name == COMPUTER_ACTION else None
    except (ValueError, TypeError, LookupError, ArithmeticError, ModelFailure):
        return None


def _published(
    name: str, arguments: Mapping[str, Any], screen: Size, platform: Platform, family: Family
) -> Action | None:
    text = f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"
    frame = native_frame(screen) if family is ANY else family.frame(screen)
    for each in _PIXEL_FAMILIES if family is ANY else (family,):
        if isinstance(reply := each.dialect(platform).parse(text, frame), Reply):
            return reply.action
    return None


def _of_anthropic(given: Mapping[str, Any], screen: Size) -> Mapping[str, Any]:
    """Return the arguments of `computer_action` for those of Anthropic's tool `computer`."""
    kind, text = str(given.get("action")), given.get("text")
    shrunk = min(1.0, _LONGEST_EDGE / max(screen), (_MOST_PIXELS / (screen.width * screen.height)) ** 0.5)

    def place(name: str, x: str, y: str) -> dict[str, Any]:
        return {} if name not in given else {x: int(given[name][0] / shrunk), y: int(given[name][1] / shrunk)}

    at = place("coordinate", "x", "y")
    if kind in _POINTED:
        return {"type": _POINTED[kind], **at, "modifier": text}
    match kind:
        case "left_click_drag":
            start = place("start_coordinate", "x", "y")
            return {"type": "drag" if start else "drag_to", **(start or at), **place("coordinate", "end_x", "end_y")}
        case "type":
            return {"type": "type", "text": text}
        case "key":
            return {"type": "keypress", "keys": [key for key in str(text).split("+") if key]}
        case "scroll":
            axis, sign = _WHEEL[given.get("scroll_direction", "down")]
            turned = {"scroll_y": 0, axis: sign * int(given.get("scroll_amount", 3)) * WHEEL_CLICK}
            return {"type": "scroll", **at, **turned, "modifier": text}
        case "wait":
            return {"type": "wait", "duration": given.get("duration")}
        case _:
            return {"type": kind}
