from __future__ import annotations

from pathlib import Path

from trajmill.pipelines.models import ActingAgent, Endpoint
from trajmill.stages.agents.spec import EndToEndSpec
from trajmill.stages.models.embedded.spec import EmbeddedSpec


def identity(weights: str) -> object:
    return ActingAgent(EndToEndSpec(), Endpoint(EmbeddedSpec(model=Path(weights)))).identity()


def test_what_an_agent_does_is_the_same_wherever_its_weights_lie() -> None:
    assert identity("/here/models/v1") == identity("/elsewhere/models/v1")
    assert identity("/here/models/v1") != identity("/here/models/v2")
