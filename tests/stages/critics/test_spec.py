import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.other_package import installed
from tests.stages.critics.little_app import ORIGIN, Trees, right_walk
from tests.stages.critics.phone import walk_phone
from tests.stages.models.scripted import ScriptedModel
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.critics.judge import Judged, judge_episode, judge_episodes
from trajmill.stages.critics.spec import CRITICS, CriticModels, JudgeSpec, TrajectoryCriticSpec
from trajmill.stages.critics.voting import Ask
from trajmill.stages.models.base import ChatModel, ChatRequest
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.models.spec import Endpoint
from trajmill.stages.models.wrapped import AccountedModel


def spec(name: str) -> Endpoint:
    return Endpoint(OpenAiSpec(urls=("http://127.0.0.1:9/v1",), model=name, family="qwen2.5-vl"))


ONE, TWO = spec("one"), spec("two")
WALK = walk_phone()


@dataclass
class Judging:
    """Judges the walk with scripted models in the place of servers, each connected by its name."""

    monkeypatch: pytest.MonkeyPatch
    models: list[ScriptedModel] = field(default_factory=list)
    calls: list[ModelCall] = field(default_factory=list)

    async def judged(self, judge: JudgeSpec, models: CriticModels) -> Judged:
        def answer(request: ChatRequest) -> str:
            if request.role == "critic.step":
                return json.dumps({"analysis": "looked", "summary": "it moved on", "label": "GOOD"})
            return json.dumps({"reason": "seen", "correct": True, "redundant_steps": [], "first_error_step": None})

        def connect(endpoint: Endpoint, origin: Origin, sink: Callable[[ModelCall], None]) -> ChatModel:
            assert isinstance(endpoint.spec, OpenAiSpec)
            self.models.append(ScriptedModel(answer, endpoint.spec.model))
            return AccountedModel(self.models[-1], origin, sink)

        self.monkeypatch.setattr(Endpoint, "open", connect)
        async with judge.open(models, ORIGIN, self.calls.append) as made:
            assert made.rule == judge.rule(models)
            result = await judge_episodes([WALK.episode], made, WALK.screens(), ORIGIN)
        assert [model.closed for model in self.models] == [1] * len(self.models)
        return result


@pytest.fixture
def judging(monkeypatch: pytest.MonkeyPatch) -> Judging:
    return Judging(monkeypatch)


async def test_each_model_is_shown_as_much_as_fits_its_own_context(judging: Judging) -> None:
    small = Endpoint(TWO.spec.model_copy(update={"max_images": 3}))
    await judging.judged(JudgeSpec(ask=Ask.ALL), CriticModels(text=(small,), multimodal=(ONE, small)))
    asked = {(model.version, request.role): request for model in judging.models for request in model.asked}
    images = {key: sum(not isinstance(p, str) for p in request.messages[1].parts) for key, request in asked.items()}
    assert images["one", "critic.multimodal"] > images["two", "critic.multimodal"] == 3
    told = {key: str(request.messages[1].parts[0]) for key, request in asked.items()}
    assert "for want of room" in told["two", "critic.multimodal"]
    assert "for want of room" not in told["one", "critic.multimodal"] + told["two", "critic.text"]


async def test_without_models_the_embedded_critics_judge_and_a_single_vote_is_the_most_likely(judging: Judging) -> None:
    (episode,) = (await judging.judged(JudgeSpec(), CriticModels())).episodes
    assert episode.judgement is not None and episode.judgement.correct
    assert episode.judgement.made_by == "graph-step-9+graph-text-7+graph-multimodal-7"
    assert judging.calls == []
    await judging.judged(JudgeSpec(), CriticModels(text=(ONE,)))
    assert [(request.role, request.temperature) for request in judging.models[0].asked] == [("critic.text", 0.0)]


