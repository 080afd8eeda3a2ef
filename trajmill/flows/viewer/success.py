"""Success by app and by task over the rounds."""

from __future__ import annotations

from typing import Literal

from trajmill.flows.viewer.catalogue import Catalogue
from trajmill.flows.viewer.filters import AttemptFilter
from trajmill.schemas.record import Record

Group = Literal["app", "task", "split"]
_NAMES: dict[Group, str] = {"app": "unnest(apps)", "task": "task", "split": "split"}


class SuccessCell(Record):
    """Success of some checked attempts of one round."""

    name: str
    """An app, a task or a split."""
    round: int
    passed: int
    attempts: int
    """Those that the environment itself has checked; void ones are left out."""


def success_over_rounds(catalogue: Catalogue, wanted: AttemptFilter, group: Group) -> list[SuccessCell]:
    """Success of the attempts that match, in order of names and rounds; an attempt counts for each of its apps."""
    condition = wanted.condition()
    rows = catalogue.ask(
        f"SELECT name, round, count(*) FILTER (outcome = 'passed') AS passed, count(*) AS attempts "
        f"FROM (SELECT {_NAMES[group]} AS name, round, outcome FROM attempts "
        f"WHERE {condition.sql} AND outcome IN ('passed', 'not passed')) "
        "WHERE name IS NOT NULL GROUP BY name, round ORDER BY name, round",
        condition.parameters,
    )
    return [SuccessCell.model_validate(row) for row in rows]
