"""The Notetaker: keeps what a later screen will need (paper 7.2.5)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trajmill.schemas.observation import Observation
from trajmill.stages.agents.base import AgentCall, EpisodeView
from trajmill.stages.agents.mobile_agent_v3.manager import PACKAGE
from trajmill.stages.agents.mobile_agent_v3.task_state import TaskState
from trajmill.stages.agents.roles.role_model import RoleModel
from trajmill.stages.agents.roles.sections import numbered, one_line, read_items, read_sections
from trajmill.stages.models.prompts import Prompt, own_or_packaged

_FIELDS = frozenset({"instruction", "plan", "notes"})


class NotetakerReply(NamedTuple):
    """The notes of one screen."""

    notes: tuple[str, ...]
    call: AgentCall


@dataclass(frozen=True, slots=True)
class Notetaker:
    """Asks the model behind the Notetaker's role."""

    role: RoleModel
    prompt: Prompt

    async def note(self, episode: EpisodeView, screen: Observation, state: TaskState) -> NotetakerReply:
        """The notes of a screen on which an action succeeded (equation 9).

        Args:
            episode: the episode after the action.
            screen: the screen before the action, as line 22 of algorithm 1 has it.
            state: the plan and the notes so far.

        Raises:
            ModelFailure: the model did not answer.
        """
        filled = self.prompt.fill(
            instruction=one_line(episode.instruction), plan=numbered(state.plan), notes=numbered(state.notes)
        )
        reply = await self.role.ask(filled, (screen,), episode)
        return NotetakerReply(read_items(read_sections(reply.text).get("important notes", "")), reply.call)


def open_notetaker(role: RoleModel, own: Path | None) -> Notetaker:
    """The Notetaker with the user's prompt, or that of the package.

    Raises:
        BadInputError: the prompt file cannot be read, or misses a section or a field.
    """
    return Notetaker(role, own_or_packaged(own, PACKAGE, "notetaker-1", _FIELDS))
