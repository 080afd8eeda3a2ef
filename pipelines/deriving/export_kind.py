"""Reads the examples of a derived kind that a release takes, as rows of a family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.reading.episodes import read_episodes
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.registry import rows_from_arrow
from trajmill.stages.export.formats.base import TrainerFormat
from trajmill.stages.export.formats.rows.kind_example import kind_example
from trajmill.stages.export.formats.rows.spoken_step import LeftOutStep
from trajmill.stages.export.formats.rows.step_example import StepExample
from trajmill.stages.export.selection import has_rows_of, released_rows
from trajmill.stages.export.trl.kinds import kind_file
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_batches
from trajmill.warehouse.releases import Release
from trajmill.warehouse.screens import WarehouseScreens

_ROWS_AT_ONCE = 2000


def kind_examples(
    warehouse: Warehouse,
    release: Release,
    kind: str,
    family: Family,
    form: TrainerFormat,
    screens: WarehouseScreens,
) -> Iterator[StepExample | LeftOutStep]:
    """The examples of a kind in a family's words, in the order of their table.

    A format for RL compares replies with a target action, so it takes no reply that is plain text.

    Raises:
        BadInputError: the release has no such kind.
    """
    weights = _weights(warehouse, release, kind)
    return _examples(warehouse, release, weights, family, form, screens)


def _weights(warehouse: Warehouse, release: Release, kind: str) -> Mapping[str, float]:
    folder = warehouse.release(release.name)
    kinds = sorted(path.parent.name for path in folder.glob("*/selection.parquet"))
    if kind not in kinds or not has_rows_of(folder / kind, kind_file(kind)):
        known = ", ".join(kinds) or "none"
        raise BadInputError(
            f"release {release.name} has no kind {kind!r}; it has: {known}; "
            "`trajmill derive KIND`, then `trajmill releases make`, adds one"
        )
    rows = released_rows(folder / kind, kind_file(kind), ["example_id", "loss_weight"])
    return dict(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _examples(
    warehouse: Warehouse,
    release: Release,
    weights: Mapping[str, float],
    family: Family,
    form: TrainerFormat,
    screens: WarehouseScreens,
) -> Iterator[StepExample | LeftOutStep]:
    rounds = range(release.round + 1)
    wanted = pa.array(sorted(weights), pa.string())
    seen: set[str] = set()
    for batch in read_batches(warehouse, "examples", rounds=rounds, run_id=release.run_id):
        chosen = pa.Table.from_batches([batch.filter(pc.is_in(batch["example_id"], wanted))])
        for start in range(0, chosen.num_rows, _ROWS_AT_ONCE):
            rows = rows_from_arrow("examples", chosen.slice(start, _ROWS_AT_ONCE))
            examples = [row for row in rows if isinstance(row, Example) and row.example_id not in seen]
            seen.update(row.example_id for row in examples)
            ids = {row.trajectory_id for row in examples}
            read = read_episodes(warehouse, release.run_id, ids, rounds, with_verdicts=True, with_guidance=True)
            episodes = {episode.trajectory.trajectory_id: episode for episode in read}
            for row in examples:
                made = kind_example(family, episodes[row.trajectory_id], row, weights[row.example_id], screens)
                if isinstance(made, StepExample) and made.target is None and form.rl_steps is not None:
                    made = LeftOutStep("reply_is_no_action")
                yield made
