"""Good, malformed and empty replies of each role, from a server over a real socket."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import pytest

from tests.stages.agents.served_roles import STEPS, answering, role_of, rolled_out
from tests.stages.models.fault_server import running_server
from trajmill.stages.agents.ces.agent import CesSpec
from trajmill.stages.agents.coda.agent import CodaSpec
from trajmill.stages.agents.light_manus.agent import LightManusSpec
from trajmill.stages.agents.mobile_agent_v3.agent import MobileAgentV3Spec
from trajmill.stages.agents.spec import AgentSpec

AGENTS: Final[Mapping[str, AgentSpec]] = {
    "mobile_agent_v3": MobileAgentV3Spec(manager="m", reflector="m", notetaker="m"),
    "ces": CesSpec(coordinator="m", state_tracker="m"),
    "coda": CodaSpec(planner="m"),
    "light_manus": LightManusSpec(parser="m"),
}
ROLES: Final = {
    "manager": "mobile_agent_v3",
    "reflector": "mobile_agent_v3",
    "notetaker": "mobile_agent_v3",
    "coordinator": "ces",
    "state_tracker": "ces",
    "planner": "coda",
    "parser": "light_manus",
}
FIRST: Final = ("manager", "coordinator", "planner", "parser")
"""Roles without which no other role is asked."""
BAD: Final = {"cut": "<think>I would rather", "empty": ""}


@pytest.mark.parametrize("agent", AGENTS)
def test_good_replies_are_counted_as_such(agent: str) -> None:
    with running_server(writes=answering({})) as server:
        episode = rolled_out(AGENTS[agent], server).episode
    assert not any(call.malformed for call in episode.calls)
    assert [step.action_kind for step in episode.steps] == ["wait"] * STEPS


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("role", ROLES)
def test_a_malformed_reply_decides_nothing(role: str, bad: str) -> None:
    with running_server(writes=answering({role: bad})) as server:
        episode = rolled_out(AGENTS[ROLES[role]], server).episode
        asked = Counter(role_of(received.body) for received in server.received)
    malformed = Counter(call.role for call in episode.calls if call.malformed)
    assert malformed == {role: asked[role]} and asked[role] > 0
    assert episode.trajectory.reward == 0.0 and episode.trajectory.status == "finished"
    acted = [step.action_kind for step in episode.steps]
    if role in FIRST:
        assert asked == {role: STEPS} and acted == ["unparsed"] * STEPS
        assert not any(step.prompt or step.raw_response for step in episode.steps)
    else:
        assert asked["acting"] == STEPS and acted == ["wait"] * STEPS
    if role == "reflector":
        assert asked["notetaker"] == 0, "nothing is noted after an unknown outcome"


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_retried_once_by_option(role: str) -> None:
    spec = AGENTS[ROLES[role]].model_copy(update={"retry_malformed": True})

    def writes(body: Mapping[str, object]) -> str:
        return answering({role: ""} if body["temperature"] == 0 else {})(body)

    with running_server(writes=writes) as server:
        episode = rolled_out(spec, server).episode
    calls = [call for call in episode.calls if call.role == role]
    assert [bool(call.malformed) for call in calls] == [True, False] * (len(calls) // 2) and calls
    assert [step.action_kind for step in episode.steps] == ["wait"] * STEPS
