"""The internal action space: the mobile and desktop spaces of GUI-Owl 7B and 1.5 as a tagged union.

Positions are whole pixels of the stored screenshot. The dialects in `schemas/dialects/` convert the texts of models to
these actions.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from trajmill.schemas.record import Record


class Click(Record):
    """Press a mouse button, or a finger, at a position."""

    kind: Literal["click"] = "click"
    x: int
    y: int
    button: Literal["left", "middle", "right"] = "left"
    count: int = 1
    """1 for a single, 2 for a double, 3 for a triple click."""


class LongPress(Record):
    """Keep a finger at a position for some seconds."""

    kind: Literal["long_press"] = "long_press"
    x: int
    y: int
    seconds: float = 1.0


class Swipe(Record):
    """Move a finger from one position to another; the content follows the finger."""

    kind: Literal["swipe"] = "swipe"
    x: int
    y: int
    x2: int
    y2: int


class Drag(Record):
    """Hold the left mouse button from one position to another."""

    kind: Literal["drag"] = "drag"
    x: int
    y: int
    x2: int
    y2: int


class DragTo(Record):
    """Hold the left mouse button from the pointer's position to another one."""

    kind: Literal["drag_to"] = "drag_to"
    x: int
    y: int


class MoveMouse(Record):
    """Move the mouse without pressing a button."""

    kind: Literal["mouse_move"] = "mouse_move"
    x: int
    y: int


class Scroll(Record):
    """Turn the mouse wheel at a position; positive `clicks` scroll up, as in GUI-Owl's `pixels`."""

    kind: Literal["scroll"] = "scroll"
    x: int | None = None
    y: int | None = None
    clicks: int


class HorizontalScroll(Record):
    """Turn the mouse wheel sideways at a position; positive `clicks` scroll to the right."""

    kind: Literal["hscroll"] = "hscroll"
    x: int | None = None
    y: int | None = None
    clicks: int


class TypeText(Record):
    """Type text into the focused input."""

    kind: Literal["type"] = "type"
    text: str
    clear: bool = False
    """Whether the text replaces the text of the input."""
    enter: bool = False
    """Whether Enter is pressed afterwards."""


class PressKeys(Record):
    """Press keys in order and release them in reverse order (desktop), or one adb keyevent (mobile)."""

    kind: Literal["key"] = "key"
    keys: tuple[str, ...]


class SystemButton(Record):
    """Press a system button of a phone."""

    kind: Literal["system_button"] = "system_button"
    button: Literal["Back", "Home", "Menu", "Enter"]


class OpenApp(Record):
    """Open an app by the name on its icon."""

    kind: Literal["open"] = "open"
    app: str


class Wait(Record):
    """Wait for the screen to change."""

    kind: Literal["wait"] = "wait"
    seconds: float = 1.0


class Interact(Record):
    """Ask the user to solve a problem that blocks the agent; in a rollout there is no user, so nothing happens."""

    kind: Literal["interact"] = "interact"
    text: str


class SwitchDevice(Record):
    """Go on at another device of the episode; agents of several devices do it, no reply of a model is this action."""

    kind: Literal["switch_device"] = "switch_device"
    device: Literal["phone", "desktop", "web"]
    """Its platform."""


class Answer(Record):
    """Give the answer to a question; ends the episode."""

    kind: Literal["answer"] = "answer"
    text: str


class Terminate(Record):
    """End the episode and say whether the task is done."""

    kind: Literal["terminate"] = "terminate"
    status: Literal["success", "failure"]


Action = Annotated[
    Click
    | LongPress
    | Swipe
    | Drag
    | DragTo
    | MoveMouse
    | Scroll
    | HorizontalScroll
    | TypeText
    | PressKeys
    | SystemButton
    | OpenApp
    | Wait
    | Interact
    | SwitchDevice
    | Answer
    | Terminate,
    Field(discriminator="kind"),
]

_ADAPTER: TypeAdapter[Action] = TypeAdapter(Action)


def action_from_json(text: str) -> Action:
    """Read a stored action. Raises pydantic.ValidationError for a text that `action_to_json` does not write."""
    return _ADAPTER.validate_json(text)


def action_to_json(action: Action) -> str:
    """Write an action as compact JSON with all defaults."""
    return action.model_dump_json()


def pressed_point(action: Action) -> tuple[int, int] | None:
    """The first position that an action touches; None for an action without a position."""
    match action:
        case Click(x=x, y=y) | LongPress(x=x, y=y) | Swipe(x=x, y=y) | Drag(x=x, y=y) | MoveMouse(x=x, y=y):
            return x, y
        case DragTo(x=x, y=y):
            return x, y
        case Scroll(x=int() as x, y=int() as y) | HorizontalScroll(x=int() as x, y=int() as y):
            return x, y
        case _:
            return None


def ends_episode(action: Action) -> bool:
    return isinstance(action, Terminate | Answer)
