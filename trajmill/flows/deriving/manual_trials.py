"""Lets the policy of a round try the manuals of its tasks, and keeps those that help."""

from __future__ import annotations

from collections import Counter
from typing import Any

from trajmill.flows.deriving.sources import task_of
from trajmill.flows.policies.policy import acting, policy_before
from trajmill.flows.stage import RoundContext, StageOutcome, run_once, tuples
from trajmill.flows.tasks.rollout import attempt_all
from trajmill.pipelines.fan_out import WrittenFiles
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.query import Query, Split
from trajmill.schemas.tables.registry import arrow_schema, rows_from_arrow
from trajmill.stages.derive.planning.trials import guidance_by, kept_manuals, tried_manual
from trajmill.stages.rollout.base import plan_trials
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_shards
from trajmill.warehouse.shards import write_tables


def with_tried_manuals(context: RoundContext, at: StageRun, made: WrittenFiles, most: int) -> WrittenFiles:
    """Leave out the manuals of a batch that do not raise success.

    The attempts are a stage of their own, with its own commit; they are stored with the purpose `trial`, which no
    training and no figure of a policy counts.

    Args:
        context: the round of the manuals.
        at: the batch.
        made: the shards of the batch, not yet committed.
        most: queries at which a manual is tried.
    """
    examples, schema = made.files.get("examples", ()), arrow_schema("examples").names
    tables = read_shards(context.warehouse, "examples", examples, schema)
    found = (row for table in tables for row in rows_from_arrow("examples", table))
    manuals = [row for row in found if isinstance(row, Example)]
    if not manuals:
        return made
    by_task: dict[str, list[Query]] = {}
    for query in sorted(context.all_queries.values(), key=lambda query: query.query_id):
        if query.split is Split.TRAIN:
            by_task.setdefault(task_of(query), []).append(query)
    guided = {
        manual.example_id: guidance_by(
            manual, by_task[task_of(context.all_queries[manual.query_id])], most, context.origin
        )
        for manual in manuals
    }
    pairs = [pair for of_manual in guided.values() for pair in of_manual]

    def work(trial: StageRun) -> StageOutcome:
        attempts = plan_trials(pairs, context.config.run.seed, context.round)
        temperature, untrained = context.config.rollout.temperature, context.round == 1
        agent = acting(context, policy_before(context), temperature, untrained=untrained)
        outcome = attempt_all(context, trial, attempts, agent)
        guidance = write_tables(context.warehouse, trial, {"guidance": [row for _, row in pairs]}, "guidance")
        # The reward of each finished attempt: without guidance by query, with guidance by its id.
        rewards: dict[str, dict[str, Any]] = {"without": {}, "guided": {}}
        columns = ["query_id", "guidance_id", "status", "reward"]
        for table in read_shards(context.warehouse, "trajectories", outcome.files["trajectories"], columns):
            for query_id, guidance_id, status, reward in tuples(table.select(columns)):
                if status == "finished" and guidance_id is None:
                    rewards["without"][query_id] = reward
                elif status == "finished":
                    rewards["guided"][guidance_id] = reward
        return StageOutcome(outcome.rows_in, outcome.rows_out, {**outcome.files, **guidance}, rewards)

    rewards = run_once(context, f"try-{at.stage}-{at.attempt}", work).result
    tried = {
        example_id: tried_manual(
            [(query.query_id, row.guidance_id) for query, row in of_manual], rewards["without"], rewards["guided"]
        )
        for example_id, of_manual in guided.items()
    }
    kept, refused = kept_manuals(manuals, tried, context.origin)
    written = write_tables(context.warehouse, at, {"examples": kept, "refusals": refused}, "tried")
    refusals = [*made.files.get("refusals", ()), *written.get("refusals", [])]
    files = {**made.files, "examples": written.get("examples", []), "refusals": refusals}
    return WrittenFiles(files, Counter(made.dropped) + Counter(row.reason for row in refused))
