"""Critics whose server misbehaves: no verdict is stored that the server did not give."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.stages.critics.little_app import ORIGIN
from tests.stages.critics.phone import PhoneWalk, StoredScreens, notes_on, walk_phone
from tests.stages.models.fault_server import Fault, FaultReply, FaultServer, running_server
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import FailureClass, ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.critics.judge import Judge, Judged, judge_episodes
from trajmill.stages.critics.model.channels import ModelChannel, ModelStepCritic
from trajmill.stages.critics.model.transcript import ScreenCaptioner
from trajmill.stages.critics.spec import critic_prompts
from trajmill.stages.critics.voting import single_vote
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.openai_api.model import OpenAiModel
from trajmill.stages.models.openai_api.spec import OpenAiSpec

pytestmark = pytest.mark.slow

FAULTS = [fault for fault in Fault if fault not in (Fault.NONE, Fault.UNEVEN_TOKENS)]
"""Those of any server; uneven tokens are a fault only where tokens are asked for."""
SILENT = (Fault.HANG, Fault.SLOW)
"""Faults that only a time-out ends."""
PATIENCE = 60.0
"""Seconds: longer than a busy machine takes over a sound answer."""
PROMPTS = critic_prompts()
Asked = Callable[[ChatModel, Episode, StoredScreens], Awaitable[Any]]


@pytest.fixture(scope="module")
def walk() -> PhoneWalk:
    long = walk_phone()
    return PhoneWalk(long.episode.model_copy(update={"steps": long.episode.steps[:2]}), long.observations)


def text_channel(model: ChatModel, describer: ChatModel | None = None) -> ModelChannel:
    return ModelChannel(model, PROMPTS.text, captioner=ScreenCaptioner(PROMPTS.describer, describer))


async def by_captions(model: ChatModel, episode: Episode, screens: StoredScreens) -> object:
    untold = StoredScreens(screens.observations, has_trees=False)
    return await text_channel(model, model).judge(episode, untold, notes_on(episode))


CRITICS: dict[str, Asked] = {
    "step": lambda model, episode, screens: ModelStepCritic(model, PROMPTS.step).judge(episode, screens),
    "captions": by_captions,
}


def valid(body: dict[str, Any], correct: bool = False) -> str:
    """A valid answer to whatever schema is asked for: the step HARMFUL and the trajectory Incorrect, or all well."""
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    answers: dict[str, object] = {
        "analysis": "a",
        "summary": "s",
        "label": "GOOD" if correct else "HARMFUL",
        "caption": "c",
        "reason": "r",
        "correct": correct,
        "redundant_steps": [],
        "first_error_step": None if correct else 2,
    }
    return json.dumps({name: answers[name] for name in fields})


async def ask(server: FaultServer, walk: PhoneWalk, asked: Asked, attempts: int, fault: Fault = Fault.NONE) -> Any:
    seconds = 0.2 if fault in SILENT and attempts > 1 else 0.7 if fault in SILENT else PATIENCE
    spec = OpenAiSpec(
        urls=(server.url,),
        model="tiny",
        connect_seconds=PATIENCE,
        read_seconds=seconds,
        total_seconds=seconds,
        attempts=attempts,
        first_wait_seconds=0.001,
        probe_seconds=0.001,
    )
    model = OpenAiModel(spec)
    try:
        return await asked(model, walk.episode, walk.screens())
    finally:
        await model.close()


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_server_that_stays_broken_gives_no_verdict(walk: PhoneWalk, fault: Fault, critic: str) -> None:
    with running_server([FaultReply(fault, "0")] * 40, writes=valid) as server:
        with pytest.raises(ModelFailure) as caught:
            await ask(server, walk, CRITICS[critic], 2, fault)
        assert server.received
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


async def judged(model: ChatModel, episode: Episode, screens: StoredScreens) -> Judged:
    channels = (text_channel(model), ModelChannel(model, PROMPTS.multimodal))
    judge = Judge(ModelStepCritic(model, PROMPTS.step), tuple(map(single_vote, channels)))
    return await judge_episodes([episode], judge, screens, ORIGIN)


@pytest.mark.parametrize("good_answers", [0, 1, 2, 3])
@pytest.mark.parametrize("fault", [Fault.TRUNCATED, Fault.HANG])
async def test_whenever_it_fails_the_episode_stays_unjudged(walk: PhoneWalk, fault: Fault, good_answers: int) -> None:
    script = [FaultReply()] * good_answers + [FaultReply(fault)] * 20
    with running_server(script, writes=lambda body: valid(body, correct=True)) as server:
        found = await ask(server, walk, judged, 1, fault)
    (episode,) = found.episodes
    assert episode.judgement is None and episode.step_verdicts == () and episode.trajectory_verdicts == ()
    (failure,) = found.failures
    assert failure.failure_class is FailureClass.MODEL and failure.stage == "judge"
    assert failure.input_id == episode.trajectory.trajectory_id


async def test_a_sound_server_judges_and_sees_real_pictures(walk: PhoneWalk) -> None:
    with running_server(writes=valid) as server:
        (episode,) = (await ask(server, walk, judged, 1)).episodes
        received = server.received
    assert episode.judgement is not None and not episode.judgement.correct
    labels = [(verdict.label, verdict.made_by) for verdict in episode.step_verdicts]
    assert labels == [(StepLabel.HARMFUL, "critic_step-1@tiny")] * 2
    steps, votes = received[:2], received[2:]
    assert [one.pictures for one in steps] == [[Size(720, 1280)] * 2] * 2
    assert sorted(len(one.pictures) for one in votes) == [0, 3]
    assert all(one.body["response_format"]["json_schema"]["strict"] for one in received)
