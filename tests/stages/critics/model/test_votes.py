"""Several votes on the same screenshots are one request to a server that gives several answers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.stages.critics.channels import HeldPass, channel_of
from tests.stages.critics.little_app import ORIGIN
from tests.stages.critics.phone import PhoneWalk, walk_phone
from tests.stages.models.fault_server import FaultServer, running_server
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.critics.annotated.step_critic import AnnotatedStepCritic
from trajmill.stages.critics.base import Ask
from trajmill.stages.critics.judge import Judge, judge_episodes
from trajmill.stages.critics.model.channels import ModelMultimodalChannel
from trajmill.stages.models.openai_api.model import OpenAiModel
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.models.prompts import Sampling
from trajmill.stages.models.wrapped import AccountedModel, CachedModel


def vote(correct: bool) -> str:
    return json.dumps({"reason": "seen", "correct": correct, "redundant_steps": [], "first_error_step": None})


YES, NO = vote(True), vote(False)


@pytest.fixture(scope="module")
def walk() -> PhoneWalk:
    long = walk_phone()
    return PhoneWalk(long.episode.model_copy(update={"steps": long.episode.steps[:2]}), long.observations)


def judged(server: FaultServer, walk: PhoneWalk, folder: Path, several: bool = True) -> tuple[bool, list[ModelCall]]:
    """The decision by three votes, and the rows of the calls."""
    calls: list[ModelCall] = []

    async def run() -> bool:
        spec = OpenAiSpec(urls=(server.url,), model="tiny", attempts=1, several_answers=several)
        model = AccountedModel(CachedModel(OpenAiModel(spec), folder), ORIGIN, calls.append)
        critic = ModelMultimodalChannel(model, sampling=Sampling(1.0, 0.6, 70))
        judge = Judge(AnnotatedStepCritic(), (channel_of(HeldPass((critic,), 3, 2)),), Ask.ALL)
        try:
            (episode,) = (await judge_episodes([walk.episode], judge, walk.screens(), ORIGIN)).episodes
        finally:
            await model.close()
        assert episode.judgement is not None and len(episode.trajectory_verdicts) == 3
        return episode.judgement.correct

    return asyncio.run(run()), calls


def seeds(server: FaultServer) -> list[tuple[int, int]]:
    return [(received.body["n"], received.body["seed"]) for received in server.received]


def test_three_votes_are_one_request_and_one_row(walk: PhoneWalk, tmp_path: Path) -> None:
    with running_server() as server:
        server.writes_samples = lambda body: [YES, NO, YES]
        correct, (call,) = judged(server, walk, tmp_path)
        assert correct and seeds(server) == [(3, 70)]
        again, (cached,) = judged(server, walk, tmp_path)
        assert again and cached.cached and len(server.received) == 1
    assert (call.draw, call.draws, call.response, call.other_responses) == (0, (0, 1, 2), YES, (NO, YES))
    assert (call.input_tokens, call.output_tokens) == (100, 30), "the usage of the one request"
