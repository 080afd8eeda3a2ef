"""Finds the policy that a round starts with, and the folder of its weights."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trajmill.flows.configuration.model_specs import model_of
from trajmill.flows.configuration.models import EMBEDDED
from trajmill.flows.context import RoundContext
from trajmill.flows.stage import finished
from trajmill.pipelines.agents import ActingAgent
from trajmill.pipelines.models import Endpoint
from trajmill.stages.agents.spec import EndToEndSpec, ExplorerSpec
from trajmill.stages.models.embedded.spec import EmbeddedSpec

PROMOTE = "promote"
"""The stage that decides which policy the next round starts with."""
BASELINE = "baseline"
"""The stage of round 0 that measures the untrained policy."""


class Policy(NamedTuple):
    """A policy version and the folder of its weights."""

    version: str
    folder: Path


def policy_of(context: RoundContext, version: str) -> Policy:
    """The policy of a version."""
    return Policy(version, context.warehouse.model(version))


def policy_before(context: RoundContext) -> Policy:
    """The policy that a round starts with: the one promoted before it, or the untrained one.

    Raises:
        TrajmillError: the round before is not finished.
    """
    last = context.in_round(context.round - 1)
    report = finished(last, PROMOTE if last.round else BASELINE)
    return policy_of(context, report.result["policy"])


def acting(
    context: RoundContext, policy: Policy, temperature: float, untrained: bool, with_tokens: bool = False
) -> ActingAgent:
    """The agent of a policy; the untrained embedded policy acts as an explorer.

    Args:
        context: of the round.
        policy: its version and folder.
        temperature: 0 acts greedily.
        untrained: whether it has never been trained.
        with_tokens: whether the tokens of a served policy's replies are asked for.
    """
    agent = context.config.agent
    if is_served(context):
        return ActingAgent(agent, model_of(context.config, context.config.models.policy), temperature, with_tokens)
    spec = ExplorerSpec() if untrained and isinstance(agent, EndToEndSpec) else agent
    return ActingAgent(spec, Endpoint(EmbeddedSpec(model=policy.folder)), temperature)


def is_served(context: RoundContext) -> bool:
    """Whether the policy is a served model, which trajmill does not train."""
    return context.config.models.policy != EMBEDDED
