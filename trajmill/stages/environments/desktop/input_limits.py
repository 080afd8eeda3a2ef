"""Bounds of mouse actions on a desktop, because a model may ask for anything; for local and remote machines."""

from __future__ import annotations

MOST_CLICKS = 3
_LONGEST_PRESS_SECONDS = 5.0
_MOST_WHEEL_CLICKS = 50
_PIXELS_PER_WHEEL_CLICK = 60


def bounded_wheel_clicks(clicks: int) -> int:
    """The number of wheel clicks within the bounds; up is positive."""
    return max(-_MOST_WHEEL_CLICKS, min(clicks, _MOST_WHEEL_CLICKS))


def swipe_wheel_clicks(y: int, y2: int) -> int:
    """The number of wheel clicks that scroll as far as a swipe from `y` to `y2`."""
    return bounded_wheel_clicks(round((y2 - y) / _PIXELS_PER_WHEEL_CLICK))


def bounded_press_seconds(seconds: float) -> float:
    """The seconds that a button is held, within the bounds."""
    return min(max(seconds, 0.0), _LONGEST_PRESS_SECONDS)
