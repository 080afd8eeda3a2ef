"""The best of several candidates is done, as a process reward model rates them."""

import json
import math
from collections.abc import Callable

import pytest
from pydantic import ValidationError

from tests.stages.models.scripted import ScriptedModel
from tests.stages.models.toy import ToyPhone
from tests.stages.rollout.toy import toy_query
from trajmill.schemas.actions import Action, Click, SystemButton
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.base import AgentModel, Decision, EpisodeView
from trajmill.stages.agents.spec import EndToEndSpec
from trajmill.stages.models.base import ChatRequest, Completion, TokenLogprob

TAP, BACK, HOME = Click(x=360, y=640), SystemButton(button="Back"), SystemButton(button="Home")
SPEC = EndToEndSpec(candidates=4, prm="rater")


def view(*history: Decision) -> EpisodeView:
    return EpisodeView("order Pad Thai", None, ToyPhone(0).look(), history, 7)


def policy(*actions: Action | None) -> ScriptedModel:
    """Samples one action after the other; None is a reply without an action."""
    rest = list(actions)

    def answer(request: ChatRequest) -> str:
        action, (screen,) = rest.pop(0), [part for part in request.messages[1].parts if isinstance(part, Observation)]
        frame = model.frame(screen.screen.size)
        return "No." if action is None else ANY.dialect(Platform.PHONE).render(Reply("So.", action, "Done."), frame)

    model = ScriptedModel(answer)
    return model


def label(word: str, **shares: float) -> Completion:
    candidates = tuple((token, math.log(share)) for token, share in shares.items())
    logprobs = (TokenLogprob(word[:2], 0.0, candidates),) if shares else ()
    return Completion(word, 7, 1, "stop", logprobs=logprobs)


def rated(rate: Callable[[str], str | Completion]) -> ScriptedModel:
    return ScriptedModel(lambda request: rate(str(request.messages[1].parts[0])))


async def acted(model: ScriptedModel, prm: ScriptedModel | None, temperature: float = 1.0) -> Decision:
    roles = {} if prm is None else {"prm": prm}
    spec = SPEC if prm is not None else SPEC.model_copy(update={"prm": "policy"})
    return await spec.open(AgentModel(model, ANY, temperature, roles=roles))(toy_query()).act(
        view(Decision("", HOME, "Went home."))
    )


async def test_the_candidate_with_the_highest_expected_score_is_done() -> None:
    model = policy(TAP, BACK, None, TAP)
    prm = rated(lambda asked: label("GOOD", GO=0.6, H=0.4) if "click" in asked else label("GOOD", GO=0.7, N=0.3))
    decision = await acted(model, prm)
    assert decision.action == BACK
    scores = [line.partition(" ") for line in decision.role_outputs["candidates"].splitlines()]
    assert [(score, json.loads(action)["kind"]) for score, _, action in scores] == [
        ("0.600", "click"),
        ("0.850", "system_button"),
    ]
    assert [call.request.role for call in decision.calls] == ["policy"] * 4 + ["prm"] * 2
    assert [bool(call.malformed) for call in decision.calls] == [False, False, True, False, False, False]
    assert decision.reply_tokens is None and decision.raw_response.count("tool_call") == 2
    asked = str(prm.asked[0].messages[1].parts[0])
    assert "order Pad Thai" in asked and "1. Went home." in asked and '"x": "50.0%", "y": "50.0%"' in asked
    assert isinstance(prm.asked[0].messages[1].parts[1], Observation) and prm.asked[0].top_logprobs == 20


async def test_equal_scores_are_decided_by_how_often_an_action_was_sampled_and_nothing_is_rated_without_a_choice() -> (
    None
):
    assert (await acted(policy(TAP, BACK, BACK, HOME), rated(lambda _: "neutral."))).action == BACK
    odd = rated(lambda asked: "I cannot say" if "Back" in asked else "HARMFUL")
    assert (await acted(policy(BACK, BACK, BACK, TAP), odd)).action == TAP, "a malformed rating is no score"
    prm = rated(lambda _: "GOOD")
    assert (await acted(policy(TAP, TAP, None, TAP), prm)).action == TAP
    nothing = await acted(policy(None, None, None, None), prm)
    assert nothing.action is None and len(nothing.calls) == 4 and prm.asked == []


async def test_a_greedy_agent_draws_its_own_decision_first_and_the_policy_can_rate_its_own_candidates() -> None:
    model = policy(TAP, TAP, TAP, TAP)
    await acted(model, rated(lambda _: "GOOD"), temperature=0.0)
    assert [request.temperature for request in model.asked] == [0.0, 1.0, 1.0, 1.0]
    assert len({request.seed for request in model.asked}) == 4
    model = policy(TAP, TAP, TAP, BACK)
    own = ScriptedModel(lambda request: "GOOD" if request.role == "prm" else model.answer(request))
    assert (await acted(own, None)).action == TAP
    assert {request.role for request in own.asked} == {"policy", "prm"}


@pytest.mark.parametrize("keys", [{"candidates": 2}, {"prm": "rater"}, {"candidates": 2, "prm": "embedded"}])
def test_candidates_need_a_model_that_chooses(keys: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=r"both prm and candidates|name 'policy' or an"):
        EndToEndSpec.model_validate(keys)
    assert "candidates" not in EndToEndSpec().identity() and EndToEndSpec().roles() == {}
