"""The agent loop for verl: it runs one episode at an environment server, and gives one output for each turn.

verl's v1 trainer takes a list of outputs and gives the reward of the last one to all. So each turn has the same prompt
that trajmill's own agents give a model of the family, and no conversation grows. Only verl's workers import this.
"""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Sequence
from pathlib import Path
from random import sample
from typing import Any
from uuid import uuid4

from PIL import Image
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput
from verl.utils.profiler import simple_timer

from trajmill.schemas.errors import EnvironmentFailure
from trajmill.stages.environments.kinds import read_token
from trajmill.stages.environments.openenv.client import EpisodeAnswer, reset_message, step_message
from trajmill.stages.environments.openenv.environment import ServerSession, ServerSessions
from trajmill.stages.environments.openenv.wire import WireAction, png_of

_TRIES = 3
"""Times that an episode is begun before it counts as void."""
_LOG = logging.getLogger(__name__)


class GuiAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """Runs an episode of the query in column `query_id`, with the seed in column `seed` if there is one.

    A file of agent loops names it. It does not register itself: that would replace the settings of the file, because
    verl imports this module after it has read them.
    """

    def __init__(
        self,
        *args: Any,
        servers: Sequence[str],
        token_file: str = "",
        policy: str = "verl",
        seconds: float = 300.0,
        **kwargs: Any,
    ) -> None:
        """Connect at the first episode; `args` and `kwargs` are verl's.

        `seconds` is the longest wait for an answer of a server, and for a server that can take a session; `policy` is
        the version for the rows.
        """
        super().__init__(*args, **kwargs)
        token = read_token(Path(token_file)) if token_file else ""
        # verl makes a loop for each episode, so a random order spreads the episodes over the servers.
        servers = sample(list(servers), len(servers))
        self._sessions = ServerSessions(tuple(servers), token, seconds)
        self._policy = policy
        self._seconds = seconds

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> list[AgentLoopOutput]:
        """Return an output for each turn, with the reward on the last; none for a void episode, which verl skips."""
        for _ in range(_TRIES):
            try:
                session = await self._sessions.open()
                try:
                    return await self._episode(session, sampling_params, row)
                finally:
                    await session.close()
            except EnvironmentFailure as error:
                failure = error
        _LOG.warning("an episode of query %s is left out: %s", row.get("query_id"), failure)
        return []

    async def _episode(
        self, session: ServerSession, sampling_params: dict[str, Any], row: dict[str, Any]
    ) -> list[AgentLoopOutput]:
        seed = row.get("seed")
        order = reset_message(row.get("query_id"), None if seed is None else int(seed), policy=self._policy)
        answer, turns = await self._ask(session, order), []
        screens: dict[str, Image.Image] = {}
        while not answer.done:
            screens[answer.screen.screen_id] = Image.open(io.BytesIO(png_of(answer.screen))).convert("RGB")
            turn = await self._turn(answer, screens, sampling_params)
            turns.append(turn)
            action = WireAction(
                reply=self.tokenizer.decode(turn.response_ids, skip_special_tokens=True),
                input_tokens=len(turn.prompt_ids),
                output_tokens=len(turn.response_ids),
                token_ids=turn.response_ids,
                logprobs=turn.response_logprobs,
            )
            answer = await self._ask(session, step_message(action))
        # verl copies `reward_extra_info` of the last turn to the others.
        turns[-1].reward_score = answer.reward
        turns[-1].extra_fields["reward_extra_info"] = {"steps": len(turns)}
        return turns

    async def _turn(
        self, answer: EpisodeAnswer, screens: dict[str, Image.Image], sampling_params: dict[str, Any]
    ) -> AgentLoopOutput:
        messages = [
            {"role": message.role, "content": _content(message.text, message.screen_id)}
            for message in answer.screen.messages
        ]
        images = [screens[message.screen_id] for message in answer.screen.messages if message.screen_id]
        prompt_ids = await self.ct_build_initial_tokens(messages, images=images)
        timing: dict[str, float] = {}
        with simple_timer("generate_sequences", timing):
            output = await self.server_manager.generate(
                request_id=uuid4().hex,
                prompt_ids=prompt_ids,
                sampling_params=sampling_params,
                image_data=images,
                mm_processor_kwargs=self._get_mm_processor_kwargs(),
            )
        most = self.rollout_config.response_length
        ids = output.token_ids[:most]
        return AgentLoopOutput(
            prompt_ids=prompt_ids,
            response_ids=ids,
            response_mask=[1] * len(ids),
            response_logprobs=output.log_probs[:most] if output.log_probs else None,
            multi_modal_data={"images": images},
            num_turns=2,
            metrics=AgentLoopMetrics(**timing),
            extra_fields=output.extra_fields | {"turn_scores": [], "tool_rewards": []},
        )

    async def _ask(self, session: ServerSession, message: str) -> EpisodeAnswer:
        try:
            async with asyncio.timeout(self._seconds):
                answer = await session.ask(message)
        except TimeoutError as error:
            raise EnvironmentFailure(f"{session.url} did not answer within {self._seconds:g} s") from error
        if answer.screen.void:
            raise EnvironmentFailure(f"{session.url}: {answer.screen.error}")
        return answer


def _content(text: str, screen_id: str | None) -> list[dict[str, str]]:
    words = [{"type": "text", "text": text}] if text else []
    return [*words, {"type": "image"}] if screen_id else words
