import json
from dataclasses import dataclass

import pytest

from tests.stages.critics.little_app import ORIGIN
from tests.stages.critics.phone import StoredScreens, hidden_from_critics, notes_on, pictures, walk_phone, words
from tests.stages.models.scripted import ScriptedModel
from trajmill.pipelines.models import Endpoint
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.model.milestones import MilestoneChannel, MilestonePrompts
from trajmill.stages.critics.spec import CriticModels, JudgeSpec, critic_prompts
from trajmill.stages.critics.voting import Vote
from trajmill.stages.models.base import USUAL_BUDGET, ChatRequest, ContextBudget
from trajmill.stages.models.openai_api.spec import OpenAiSpec

WALK, PROMPTS = walk_phone(), critic_prompts()
WANTED = ({"what": "the <|im_end|> alarm is on", "steps": [17, 3]}, {"what": "nothing else changed", "steps": [1]})
APPROVED: dict[str, object] = {"reason": "shown", "correct": True, "redundant_steps": [2], "first_error_step": None}


@dataclass
class Answers:
    """What the model says as selector, as verifier of each milestone, and as reviewer."""

    milestones: object = WANTED
    met: tuple[object, ...] = (True, True)
    review: object = None

    def __call__(self, request: ChatRequest) -> str:
        system = str(request.messages[0].parts[0])
        if system == PROMPTS.milestones.system:
            return json.dumps({"milestones": self.milestones})
        if system == PROMPTS.milestone.system:
            return json.dumps({"evidence": "I read 7:30", "met": self.met["nothing else changed" in words(request)]})
        return json.dumps(self.review or APPROVED)


async def vote(
    model: ScriptedModel, budget: ContextBudget = USUAL_BUDGET, screens: StoredScreens | None = None
) -> Vote:
    prompts = MilestonePrompts(PROMPTS.milestones, PROMPTS.milestone, PROMPTS.review)
    critic = MilestoneChannel(model, prompts, budget=budget)
    return await critic.judge(WALK.episode, screens or WALK.screens(), notes_on(WALK.episode))


async def test_each_milestone_is_checked_on_its_own_screens_and_the_evidence_is_reviewed() -> None:
    model = ScriptedModel(Answers())
    found = await vote(model)
    made_by = "critic_review-1@scripted-1[critic_milestones-1|critic_milestone-1]"
    assert found == Vote(Channel.MULTIMODAL, "full", made_by, True, "shown", (1,), None)
    selector, first, second, review = model.asked
    steps = WALK.episode.steps
    assert pictures(selector) == [] and "Step 17: " in words(selector)
    shown = [handle.screen_id.partition("+")[0] for handle in pictures(first)]
    assert shown == [id for at in (2, 16) for id in (steps[at].screen_before, steps[at].screen_after)]
    assert len(pictures(second)) == 2 and "Step 5" not in words(second)
    assert [handle.screen_id for handle in pictures(review)] == [steps[-1].screen_after]
    told = words(review)
    assert '1. Met: "the < |im_end| > alarm is on". "I read 7:30"' in told and '2. Met: "nothing else changed"' in told
    for request in model.asked:
        assert json.dumps(WALK.episode.query.instruction) in words(request)
        assert [text for text in hidden_from_critics(WALK) if text in words(request)] == []


async def test_what_one_screen_does_not_show_no_reviewer_can_make_correct() -> None:
    found = await vote(ScriptedModel(Answers(met=(True, False))))
    assert (found.correct, found.reason) == (False, "not met: nothing else changed")
    wrong = {"reason": "undone", "correct": False, "redundant_steps": [], "first_error_step": 17}
    found = await vote(ScriptedModel(Answers(review=wrong)))
    assert (found.correct, found.reason, found.first_error_step) == (False, "undone", 16)


@pytest.mark.parametrize(
    "answers",
    [
        Answers(milestones=[]),
        Answers(milestones=[{"what": "x", "steps": [18]}]),
        Answers(milestones=[{"what": "x", "steps": []}]),
        Answers(met=("yes", True)),
        Answers(review={"reason": "", "correct": True}),
    ],
)
async def test_without_a_valid_answer_there_is_no_vote(answers: Answers) -> None:
    with pytest.raises(JudgeFailure, match=WALK.episode.trajectory.trajectory_id):
        await vote(ScriptedModel(answers))


async def test_requests_stay_within_the_budget() -> None:
    model = ScriptedModel(Answers())
    await vote(model, ContextBudget(tokens=4_000))
    assert len(pictures(model.asked[1])) == 2, "the later of the two steps"
    with pytest.raises(JudgeFailure, match="not even two steps fit"):
        await vote(ScriptedModel(Answers()), ContextBudget(tokens=20))


async def test_a_judge_asks_for_milestones_if_told(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedModel(Answers())
    monkeypatch.setattr(Endpoint, "open", lambda *_: model)
    endpoint = Endpoint(OpenAiSpec(urls=("http://127.0.0.1:9/v1",), model="one", family="qwen2.5-vl"))
    spec = JudgeSpec(milestones=True, channels=(Channel.MULTIMODAL,))
    async with spec.open(CriticModels(multimodal=(endpoint,)), ORIGIN, print) as judge:
        ((critic,),) = judge.channels[0].critics
        assert isinstance(critic, MilestoneChannel)
