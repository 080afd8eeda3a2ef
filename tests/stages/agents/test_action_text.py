import asyncio
import json
from typing import Final

import pytest

from tests.stages.agents.errand import redeem_query, user_text
from tests.stages.agents.test_served_roles import ROLES
from tests.stages.models.scripted import ScriptedModel
from trajmill.schemas.actions import Action, Click, Drag, Swipe
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import ANY, FAMILIES, Family
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.base import AgentModel, Decision, EpisodeView
from trajmill.stages.agents.ces.agent import INSTRUCTION, CesSpec
from trajmill.stages.agents.coda.agent import CodaSpec
from trajmill.stages.agents.mobile_agent_v3.agent import MobileAgentV3Spec, TaskState
from trajmill.stages.agents.replies import read_items, read_sections
from trajmill.stages.agents.spec import AgentSpec

SCREEN: Final = Size(1080, 2400)
TAP: Final = Click(x=801, y=1999)
SWIPE: Final = Swipe(x=540, y=1800, x2=540, y2=600)
SPECS: Final[dict[str, AgentSpec]] = {
    "manager": MobileAgentV3Spec(manager="r"),
    "reflector": MobileAgentV3Spec(reflector="r"),
    "planner": CodaSpec(planner="r"),
    "state_tracker": CesSpec(state_tracker="r"),
}


def seen(name: str) -> Observation:
    return Observation(ScreenHandle(name, SCREEN, lambda: b""), (), "bites")


def given_to(role: str, family: Family, action: Action, platform: Platform = Platform.PHONE) -> str:
    """The action in what a role is asked after a step."""
    model = ScriptedModel(lambda _: ROLES[role][2], family=family)
    unused = ScriptedModel(lambda _: "")
    query = redeem_query().model_copy(update={"platform": platform})
    agent = SPECS[role].open(AgentModel(unused, ANY, 0.0, roles={role: model}, families={role: family}))(query)
    last = Decision("Go.", action, "Went.", role_outputs={**TaskState(("Go",)).outputs(), INSTRUCTION: "Go."})
    asyncio.run(agent.act(EpisodeView("Do it", None, seen("after"), (last,), 1, (seen("before"),))))
    sections = read_sections(user_text(model.asked[0]))
    if role == "planner":
        return read_items(sections["steps so far"])[0].partition(" Action: ")[2]
    return sections["latest output of executor agent" if role == "state_tracker" else "last action"]


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize(("role", "action"), [("manager", TAP), ("reflector", SWIPE), ("planner", TAP)])
def test_a_role_can_read_the_action_as_its_own(role: str, family: Family, action: Action) -> None:
    text = given_to(role, family, action)
    frame, dialect = family.frame(SCREEN), family.dialect(Platform.PHONE)
    before = {"read-aloud": "find x ", "ui-tars": "Action: "}.get(family.name, "")
    read = dialect.parse(f"{before}{text}", frame)
    assert isinstance(read, Reply), text
    assert read.action.kind == action.kind
    for name, most in (("x", SCREEN.width), ("y", SCREEN.height)):
        unit = most / frame.extent[name == "y"]
        assert abs(getattr(read.action, name) - getattr(action, name)) <= unit / 2 + 1


def test_qwen3_vl_is_given_thousandths_and_its_own_words_even_for_what_it_cannot_write() -> None:
    family = FAMILIES["qwen3-vl"]
    text = given_to("manager", family, TAP)
    call = json.loads(text.removeprefix("<tool_call>").removesuffix("</tool_call>"))
    assert call == {"name": "mobile_use", "arguments": {"action": "click", "coordinate": [741, 832]}}
    text = given_to("planner", family, Drag(x=540, y=1200, x2=1079, y2=2399), Platform.PHONE)
    assert json.loads(text) == {"kind": "drag", "direction": "down"}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_state_tracker_sees_no_screen_and_gets_no_positions(family: Family) -> None:
    assert given_to("state_tracker", family, TAP) == 'Go. {"kind":"click","button":"left","count":1} Went.'
    assert given_to("state_tracker", family, SWIPE) == 'Go. {"kind":"swipe","direction":"up"} Went.'
