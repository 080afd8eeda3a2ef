"""Reads the arguments of one function call; type and bounds of every value are checked before it is used."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.geometry import Point

LONGEST_SECONDS = 600.0
_BUTTONS: dict[Any, Literal["Back", "Home", "Menu", "Enter"]] = {
    "Back": "Back",
    "Home": "Home",
    "Menu": "Menu",
    "Enter": "Enter",
}


class ArgumentsError(Exception):
    """A call is no valid action; this error does not leave the dialect."""


class Arguments(NamedTuple):
    """The JSON object of a model's arguments, and the frame of its coordinates."""

    values: dict[str, Any]
    frame: CoordinateFrame

    def has(self, name: str) -> bool:
        """Whether the argument was given."""
        return self.values.get(name) is not None

    def word(self, name: str) -> str:
        """A string; empty if it is missing or no string."""
        value = self.values.get(name)
        return value if isinstance(value, str) else ""

    def text(self) -> str:
        """The `text` argument: any string that can be stored as UTF-8."""
        return _storable(self.values.get("text"), "text")

    def position(self, name: str) -> Point:
        """A position on the screen in pixels of the stored screenshot."""
        value = self.values.get(name)
        if not isinstance(value, list) or len(value) != 2:
            raise ArgumentsError(f"{name} is not a list of two numbers")
        wide, high = self.frame.extent
        return self.frame.to_pixels(_number(value[0], name, 0.0, wide), _number(value[1], name, 0.0, high))

    def seconds(self, default: float) -> float:
        """The `time` argument."""
        return _number(self.values["time"], "time", 0.0, LONGEST_SECONDS) if self.has("time") else default

    def wheel(self, most: int) -> int:
        """The `pixels` argument: at most `most` wheel clicks, positive up or to the right."""
        return round(_number(self.values.get("pixels"), "pixels", -most, most))

    def flag(self, name: str) -> bool:
        """A 0 or 1; 0 if it is missing."""
        value = self.values.get(name)
        if value not in (None, 0, 1):
            raise ArgumentsError(f"{name} is neither 0 nor 1")
        return bool(value)

    def keys(self) -> tuple[str, ...]:
        """The `keys` argument: at least one key."""
        value = self.values.get("keys")
        if not isinstance(value, list) or not value:
            raise ArgumentsError("keys is not a list of key names")
        return tuple(_storable(key, "keys") for key in value)

    def button(self) -> Literal["Back", "Home", "Menu", "Enter"]:
        """The `button` argument."""
        button = _BUTTONS.get(self.word("button"))
        if button is None:
            raise ArgumentsError("button is not one of Back, Home, Menu, Enter")
        return button

    def status(self) -> Literal["success", "failure"]:
        """The `status` argument."""
        match self.values.get("status"):
            case "success":
                return "success"
            case "failure":
                return "failure"
            case _:
                raise ArgumentsError("status is neither success nor failure")


def _number(value: Any, name: str, low: float, high: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise ArgumentsError(f"{name} holds no number between {low:g} and {high:g}")
    return float(value)


def _storable(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ArgumentsError(f"{name} is not a text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ArgumentsError(f"{name} is not valid Unicode") from error
    return value
