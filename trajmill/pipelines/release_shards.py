"""Writes the supervised rows that a release adds, once for all releases of the run, and selects the rows of a release.

A release takes rows of the shards of many rounds. A shard is named by a hash of its rows, so it never changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trajmill.pipelines.reading.examples import StoredExamples
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import content_id
from trajmill.stages.export.exporter import Exporter
from trajmill.stages.export.release import (
    SCREENS_FILE,
    ExportedFile,
    RowsWritten,
    SelectedRow,
    export_release,
    write_selection,
)
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.releases import named_shards, read_release, release_names
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.store.connection import damage_as_error

_KEYS = pa.schema([("example_id", pa.string()), ("trajectory_id", pa.string())])


class ReleaseRows(NamedTuple):
    """Rows of table `examples` that a release takes: the supervised ones, or those of a derived kind."""

    examples: StoredExamples
    exporters: Sequence[Exporter]
    kind: str = ""
    """Empty for the supervised rows."""
    left_out: Mapping[str, int] = {}
    """By reason, rows that leak, repeat others, or that one side of a Reflector has too many of."""

    @property
    def chosen(self) -> pa.Table:
        return self.examples.digests


class SharedRows(NamedTuple):
    """The shards that rows of a release lie in."""

    new: Path | None
    """Folder of the shard with the rows that no other release has; None if there are none."""
    files: Sequence[Path]
    left_out: Mapping[str, Sequence[str]]
    """By column, the values of the rows of these shards that the release does not take."""
    left_out_rows: int

    def exported(self, warehouse: Warehouse, release: Path) -> list[ExportedFile]:
        """Return the files with their rows and sizes, and with paths relative to the folder of the release."""
        up = "../" * len(release.relative_to(warehouse.root).parts)
        named = named_shards(warehouse)
        found = []
        for path in self.files:
            if path in named:
                _fetch(warehouse, path)
            rows, size = pq.read_metadata(path).num_rows, path.stat().st_size
            digest = named[path].sha256 if path in named else ""
            found.append(ExportedFile(up + path.relative_to(warehouse.root).as_posix(), rows, digest, size))
        return found


def share_rows(
    warehouse: Warehouse,
    run_id: str,
    round_number: int,
    release: Path,
    wanted: ReleaseRows,
    written: RowsWritten = lambda rows: None,
) -> SharedRows:
    """Write the rows that no shard of the run has, and the places of all rows into the folder of the release.

    `written` is called for the rows that are there already, too. Raises BadInputError if a file of a shard that a
    release names is missing or damaged: its rows are not written again beside it, since the releases that name it
    would stay broken.
    """
    ids, exporters, folder = wanted.chosen["example_id"].combine_chunks(), wanted.exporters, release / wanted.kind
    place, named = warehouse.shards(run_id), named_shards(warehouse)
    # By folder, the ids of a shard's rows and their trajectories; shards that lack a format are not shared.
    shards: dict[Path, pa.Table] = {}
    for name in sorted({path.relative_to(place).parts[0] for path in named if path.is_relative_to(place)}):
        paths = [place / name / each.file for each in exporters]
        if all(path in named for path in paths):
            for path in paths:
                _fetch(warehouse, path)
            with damage_as_error(warehouse.store.uri(warehouse.name(paths[0]))):
                shards[place / name] = pq.read_table(paths[0], columns=_KEYS.names).cast(_KEYS)
    missing = ids.filter(pc.invert(pc.is_in(ids, _ids(shards))))
    written((len(ids) - len(missing)) * len(exporters))
    new = None
    if len(missing):
        new = place / f"r{round_number:04d}-{content_id(missing.to_pylist())[:12]}"
        rows = wanted.examples.of(wanted.chosen.take(pc.index_in(missing, ids)))
        export_release(new, exporters, {"examples": rows}, WarehouseScreens(warehouse), written, rows.screens())
        shards[new] = rows.digests.select(_KEYS.names).cast(_KEYS)
    places = pc.index_in(ids, _ids(shards)).to_numpy()
    folders, starts = list(shards), [0, *accumulate(keys.num_rows for keys in shards.values())]
    numbers = np.searchsorted(starts, places, side="right") - 1
    up = "../" * len(folder.relative_to(warehouse.root).parts)
    relative = [f"{up}{shard.relative_to(warehouse.root).as_posix()}" for shard in folders]
    chosen = zip(ids.to_pylist(), wanted.chosen["loss_weight"].to_pylist(), numbers, places, strict=True)
    selected = (
        SelectedRow(example_id, weight, relative[number], int(row) - starts[number])
        for example_id, weight, number, row in chosen
    )
    write_selection(folder, selected)
    used = [folders[number] for number in sorted(set(numbers.tolist()))]
    files = [shard / name for shard in used for name in (*(each.file for each in exporters), SCREENS_FILE)]
    left_out = _left_out([shards[shard] for shard in used], ids)
    return SharedRows(new, files, left_out, sum(shards[shard].num_rows for shard in used) - len(ids))


def _fetch(warehouse: Warehouse, path: Path) -> None:
    name = warehouse.name(path)
    try:
        warehouse.store.fetch(name)
    except FileNotFoundError:
        releases = (read_release(warehouse, each) for each in release_names(warehouse))
        users = ", ".join(each.name for each in releases if any(file.path == name for file in each.shards))
        raise BadInputError(
            f"{warehouse.store.uri(name)}: missing, with rows of {users}; restore it from a copy, or drop these "
            "releases (`trajmill releases drop`)"
        ) from None


def _ids(shards: Mapping[Path, pa.Table]) -> pa.Array:
    columns = [chunk for keys in shards.values() for chunk in keys["example_id"].chunks]
    return pa.concat_arrays(columns) if columns else pa.array([], pa.string())


def _left_out(used: Sequence[pa.Table], ids: pa.Array) -> dict[str, list[str]]:
    """Return filters for the rows that the release leaves out: whole trajectories where possible, which are fewer."""
    if not used:
        return {}
    keys = pa.concat_tables(used)
    taken = pc.is_in(keys["example_id"], ids)
    trajectories = keys.filter(taken)["trajectory_id"].unique()
    others = keys.filter(pc.invert(taken))
    of_taken = pc.is_in(others["trajectory_id"], trajectories)
    found = {
        "trajectory_id": sorted(others.filter(pc.invert(of_taken))["trajectory_id"].unique().to_pylist()),
        "example_id": sorted(others.filter(of_taken)["example_id"].to_pylist()),
    }
    return {column: values for column, values in found.items() if values}
