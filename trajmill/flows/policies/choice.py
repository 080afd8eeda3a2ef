"""Puts a policy version of the run in force: by a command, or because the configuration names another model."""

from __future__ import annotations

from dataclasses import replace

from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.flows.context import RoundContext
from trajmill.flows.policies.policy import (
    BASELINE,
    Policy,
    PolicyInForce,
    PolicyRow,
    choice_stage,
    choices,
    configured_policy,
    is_embedded,
    policy_before,
    policy_versions,
)
from trajmill.flows.stage import StageOutcome, StageReport, has_begun, report_of, run_once
from trajmill.flows.tasks.generate import untrained_policy
from trajmill.flows.tasks.guide import GUIDED
from trajmill.flows.tasks.measure import measure, version_without_parent
from trajmill.flows.tasks.rollout import ROLLOUT
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import instead_of
from trajmill.schemas.tables.policy_version import PolicyVersion
from trajmill.stages.training.admission import NOT_ADMITTED
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.shards import write_tables


def promote_by_hand(context: RoundContext, version: str) -> StageReport:
    """Put a version in force, without regard to its measured success.

    Raises:
        BadInputError: the run has no such version, it is in force already, or a rollout has begun and is not finished.
    """
    in_force, known = policy_before(context).version, _known(context, version)
    if known.reason.startswith(NOT_ADMITTED):
        raise BadInputError(f"{version} is {known.reason}")
    return _choose(context, known, f"promoted by hand in place of {in_force}")


def roll_back(context: RoundContext) -> StageReport:
    """Replace the policy in force by its parent.

    Raises:
        BadInputError: the policy in force has no parent, or a rollout has begun and is not finished.
    """
    in_force = _known(context, policy_before(context).version)
    if in_force.parent is None:
        raise BadInputError(f"{in_force.model_version} has no parent to roll back to; `trajmill policy list` shows all")
    refused = in_force.model_copy(update={"promoted": False, "reason": f"rolled back to {in_force.parent} by hand"})
    reason = f"rolled back from {in_force.model_version} by hand"
    return _choose(context, _known(context, in_force.parent), reason, refused)


def adopt_configured(context: RoundContext) -> None:
    """Start a new round with the configured model, if the run does not know this model yet.

    The model is measured first, like the model that the run started with. For a known model nothing is done, because
    promotion or a command has decided about it. Nothing is done in a round that has begun, either.
    """
    if names_another_policy(context) and not has_begun(context, ROLLOUT):
        _adopt(context, None if is_embedded(context.config) else configured_policy(context.config))


def names_another_policy(context: RoundContext) -> bool:
    """Whether the configuration names a model that the run does not know yet, or one of another kind.

    False before the run has measured the policy that it starts with.
    """
    if report_of(context.in_round(0), BASELINE) is None:
        return False
    in_force, config = policy_before(context), context.config
    if is_embedded(config):
        return in_force.kind != EMBEDDED
    configured = configured_policy(config)
    return configured.version not in policy_versions(context) or configured.kind != in_force.kind


def _adopt(context: RoundContext, configured: Policy | None) -> None:
    stage = choice_stage(len(choices(context)))

    def work(at: StageRun) -> StageOutcome:
        policy = configured or untrained_policy(context, at)
        known = policy_versions(context).get(policy.version)
        if known is not None:
            return _chosen(context, at, _as_decided(context, at, known, "the configuration names it again"))
        measured = measure(context, at, policy, untrained=configured is None)
        row = version_without_parent(context, policy, measured, "the configuration names it", at.stage)
        chosen = _chosen(context, at, row)
        return replace(chosen, files={**measured.outcome.files, **chosen.files})

    run_once(context, stage, work)


def _choose(
    context: RoundContext, version: PolicyVersion, reason: str, replaced: PolicyVersion | None = None
) -> StageReport:
    if version.model_version == policy_before(context).version:
        raise BadInputError(f"{version.model_version} is in force already")
    for rolled_out, stage in ((context, ROLLOUT), (context, GUIDED), (context.in_round(context.round + 1), ROLLOUT)):
        if has_begun(rolled_out, stage) and report_of(rolled_out, stage) is None:
            raise BadInputError(
                f"round {rolled_out.round} of run {context.run_id} is rolling out its policy; let `trajmill evolve` "
                "finish that first"
            )

    def work(at: StageRun) -> StageOutcome:
        row = _as_decided(context, at, version, reason)
        others = [] if replaced is None else [replaced.model_copy(update=context.origin.common(made_by=at.stage))]
        return _chosen(context, at, row, *others)

    return run_once(context, choice_stage(len(choices(context))), work)


def _chosen(context: RoundContext, at: StageRun, row: PolicyVersion, *others: PolicyVersion) -> StageOutcome:
    columns = PolicyRow.model_validate(row, from_attributes=True)
    chosen = PolicyInForce(policy_row=columns, updates=row.updates, success=row.success)
    return StageOutcome(1, 1, write_tables(context.warehouse, at, {"models": [*others, row]}), chosen.as_json())


def _as_decided(context: RoundContext, at: StageRun, row: PolicyVersion, reason: str) -> PolicyVersion:
    decided = {"promoted": True, "reason": reason, **context.origin.common(made_by=at.stage)}
    return row.model_copy(update=decided)


def _known(context: RoundContext, version: str) -> PolicyVersion:
    versions = policy_versions(context)
    if version not in versions:
        raise BadInputError(f"run {context.run_id} has no policy {version!r}; {instead_of(version, list(versions))}")
    return versions[version]
