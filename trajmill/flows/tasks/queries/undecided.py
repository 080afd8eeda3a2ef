"""Proposed tasks that are in no table yet: the results of stages hold them until an attempt at them is judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from trajmill.flows.context import RoundContext
from trajmill.flows.stage import StageOutcome, StageReport, report_of
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.registry import rows_from_arrow
from trajmill.stages.queries.proposals.propose import TRIAL_STAGE
from trajmill.warehouse.columns import file_schema
from trajmill.warehouse.read import read_shards

_KEY = "undecided"


def held_back(context: RoundContext, outcome: StageOutcome) -> StageOutcome:
    """The outcome of a stage that proposes, with its queries in the result instead of their table."""
    files = {table: shards for table, shards in outcome.files.items() if table != "queries"}
    proposals = proposals_in(context, outcome)
    return replace(outcome, files=files, result=as_result(proposals))


def proposals_in(context: RoundContext, outcome: StageOutcome) -> list[Query]:
    """The queries that a stage has written and not committed yet."""
    columns = file_schema("queries").names
    shards = read_shards(context.warehouse, "queries", outcome.files.get("queries", ()), columns)
    return [row for shard in shards for row in rows_from_arrow("queries", shard) if isinstance(row, Query)]


def as_result(undecided: Sequence[Query]) -> dict[str, Any]:
    """The result of a stage that leaves tasks undecided."""
    return {_KEY: [query.model_dump(mode="json") for query in undecided]}


def undecided_in(report: StageReport | None) -> tuple[Query, ...]:
    """The tasks that a stage left undecided."""
    return () if report is None else tuple(map(Query.model_validate, report.result.get(_KEY, ())))


def still_undecided(context: RoundContext) -> tuple[Query, ...]:
    """The tasks that the round before has tried without a decision."""
    return undecided_in(report_of(context.in_round(context.round - 1), TRIAL_STAGE)) if context.round > 1 else ()
