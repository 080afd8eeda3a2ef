"""Reads the examples of a derived kind that a release takes, as rows of a family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.exporting.exporting import Exporting
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.registry import rows_from_arrow
from trajmill.stages.export.formats.base import TrainerFormat
from trajmill.stages.export.formats.derived import kind_example
from trajmill.stages.export.formats.steps import LeftOutStep, StepExample
from trajmill.stages.export.selection import has_rows_of, released_rows
from trajmill.stages.export.sft import SftExporter
from trajmill.warehouse.read import read_batches

_ROWS_AT_ONCE = 2000


def kind_examples(exporting: Exporting, kind: str, form: TrainerFormat) -> Iterator[StepExample | LeftOutStep]:
    """The examples of a kind in a family's words, in the order of their table.

    A format for RL compares replies with a target action, so it takes no reply that is plain text.

    Raises:
        BadInputError: the release has no such kind.
    """
    return _examples(exporting, _released(exporting, kind), form)


class _Released(NamedTuple):
    """The rows of a kind in a release."""

    weights: Mapping[str, float]
    """By example id."""
    rounds_of: Mapping[str, int]
    """The rounds of their trajectories."""


def _released(exporting: Exporting, kind: str) -> _Released:
    release = exporting.release
    folder = exporting.warehouse.release(release.name)
    file = SftExporter(derived_kind=kind).file
    kinds = sorted(path.parent.name for path in folder.glob("*/selection.parquet"))
    if kind not in kinds or not has_rows_of(folder / kind, file):
        known = ", ".join(kinds) or "none"
        raise BadInputError(
            f"release {release.name} has no kind {kind!r}; it has: {known}; "
            "`trajmill derive KIND`, then `trajmill releases make`, adds one"
        )
    rows = released_rows(folder / kind, file, ["example_id", "loss_weight", "trajectory_id"])
    weights = dict(zip(*(rows[name].to_pylist() for name in ("example_id", "loss_weight")), strict=True))
    return _Released(weights, exporting.rounds_of(rows["trajectory_id"].unique().to_pylist()))


def _examples(exporting: Exporting, released: _Released, form: TrainerFormat) -> Iterator[StepExample | LeftOutStep]:
    release, weights = exporting.release, released.weights
    wanted = pa.array(sorted(weights), pa.string())
    seen: set[str] = set()
    rounds = range(release.round + 1)
    for batch in read_batches(exporting.warehouse, "examples", rounds=rounds, run_id=release.run_id):
        chosen = pa.Table.from_batches([batch.filter(pc.is_in(batch["example_id"], wanted))])
        for start in range(0, chosen.num_rows, _ROWS_AT_ONCE):
            rows = rows_from_arrow("examples", chosen.slice(start, _ROWS_AT_ONCE))
            examples = [row for row in rows if isinstance(row, Example) and row.example_id not in seen]
            seen.update(row.example_id for row in examples)
            episodes = exporting.episodes({row.trajectory_id for row in examples}, released.rounds_of)
            for row in examples:
                episode, weight = episodes[row.trajectory_id], weights[row.example_id]
                made = kind_example(exporting.family, episode, row, weight, exporting.screens)
                if isinstance(made, StepExample) and made.target is None and form.rl_columns:
                    made = LeftOutStep("reply_is_no_action")
                yield made
