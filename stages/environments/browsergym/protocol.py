"""The messages between an environment and its player process, one line of JSON each."""

from __future__ import annotations

from typing import Literal

from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.record import Record


class PlayerRequest(Record):
    """What the player has to do."""

    call: Literal["reset", "step", "score"]
    task: str = ""
    """BrowserGym's name of the task, e.g. `miniwob.click-test`."""
    seed: int = 0
    arguments: str = "{}"
    """JSON object of the arguments of the task's class."""
    action: str = "{}"
    """JSON of a typed action."""


class PlayerScreen(Record):
    """What the page shows."""

    png: str
    """In Base64."""
    size: Size
    elements: tuple[UIElement, ...]
    goal: str
    """What the task asks for, on one line."""


class PlayerReward(Record):
    """The reward that the task's validation gave after the last step."""

    reward: float


class PlayerError(Record):
    """Why the player could not do what was requested, on one line."""

    error: str
