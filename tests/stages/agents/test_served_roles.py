"""Good, malformed and empty replies of each role, from a server over a real socket that answers as the test says."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from tests.stages.agents.errand import ORIGIN, phone, redeem_query
from tests.stages.models.fault_server import FaultServer, running_server
from tests.stages.models.openai_api.asking import settings
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.base import AgentModel
from trajmill.stages.agents.ces.agent import CesSpec
from trajmill.stages.agents.coda.agent import CodaSpec
from trajmill.stages.agents.light_manus.agent import LightManusSpec
from trajmill.stages.agents.mobile_agent_v3.agent import MobileAgentV3Spec
from trajmill.stages.agents.spec import AgentSpec
from trajmill.stages.rollout.base import Attempt, Limits
from trajmill.stages.rollout.episode import run_episode

STEPS: Final = 3
ACTS: Final = '<tool_call>\n{"name": "mobile_use", "arguments": {"action": "wait", "time": 1}}\n</tool_call>'
MOBILE = MobileAgentV3Spec(manager="m", reflector="m", notetaker="m")
CES = CesSpec(coordinator="m", state_tracker="m")
ROLES: Final[Mapping[str, tuple[AgentSpec, str, str]]] = {
    "manager": (MOBILE, "You plan the work", "**Plan:**\n1. Open Mail"),
    "reflector": (MOBILE, "You check the work", "Outcome: SUCCESS"),
    "notetaker": (MOBILE, "You take notes", "None."),
    "coordinator": (CES, "You coordinate", "<think>Not yet.</think><answer>Wait.</answer>"),
    "state_tracker": (CES, "You keep the state", "<answer>Waited.</answer>"),
    "planner": (CodaSpec(planner="m"), "You plan the next step", "Wait a second."),
    "parser": (LightManusSpec(parser="m"), "You divide a task", "1. [phone] Wait"),
}
"""The agent of each role, how its prompt begins, and a good reply."""
FIRST: Final = ("manager", "coordinator", "planner", "parser")
"""Roles without which no other role is asked."""


def role_of(body: Mapping[str, Any]) -> str:
    """The role that a request asks, by its prompt; `acting` for one in the layout of a family."""
    system = body["messages"][0]["content"]
    text = system if isinstance(system, str) else system[0]["text"]
    return next((role for role, (_, start, _) in ROLES.items() if text.startswith(start)), "acting")


def answering(replies: Mapping[str, str]) -> Callable[[Mapping[str, Any]], str]:
    good = {role: reply for role, (_, _, reply) in ROLES.items()}
    return lambda body: {"acting": ACTS, **good, **replies}[role_of(body)]


def rolled_out(spec: AgentSpec, server: FaultServer, seed: int = 0) -> Episode:
    """One attempt of a few steps; each role has an endpoint of its own at the server."""
    query = redeem_query().model_copy(update={"max_steps": STEPS})

    async def attempt() -> Episode:
        names = ["policy", *spec.endpoint_roles()]
        models = {name: settings(server.url).connect({}) for name in names}
        given = AgentModel(models.pop("policy"), ANY, 0.0, roles=models, families=dict.fromkeys(models, ANY))
        agent = spec.open(given)(query)
        try:
            made = await run_episode(Attempt(query, Purpose.TRAIN, 0, seed), agent, phone(), Limits(), ORIGIN)
            return made.episode
        finally:
            for model in (given.model, *models.values()):
                await model.close()

    return asyncio.run(attempt())


@pytest.mark.parametrize("bad", ["<think>I would rather", ""], ids=["cut", "empty"])
@pytest.mark.parametrize("role", ROLES)
def test_a_malformed_reply_decides_nothing(role: str, bad: str) -> None:
    with running_server(writes=answering({role: bad})) as server:
        episode = rolled_out(ROLES[role][0], server)
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
    spec = ROLES[role][0].model_copy(update={"retry_malformed": True})
    with running_server(writes=lambda body: answering({role: ""} if body["temperature"] == 0 else {})(body)) as server:
        episode = rolled_out(spec, server)
    calls = [call for call in episode.calls if call.role == role]
    assert [bool(call.malformed) for call in calls] == [True, False] * (len(calls) // 2) and calls
    assert [step.action_kind for step in episode.steps] == ["wait"] * STEPS
