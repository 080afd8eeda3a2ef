"""The training rows that came of a trajectory, and the releases that they stand in."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds

from trajmill.schemas.record import Record
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.registry import rows_from_arrow
from trajmill.schemas.tables.rl_step import RLStep
from trajmill.stages.export.selection import SELECTION_FILE
from trajmill.stages.export.sft import SFT_FILE
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import Release, read_release, release_folder, release_names


class TrainingRow(Record):
    """One training example."""

    example: Example
    releases: list[str]
    """Names of the releases that offer it."""


class TrainingRows(Record):
    """What is learned from one trajectory."""

    examples: list[TrainingRow]
    rl_steps: list[RLStep]
    """Rows for policy updates."""


def training_rows(warehouse: Warehouse, run_id: str, trajectory_id: str) -> TrainingRows:
    """Read the examples and the rows for policy updates of a trajectory.

    Raises:
        BadInputError: a committed file, or the manifest of a release, is missing or damaged.
    """
    where = {"trajectory_id": [trajectory_id]}
    data = read_table(warehouse, "examples", run_id=run_id, where=where)
    examples = [row for row in rows_from_arrow("examples", data) if isinstance(row, Example)]
    rl_steps = rows_from_arrow("rl_steps", read_table(warehouse, "rl_steps", run_id=run_id, where=where))
    ids = [example.example_id for example in examples]
    offered = {name: _offered(warehouse, name, run_id, ids) for name in (release_names(warehouse) if ids else ())}
    return TrainingRows(
        examples=[
            TrainingRow(
                example=example, releases=[name for name, found in offered.items() if example.example_id in found]
            )
            for example in sorted(examples, key=lambda row: (row.step_index, row.kind))
        ],
        rl_steps=sorted(
            (row for row in rl_steps if isinstance(row, RLStep)), key=lambda row: (row.round, row.step_index)
        ),
    )


def _offered(warehouse: Warehouse, name: str, run_id: str, ids: list[str]) -> set[str]:
    """Those of some examples that a release offers."""
    release = read_release(warehouse, name)
    if release.run_id != run_id:
        return set()
    dataset = ds.dataset([str(path) for path in _id_files(warehouse, release)], format="parquet")
    wanted = ds.field("example_id").isin(ids)
    return set(dataset.to_table(columns=["example_id"], filter=wanted)["example_id"].to_pylist())


def _id_files(warehouse: Warehouse, release: Release) -> list[Path]:
    """The file that names the examples of a release; one of an earlier trajmill names them beside their rows."""
    folder = release_folder(warehouse, release.name)
    places = [folder / SELECTION_FILE, folder / SFT_FILE]
    return [place for place in places if place.is_file()][:1]
