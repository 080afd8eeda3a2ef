"""The protocol of dialects; `parse` never raises for a model's text and never executes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from trajmill.schemas.actions import Action
from trajmill.schemas.coordinates import CoordinateFrame

_CALL, _CALL_END = "<tool_call>", "</tool_call>"
_EMPTY_THOUGHT = "Thought: \n"
"""What a format without such tags writes before the call where there is no thought."""


class ParseFailure(NamedTuple):
    """The reason why a model's text is no action."""

    message: str


class Reply(NamedTuple):
    """A parsed reply of an end-to-end agent."""

    thought: str
    action: Action
    conclusion: str
    slip: str = ""
    """How the text departs from the dialect's form, though the action can be read; empty if it does not. A rollout acts
    on such a reply, a reward function does not."""


class NotExpressible(ValueError):
    """A dialect cannot express an action; the message names both."""


class Dialect(Protocol):
    """A wire format of actions on one platform."""

    def system_prompt(self, frame: CoordinateFrame) -> str:
        """The system message that teaches a model this format."""
        ...

    def task_text(self, instruction: str, guidance: str | None, past: Sequence[str]) -> str:
        """The user's text: the task, its guidance, and the conclusions of the steps that are not shown."""
        ...

    def parse(self, text: str, frame: CoordinateFrame) -> Reply | ParseFailure:
        """Parse a model's reply; every text gives a reply or a failure."""
        ...

    def render(self, reply: Reply, frame: CoordinateFrame) -> str:
        """Write a reply as the model would.

        Raises:
            NotExpressible: the dialect cannot express the action.
        """
        ...


def bare_call(action: Action, dialect: Dialect, frame: CoordinateFrame) -> str:
    """The call of an action alone, without the words before it and behind it, which would be empty.

    Raises:
        NotExpressible: the dialect cannot express the action.
    """
    text = dialect.render(Reply("", action, ""), frame)
    if _CALL not in text:
        return text.removeprefix(_EMPTY_THOUGHT)
    return text[text.index(_CALL) : text.index(_CALL_END) + len(_CALL_END)]
