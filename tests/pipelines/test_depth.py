"""How deep our own functions are nested below a rollout stage when an agent decides: a cost for whoever follows it."""

import sys
from pathlib import Path
from types import FrameType
from typing import Final

import pytest

import trajmill
from tests.stages.agents.errand import ORIGIN, redeem_query
from tests.stages.models.fault_server import running_server
from trajmill.pipelines.fan_out import BeamSettings
from trajmill.pipelines.models import ActingAgent
from trajmill.pipelines.rollout import RunAttempts, run_in_shards
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.ces.agent import CesSpec
from trajmill.stages.agents.coda.agent import CodaSpec
from trajmill.stages.agents.light_manus.agent import LightManusSpec
from trajmill.stages.agents.mobile_agent_v3.agent import MobileAgentV3Spec
from trajmill.stages.agents.spec import AgentSpec, EndToEndSpec
from trajmill.stages.environments.kinds import SimulatedSpec
from trajmill.stages.models.embedded.model import save_network, untrained_network
from trajmill.stages.models.embedded.spec import EmbeddedSpec
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.models.spec import Endpoint
from trajmill.stages.rollout.base import Attempt, Limits
from trajmill.warehouse.layout import StageRun, create_warehouse

MOST: Final = 20
_OURS = str(Path(trajmill.__file__).parent)
_AWAITED_BY = {
    "AttemptRunner.run.<locals>.roll": "AttemptRunner.run",
    "run_attempts.<locals>.run_slot": "run_attempts",
    "CachedModel._ask": "CachedModel.complete",
    "EmbeddedModel._score_waiting": "EmbeddedModel.complete",
}
"""What begins a task of the event loop, or is called by it, and what waits for that."""
_CALL = '<tool_call>\n{"name": "mobile_use", "arguments": {"action": "click", "coordinate": [9, 9]}}\n</tool_call>'
_AGENTS = (EndToEndSpec(), MobileAgentV3Spec(), CesSpec(), CodaSpec(), LightManusSpec(manager="embedded"))


def stack_at(frame: FrameType | None) -> list[str]:
    """The stack of our functions, innermost first; a comprehension or a recursion is part of its function."""
    stack = list[str]()
    while frame is not None and frame.f_code.co_name != "run_forever":
        code, frame = frame.f_code, frame.f_back
        is_ours = code.co_filename.startswith(_OURS) and not code.co_name.endswith(("comp>", "genexpr>"))
        stack += [code.co_qualname] if is_ours and [code.co_qualname] != stack[-1:] else []
    return stack


@pytest.mark.parametrize(("spec", "served"), [*((spec, True) for spec in _AGENTS), (_AGENTS[0], False)])
def test_a_decision_is_not_deep(spec: AgentSpec, served: bool, tmp_path: Path) -> None:
    attempt = Attempt(redeem_query().model_copy(update={"max_steps": 3}), Purpose.TRAIN, 0, 0)
    at, seen, most = StageRun(ORIGIN.run_id, ORIGIN.round, "rollout"), dict[str, list[str]](), list[str]()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        """Keep the longest stack while an agent decides."""
        nonlocal most
        if event == "call" and frame.f_code.co_filename.startswith(_OURS) and (stack := stack_at(frame)):
            stack += seen.get(_AWAITED_BY.get(stack[-1], ""), [])
            seen[stack[0]] = stack
            if len(stack) > len(most) and any(name.endswith(".act") for name in stack):
                most = stack

    save_network(untrained_network(0), tmp_path / "policy")
    with running_server(writes=lambda body: _CALL) as server:
        model = OpenAiSpec(model="tiny", urls=(server.url,)) if served else EmbeddedSpec(model=tmp_path / "policy")
        agent = ActingAgent(spec, Endpoint(model, tmp_path / "cache", "run-policy"))
        work = RunAttempts(create_warehouse(tmp_path / "root"), at, ORIGIN, SimulatedSpec(), agent, Limits(), 1)
        sys.setprofile(profile)
        try:
            made = run_in_shards(work, [attempt], 1, BeamSettings())
        finally:
            sys.setprofile(None)
    assert made.rows("steps") and most[-1] == "run_in_shards" and len(most) <= MOST, "\n".join(most)
