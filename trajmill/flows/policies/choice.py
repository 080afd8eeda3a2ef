"""Puts a policy version of the run in force: by a command, or because the configuration names another model."""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.flows.policies.policy import (
    BASELINE,
    PolicyInForce,
    PolicyRow,
    choice_stage,
    choices,
    configured_policy,
    is_embedded,
    policy_before,
    policy_versions,
)
from trajmill.flows.stage import RoundContext, StageOutcome, StageReport, has_begun, report_of, run_once
from trajmill.flows.tasks.evaluate import measure, version_without_parent
from trajmill.flows.tasks.generate import untrained_policy
from trajmill.flows.tasks.guide import GUIDED
from trajmill.flows.tasks.rollout import ROLLOUT
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import instead_of
from trajmill.schemas.tables.policy_version import PolicyVersion
from trajmill.stages.training.admission import NOT_ADMITTED
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.shards import write_tables


def promote_by_hand(context: RoundContext, version: str) -> StageReport:
    """Put a version in force, whatever its measured success.

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
    return _choose(context, _known(context, in_force.parent), reason, [refused])


def adopt_configured(context: RoundContext) -> None:
    """Start a new round with the configured model, if the run has no version of it yet.

    The model is measured first, like the model that the run started with. A known model is left to promotions and
    commands. A round that has begun keeps its policy.
    """
    if not names_another_policy(context) or has_begun(context, ROLLOUT):
        return
    configured = None if is_embedded(context.config) else configured_policy(context.config)

    def work(at: StageRun) -> StageOutcome:
        policy = configured or untrained_policy(context, at)
        known = policy_versions(context).get(policy.version)
        if known is not None:
            return _chosen(context, at, known, "the configuration names it again")
        measured = measure(context, at, policy, untrained=configured is None)
        reason = "the configuration names it"
        row = version_without_parent(context, policy, measured, reason, at.stage)
        chosen = _chosen(context, at, row, reason)
        return StageOutcome(1, 1, {**measured.outcome.files, **chosen.files}, chosen.result)

    run_once(context, choice_stage(len(choices(context))), work)


def names_another_policy(context: RoundContext) -> bool:
    """Whether the configuration names a model that the run has no version of, or one of another kind.

    False before the run has measured the policy that it starts with.
    """
    if report_of(context.in_round(0), BASELINE) is None:
        return False
    in_force, config = policy_before(context), context.config
    if is_embedded(config):
        return in_force.kind != EMBEDDED
    configured = configured_policy(config)
    return configured.version not in policy_versions(context) or configured.kind != in_force.kind


def _choose(
    context: RoundContext, version: PolicyVersion, reason: str, replaced: Sequence[PolicyVersion] = ()
) -> StageReport:
    if version.model_version == policy_before(context).version:
        raise BadInputError(f"{version.model_version} is in force already")
    for rolled_out, stage in ((context, ROLLOUT), (context, GUIDED), (context.in_round(context.round + 1), ROLLOUT)):
        if has_begun(rolled_out, stage) and report_of(rolled_out, stage) is None:
            raise BadInputError(
                f"round {rolled_out.round} of run {context.run_id} is rolling out its policy; let `trajmill evolve` "
                "finish that first"
            )
    stage = choice_stage(len(choices(context)))
    return run_once(context, stage, lambda at: _chosen(context, at, version, reason, replaced))


def _chosen(
    context: RoundContext, at: StageRun, row: PolicyVersion, reason: str, replaced: Sequence[PolicyVersion] = ()
) -> StageOutcome:
    """Put a version in force; the rows of replaced versions already have their decision."""
    columns = PolicyRow.model_validate(row, from_attributes=True)
    chosen = PolicyInForce(policy_row=columns, updates=row.updates, success=row.success)
    common = context.origin.common(made_by=at.stage)
    decided = row.model_copy(update={"promoted": True, "reason": reason, **common})
    rows = [*(each.model_copy(update=common) for each in replaced), decided]
    return StageOutcome(1, 1, write_tables(context.warehouse, at, {"models": rows}), chosen.as_json())


def _known(context: RoundContext, version: str) -> PolicyVersion:
    versions = policy_versions(context)
    if version not in versions:
        raise BadInputError(f"run {context.run_id} has no policy {version!r}; {instead_of(version, list(versions))}")
    return versions[version]
