"""The tables of the warehouse, each with its record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pyarrow as pa

from trajmill.schemas.record import Row, table_schema
from trajmill.schemas.tables.example import Example, RLStep
from trajmill.schemas.tables.failure import Failure, Refusal
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.pathway import Pathway
from trajmill.schemas.tables.policy_version import PolicyVersion, RoundSummary
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.screen import Screen
from trajmill.schemas.tables.trajectory import Step, Trajectory
from trajmill.schemas.tables.verdict import Calibration, Judgement, StepVerdict, TrajectoryVerdict

R = TypeVar("R", bound=Row)

TABLES: dict[str, type[Row]] = {
    "queries": Query,
    "trajectories": Trajectory,
    "steps": Step,
    "screens": Screen,
    "model_calls": ModelCall,
    "step_verdicts": StepVerdict,
    "trajectory_verdicts": TrajectoryVerdict,
    "judgements": Judgement,
    "guidance": Guidance,
    "examples": Example,
    "rl_steps": RLStep,
    "models": PolicyVersion,
    "rounds": RoundSummary,
    "failures": Failure,
    "calibrations": Calibration,
    "pathways": Pathway,
    "refusals": Refusal,
}


def arrow_schema(table: str) -> pa.Schema:
    """The Arrow schema of a table. Raises KeyError for an unknown table."""
    return table_schema(TABLES[table])


def rows_to_arrow(table: str, rows: Sequence[Row]) -> pa.Table:
    """Records as an Arrow table in the table's schema."""
    return pa.Table.from_pylist([row.model_dump() for row in rows], schema=arrow_schema(table))


def rows_from_arrow(record: type[R], data: pa.Table) -> list[R]:
    """Read records from an Arrow table in their table's schema; further columns are ignored.

    Raises pydantic.ValidationError if a row is not a valid record.
    """
    columns = [name for name in table_schema(record).names if name in data.column_names]
    return [record.model_validate(row) for row in data.select(columns).to_pylist()]
