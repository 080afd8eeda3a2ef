"""A specification opens its judge, whose models leave a row for each call."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.stages.critics.little_app import ORIGIN
from tests.stages.critics.phone import PhoneWalk, walk_phone
from tests.stages.models.scripted import ScriptedModel
from trajmill.pipelines.models import Endpoint
from trajmill.schemas.errors import FailureClass, ModelFailure
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.base import Ask
from trajmill.stages.critics.judge import Judged, judge_episodes
from trajmill.stages.critics.spec import CriticModels, JudgeSpec
from trajmill.stages.models.base import ChatModel, ChatRequest
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.models.wrapped import AccountedModel


def spec(name: str) -> Endpoint:
    return Endpoint(OpenAiSpec(urls=("http://127.0.0.1:9/v1",), model=name, family="qwen2.5-vl"))


def name_of(endpoint: Endpoint) -> str:
    assert isinstance(endpoint.spec, OpenAiSpec)
    return endpoint.spec.model


ONE, TWO, STEP = spec("one"), spec("two"), spec("step")
MODELS = CriticModels(step=STEP, text=(ONE,), multimodal=(ONE, TWO))
VOTING = JudgeSpec(votes=3, quorum=2, resolutions=(0.5, 1.0))


@pytest.fixture(scope="module")
def walk() -> PhoneWalk:
    return walk_phone()


class Servers:
    """Scripted models in the place of servers, each connected by its name."""

    def __init__(self, correct: Callable[[str, ChatRequest], bool | ModelFailure]) -> None:
        self.models: list[ScriptedModel] = []
        self._correct = correct

    def open(self, spec: Endpoint, origin: Origin, sink: Callable[[ModelCall], None]) -> ChatModel:
        model = ScriptedModel(lambda request: self._answer(name_of(spec), request), name_of(spec))
        self.models.append(model)
        return AccountedModel(model, origin, sink)

    def _answer(self, name: str, request: ChatRequest) -> str | ModelFailure:
        if request.role == "critic.step":
            return json.dumps({"analysis": "looked", "summary": "it moved on", "label": "GOOD"})
        correct = self._correct(name, request)
        if isinstance(correct, ModelFailure):
            return correct
        return json.dumps({"reason": name, "correct": correct, "redundant_steps": [], "first_error_step": None})


def judged(
    judge: JudgeSpec,
    models: CriticModels,
    walk: PhoneWalk,
    servers: Servers,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Judged, list[ModelCall]]:
    monkeypatch.setattr(Endpoint, "open", lambda spec, origin, sink: servers.open(spec, origin, sink))
    calls: list[ModelCall] = []

    async def run() -> Judged:
        async with judge.open(models, ORIGIN, calls.append) as made:
            assert made.rule == judge.rule(models)
            return await judge_episodes([walk.episode], made, walk.screens(), ORIGIN)

    result = asyncio.run(run())
    assert [model.closed for model in servers.models] == [1] * len(servers.models)
    return result, calls


@pytest.mark.parametrize(
    ("judge", "models", "rule"),
    [
        (JudgeSpec(), CriticModels(), "consensus(text,multimodal)"),
        (VOTING, CriticModels(), "consensus(text:2of3,multimodal:2of3)"),
        (JudgeSpec(), MODELS, "consensus(text,multimodal:2of2/2models)"),
        (VOTING, MODELS, "consensus(text:2of3,multimodal:0.5:2of3/2models>full:2of3/2models)"),
        (JudgeSpec(channels=(Channel.PROGRAMMATIC,)), MODELS, "consensus(programmatic)"),
        (
            JudgeSpec(channels=(Channel.MULTIMODAL,), resolutions=(0.5,)),
            CriticModels(multimodal=(ONE,)),
            "consensus(multimodal:0.5)",
        ),
    ],
)
def test_the_rule_follows_from_the_specification(judge: JudgeSpec, models: CriticModels, rule: str) -> None:
    assert str(judge.rule(models)) == rule
    assert pickle.loads(pickle.dumps((judge, models))) == (judge, models)


def test_each_model_is_shown_as_much_as_fits_its_own_context(walk: PhoneWalk, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Endpoint(TWO.spec.model_copy(update={"max_images": 3}))
    servers = Servers(lambda *_: True)
    models = CriticModels(text=(small,), multimodal=(ONE, small))
    judged(JudgeSpec(ask=Ask.ALL), models, walk, servers, monkeypatch)
    asked = {(model.version, request.role): request for model in servers.models for request in model.asked}
    images = {key: sum(not isinstance(p, str) for p in request.messages[1].parts) for key, request in asked.items()}
    assert images["one", "critic.multimodal"] > images["two", "critic.multimodal"] == 3
    told = {key: str(request.messages[1].parts[0]) for key, request in asked.items()}
    assert "for want of room" in told["two", "critic.multimodal"]
    assert "for want of room" not in told["one", "critic.multimodal"] + told["two", "critic.text"]


def test_without_models_the_embedded_critics_judge_and_nothing_is_called(
    walk: PhoneWalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, calls = judged(JudgeSpec(), CriticModels(), walk, Servers(lambda *_: True), monkeypatch)
    (episode,) = result.episodes
    assert episode.judgement is not None and episode.judgement.correct
    assert episode.judgement.made_by == "state-step-critic-2+graph-text-2+graph-multimodal-2"
    assert calls == []


def test_each_role_asks_its_models_and_every_call_is_accounted(
    walk: PhoneWalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = Servers(lambda *_: True)
    spec = JudgeSpec(votes=2, resolutions=(0.5, 1.0), ask=Ask.ALL)
    result, calls = judged(spec, replace(MODELS, seed=7), walk, servers, monkeypatch)
    (episode,) = result.episodes
    assert episode.judgement is not None and episode.judgement.correct
    assert sorted(model.version for model in servers.models) == ["one", "step", "two"]
    assert Counter((call.role, call.made_by) for call in calls) == {
        ("critic.step", "step"): len(episode.steps),
        ("critic.text", "one"): 2,
        ("critic.multimodal", "one"): 2,
        ("critic.multimodal", "two"): 2,
    }
    assert {call.trajectory_id for call in calls} == {episode.trajectory.trajectory_id}
    votes = [(v.channel, v.vote, v.resolution, v.made_by.rpartition("@")[2]) for v in episode.trajectory_verdicts[2:]]
    assert votes == [
        ("multimodal", 0, "0.5", "one"),
        ("multimodal", 1, "0.5", "two"),
        ("multimodal", 2, "full", "one"),
        ("multimodal", 3, "full", "two"),
    ]
    asked = [request for model in servers.models for request in model.asked if request.role != "critic.step"]
    assert {(request.temperature, request.top_p) for request in asked} == {(1.0, 0.6)}
    assert {request.seed for request in asked} == {7, 8}
    assert {request.image_scale for request in asked if request.role == "critic.multimodal"} == {0.5, 1.0}


def test_a_single_vote_is_the_most_likely_answer(walk: PhoneWalk, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(lambda *_: True)
    judged(JudgeSpec(), CriticModels(text=(ONE,)), walk, servers, monkeypatch)
    assert [(request.role, request.temperature) for request in servers.models[0].asked] == [("critic.text", 0.0)]


def test_asking_stops_where_it_is_decided(walk: PhoneWalk, monkeypatch: pytest.MonkeyPatch) -> None:
    def low_resolution_says_no(name: str, request: ChatRequest) -> bool:
        return request.image_scale == 1.0

    spec = JudgeSpec(votes=2, resolutions=(0.5, 1.0), ask=Ask.NEEDED)
    result, calls = judged(spec, replace(MODELS, step=None), walk, Servers(low_resolution_says_no), monkeypatch)
    assert result.episodes[0].judgement is not None and not result.episodes[0].judgement.correct
    assert [call.role for call in calls] == ["critic.text"] * 2 + ["critic.multimodal"]


def test_a_model_that_does_not_answer_is_asked_again_and_leaves_its_errors(
    walk: PhoneWalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    down = Servers(lambda name, request: ModelFailure("gone") if name == "two" else True)
    spec = JudgeSpec(channels=(Channel.MULTIMODAL,), tries=3)
    result, calls = judged(spec, replace(MODELS, step=None), walk, down, monkeypatch)
    assert result.episodes[0].judgement is None
    (failure,) = result.failures
    assert failure.failure_class is FailureClass.MODEL
    assert failure.message == "multimodal: 1 Correct, 0 Incorrect, too few to decide; the last that is missing: gone"
    assert [call.error for call in calls if call.made_by == "two"] == ["gone"] * 3
