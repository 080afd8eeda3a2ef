"""What an environment and its player say to each other, one line of JSON each."""

from __future__ import annotations

from typing import Literal

from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.record import Record


class Request(Record):
    """What the player is to do."""

    call: Literal["reset", "step", "score"]
    task: str = ""
    """BrowserGym's name of the task, e.g. `miniwob.click-test`."""
    seed: int = 0
    arguments: str = "{}"
    """JSON object of the arguments of the task's class."""
    action: str = "{}"
    """JSON of a typed action."""


class Look(Record):
    """What the page shows."""

    png: str
    """In Base64."""
    size: Size
    elements: tuple[UIElement, ...]
    goal: str
    """What the task asks for, on one line."""


class Reward(Record):
    """What the task's validation said after the last step."""

    reward: float


class Trouble(Record):
    """Why a request could not be met, on one line."""

    error: str
