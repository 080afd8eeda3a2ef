import pickle

import pytest

from tests.stages.models.scripted import replies
from tests.stages.models.toy import ToyPhone
from tests.stages.rollout.toy import toy_query
from trajmill.schemas.actions import Action, Click, Swipe, Terminate, TypeText
from trajmill.schemas.coordinates import CoordinateSpace
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.agents.base import Agent, AgentModel, Decision, EpisodeView
from trajmill.stages.agents.end_to_end import NO_ACTION, EndToEndAgent, rows_before
from trajmill.stages.agents.spec import AGENTS, AgentSpec, EndToEndSpec, WalkerSpec

CLICK = '<tool_call>{"name": "mobile_use", "arguments": {"action": "click", "coordinate": [500, 500]}}</tool_call>'


def view(guidance: str | None = None, *history: Decision) -> EpisodeView:
    return EpisodeView("order Pad Thai", guidance, ToyPhone(0).look(), history, 7)


async def test_positions_are_read_in_the_models_space_and_text_around_the_action_is_kept() -> None:
    model = replies(CLICK)
    model.family = ANY._replace(space=CoordinateSpace.PER_MILLE)
    agent = EndToEndAgent(model, Platform.PHONE)
    assert (await agent.act(view())).action == Click(x=360, y=640)
    decision = await EndToEndAgent(replies("I would rather not \ud800"), Platform.PHONE).act(view())
    assert (decision.action, decision.conclusion) == (None, NO_ACTION)
    assert decision.raw_response == "I would rather not ?"
    for history in ((), (Decision("", None, ""),)):
        await agent.act(view(None, *history))
    first, again, later = (request.seed for request in model.asked)
    assert first == again != later, "each step has its own seed"


def row(
    at: int, text: str, role: str = "button", states: tuple[str, ...] = ("clickable",), value: str = ""
) -> UIElement:
    return UIElement(role, text, Box(0, 100 * at, 700, 100 * at + 90), states, value)


SCREEN = (
    row(0, "Fruit", "heading", ()),
    row(1, "Banana"),
    row(2, "Sold out", states=("disabled",)),
    row(3, "+", "stepper_button", value="Quantity"),
    row(4, "Order"),
)


@pytest.mark.parametrize(
    ("action", "thought"),
    [
        (Click(x=350, y=140), "find Banana <r0> Banana"),
        (Click(x=350, y=440), "find Order <r0> Banana <r1> Quantity + <r2> Order"),
        (Click(x=350, y=20), ""),
        (Swipe(x=350, y=900, x2=350, y2=300), "<r0> Banana <r1> Quantity + <r2> Order"),
        (TypeText(text="Banana"), ""),
        (Terminate(status="success"), ""),
    ],
)
def test_rows_are_read_as_far_as_the_action_needs_them(action: Action, thought: str) -> None:
    assert rows_before(action, SCREEN) == thought
    if isinstance(action, Swipe):
        assert rows_before(action, SCREEN[:2], "Lemon") == "find Lemon <r0> Banana", "for what lies below"


def opened(kind: str, temperature: float = 0.5) -> Agent:
    spec = AGENTS.spec_class(kind)()
    assert isinstance(spec, AgentSpec)
    assert pickle.loads(pickle.dumps(spec)) == spec, "it is sent to workers"
    return spec.open(AgentModel(replies(CLICK), ANY, temperature))(toy_query())


def test_each_kind_names_itself_and_the_explorer_always_explores() -> None:
    assert [opened(kind).name for kind in AGENTS.kinds()] == list(AGENTS.kinds())
    agent = opened("explorer", temperature=0.0)
    assert isinstance(agent, EndToEndAgent)
    assert (agent.temperature, agent.role, agent.model_version) == (1.0, "explorer", "scripted-1")
    with pytest.raises(ValueError, match="asks a model"):
        EndToEndSpec().open(None)


def test_a_walker_explores_only_for_a_query_without_a_path() -> None:
    path = (PathStep(page="toy.start", operation="finish", target=""),)
    without, with_path = (toy_query().model_copy(update={"path": each}) for each in ((), path))
    make = WalkerSpec().open(AgentModel(replies(CLICK), ANY, 0.5))
    assert [make(query).name for query in (without, with_path)] == ["explorer", "reference"]
    assert WalkerSpec().open(None)(with_path).name == "reference", "paths alone need no model"
