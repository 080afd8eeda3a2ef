"""Critics whose server misbehaves: no verdict is stored that the server did not give."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.stages.critics.little_app import ORIGIN
from tests.stages.critics.phone import PhoneWalk, StoredScreens, notes_on, walk_phone
from tests.stages.models.fault_server import Fault, FaultReply, FaultServer, running_server
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import FailureClass, ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.critics.base import StepResult, Vote
from trajmill.stages.critics.judge import Judge, Judged, judge_episodes
from trajmill.stages.critics.model.channels import ModelMultimodalChannel, ModelTextChannel
from trajmill.stages.critics.model.step_critic import ModelStepCritic
from trajmill.stages.critics.model.transcript import ScreenCaptioner
from trajmill.stages.critics.voting import single_vote
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.openai_api.model import OpenAiModel
from trajmill.stages.models.openai_api.spec import OpenAiSpec

pytestmark = pytest.mark.slow

FAULTS = [fault for fault in Fault if fault not in (Fault.NONE, Fault.UNEVEN_TOKENS)]
"""Those of any server; uneven tokens are a fault only where tokens are asked for."""
PASSING = [fault for fault in FAULTS if fault not in (Fault.TOO_LONG, Fault.UNKNOWN_MODEL, Fault.HUGE)]
"""Those after which a second attempt is worth it."""
Asked = Callable[[ChatModel, Episode, StoredScreens], Any]


@pytest.fixture(scope="module")
def walk() -> PhoneWalk:
    long = walk_phone()
    episode = long.episode.model_copy(update={"steps": long.episode.steps[:2]})
    return PhoneWalk(episode, long.observations)


async def _step(model: ChatModel, episode: Episode, screens: StoredScreens) -> list[StepResult]:
    return await ModelStepCritic(model).judge(episode, screens)


async def _text(model: ChatModel, episode: Episode, screens: StoredScreens) -> Vote:
    return await ModelTextChannel(model).judge(episode, screens, notes_on(episode))


async def _captions(model: ChatModel, episode: Episode, screens: StoredScreens) -> Vote:
    channel = ModelTextChannel(model, captioner=ScreenCaptioner(model))
    return await channel.judge(episode, StoredScreens(screens.observations, has_trees=False), notes_on(episode))


async def _screenshots(model: ChatModel, episode: Episode, screens: StoredScreens) -> Vote:
    return await ModelMultimodalChannel(model, image_scale=0.5).judge(episode, screens, notes_on(episode))


CRITICS: dict[str, Asked] = {"step": _step, "text": _text, "captions": _captions, "screenshots": _screenshots}


SILENT = (Fault.HANG, Fault.SLOW)
"""Faults that only a time-out ends."""
PATIENCE = 60.0
"""Seconds: longer than a busy machine takes over a sound answer."""


def settings(server: FaultServer, attempts: int, seconds: float) -> OpenAiSpec:
    return OpenAiSpec(
        urls=(server.url,),
        model="tiny",
        connect_seconds=PATIENCE,
        read_seconds=seconds,
        total_seconds=seconds,
        attempts=attempts,
        first_wait_seconds=0.001,
        probe_seconds=0.001,
    )


def valid(body: dict[str, Any]) -> str:
    """A valid answer to whatever schema is asked for: the step HARMFUL, the trajectory Incorrect."""
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    answers = {
        "analysis": "a",
        "summary": "s",
        "label": "HARMFUL",
        "caption": "c",
        "reason": "r",
        "correct": False,
        "redundant_steps": [],
        "first_error_step": 2,
    }
    return json.dumps({name: answers[name] for name in fields})


def ask(server: FaultServer, walk: PhoneWalk, asked: Asked, attempts: int, seconds: float = PATIENCE) -> Any:
    async def run() -> Any:
        model = OpenAiModel(settings(server, attempts, seconds))
        try:
            return await asked(model, walk.episode, walk.screens())
        finally:
            await model.close()

    return asyncio.run(run())


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_stays_broken_gives_no_verdict(walk: PhoneWalk, fault: Fault, critic: str) -> None:
    with running_server([FaultReply(fault, "0")] * 40, writes=valid) as server:
        with pytest.raises(ModelFailure) as caught:
            ask(server, walk, CRITICS[critic], attempts=2, seconds=0.2 if fault in SILENT else PATIENCE)
        assert server.received
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


@pytest.mark.parametrize("fault", PASSING)
def test_a_temporary_fault_leaves_no_trace_in_the_verdict(walk: PhoneWalk, fault: Fault) -> None:
    with running_server([FaultReply(fault, "0")], writes=valid) as server:
        vote = ask(server, walk, _screenshots, attempts=8, seconds=0.7 if fault in SILENT else PATIENCE)
        assert len(server.received) >= 2
    assert (vote.correct, vote.reason, vote.redundant_steps, vote.first_error_step) == (False, "r", (), 1)


def approving(body: dict[str, Any]) -> str:
    """A valid answer that finds nothing wrong, so that every later answer still counts."""
    return json.dumps(json.loads(valid(body)) | _praise(body))


def _praise(body: dict[str, Any]) -> dict[str, Any]:
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    return {"correct": True, "first_error_step": None} if "correct" in fields else {"label": "GOOD"}


def judged_by(server: FaultServer, walk: PhoneWalk, seconds: float = PATIENCE) -> Judged:
    async def run() -> Judged:
        model = OpenAiModel(settings(server, 1, seconds))
        judge = Judge(
            ModelStepCritic(model), (single_vote(ModelTextChannel(model)), single_vote(ModelMultimodalChannel(model)))
        )
        try:
            return await judge_episodes([walk.episode], judge, walk.screens(), ORIGIN)
        finally:
            await model.close()

    return asyncio.run(run())


@pytest.mark.parametrize("good_answers", [0, 1, 2, 3])
@pytest.mark.parametrize("fault", [Fault.INTERNAL, Fault.TRUNCATED, Fault.HANG, Fault.TOO_LONG])
def test_whenever_it_fails_the_episode_stays_unjudged(walk: PhoneWalk, fault: Fault, good_answers: int) -> None:
    script = [FaultReply()] * good_answers + [FaultReply(fault)] * 20
    with running_server(script, writes=approving) as server:
        judged = judged_by(server, walk, 0.7 if fault in SILENT else PATIENCE)
    (episode,) = judged.episodes
    assert episode.judgement is None and episode.step_verdicts == () and episode.trajectory_verdicts == ()
    (failure,) = judged.failures
    assert failure.failure_class is FailureClass.MODEL and failure.stage == "judge"
    assert failure.input_id == episode.trajectory.trajectory_id


def test_a_sound_server_judges_and_sees_real_pictures(walk: PhoneWalk) -> None:
    with running_server(writes=valid) as server:
        (episode,) = judged_by(server, walk).episodes
        received = server.received
    assert episode.judgement is not None and not episode.judgement.correct
    assert [verdict.label for verdict in episode.step_verdicts] == [StepLabel.HARMFUL] * 2
    assert {verdict.made_by for verdict in episode.step_verdicts} == {"critic_step-1@tiny"}
    steps, votes = received[:2], received[2:]
    assert [one.pictures for one in steps] == [[Size(720, 1280)] * 2] * 2
    assert sorted(len(one.pictures) for one in votes) == [0, 3]
    assert all(one.body["response_format"]["json_schema"]["strict"] for one in received)


@pytest.mark.parametrize("critic", ["step", "screenshots", "captions"])
def test_an_image_that_does_not_decode_is_no_verdict(walk: PhoneWalk, critic: str) -> None:
    async def broken(model: ChatModel, episode: Episode, screens: StoredScreens) -> Any:
        halves = {key: _halved(value) for key, value in screens.observations.items()}
        return await CRITICS[critic](model, episode, StoredScreens(halves))

    with running_server(writes=valid) as server:
        with pytest.raises(ModelFailure, match=r"screen [0-9a-f]{24}.*does not decode"):
            ask(server, walk, broken, attempts=2)
        assert server.received == []


def _halved(observation: Observation) -> Observation:
    encoded = observation.screen.encode()
    return replace(observation, screen=replace(observation.screen, encode=lambda: encoded[: len(encoded) // 2]))
