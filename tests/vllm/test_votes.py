"""Votes on the same screenshots at a real vLLM server."""

import asyncio
import json
from dataclasses import replace

import pytest

from tests.stages.critics.channels import HeldPass, channel_of
from tests.stages.critics.little_app import ORIGIN
from tests.stages.critics.phone import PhoneWalk, walk_phone
from tests.stages.models.transformers_local.tiny_vlm import MAX_PIXELS
from tests.vllm.conftest import TinyServer
from tests.vllm.tiny_server import MODEL
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.critics.annotated.step_critic import AnnotatedStepCritic
from trajmill.stages.critics.judge import Judge, judge_episodes
from trajmill.stages.critics.model.channels import ModelChannel
from trajmill.stages.critics.spec import critic_prompts
from trajmill.stages.critics.voting import Ask
from trajmill.stages.models.base import ChatRequest, Completion, ContextBudget
from trajmill.stages.models.openai_api.model import OpenAiModel
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.models.prompts import Sampling
from trajmill.stages.models.wrapped import AccountedModel, WrappedModel

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(3600)]

BUDGET = ContextBudget(screens=4, tokens=6000)
VOTES = 3
VOTE = json.dumps({"reason": "seen", "correct": True, "redundant_steps": [], "first_error_step": None})


class ValidVotesModel(WrappedModel):
    """A `ChatModel` that asks another one for a few tokens and puts a vote in the place of each answer."""

    max_tokens = 16

    async def complete(self, request: ChatRequest) -> Completion:
        """Ask the model."""
        short = replace(request, answer_schema="", max_tokens=self.max_tokens)
        completion = await super().complete(short)
        return completion._replace(text=VOTE, others=(VOTE,) * len(completion.others))


@pytest.fixture(scope="module")
def walk() -> PhoneWalk:
    return walk_phone()


def judged(server: TinyServer, walk: PhoneWalk, several: bool) -> list[ModelCall]:
    calls: list[ModelCall] = []
    spec = OpenAiSpec(
        urls=(server.address,), model=MODEL, family="qwen2.5-vl", max_pixels=MAX_PIXELS, several_answers=several
    )

    async def run() -> None:
        model = AccountedModel(ValidVotesModel(OpenAiModel(spec)), ORIGIN, calls.append)
        critic = ModelChannel(model, critic_prompts().multimodal, Sampling(1.0, 0.6), BUDGET)
        judge = Judge(AnnotatedStepCritic(), (channel_of(HeldPass((critic,), VOTES, 2)),), Ask.ALL)
        try:
            result = await judge_episodes([walk.episode], judge, walk.screens(), ORIGIN)
        finally:
            await model.close()
        (episode,) = result.episodes
        assert episode.judgement is not None and episode.judgement.correct
        assert [verdict.vote for verdict in episode.trajectory_verdicts] == [0, 1, 2]

    asyncio.run(run())
    return calls


def test_votes_on_the_same_screenshots_cost_one_request(server: TinyServer, walk: PhoneWalk) -> None:
    (together,) = judged(server, walk, several=True)
    alone = judged(server, walk, several=False)
    assert together.draws == (0, 1, 2) and len(together.other_responses or ()) == VOTES - 1
    assert sorted(call.draws or () for call in alone) == [(0,), (1,), (2,)]
    assert {call.input_tokens for call in alone} == {together.input_tokens}, "the prompt is counted once"
    assert together.output_tokens == sum(call.output_tokens for call in alone) == VOTES * ValidVotesModel.max_tokens
