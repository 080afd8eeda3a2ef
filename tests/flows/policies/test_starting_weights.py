"""A run that starts with trained weights of the embedded policy, such as those of another run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.flows.policies.network import network_folder
from tests.flows.tasks.test_train import tiny_config
from trajmill.flows.configuration.sections import ModelsSection
from trajmill.flows.policies.policy import acting, configured_policy
from trajmill.flows.stage import RoundContext
from trajmill.stages.agents.spec import EndToEndSpec, ExplorerSpec
from trajmill.stages.models.embedded.spec import EmbeddedSpec


@pytest.mark.parametrize(("policy", "agent"), [("mine", EndToEndSpec), ("embedded", ExplorerSpec)])
def test_only_the_untrained_policy_explores(tmp_path: Path, policy: str, agent: type) -> None:
    weights = EmbeddedSpec(model=network_folder(tmp_path / "weights", seed=3))
    update = {"models": ModelsSection(policy=policy), "endpoints": {"mine": weights}}
    config = tiny_config(tmp_path / "root", 1).model_copy(update=update)
    context = RoundContext.of(config)
    mine = config.model_copy(update={"models": ModelsSection(policy="mine")})
    start = configured_policy(replace(context, config=mine))
    assert (start.version, start.kind) == (weights.version, "embedded")
    assert start.paths(context.warehouse) == (weights.model, None)
    acts = acting(context, start, temperature=1.0, untrained=True)
    assert type(acts.spec) is agent
    assert acts.endpoint is not None and acts.endpoint.spec == weights
