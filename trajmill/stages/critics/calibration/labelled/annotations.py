"""Reads the labels: `annotations.csv` of AgentRewardBench, a row for each trajectory and annotator."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from trajmill.schemas.errors import BadInputError

_PLACES = ("annotations.csv", "data/annotations.csv")
_COLUMNS = ("benchmark", "model_name", "task_id", "trajectory_success")
_MEANINGS = {"Successful": True, "Unsuccessful": False, "Unsure": None}


class Label(NamedTuple):
    """The label of a trajectory's first annotator, which counts in the benchmark's own scores."""

    benchmark: str
    agent: str
    task_id: str
    passed: bool | None
    """None if the annotator was unsure."""

    @property
    def name(self) -> str:
        """Name of the trajectory, in one line."""
        return f"{self.benchmark}/{self.agent}/{self.task_id}"


def read_labels(folder: Path) -> list[Label]:
    """Read the labels of a set in the order of its file; second opinions are left out.

    Raises:
        BadInputError: there are none, or a row is wrong; the message names the row.
    """
    path = next((folder / place for place in _PLACES if (folder / place).is_file()), None)
    if path is None:
        raise BadInputError(
            f"{folder}: no labelled set: {' and '.join(_PLACES)} are missing; name the folder that AgentRewardBench's "
            "dataset was downloaded to"
        )
    try:
        with path.open(encoding="utf-8", newline="") as file:
            labels = _first_opinions(path, csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInputError(f"{path}: the labels cannot be read: {error}") from None
    if not labels:
        raise BadInputError(f"{path}:1: there is no label in it")
    return labels


def _first_opinions(path: Path, rows: csv.DictReader[str]) -> list[Label]:
    missing = [column for column in _COLUMNS if column not in (rows.fieldnames or ())]
    if missing:
        raise BadInputError(f"{path}:1: column {missing[0]} is missing; there are {', '.join(rows.fieldnames or ())}")
    labels: dict[tuple[str, str, str], Label] = {}
    for row in rows:
        label = _label(path, rows.line_num, row)
        labels.setdefault(label[:3], label)
    return list(labels.values())


def _label(path: Path, line: int, row: dict[str, str | None]) -> Label:
    values = [row[column] or "" for column in _COLUMNS]
    if not all(values):
        empty = _COLUMNS[values.index("")]
        raise BadInputError(f"{path}:{line}: {empty} is empty")
    benchmark, agent, task_id, success = values
    if success not in _MEANINGS:
        raise BadInputError(f"{path}:{line}: trajectory_success is {success[:40]!r}; it should be {_one_of(_MEANINGS)}")
    return Label(benchmark, agent, task_id, _MEANINGS[success])


def _one_of(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}"