async def test_each_role_asks_its_models_and_every_call_is_accounted(judging: Judging) -> None:
    judge = JudgeSpec(votes=2, resolutions=(0.5, 1.0), ask=Ask.ALL)
    models = CriticModels(step=spec("step"), text=(ONE,), multimodal=(ONE, TWO), seed=7)
    (episode,) = (await judging.judged(judge, models)).episodes
    assert episode.judgement is not None and episode.judgement.correct
    assert sorted(model.version for model in judging.models) == ["one", "step", "two"]
    assert Counter((call.role, call.made_by) for call in judging.calls) == {
        ("critic.step", "step"): len(episode.steps),
        ("critic.text", "one"): 2,
        ("critic.multimodal", "one"): 2,
        ("critic.multimodal", "two"): 2,
    }
    assert {call.trajectory_id for call in judging.calls} == {episode.trajectory.trajectory_id}
    votes = [(v.vote, v.resolution, v.made_by.rpartition("@")[2]) for v in episode.trajectory_verdicts[2:]]
    assert votes == [(0, "0.5", "one"), (1, "0.5", "two"), (2, "full", "one"), (3, "full", "two")]
    asked = [request for model in judging.models for request in model.asked if request.role != "critic.step"]
    assert {(request.temperature, request.top_p) for request in asked} == {(1.0, 0.6)}
    assert {request.seed for request in asked} == {7, 8}
    assert {request.image_scale for request in asked if request.role == "critic.multimodal"} == {0.5, 1.0}


STRICT = """
from typing import NamedTuple

from trajmill.schemas.tables.verdict import Channel, StepLabel
from trajmill.stages.critics.voting import StepResult, vote_of
from trajmill.stages.critics.spec import StepCriticSpec, TrajectoryCriticSpec


class Strict(NamedTuple):
    merciful: bool = False
    channel, resolution, version = Channel.TEXT, "full", "strict-1"

    async def judge(self, episode, screens, steps=None, draw=0):
        if steps is not None:
            return vote_of(self, self.merciful, "nothing is ever good enough")
        return [StepResult(step.index, "never good enough", "", StepLabel.HARMFUL) for step in episode.steps]


class StrictSpec(TrajectoryCriticSpec):
    merciful: bool = False

    def open(self, graphs):
        return Strict(self.merciful)


class StrictStepsSpec(StepCriticSpec):
    def open(self, graphs):
        return Strict()
"""


async def judged(spec: JudgeSpec) -> tuple[bool, set[StepLabel]]:
    trees = Trees()
    async with spec.open(CriticModels(), ORIGIN, lambda call: None) as judge:
        found = await judge_episode(right_walk(trees).end(), judge, trees, ORIGIN)
    assert found.judgement is not None
    return found.judgement.correct, {verdict.label for verdict in found.step_verdicts}


async def test_critics_of_another_package_judge_with_settings_of_their_own_and_what_is_none_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = "strict = strict_critics:StrictSpec\nstrict_steps = strict_critics:StrictStepsSpec"
    points = f"[trajmill.critics]\n{ours}\nwrong = trajmill.stages.environments.kinds:SimulatedSpec"
    installed(tmp_path / "packages", monkeypatch, points, strict_critics=STRICT)
    assert await judged(JudgeSpec()) == (True, {StepLabel.GOOD})
    assert not (await judged(JudgeSpec(text_critic="strict")))[0]
    assert (await judged(JudgeSpec(step_critic="strict_steps")))[1] == {StepLabel.HARMFUL}
    assert (await judged(JudgeSpec(text_critic="strict", critics={"strict": {"merciful": True}})))[0]
    with pytest.raises(ValidationError, match="strict: mercy is an unknown key"):
        JudgeSpec(critics={"strict": {"mercy": 1}})
    with pytest.raises(BadInputError, match=r"^trajmill\.critics: wrong is no .*TrajectoryCriticSpec$"):
        CRITICS.default_spec("wrong", TrajectoryCriticSpec)
    with pytest.raises(ValidationError, match="annotated_tree"):
        JudgeSpec(multimodal_critic="annotated_trees")
