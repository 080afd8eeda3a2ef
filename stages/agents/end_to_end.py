"""One model sees the screen and says what to do, in the dialect of its family (paper 2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.base import Dialect, ParseFailure
from trajmill.schemas.dialects.families import ANY, Family
from trajmill.schemas.dialects.user_text import compose
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.base import AgentCall, Decision, EpisodeView
from trajmill.stages.models.base import ChatMessage, ChatModel, ChatRequest

NO_ACTION = "The reply held no valid action."
"""Conclusion of a step whose reply could not be parsed."""


@dataclass(frozen=True, slots=True)
class EndToEndAgent:
    """Asks a model for the next action in its family's dialect; knows only what an `EpisodeView` holds."""

    model: ChatModel
    platform: Platform
    temperature: float = 1.0
    """0 acts greedily."""
    role: str = "policy"
    name: str = "end_to_end"
    family: Family = ANY
    """Of the model."""

    @property
    def model_version(self) -> str:
        """Version of the model that is asked."""
        return self.model.version

    async def act(self, episode: EpisodeView) -> Decision:
        """Decide on the next action; a reply that is none gives a decision without action, the words kept.

        Raises:
            ModelFailure: the model did not answer.
        """
        dialect = self.family.dialect(self.platform)
        frame = self.model.frame(episode.observation.screen.size)
        request = self._request(episode, dialect, frame)
        start = perf_counter()
        completion = await self.model.complete(request)
        call = AgentCall(request, completion, (perf_counter() - start) * 1000)
        # Words of a model may hold lone surrogates, which no file can store.
        text = completion.text if completion.text.isascii() else completion.text.encode(errors="replace").decode()
        reply = dialect.parse(text, frame)
        prompt = compose(episode.instruction, None, _conclusions(episode))
        if isinstance(reply, ParseFailure):
            return Decision("", None, NO_ACTION, raw_response=text, prompt=prompt, calls=(call,))
        return Decision(reply.thought, reply.action, reply.conclusion, raw_response=text, prompt=prompt, calls=(call,))

    def _request(self, episode: EpisodeView, dialect: Dialect, frame: CoordinateFrame) -> ChatRequest:
        text = compose(episode.instruction, episode.guidance, _conclusions(episode))
        messages = (
            ChatMessage("system", (dialect.system_prompt(frame),)),
            ChatMessage("user", (text, episode.observation)),
        )
        seed = int(content_id("act", episode.seed, len(episode.history)), 16) % 2**31
        return ChatRequest(self.role, messages, self.temperature, seed)


def _conclusions(episode: EpisodeView) -> list[str]:
    return [decision.conclusion for decision in episode.history]
