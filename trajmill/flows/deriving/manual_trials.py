"""Lets the policy of a round try the manuals of its tasks, and keeps those that help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from trajmill.flows.context import RoundContext
from trajmill.flows.deriving.sources import task_of
from trajmill.flows.policies.policy import acting, policy_before
from trajmill.flows.stage import StageOutcome, run_once
from trajmill.flows.tasks.rollout import attempts_of
from trajmill.pipelines.fan_out import WrittenFiles
from trajmill.pipelines.rollout import run_in_shards
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.query import Query, Split
from trajmill.schemas.tables.registry import arrow_schema, rows_from_arrow
from trajmill.stages.derive.planning.trials import TriedManual, guidance_by, kept_manuals, tried_manual
from trajmill.stages.rollout.base import plan_trials
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_shards
from trajmill.warehouse.shards import DataFile, write_tables

_SHARD = "tried"


def with_tried_manuals(context: RoundContext, at: StageRun, made: WrittenFiles, most: int) -> WrittenFiles:
    """The rows of a batch of manuals, without those that do not raise success.

    The attempts are a stage of their own, with its own commit; they are stored with the purpose `trial`, which no
    training and no figure of a policy counts.

    Args:
        context: the round of the manuals.
        at: the batch.
        made: the shards of the batch, not yet committed.
        most: queries at which a manual is tried.
    """
    manuals = _manuals(context, made.files.get("examples", ()))
    if not manuals:
        return made
    tried = _tried(context, f"try-{at.stage}-{at.attempt}", manuals, most)
    kept, refused = kept_manuals(manuals, tried, context.origin)
    written = write_tables(context.warehouse, at, {"examples": kept, "refusals": refused}, _SHARD)
    files = {
        **made.files,
        "examples": written.get("examples", []),
        "refusals": [*made.files.get("refusals", ()), *written.get("refusals", [])],
    }
    return WrittenFiles(files, Counter(made.dropped) + Counter(row.reason for row in refused))


def _manuals(context: RoundContext, files: Sequence[DataFile]) -> list[Example]:
    tables = read_shards(context.warehouse, "examples", files, arrow_schema("examples").names)
    rows = (row for table in tables for row in rows_from_arrow("examples", table))
    return [row for row in rows if isinstance(row, Example)]


def _tried(context: RoundContext, stage: str, manuals: Sequence[Example], most: int) -> Mapping[str, TriedManual]:
    queries = _training_queries_by_task(context)
    tasks = {manual.example_id: task_of(context.all_queries[manual.query_id]) for manual in manuals}
    guided = {
        manual.example_id: guidance_by(manual, queries[tasks[manual.example_id]], most, context.origin)
        for manual in manuals
    }

    def work(at: StageRun) -> StageOutcome:
        attempts = plan_trials(
            [pair for pairs in guided.values() for pair in pairs], context.config.run.seed, context.round
        )
        agent = acting(
            context, policy_before(context), context.config.rollout.temperature, untrained=context.round == 1
        )
        job = attempts_of(context, at, agent)
        made = run_in_shards(job, attempts, context.config.rollout.workers, context.beam)
        guidance: list[Guidance] = [row for pairs in guided.values() for _, row in pairs]
        files = {**made.files, **write_tables(context.warehouse, at, {"guidance": guidance}, "guidance")}
        outcome = StageOutcome(len(attempts), len(attempts) - sum(made.dropped.values()), files)
        return StageOutcome(outcome.rows_in, outcome.rows_out, files, _rewards(context, files["trajectories"]))

    found = run_once(context, stage, work).result
    return {
        example_id: tried_manual(
            [(query.query_id, row.guidance_id) for query, row in pairs], found["without"], found["guided"]
        )
        for example_id, pairs in guided.items()
    }


def _rewards(context: RoundContext, files: Sequence[DataFile]) -> dict[str, Any]:
    """The reward of each finished attempt: without guidance by query, with guidance by its id."""
    without, guided = {}, {}
    columns = ["query_id", "guidance_id", "status", "reward"]
    for table in read_shards(context.warehouse, "trajectories", files, columns):
        for query_id, guidance_id, status, reward in zip(*(table[name].to_pylist() for name in columns), strict=True):
            if status == "finished" and guidance_id is None:
                without[query_id] = reward
            elif status == "finished":
                guided[guidance_id] = reward
    return {"without": without, "guided": guided}


def _training_queries_by_task(context: RoundContext) -> Mapping[str, list[Query]]:
    found: dict[str, list[Query]] = {}
    for query in sorted(context.all_queries.values(), key=lambda query: query.query_id):
        if query.split is Split.TRAIN:
            found.setdefault(task_of(query), []).append(query)
    return found
