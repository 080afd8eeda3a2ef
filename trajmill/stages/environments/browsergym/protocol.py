"""The messages between an environment and its player process, one line of JSON each."""

from __future__ import annotations

from typing import Literal

from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.record import Record


class PlayerRequest(Record):
    """A request to the player."""

    call: Literal["reset", "step", "score"]
    task: str = ""
    """BrowserGym's name of the task, e.g. `miniwob.click-test`."""
    seed: int = 0
    arguments: str = "{}"
    """JSON object of the arguments of the task's class."""
    action: str = "{}"
    """JSON of a typed action."""


class PlayerScreen(Record):
    """An observation of the page."""

    png: str
    """The screenshot in Base64."""
    size: Size
    elements: tuple[UIElement, ...]
    goal: str
    """The task's instruction, on one line."""


class PlayerReward(Record):
    """The reward that the task's validation gave after the last step."""

    reward: float


class PlayerError(Record):
    """The reason why a request failed, on one line."""

    error: str
