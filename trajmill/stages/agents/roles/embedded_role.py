"""A role without a model: rules that read the request's sections and screens, behind the protocol of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from trajmill.schemas.coordinates import CoordinateFrame, native_frame
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation
from trajmill.stages.agents.roles.sections import read_sections
from trajmill.stages.models.base import ChatRequest, Completion

_LETTERS_PER_TOKEN = 4


class RoleQuestion(NamedTuple):
    """What a request asks of a role."""

    sections: Mapping[str, str]
    """The sections of the user's text, by headings in lower case."""
    screens: tuple[Observation, ...]
    """The shown screens, in order."""

    def section(self, heading: str) -> str:
        """The text of a section; empty without it."""
        return self.sections.get(heading, "")


RoleRule = Callable[[RoleQuestion], str]
"""Writes the reply to a question."""


class EmbeddedRole:
    """A `ChatModel` that answers by a rule; it sees the request alone, as a model would."""

    def __init__(self, version: str, rule: RoleRule) -> None:
        self.version = version
        self._rule = rule

    def frame(self, screen: Size) -> CoordinateFrame:
        """Pixels of the stored screenshot; a role writes no positions."""
        return native_frame(screen)

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer by the rule; four letters count as a token."""
        parts = request.messages[-1].parts
        text = "".join(part for part in parts if isinstance(part, str))
        screens = tuple(part for part in parts if isinstance(part, Observation))
        answer = self._rule(RoleQuestion(read_sections(text), screens))
        return Completion(answer, len(text) // _LETTERS_PER_TOKEN, len(answer) // _LETTERS_PER_TOKEN, "stop")

    async def close(self) -> None:
        """Do nothing: there are no connections."""
