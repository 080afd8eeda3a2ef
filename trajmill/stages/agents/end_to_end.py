"""The agent whose model sees the screen and answers with an action in its family's dialect (paper 2.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.base import Dialect, ParseFailure
from trajmill.schemas.dialects.conversation import Conversation, PastStep, SpokenMessage, conversation
from trajmill.schemas.dialects.families import ANY, Family
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.base import AgentCall, Decision, EpisodeView
from trajmill.stages.models.base import ChatMessage, ChatModel, ChatRequest, Completion, MessagePart

NO_ACTION = "The reply held no valid action."
"""Conclusion of a step whose reply could not be parsed."""


@dataclass(frozen=True, slots=True)
class EndToEndAgent:
    """Asks a model for the next action in its family's dialect; it knows only the `EpisodeView`."""

    model: ChatModel
    platform: Platform
    temperature: float = 1.0
    role: str = "policy"
    name: str = "end_to_end"
    family: Family = ANY
    with_tokens: bool = False
    max_tokens: int = 512

    @property
    def model_version(self) -> str:
        return self.model.version

    async def act(self, episode: EpisodeView, context: str = "") -> Decision:
        """Decide on the next action; a reply that cannot be parsed gives a decision without action that keeps the text.

        Args:
            episode: the episode so far.
            context: a text of other roles before the task. Like guidance, it is in the request alone and not in the
                decision's prompt.

        Raises:
            ModelFailure: the model did not answer.
        """
        frame = self.model.frame(episode.observation.screen.size)
        asked = step_prompt(self.family, self.platform, frame, episode)
        request = self._request(episode, asked, context)
        start = perf_counter()
        completion = await self.model.complete(request)
        call = AgentCall(request, completion, (perf_counter() - start) * 1000)
        return read_reply(completion, self.family.dialect(self.platform), frame, asked.task, call)

    def task_text(self, episode: EpisodeView) -> str:
        """The task's text in the prompt of a step, without guidance."""
        frame = self.model.frame(episode.observation.screen.size)
        return step_prompt(self.family, self.platform, frame, episode).task

    def _request(self, episode: EpisodeView, asked: Conversation[Observation], context: str) -> ChatRequest:
        seed = int(content_id("act", episode.seed, len(episode.history)), 16) % 2**31
        return ChatRequest(
            self.role,
            chat_messages(asked, context),
            self.temperature,
            seed,
            max_tokens=self.max_tokens,
            with_tokens=self.with_tokens,
        )


def step_prompt(
    family: Family, platform: Platform, frame: CoordinateFrame, episode: EpisodeView
) -> Conversation[Observation]:
    """What a model of a family is asked at a step."""
    # Past screens are needed only by a family that shows them.
    seen = episode.past_observations if family.past_screens else [episode.observation] * len(episode.history)
    past = [
        PastStep(observation, decision.raw_response, decision.conclusion)
        for observation, decision in zip(seen, episode.history, strict=True)
    ]
    return conversation(family, platform, frame, episode.instruction, episode.guidance, past, episode.observation)


def chat_messages(asked: Conversation[Observation], context: str = "") -> tuple[ChatMessage, ...]:
    """The messages of a prompt, each screen after the text; `context` stands at the start of the last message."""
    *earlier, last = asked.messages
    if context:
        last = last._replace(text=f"{context}\n\n{last.text}")
    return tuple(ChatMessage(message.role, _parts(message)) for message in (*earlier, last))


def read_reply(
    completion: Completion, dialect: Dialect, frame: CoordinateFrame, task: str, call: AgentCall
) -> Decision:
    """The decision in a reply; it has no action where the reply holds none.

    Args:
        completion: the reply.
        dialect: that it is written in.
        frame: of the screen that it is about.
        task: the task's text in the prompt.
        call: that brought the reply, for the accounts.
    """
    # Text of a model may contain lone surrogates, which no file can store.
    text = completion.text if completion.text.isascii() else completion.text.encode(errors="replace").decode()
    reply = dialect.parse(text, frame)
    valid = None if isinstance(reply, ParseFailure) else reply
    if isinstance(reply, ParseFailure):
        call = replace(call, malformed=reply.message)
    return Decision(
        valid.thought if valid else "",
        valid.action if valid else None,
        valid.conclusion if valid else NO_ACTION,
        raw_response=text,
        prompt=task,
        calls=(call,),
        reply_tokens=completion.tokens,
    )


def _parts(message: SpokenMessage[Observation]) -> tuple[MessagePart, ...]:
    text = (message.text,) if message.text else ()
    return text if message.screen is None else (*text, message.screen)
