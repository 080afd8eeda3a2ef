"""Takes the derived kinds into a release: each in files of its own, with a selection of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.reading.examples import (
    ExampleSet,
    StoredExamples,
    derived,
    leaks_of,
    read_candidates,
    shown_screens,
)
from trajmill.pipelines.release_shards import SharedRelease, SharedRows, share_rows
from trajmill.schemas.record import Origin
from trajmill.stages.curate.leaks import LeakCheck, without_leaks
from trajmill.stages.curate.training_set import with_equal_reflections, without_duplicates
from trajmill.stages.export.card import AuthoredRows
from trajmill.stages.export.selection import write_selection
from trajmill.stages.export.sft import SftExporter
from trajmill.stages.export.write import RowsWritten
from trajmill.warehouse.delta_log import Between
from trajmill.warehouse.layout import Warehouse

_FOLDERS_UP = 3
"""From the folder of a kind's selection to that of the warehouse."""


class KindRows(NamedTuple):
    """The rows of one kind that a release may take."""

    kind: str
    rows: pa.Table
    """In the schema `CANDIDATES`, without duplicates."""
    bounds: Between
    """What the rows have in one column of their table."""
    left_out: Mapping[str, int] = {}
    """By reason, rows that come near to held-out texts, or that one side of a Reflector has too many of."""


class ReleasedKind(NamedTuple):
    """A kind as it lies in a release."""

    of: KindRows
    exporter: SftExporter
    shared: SharedRows


def derived_rows(warehouse: Warehouse, origin: Origin, versions: Collection[str], check: LeakCheck) -> list[KindRows]:
    """The rows of the derived kinds up to a round, by kind.

    Args:
        warehouse: where to read.
        origin: the run and the round of the release.
        versions: `made_by` of the rows to take, one for each kind; those that other settings have made stay in the
            table.
        check: finds leaks.

    Raises:
        TrajmillError: held-out data is in the rows.
    """
    found = []
    for wanted in map(derived, sorted(versions)):
        rows = read_candidates(warehouse, origin, wanted, check).rows
        for kind in rows["kind"].unique().to_pylist():
            found.append(_of_kind(rows.filter(pc.equal(rows["kind"], kind)), kind, wanted))
    return sorted(found, key=lambda each: each.kind)


def _of_kind(rows: pa.Table, kind: str, wanted: ExampleSet) -> KindRows:
    by = [("query_id", "ascending"), ("trajectory_id", "ascending"), ("step_index", "ascending")]
    distinct = without_duplicates(rows.sort_by([*by, ("example_id", "ascending")]))
    clean = without_leaks(distinct, "example_id", leaks_of(distinct))
    balanced = with_equal_reflections(clean.rows)
    left_out = Counter(clean.left_out) + Counter(
        duplicate=rows.num_rows - distinct.num_rows,
        unequal_reflections=clean.rows.num_rows - balanced.num_rows,
    )
    return KindRows(kind, balanced, wanted.bounds, left_out)


def authors_of(examples: pa.Table, kinds: Iterable[KindRows]) -> list[AuthoredRows]:
    """Who wrote what is learned, for each sort of row; the text of an example of a round is its agent's."""
    counts: Counter[tuple[str, str, str]] = Counter(
        ("sft", "", policy or "") for policy in examples["written_by"].to_pylist()
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
        exporter = SftExporter(derived_kind=each.kind)
        stored = partial(StoredExamples, warehouse, origin.run_id, each.bounds)
        shown = partial(shown_screens, warehouse, origin.run_id, each.bounds)
        wanted = SharedRelease(origin.run_id, origin.round, each.rows, stored, _FOLDERS_UP, shown)
        shared = share_rows(warehouse, wanted, [exporter], written)
        write_selection(folder / each.kind, shared.selected)
        yield ReleasedKind(each, exporter, shared)
