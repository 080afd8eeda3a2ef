"""How deep our own functions are nested when the embedded policy decides: a cost for whoever follows a step."""

import asyncio
import sys
from pathlib import Path
from types import FrameType
from typing import Final

import pytest

import trajmill
from tests.stages.agents.errand import ORIGIN, redeem_query
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.base import AgentModel
from trajmill.stages.agents.ces.agent import CesSpec
from trajmill.stages.agents.coda.agent import CodaSpec
from trajmill.stages.agents.mobile_agent_v3.agent import MobileAgentV3Spec
from trajmill.stages.agents.spec import AgentSpec, EndToEndSpec
from trajmill.stages.environments.kinds import SimulatedSpec
from trajmill.stages.models.embedded.model import save_network, untrained_network
from trajmill.stages.models.embedded.spec import EmbeddedSpec
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.worker import run_attempts

MOST: Final = 12
"""Frames from the slot of a rollout down to the last function of a decision."""
_OURS = str(Path(trajmill.__file__).parent)


def stack_at(frame: FrameType | None) -> list[str]:
    """The stack of our functions, innermost first; a comprehension is part of its function."""
    stack = []
    while frame is not None:
        code, frame = frame.f_code, frame.f_back
        if code.co_filename.startswith(_OURS) and not code.co_name.endswith(("comp>", "genexpr>")):
            stack.append(code.co_qualname)
    return stack


@pytest.mark.parametrize("spec", [EndToEndSpec(), MobileAgentV3Spec(), CesSpec(), CodaSpec()], ids=lambda it: it.kind)
def test_a_decision_of_the_embedded_policy_is_not_deep(spec: AgentSpec, tmp_path: Path) -> None:
    save_network(untrained_network(0), tmp_path / "policy")
    model = EmbeddedSpec(model=tmp_path / "policy").open({}, tmp_path / "cache", version="run-policy")
    agents = spec.open(AgentModel(model, ANY, 1.0))
    attempt = Attempt(redeem_query().model_copy(update={"max_steps": 3}), Purpose.TRAIN, 0, 0)
    factory, done, most = SimulatedSpec().factory(Platform.PHONE), list[FinishedAttempt](), list[str]()

    async def record(finished: FinishedAttempt) -> None:
        done.append(finished)

    def profile(frame: FrameType, event: str, argument: object) -> None:
        """Keep the longest stack while an agent decides."""
        nonlocal most
        if event == "call" and frame.f_code.co_filename.startswith(_OURS):
            stack = stack_at(frame)
            if len(stack) > len(most) and any(name.endswith(".act") for name in stack):
                most = stack

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        asyncio.run(run_attempts([attempt], agents, factory, Limits(), ORIGIN, record, 1))
    finally:
        sys.setprofile(before)
    assert done[0].episode.steps and 0 < len(most) <= MOST, "\n".join(most)
