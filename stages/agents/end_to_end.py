"""The agent whose model sees the screen and answers with an action in its family's dialect (paper 2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.base import ParseFailure
from trajmill.schemas.dialects.conversation import Conversation, PastStep, SpokenMessage, conversation
from trajmill.schemas.dialects.families import ANY, Family
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.base import AgentCall, Decision, EpisodeView
from trajmill.stages.models.base import ChatMessage, ChatModel, ChatRequest, MessagePart

NO_ACTION = "The reply held no valid action."
"""Conclusion of a step whose reply could not be parsed."""


@dataclass(frozen=True, slots=True)
class EndToEndAgent:
    """Asks a model for the next action in its family's dialect; it knows only the `EpisodeView`."""

    model: ChatModel
    platform: Platform
    temperature: float = 1.0
    """0 acts greedily."""
    role: str = "policy"
    name: str = "end_to_end"
    family: Family = ANY
    """The family of the model."""
    with_tokens: bool = False
    """Whether the tokens of its replies are asked for."""

    @property
    def model_version(self) -> str:
        """Version of its model."""
        return self.model.version

    async def act(self, episode: EpisodeView) -> Decision:
        """Decide on the next action; a reply that cannot be parsed gives a decision without action that keeps the text.

        Raises:
            ModelFailure: the model did not answer.
        """
        frame = self.model.frame(episode.observation.screen.size)
        asked = self._conversation(episode, frame)
        request = self._request(episode, asked)
        start = perf_counter()
        completion = await self.model.complete(request)
        call = AgentCall(request, completion, (perf_counter() - start) * 1000)
        # Text of a model may contain lone surrogates, which no file can store.
        text = completion.text if completion.text.isascii() else completion.text.encode(errors="replace").decode()
        reply = self.family.dialect(self.platform).parse(text, frame)
        valid = None if isinstance(reply, ParseFailure) else reply
        return Decision(
            valid.thought if valid else "",
            valid.action if valid else None,
            valid.conclusion if valid else NO_ACTION,
            raw_response=text,
            prompt=asked.task,
            calls=(call,),
            reply_tokens=completion.tokens,
        )

    def _conversation(self, episode: EpisodeView, frame: CoordinateFrame) -> Conversation[Observation]:
        # Past screens are needed only by a family that shows them.
        seen = episode.past_observations if self.family.past_screens else [episode.observation] * len(episode.history)
        past = [
            PastStep(observation, decision.raw_response, decision.conclusion)
            for observation, decision in zip(seen, episode.history, strict=True)
        ]
        return conversation(
            self.family, self.platform, frame, episode.instruction, episode.guidance, past, episode.observation
        )

    def _request(self, episode: EpisodeView, asked: Conversation[Observation]) -> ChatRequest:
        messages = tuple(ChatMessage(message.role, _parts(message)) for message in asked.messages)
        seed = int(content_id("act", episode.seed, len(episode.history)), 16) % 2**31
        return ChatRequest(self.role, messages, self.temperature, seed, with_tokens=self.with_tokens)


def _parts(message: SpokenMessage[Observation]) -> tuple[MessagePart, ...]:
    text = (message.text,) if message.text else ()
    return text if message.screen is None else (*text, message.screen)
