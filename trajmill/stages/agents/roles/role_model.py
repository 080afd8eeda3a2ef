"""Asks the model behind one role of an agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

from trajmill.schemas.observation import Observation
from trajmill.schemas.record import content_id
from trajmill.schemas.storable import storable
from trajmill.stages.agents.base import AgentCall, EpisodeView
from trajmill.stages.models.base import ChatMessage, ChatModel, ChatRequest
from trajmill.stages.models.prompts import FilledPrompt, Prompt


class RoleReply(NamedTuple):
    """What a role said, and the call for the row of `model_calls`."""

    text: str
    call: AgentCall


@dataclass(frozen=True, slots=True)
class RoleModel:
    """The model behind one role; it is asked greedily."""

    role: str
    """Its name on rows of `model_calls`: manager, reflector, ..."""
    model: ChatModel
    max_tokens: int = 1024
    """Longest reply in tokens."""

    async def ask(self, prompt: FilledPrompt, screens: Sequence[Observation], episode: EpisodeView) -> RoleReply:
        """Ask with a filled prompt and some screens, which come after the text.

        Raises:
            ModelFailure: the model did not answer.
        """
        messages = (ChatMessage("system", (prompt.system,)), ChatMessage("user", (prompt.user, *screens)))
        seed = int(content_id(self.role, episode.seed, len(episode.history)), 16) % 2**31
        request = ChatRequest(self.role, messages, seed=seed, max_tokens=self.max_tokens)
        start = perf_counter()
        completion = await self.model.complete(request)
        call = AgentCall(request, completion, (perf_counter() - start) * 1000, model_version=self.model.version)
        return RoleReply(storable(completion.text), call)


@dataclass(frozen=True, slots=True)
class PromptedRole:
    """A role with its one prompt."""

    role: RoleModel
    prompt: Prompt

    async def ask(self, screens: Sequence[Observation], episode: EpisodeView, **fields: str) -> RoleReply:
        """Ask with the prompt's fields filled in.

        Raises:
            KeyError: a field of the prompt is not given.
            ModelFailure: the model did not answer.
        """
        return await self.role.ask(self.prompt.fill(**fields), screens, episode)
