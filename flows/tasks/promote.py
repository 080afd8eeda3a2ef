"""Decide whether the new policy replaces the old one, and write the round's figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trajmill.flows.context import RoundContext
from trajmill.flows.policy import BASELINE, PROMOTE, policy_before
from trajmill.flows.stage import StageOutcome, StageReport, finished, once, report_of
from trajmill.flows.tasks.calibrate import CALIBRATE, judge_quality
from trajmill.flows.tasks.derive import DERIVE, DERIVE_RL
from trajmill.flows.tasks.evaluate import EVALUATE, splits_of
from trajmill.flows.tasks.export import EXPORT
from trajmill.flows.tasks.generate import GENERATE
from trajmill.flows.tasks.guide import GUIDE, GUIDED, REFERENCE, reference_paths_used
from trajmill.flows.tasks.judge import JUDGE, REJUDGE
from trajmill.flows.tasks.propose import PROPOSE
from trajmill.flows.tasks.rollout import ROLLOUT
from trajmill.flows.tasks.train import TRAIN
from trajmill.schemas.record import Row
from trajmill.schemas.tables.policy_version import PolicyVersion, SplitSuccess
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.round_summary import RoundSummary, StageCount
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.shards import write_tables

STAGES = (
    GENERATE,
    PROPOSE,
    ROLLOUT,
    JUDGE,
    REFERENCE,
    GUIDE,
    GUIDED,
    REJUDGE,
    CALIBRATE,
    DERIVE,
    DERIVE_RL,
    EXPORT,
    TRAIN,
    EVALUATE,
)
"""The stages of a round, in their order, without the last one."""


_DECIDING = (Split.HELDOUT_SLOTS, Split.HELDOUT_PHRASINGS)


class PromotionDecision(NamedTuple):
    """Whether a policy is promoted, and why."""

    promoted: bool
    reason: str


def promote(context: RoundContext) -> StageReport:
    """Promote by rule: success on held-out queries is not below the old policy's by more than the tolerance."""

    def work(at: StageRun) -> StageOutcome:
        before = policy_before(context).version
        old = _measured_before(context)
        trained = finished(context, TRAIN).result
        new = splits_of(finished(context, EVALUATE))
        if trained["trained"]:
            decision = compare(old, new, context.config.evaluate.tolerance)
        else:
            decision = PromotionDecision(False, str(trained["reason"]))
        after = trained["version"] if decision.promoted else before
        kept = new if decision.promoted else old
        updates = _updates_before(context) + trained.get("updates", 0)
        summary = RoundSummary(
            policy_before=before,
            policy_after=after,
            stages=_counts(context),
            success_before=old,
            success_after=kept,
            judge=judge_quality(context),
            trained=trained["trained"],
            reference_paths_used=reference_paths_used(context),
            release=finished(context, EXPORT).result["release"],
            **context.origin.common(made_by=PROMOTE),
        )
        rows: dict[str, Sequence[Row]] = {"rounds": [summary]}
        if trained["trained"]:
            version = PolicyVersion(
                model_version=trained["version"],
                parent=before,
                release=summary.release,
                recipe=context.config.train.model_dump_json(),
                updates=updates,
                success=new,
                promoted=decision.promoted,
                reason=decision.reason,
                **context.origin.common(made_by=PROMOTE),
            )
            rows["models"] = [version]
        result = {
            "policy": after,
            "promoted": decision.promoted,
            "reason": decision.reason,
            "updates": updates if decision.promoted else _updates_before(context),
            "success": [split.model_dump() for split in kept],
        }
        return StageOutcome(1, int(decision.promoted), write_tables(context.warehouse, at, rows), result)

    return once(context, PROMOTE, work)


def compare(old: tuple[SplitSuccess, ...], new: tuple[SplitSuccess, ...], tolerance: float) -> PromotionDecision:
    """Hold the success of two policies on new slot combinations and new phrasings together against each other.

    Held-out apps are measured and reported, but do not decide: no policy is promoted for being lucky in apps it has
    never seen, or refused for being unlucky.
    """
    before, after = _heldout_rate(old), _heldout_rate(new)
    promoted = after >= before - tolerance
    return PromotionDecision(
        promoted, f"held-out success {after:.1%} {'replaces' if promoted else 'does not replace'} {before:.1%}"
    )


def _heldout_rate(success: tuple[SplitSuccess, ...]) -> float:
    held_out = [split for split in success if split.split in _DECIDING]
    queries = sum(split.queries for split in held_out)
    return sum(split.successes for split in held_out) / queries if queries else 0.0


def _before(context: RoundContext) -> StageReport:
    last = context.in_round(context.round - 1)
    return finished(last, PROMOTE if last.round else BASELINE)


def _measured_before(context: RoundContext) -> tuple[SplitSuccess, ...]:
    return splits_of(_before(context))


def _updates_before(context: RoundContext) -> int:
    return int(_before(context).result["updates"])


def _counts(context: RoundContext) -> tuple[StageCount, ...]:
    reports = [report_of(context, stage) for stage in STAGES]
    return tuple(report.count for report in reports if report is not None)
