"""The policy of a round: the version that acts, the folder of its weights, and its agent."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Annotated, NamedTuple, Self

import pyarrow.compute as pc
from PIL import Image
from pydantic import BeforeValidator

from trajmill.flows.configuration.config import model_of
from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.flows.serving.model_server import unload_adapter
from trajmill.flows.serving.models_ready import RefusedPolicyError, serve_policy
from trajmill.flows.stage import RoundContext, StageOutcome, StageReport, StageResult, finished, report_of, run_once
from trajmill.pipelines.models import ActingAgent
from trajmill.schemas.dialects.user_text import end_to_end_prompt
from trajmill.schemas.errors import ModelFailure, TrajmillError
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.record import Record
from trajmill.schemas.tables.policy_version import PolicyVersion, SplitSuccess
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.spec import EndToEndSpec, ExplorerSpec
from trajmill.stages.models.base import ChatMessage, ChatRequest
from trajmill.stages.models.embedded.spec import EmbeddedSpec
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.models.spec import Endpoint, OpenEndpoints
from trajmill.stages.training.admission import NOT_ADMITTED
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.read import tuples
from trajmill.warehouse.releases import checked_weights, keep_weights

PROMOTE = "promote"
BASELINE = "baseline"
"""The stage of round 0 that measures the policy that the run starts with."""
CHOICE = "policy_"
"""Prefix of the stages of choices, and so of `made_by` in their rows of `models`."""
_SCREEN = Size(112, 112)


class Policy(Record):
    """A policy version; fields are columns of table `models`, and paths in the warehouse are relative."""

    model_version: str
    """The version in its rows, and the model name at its server."""
    kind: Annotated[str, BeforeValidator(lambda kind: kind or EMBEDDED)]
    """The kind of its model, e.g. `embedded` or `openai_api`."""
    folder: str | None = None
    """Folder of its weights; None if only its server has them."""
    adapter: str | None = None
    """Folder of the LoRA adapter for these weights; None if it has none."""

    @classmethod
    def stored_in(
        cls, warehouse: Warehouse, version: str, kind: str, folder: Path | None = None, adapter: Path | None = None
    ) -> Self:
        def text(path: Path | None) -> str | None:
            if path is None:
                return None
            path, root = path.absolute(), warehouse.root.absolute()
            return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)

        return cls(model_version=version, kind=kind, folder=text(folder), adapter=text(adapter))

    @property
    def version(self) -> str:
        return self.model_version

    def paths(self, warehouse: Warehouse) -> PolicyPaths:
        return PolicyPaths(*(None if text is None else warehouse.root / text for text in (self.folder, self.adapter)))


class PolicyPaths(NamedTuple):
    folder: Path | None
    adapter: Path | None


class PolicyInForce(StageResult):
    """The result of a stage that decides about the policy: the baseline, a promotion or a choice."""

    policy_row: Policy
    updates: int
    success: tuple[SplitSuccess, ...]
    promoted: bool = True
    reason: str = ""
    """Why it has or has not; empty for the baseline and for choices, which have it in their rows."""


def policy_before(context: RoundContext) -> Policy:
    """Return the policy in force in a round. Raises TrajmillError if the previous round is not finished."""
    return policy_in_force(context).policy_row


def acting_round(context: RoundContext) -> RoundContext:
    """The round whose policy the rollout of a round acts with: its own, or the previous one if that still trains."""
    before = context.in_round(context.round - 1)
    return before if before.round and report_of(before, PROMOTE) is None else context


def stale_versions(context: RoundContext, rounds: Iterable[int], max_staleness: int) -> frozenset[str]:
    """The versions of the rounds, and of the one before, over `max_staleness` changes behind the policy in force."""
    first = max(1, min([*rounds, context.round]) - 1)
    decided = [one for number in range(first, context.round + 1) for one in _decisions(context.in_round(number))]
    in_force = [version for version, _ in groupby(one.policy_row.version for one in decided)]
    return frozenset(in_force) - frozenset(in_force[-max_staleness - 1 :])


def policy_in_force(context: RoundContext) -> PolicyInForce:
    return _decisions(context)[-1]


def _decisions(context: RoundContext) -> list[PolicyInForce]:
    """The decision with which the round starts, and the choices in it."""
    last = context.in_round(context.round - 1)
    return [PolicyInForce.of(finished(last, PROMOTE if last.round else BASELINE)), *choices(context)]


def choices(context: RoundContext) -> list[PolicyInForce]:
    """Return the choices of a policy in a round, by a command or by the configuration, in their order."""
    found: list[PolicyInForce] = []
    while (report := report_of(context, f"{CHOICE}{len(found):02d}")) is not None:
        found.append(PolicyInForce.of(report))
    return found


def choose(context: RoundContext, work: Callable[[StageRun], StageOutcome]) -> StageReport:
    """Do the next choice of a policy in a round: a stage, of which a round may have several."""
    return run_once(context, f"{CHOICE}{len(choices(context)):02d}", work)


def policy_versions(context: RoundContext) -> dict[str, PolicyVersion]:
    """The newest row of each version before the promotion of this round, the oldest version first."""
    rows = context.rows(PolicyVersion)
    before = [row for row in rows if row.round < context.round or row.made_by != PROMOTE]
    ordered = sorted(before, key=lambda row: (row.round, row.made_by == PROMOTE, row.made_by))
    return {row.model_version: row for row in ordered}


def configured_policy(context: RoundContext) -> Policy:
    """Return the configured policy, if it is not the embedded one. Raises BadInputError if its folder has no model."""
    spec = context.config.endpoints[context.config.models.policy]
    return Policy.stored_in(context.warehouse, spec.version, spec.kind, spec.weights_folder, spec.adapter_folder)


def starting_policy(context: RoundContext, at: StageRun) -> Policy:
    return untrained_policy(context, at) if context.config.models.policy == EMBEDDED else configured_policy(context)


def untrained_policy(context: RoundContext, at: StageRun) -> Policy:
    """Return the embedded policy before any training; its folder is made if it does not exist."""
    # Imports torch, which a server of environments does not need.
    from trajmill.stages.models.embedded.model import save_network, untrained_network

    fresh_folder = at.staging(context.warehouse) / "untrained"
    version = save_network(untrained_network(context.config.run.seed), fresh_folder)
    folder = context.warehouse.model(version)
    keep_weights(context.warehouse, fresh_folder, folder)
    return Policy.stored_in(context.warehouse, version, EMBEDDED, folder)


def acting(
    context: RoundContext, policy: Policy, temperature: float, untrained: bool, with_tokens: bool = False
) -> ActingAgent:
    """Return the agent of a policy; an embedded one that is `untrained` explores. Temperature 0 acts greedily."""
    agent = context.config.agent
    starts_untrained = untrained and policy.kind == context.config.models.policy == EMBEDDED
    spec = ExplorerSpec() if starts_untrained and isinstance(agent, EndToEndSpec) else agent
    roles = {role: model_of(context.config, name) for role, name in spec.endpoint_roles().items()}
    return ActingAgent(spec, endpoint_of(context, policy), temperature, with_tokens, roles)


def check_weights(warehouse: Warehouse, policy: Policy) -> None:
    """Check the files of a policy in the warehouse. Raises BadInputError if one is missing or changed."""
    for folder in policy.paths(warehouse):
        if folder is not None and folder.is_relative_to(warehouse.root):
            checked_weights(warehouse, folder)


def endpoint_of(context: RoundContext, policy: Policy) -> Endpoint:
    """Return the model of a policy for the workers, after its servers serve it.

    Raises BadInputError (a file of its weights is missing or changed), RefusedPolicyError (a server refuses the
    version, or the endpoint cannot take it), AwaitedError (somebody has to load its weights into a server),
    TrajmillError (a server does not answer).
    """
    check_weights(context.warehouse, policy)
    folder, adapter = policy.paths(context.warehouse)
    if policy.kind == EMBEDDED:
        assert folder is not None
        return Endpoint(EmbeddedSpec(model=folder))
    configured = model_of(context.config, context.config.models.policy)
    spec = configured.spec
    if adapter is not None and not spec.takes_adapters:
        raise RefusedPolicyError(f"a model of kind {spec.kind!r} takes no adapter; let [train] train whole weights")
    if isinstance(spec, OpenAiSpec):
        serve_policy(spec, policy.version, folder, adapter)
    return Endpoint(spec.with_version(policy.version, folder, adapter), configured.request_cache, policy.version)


def release_unused(context: RoundContext, unused: Policy) -> None:
    """Unload the adapter of a version that no longer acts from the servers of the policy, where they can."""
    spec = context.config.endpoints.get(context.config.models.policy)
    if unused.adapter is not None and isinstance(spec, OpenAiSpec):
        for address in spec.addresses:
            with suppress(TrajmillError):
                unload_adapter(address, unused.version, spec.api_key(os.environ))


def score_prompt(endpoint: Endpoint) -> None:
    """Have a network or a server score one prompt before it is measured. Raises RefusedPolicyError."""
    if not isinstance(endpoint.spec, EmbeddedSpec | OpenAiSpec):
        return
    file = BytesIO()
    Image.new("RGB", _SCREEN, "white").save(file, "PNG")
    handle = ScreenHandle("admission", _SCREEN, file.getvalue)
    screen = Observation(handle, (UIElement("button", "Go", Box(8, 8, 48, 32)),), "")
    system = ChatMessage("system", ("You use a phone.",))
    messages = (system, ChatMessage("user", (end_to_end_prompt("Press Go", None, []), screen)))

    async def score() -> None:
        async with OpenEndpoints() as endpoints:
            model = endpoints.model(Endpoint(endpoint.spec, None, endpoint.version))
            try:
                await model.complete(ChatRequest("policy", messages, max_tokens=1, top_logprobs=1))
            except ModelFailure as error:
                if not re.search(r": 4\d\d ", str(error)):
                    raise
                # Some servers give no log probabilities, and refuse requests for them.
                await model.complete(ChatRequest("policy", messages, max_tokens=1))

    try:
        asyncio.run(score())
    except ModelFailure as error:
        raise RefusedPolicyError(f"{NOT_ADMITTED}a prompt cannot be scored: {error}") from error


def accepted_since_training(context: RoundContext) -> int:
    """Count the trajectories that were judged correct in the rounds after the last training."""
    models = tuples(context.read("models", ["round", "release", "made_by"]))
    trainings = (at for at, release, made_by in models if release is not None and not made_by.startswith(CHOICE))
    judged = context.read_judgements("trajectory_id", "correct", "round")
    new = pc.and_(judged["correct"], pc.greater(judged["round"], max(trainings, default=0)))
    trials = context.read("trajectories", ["trajectory_id"], where={"purpose": [Purpose.TRIAL.value]})
    return len(set(judged["trajectory_id"].filter(new).to_pylist()).difference(trials["trajectory_id"].to_pylist()))
