import json
from typing import Any

import pytest

from tests.stages.critics.little_app import ORIGIN
from tests.stages.critics.phone import PhoneWalk, walk_phone
from tests.stages.models.fault_server import Fault, FaultReply, FaultServer, running_server
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.critics.judge import Judge, Judged, judge_episodes
from trajmill.stages.critics.model.channels import ModelChannel, ModelStepCritic
from trajmill.stages.critics.model.transcript import ScreenCaptioner
from trajmill.stages.critics.spec import critic_prompts
from trajmill.stages.critics.voting import single_vote
from trajmill.stages.models.openai_api.model import OpenAiModel
from trajmill.stages.models.openai_api.spec import OpenAiSpec

pytestmark = pytest.mark.slow

PROMPTS = critic_prompts()


@pytest.fixture(scope="module")
def walk() -> PhoneWalk:
    long = walk_phone()
    return PhoneWalk(long.episode.model_copy(update={"steps": long.episode.steps[:2]}), long.observations)


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


async def judged(server: FaultServer, walk: PhoneWalk, seconds: float = 60.0) -> Judged:
    """The walk, judged by a client of one attempt with this patience, by default longer than a busy machine takes."""
    limits = {"connect_seconds": 60.0, "read_seconds": seconds, "total_seconds": seconds, "attempts": 1}
    model = OpenAiModel(OpenAiSpec.model_validate({"urls": (server.url,), "model": "tiny", **limits}))
    text = ModelChannel(model, PROMPTS.text, captioner=ScreenCaptioner(PROMPTS.describer))
    channels = (text, ModelChannel(model, PROMPTS.multimodal))
    try:
        judge = Judge(ModelStepCritic(model, PROMPTS.step), tuple(map(single_vote, channels)))
        return await judge_episodes([walk.episode], judge, walk.screens(), ORIGIN)
    finally:
        await model.close()


@pytest.mark.parametrize("good_answers", [0, 1, 2, 3])
@pytest.mark.parametrize("fault", [Fault.TRUNCATED, Fault.HANG])
async def test_whenever_it_fails_the_episode_stays_unjudged(walk: PhoneWalk, fault: Fault, good_answers: int) -> None:
    script = [FaultReply()] * good_answers + [FaultReply(fault)] * 20
    with running_server(script, writes=lambda body: valid(body, correct=True)) as server:
        found = await judged(server, walk, 0.7 if fault is Fault.HANG else 60.0)
    (episode,) = found.episodes
    assert episode.judgement is None and episode.step_verdicts == () and episode.trajectory_verdicts == ()
    (failure,) = found.failures
    assert failure.failure_class is FailureClass.MODEL and failure.stage == "judge"
    assert failure.input_id == episode.trajectory.trajectory_id


async def test_a_sound_server_judges_and_sees_real_pictures(walk: PhoneWalk) -> None:
    with running_server(writes=valid) as server:
        (episode,) = (await judged(server, walk)).episodes
        received = server.received
    assert episode.judgement is not None and not episode.judgement.correct
    labels = [(verdict.label, verdict.made_by) for verdict in episode.step_verdicts]
    assert labels == [(StepLabel.HARMFUL, "critic_step-1@tiny")] * 2
    steps, votes = received[:2], received[2:]
    assert [one.pictures for one in steps] == [[Size(720, 1280)] * 2] * 2
    assert sorted(len(one.pictures) for one in votes) == [0, 3]
    assert all(one.body["response_format"]["json_schema"]["strict"] for one in received)
