"""The agent of an online episode: it shows its observations to the trainer and waits for its decisions."""

from __future__ import annotations

import asyncio
import json
from time import perf_counter

from pydantic import ValidationError

from trajmill.schemas.actions import action_from_json
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.base import AgentCall, AgentStopped, Decision, EpisodeView
from trajmill.stages.agents.end_to_end import NO_ACTION, chat_messages, read_reply, step_prompt
from trajmill.stages.environments.openenv.wire import MOST_REPLY_CHARACTERS, WireAction
from trajmill.stages.models.base import ChatRequest, Completion, ReplyTokens
from trajmill.stages.online.base import AGENT, ShownStep

_LARGEST_NUMBER = 100_000
_COORDINATES = (("x", "width"), ("y", "height"), ("x2", "width"), ("y2", "height"))


class SteppedAgent:
    """Does the steps of a trainer in one episode; a model's reply is parsed and never executed.

    After `idle_seconds` without a step the episode is void.
    """

    name = AGENT

    def __init__(self, policy: str, family: Family, platform: Platform, idle_seconds: float) -> None:
        self.model_version = policy
        self._family = family
        self._platform = platform
        self._idle_seconds = idle_seconds
        self._shown: asyncio.Queue[ShownStep] = asyncio.Queue()
        self._asked: asyncio.Queue[WireAction] = asyncio.Queue()
        self._left = ""
        self._error = ""

    async def shown(self) -> ShownStep:
        return await self._shown.get()

    def step(self, asked: WireAction) -> None:
        self._asked.put_nowait(asked)

    def leave(self, reason: str) -> None:
        """End the episode as void, because the trainer has left it."""
        self._left = reason
        self._asked.put_nowait(WireAction())

    async def act(self, episode: EpisodeView) -> Decision:
        """The trainer's decision.

        Raises:
            ModelFailure: the trainer has left, or was silent for too long.
            AgentStopped: the trainer has reached its own limit.
        """
        frame = self._family.frame(episode.observation.screen.size)
        prompt = step_prompt(self._family, self._platform, frame, episode)
        messages = chat_messages(prompt)
        self._shown.put_nowait(ShownStep(episode.observation, len(episode.history), messages, self._error))
        start = perf_counter()
        asked = await self._next()
        if asked.reply is None:
            decision, self._error = _typed(asked, episode.observation.screen.size)
            return decision
        completion = _completion(asked, asked.reply[:MOST_REPLY_CHARACTERS])
        call = AgentCall(ChatRequest("policy", messages), completion, (perf_counter() - start) * 1000)
        decision = read_reply(completion, self._family.dialect(self._platform), frame, prompt.task, call)
        self._error = "" if decision.action else f"no action: {decision.calls[0].malformed}"
        return decision

    async def _next(self) -> WireAction:
        try:
            asked = await asyncio.wait_for(self._asked.get(), self._idle_seconds)
        except TimeoutError as error:
            raise ModelFailure(f"the trainer was silent for {self._idle_seconds:g} s") from error
        if self._left:
            raise ModelFailure(self._left)
        if asked.stop:
            raise AgentStopped
        return asked


def _typed(asked: WireAction, screen: Size) -> tuple[Decision, str]:
    """The decision of a typed action, and why the action is not valid."""
    text = json.dumps(asked.action)
    mistake = _mistake(asked.action or {}, screen)
    if not mistake:
        try:
            action = action_from_json(text)
            return Decision("", action, f"{action.kind}.", raw_response=text), ""
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            mistake = f"{'.'.join(map(str, first['loc'])) or 'the whole'}: {first['msg']}"
    return Decision("", None, NO_ACTION, raw_response=text[:MOST_REPLY_CHARACTERS]), f"no typed action: {mistake}"


def _mistake(action: dict[str, object], screen: Size) -> str:
    """Why an action is not valid; empty if it is."""
    for name, side in _COORDINATES:
        place = action.get(name)
        if isinstance(place, int | float) and not 0 <= place < getattr(screen, side):
            return f"{name}: {place:g} is not on a screen of {screen.width} x {screen.height} pixels"
    for name, value in action.items():
        if isinstance(value, int | float) and not abs(value) <= _LARGEST_NUMBER:
            return f"{name}: at most {_LARGEST_NUMBER:,}"
        if isinstance(value, str) and len(value) > MOST_REPLY_CHARACTERS:
            return f"{name}: at most {MOST_REPLY_CHARACTERS:,} characters"
    return ""


def _completion(asked: WireAction, reply: str) -> Completion:
    tokens = None
    if asked.token_ids is not None and asked.logprobs is not None and len(asked.token_ids) == len(asked.logprobs):
        tokens = ReplyTokens(tuple(asked.token_ids), tuple(asked.logprobs))
    return Completion(reply, asked.input_tokens, asked.output_tokens, "stop", tokens=tokens)
