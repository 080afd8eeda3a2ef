"""The internal action space: the mobile and desktop spaces of GUI-Owl 7B and 1.5 as a tagged union.

Positions are whole pixels of the stored screenshot. The dialects in `schemas/dialects/` convert the texts of models to
these actions.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from trajmill.schemas.geometry import Point
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
"""What an agent does at a step, in pixels of the screenshot; the platform decides which actions exist."""

_ADAPTER: TypeAdapter[Action] = TypeAdapter(Action)


def action_from_json(text: str) -> Action:
    """Read a stored action. Raises pydantic.ValidationError for a text that `action_to_json` does not write."""
    return _ADAPTER.validate_json(text)


def action_to_json(action: Action) -> str:
    """Write an action as compact JSON with all defaults."""
    return action.model_dump_json()


def pressed_point(action: Action) -> tuple[int, int] | None:
    """The first position that an action touches; None for an action without a position."""
    x, y = getattr(action, "x", None), getattr(action, "y", None)
    return None if x is None or y is None else (x, y)


def hold(at: Point, *, touch: bool) -> LongPress | Click:
    """Return a long press with a finger, or a right click."""
    return LongPress(x=at.x, y=at.y) if touch else Click(x=at.x, y=at.y, button="right")


def is_hold(action: Action | None) -> bool:
    """Whether it is a long press or a right click."""
    return isinstance(action, LongPress) or (isinstance(action, Click) and action.button == "right")


def drag(start: Point, end: Point, *, touch: bool) -> Swipe | Drag:
    """Return a movement of a finger, or of the mouse with its left button down."""
    return (Swipe if touch else Drag)(x=start.x, y=start.y, x2=end.x, y2=end.y)


def scroll_direction(action: Action | None) -> str:
    """Return where a swipe or scroll moves the view; empty for other actions. A swipe upwards moves the view down."""
    match action:
        case Swipe(x=x, y=y, x2=x2, y2=y2) if abs(x2 - x) > abs(y2 - y):
            return "right" if x2 < x else "left"
        case Swipe(y=y, y2=y2):
            return "down" if y2 < y else "up"
        case Scroll(clicks=clicks):
            return "up" if clicks > 0 else "down"
        case HorizontalScroll(clicks=clicks):
            return "right" if clicks > 0 else "left"
    return ""


def order_for(action: Action, element: str, *, touch: bool = True) -> str:
    """Return what to do, in the imperative and without an outcome.

    `element` is what the action presses, as a phrase: `"Wallet"`, `the switch`. With the first, a click is
    `Tap "Wallet".`, or `Click "Wallet".` without `touch`.
    """
    press = "Tap" if touch else "Click"
    match action:
        case Click(button="left", count=count):
            return f"{(press, f'Double-{press.lower()}', 'Triple-click')[min(count, 3) - 1]} {element}."
        case Click(button=button):
            return f"{button.title()}-click {element}."
        case LongPress():
            return f"Hold {element}."
        case Drag(x=x, y=y, x2=x2, y2=y2):
            across, down = x2 - x, y2 - y
            sideways = "to the right" if across > 0 else "to the left"
            return f"Drag {element} {sideways if abs(across) > abs(down) else 'down' if down > 0 else 'up'}."
        case DragTo():
            return f"Drag to {element}."
        case MoveMouse():
            return f"Move the pointer to {element}."
        case Swipe() | Scroll() | HorizontalScroll():
            return f"Scroll {scroll_direction(action)}."
        case TypeText(text=text, enter=enter):
            return (
                f"Type {in_quotes(text)}{f' into {element}' if element else ''}{' and press Enter' if enter else ''}."
            )
        case PressKeys(keys=keys):
            return f"Press {'+'.join(keys)}."
        case SystemButton(button=button):
            return f"Press {button}."
        case OpenApp(app=app):
            return f"Open {in_quotes(app)}."
        case Wait():
            return "Wait."
        case Interact(text=text):
            return f"Ask the user: {in_quotes(text)}"
        case SwitchDevice(device=device):
            return f"Go on at the {device}."
        case Answer(text=text):
            return f"Answer {in_quotes(text)}."
        case Terminate(status=status):
            return f"Report that the task {'is complete' if status == 'success' else 'cannot be done'}."


def in_quotes(text: str) -> str:
    """Return a text on one line in double quotes; its own become single ones."""
    line = " ".join(text.split()).replace('"', "'")
    return f'"{line}"'


def ends_episode(action: Action) -> bool:
    return isinstance(action, Terminate | Answer)
