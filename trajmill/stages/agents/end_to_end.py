"""The agent whose model sees the screen and answers with an action in its family's dialect (paper 2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from trajmill.schemas.actions import Action, Click, Scroll, Swipe, pressed_point
from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.base import Dialect, ParseFailure
from trajmill.schemas.dialects.conversation import Conversation, PastStep, conversation
from trajmill.schemas.dialects.families import ANY, Family
from trajmill.schemas.dialects.read_aloud import rows_aloud
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.record import seed_of
from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.base import AgentCall, Decision, EpisodeView
from trajmill.stages.models.base import ChatMessage, ChatModel, ChatRequest, Completion

DRAW_TEMPERATURE = 1.0
"""Sampling temperature of the later draws of a greedy agent."""
NO_ACTION = "The reply held no valid action."
"""Conclusion of a step whose reply could not be parsed."""


@dataclass(frozen=True, slots=True)
class EndToEndAgent:
    model: ChatModel
    platform: Platform
    temperature: float = 1.0
    role: str = "policy"
    name: str = "end_to_end"
    family: Family = ANY
    with_tokens: bool = False
    max_tokens: int = 512
    reads_aloud: bool = False
    """Whether its thoughts are the rows of the accessibility tree that lead to the action."""

    @property
    def model_version(self) -> str:
        return self.model.version

    async def act(
        self, episode: EpisodeView, context: str = "", shown: Sequence[Observation] = (), draw: int = 0
    ) -> Decision:
        """Decide on the next action; a reply that cannot be parsed gives a decision without action that keeps the text.

        `context` is a text of other roles before the task, `shown` are screens before that text. Like guidance, they
        are in the request alone and not in the decision's prompt. A later `draw` is another sample, also of a greedy
        agent. Raises ModelFailure if the model did not answer.
        """
        frame = self.model.frame(episode.observation.screen.size)
        asked = step_prompt(self.family, self.platform, frame, episode)
        drawn = (draw,) if draw else ()
        seed = seed_of("act", episode.seed, len(episode.history), *drawn)
        request = ChatRequest(
            self.role,
            chat_messages(asked, context, shown),
            (self.temperature or DRAW_TEMPERATURE) if draw else self.temperature,
            seed,
            max_tokens=self.max_tokens,
            with_tokens=self.with_tokens,
        )
        start = perf_counter()
        completion = await self.model.complete(request)
        call = AgentCall(request, completion, (perf_counter() - start) * 1000)
        decision = read_reply(completion, self.family.dialect(self.platform), frame, asked.task, call)
        elements = episode.observation.elements
        if self.reads_aloud and decision.action is not None and elements is not None:
            return replace(decision, thought=rows_before(decision.action, elements))
        return decision

    def task_text(self, episode: EpisodeView) -> str:
        frame = self.model.frame(episode.observation.screen.size)
        return step_prompt(self.family, self.platform, frame, episode).task


def step_prompt(
    family: Family, platform: Platform, frame: CoordinateFrame, episode: EpisodeView
) -> Conversation[Observation]:
    # Past screens are needed only by a family that shows them.
    seen = episode.past_observations if family.past_screens else [episode.observation] * len(episode.history)
    past = [
        PastStep(observation, decision.raw_response, decision.conclusion)
        for observation, decision in zip(seen, episode.history, strict=True)
    ]
    return conversation(family, platform, frame, episode.instruction, episode.guidance, past, episode.observation)


def chat_messages(
    asked: Conversation[Observation], context: str = "", shown: Sequence[Observation] = ()
) -> tuple[ChatMessage, ...]:
    """The messages of a prompt, each screen after the text; `shown` and `context` begin the last message."""
    *earlier, last = asked.messages
    if context:
        last = last._replace(text=f"{context}\n\n{last.text}")
    messages = [
        ChatMessage(message.role, tuple(part for part in (message.text or None, message.screen) if part is not None))
        for message in (*earlier, last)
    ]
    return (*messages[:-1], messages[-1]._replace(parts=(*shown, *messages[-1].parts)))


def read_reply(
    completion: Completion, dialect: Dialect, frame: CoordinateFrame, task: str, call: AgentCall
) -> Decision:
    """Return the decision in a reply, without action if the reply has none; `task` is the task's text in the prompt."""
    # Text of a model may contain lone surrogates, which no file can store.
    text = completion.text if completion.text.isascii() else completion.text.encode(errors="replace").decode()
    reply = dialect.parse(text, frame)
    decision = Decision("", None, NO_ACTION, raw_response=text, prompt=task, reply_tokens=completion.tokens)
    if isinstance(reply, ParseFailure):
        return replace(decision, calls=(replace(call, malformed=reply.message),))
    return replace(decision, thought=reply.thought, action=reply.action, conclusion=reply.conclusion, calls=(call,))


def rows_before(action: Action, elements: Sequence[UIElement], below: str = "") -> str:
    """Return the rows that lead to an action: up to the one that a click presses, all of them before scrolling.

    A model learns to write them from pixels. Clickable elements, in reading order, are rows. `below` is the label that
    is scrolled to, empty if unknown.
    """
    rows = [element for element in elements if element.clickable]
    if isinstance(action, Swipe | Scroll):
        return rows_aloud([_label(row) for row in rows], below)
    point = pressed_point(action)
    if not isinstance(action, Click) or point is None:
        return ""
    pressed = next((at for at, row in enumerate(rows) if row.bounds.contains(*point)), None)
    return "" if pressed is None else rows_aloud([_label(row) for row in rows[: pressed + 1]], _label(rows[pressed]))


def _label(row: UIElement) -> str:
    # The buttons of a stepper say plus and minus; what they change stands beside them.
    return f"{row.value} {row.text}" if row.role == "stepper_button" else row.text
