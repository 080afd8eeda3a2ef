"""Takes the derived kinds into a release: each in files of its own, with a selection of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.release_shards import SharedRelease, SharedRows, share_rows
from trajmill.schemas.record import Origin
from trajmill.stages.curate.dedup import without_duplicates
from trajmill.stages.export.card import AuthoredRows
from trajmill.stages.export.selection import write_selection
from trajmill.stages.export.trl.exporter import TrlExporter
from trajmill.stages.export.trl.kinds import kind_exporter
from trajmill.stages.export.write import RowsWritten
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.read import read_batches, read_table

_FOLDERS_UP = 3
"""From the folder of a kind's selection to that of the warehouse."""


class KindRows(NamedTuple):
    """The rows of one kind that a release may take."""

    kind: str
    rows: pa.Table
    """In the schema of table `examples`, without duplicates."""
    left_out: Mapping[str, int] = {}
    """By reason, rows that come near to held-out texts, or that one side of a Reflector has too many of."""


class ReleasedKind(NamedTuple):
    """A kind as it lies in a release."""

    of: KindRows
    exporter: TrlExporter
    shared: SharedRows


def derived_rows(warehouse: Warehouse, origin: Origin, versions: Collection[str]) -> list[KindRows]:
    """The rows of the derived kinds up to a round, by kind.

    Args:
        warehouse: where to read.
        origin: the run and the round of the release.
        versions: `made_by` of the rows to take; those that other settings have made stay in the table.
    """
    if not versions:
        return []
    rounds = range(origin.round + 1)
    wanted = pa.array(sorted(versions), pa.string())
    batches = [
        batch.filter(pc.is_in(batch["made_by"], wanted))
        for batch in read_batches(warehouse, "examples", rounds=rounds, run_id=origin.run_id)
    ]
    rows = pa.Table.from_batches(batches) if batches else None
    if rows is None or not rows.num_rows:
        return []
    return [_of_kind(rows, kind) for kind in sorted(rows["kind"].unique().to_pylist())]


def _of_kind(rows: pa.Table, kind: str) -> KindRows:
    own = rows.filter(pc.equal(rows["kind"], kind))
    by = [("query_id", "ascending"), ("trajectory_id", "ascending"), ("step_index", "ascending")]
    distinct = without_duplicates(own.sort_by([*by, ("example_id", "ascending")]))
    return KindRows(kind, distinct)


def authors_of(
    warehouse: Warehouse, origin: Origin, examples: pa.Table, kinds: Iterable[KindRows]
) -> list[AuthoredRows]:
    """Who wrote what is learned, for each sort of row; the text of an example of a round is its agent's."""
    columns = ["trajectory_id", "model_version"]
    rounds = range(origin.round + 1)
    attempts = read_table(warehouse, "trajectories", columns, rounds=rounds, run_id=origin.run_id)
    policies = dict(zip(*(column.to_pylist() for column in attempts.columns), strict=True))
    counts: Counter[tuple[str, str, str]] = Counter(
        ("sft", "", policies.get(trajectory_id, "")) for trajectory_id in examples["trajectory_id"].to_pylist()
    )
    for each in kinds:
        values = zip(each.rows["variant"].to_pylist(), each.rows["written_by"].to_pylist(), strict=True)
        counts.update((each.kind, variant, author) for variant, author in values)
    return [AuthoredRows(*key, rows) for key, rows in sorted(counts.items())]


def write_kinds(
    warehouse: Warehouse, folder: Path, origin: Origin, kinds: Iterable[KindRows], written: RowsWritten
) -> Iterator[ReleasedKind]:
    """Write the rows of each kind that no earlier release has, and which of all rows the release takes."""
    for each in kinds:
        exporter = kind_exporter(each.kind)
        wanted = SharedRelease(origin.run_id, origin.round, each.rows, each.rows, _FOLDERS_UP)
        shared = share_rows(warehouse, wanted, [exporter], written)
        write_selection(folder / each.kind, shared.selected)
        yield ReleasedKind(each, exporter, shared)
