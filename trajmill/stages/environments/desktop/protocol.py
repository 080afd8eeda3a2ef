"""Names of the desktop protocol, and bounds of mouse actions, because a model may request any number.

The tags of the accessibility XML are AT-SPI roles.
"""

from __future__ import annotations

from typing import NamedTuple

TOKEN_HEADER = "X-Desktop-Token"
_NAMESPACE = "https://accessibility.ubuntu.example.org/ns"
STATE = f"{{{_NAMESPACE}/state}}"
"""Prefix of attributes such as `showing`, which are `true` if present."""
COMPONENT = f"{{{_NAMESPACE}/component}}"
"""Prefix of `screencoord` and `size`, each `(a, b)` in pixels."""
VALUE = f"{{{_NAMESPACE}/value}}"
"""Prefix of `value`, the number that a slider or a spin button shows."""
MOST_CLICKS = 3
_LONGEST_PRESS_SECONDS = 5.0
_MOST_WHEEL_CLICKS = 50
_PIXELS_PER_WHEEL_CLICK = 60


class CommandResult(NamedTuple):
    output: str
    error: str
    code: int


def bounded_wheel_clicks(clicks: int) -> int:
    return max(-_MOST_WHEEL_CLICKS, min(clicks, _MOST_WHEEL_CLICKS))


def swipe_wheel_clicks(y: int, y2: int) -> int:
    """Return the wheel clicks that scroll as far as a swipe from `y` to `y2`."""
    return bounded_wheel_clicks(round((y2 - y) / _PIXELS_PER_WHEEL_CLICK))


def bounded_press_seconds(seconds: float) -> float:
    return min(max(seconds, 0.0), _LONGEST_PRESS_SECONDS)
