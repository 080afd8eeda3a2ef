"""How deep our own functions are nested when the embedded policy decides: a cost for whoever follows a step."""

from __future__ import annotations

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


class Deepest:
    """A profiler that keeps the longest stack of our functions while an agent decides, innermost first."""

    def __init__(self) -> None:
        self.stack: list[str] = []

    def __call__(self, frame: FrameType | None, event: str, argument: object) -> None:
        if event != "call" or frame is None or not frame.f_code.co_filename.startswith(_OURS):
            return
        stack = []
        while frame is not None:
            code, frame = frame.f_code, frame.f_back
            # A comprehension is part of its function.
            if code.co_filename.startswith(_OURS) and not code.co_name.endswith(("comp>", "genexpr>")):
                stack.append(code.co_qualname)
        if len(stack) > len(self.stack) and any(name.endswith(".act") for name in stack):
            self.stack = stack


@pytest.mark.parametrize("spec", [EndToEndSpec(), MobileAgentV3Spec(), CesSpec(), CodaSpec()], ids=lambda it: it.kind)
def test_a_decision_of_the_embedded_policy_is_not_deep(spec: AgentSpec, tmp_path: Path) -> None:
    save_network(untrained_network(0), tmp_path / "policy")
    model = EmbeddedSpec(model=tmp_path / "policy").open({}, tmp_path / "cache", version="run-policy")
    agents = spec.open(AgentModel(model, ANY, 1.0))
    attempt = Attempt(redeem_query().model_copy(update={"max_steps": 3}), Purpose.TRAIN, 0, 0)
    factory, done, deepest = SimulatedSpec().factory(Platform.PHONE), list[FinishedAttempt](), Deepest()

    async def record(finished: FinishedAttempt) -> None:
        done.append(finished)

    before = sys.getprofile()
    sys.setprofile(deepest)
    try:
        asyncio.run(run_attempts([attempt], agents, factory, Limits(), ORIGIN, record, 1))
    finally:
        sys.setprofile(before)
    assert done[0].episode.steps and deepest.stack
    assert len(deepest.stack) <= MOST, "\n".join(deepest.stack)
