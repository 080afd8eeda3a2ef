"""The Reflector: compares the screens around an action with what was meant (paper 7.2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trajmill.schemas.actions import action_to_json
from trajmill.schemas.observation import Observation
from trajmill.stages.agents.base import AgentCall, Decision, EpisodeView
from trajmill.stages.agents.mobile_agent_v3.manager import PACKAGE
from trajmill.stages.agents.mobile_agent_v3.task_state import FAILURE, SUCCESS
from trajmill.stages.agents.roles.role_model import RoleModel
from trajmill.stages.agents.roles.sections import NONE, one_line, read_sections
from trajmill.stages.models.prompts import Prompt, own_or_packaged

_FIELDS = frozenset({"instruction", "action", "expectation"})


class ReflectorReply(NamedTuple):
    """The outcome of an action, F in the paper."""

    outcome: str
    """`SUCCESS` or `FAILURE`."""
    feedback: str
    """Why it failed; empty after a success."""
    call: AgentCall | None
    """None if no model was asked."""


@dataclass(frozen=True, slots=True)
class Reflector:
    """Asks the model behind the Reflector's role."""

    role: RoleModel
    prompt: Prompt

    async def reflect(self, episode: EpisodeView, before: Observation, decision: Decision) -> ReflectorReply:
        """The outcome of an action (equation 8).

        A step without an action has failed, and no model is asked. A reply that says neither counts as a failure, so
        that nothing is noted and the Manager looks again.

        Args:
            episode: the episode after the action.
            before: the screen before it.
            decision: the Worker's decision.

        Raises:
            ModelFailure: the model did not answer.
        """
        if decision.action is None:
            return ReflectorReply(FAILURE, decision.conclusion, None)
        filled = self.prompt.fill(
            instruction=one_line(episode.instruction),
            action=action_to_json(decision.action),
            expectation=one_line(f"{decision.thought} {decision.conclusion}"),
        )
        reply = await self.role.ask(filled, (before, episode.observation), episode)
        sections = read_sections(reply.text)
        if sections.get("outcome", "").upper().startswith(SUCCESS):
            return ReflectorReply(SUCCESS, "", reply.call)
        feedback = one_line(sections.get("feedback", reply.text))
        return ReflectorReply(FAILURE, "" if feedback.casefold() == NONE else feedback, reply.call)


def open_reflector(role: RoleModel, own: Path | None) -> Reflector:
    """The Reflector with the user's prompt, or that of the package.

    Raises:
        BadInputError: the prompt file cannot be read, or misses a section or a field.
    """
    return Reflector(role, own_or_packaged(own, PACKAGE, "reflector-1", _FIELDS))
