"""Writes the supervised rows that a release adds, once for all releases of the run, and selects the rows of a release.

A release takes rows of the shards of many rounds. A shard is named by a hash of its rows, so it never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import content_id
from trajmill.stages.export.exporter import Exporter
from trajmill.stages.export.release import SCREENS_FILE, ExportedFile, RowsWritten, SelectedRow, export_release
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.releases import named_shards, read_release, release_names
from trajmill.warehouse.screens import WarehouseScreens
from trajmill.warehouse.store.connection import damage_as_error

_KEYS = pa.schema([("example_id", pa.string()), ("trajectory_id", pa.string())])


class SharedRows(NamedTuple):
    """The supervised rows of a release."""

    selected: Sequence[SelectedRow]
    """In the order of the release."""
    new: Path | None
    """Folder of the shard with the rows that no other release has; None if there are none."""
    files: Sequence[Path]
    """All files of the shards that the rows lie in."""
    left_out: Mapping[str, Sequence[str]]
    """By column, the values of the rows of these shards that the release does not take."""
    left_out_rows: int

    def exported(self, warehouse: Warehouse, release: Path) -> list[ExportedFile]:
        """The files with their rows and sizes, and with paths relative to the folder of the release."""
        up = "../" * len(release.relative_to(warehouse.root).parts)
        named = named_shards(warehouse)
        found = []
        for path in self.files:
            if path in named:
                _fetched(warehouse, path)
            rows, size = pq.read_metadata(path).num_rows, path.stat().st_size
            digest = named[path].sha256 if path in named else ""
            found.append(ExportedFile(up + path.relative_to(warehouse.root).as_posix(), rows, digest, size))
        return found


NO_SHARED_ROWS = SharedRows((), None, (), {}, 0)
"""What a release without supervised rows has."""


class SharedRelease(NamedTuple):
    """What is to be released."""

    run_id: str
    round: int
    chosen: pa.Table
    """Digests of the rows of the release in their order, with the weights that they have in it."""
    stored: Callable[[pa.Table], Iterable[pa.RecordBatch]]
    """Gives the rows of digests, with the weights that they have in every release; it can be iterated over often."""
    folders_up: int = 2
    """From the folder of the selection to that of the warehouse."""
    shown: Callable[[pa.Table], Iterable[str]] = lambda rows: ()
    """Gives the screens that rows show, if it is faster to copy their images together."""


def share_rows(
    warehouse: Warehouse,
    wanted: SharedRelease,
    exporters: Sequence[Exporter],
    written: RowsWritten = lambda rows: None,
) -> SharedRows:
    """Write the rows of a release that no shard of the run has, and find the places of all its rows.

    `exporters` are the formats of the supervised rows; `written` is called for the rows that are there already, too.
    Raises BadInputError if a file of a shard that a release names is missing or damaged.
    """
    ids = wanted.chosen["example_id"].combine_chunks()
    # By folder, the ids of a shard's rows and their trajectories.
    shards = _shards(warehouse, wanted.run_id, exporters)
    missing = ids.filter(pc.invert(pc.is_in(ids, _ids(shards))))
    written((len(ids) - len(missing)) * len(exporters))
    new = None
    if len(missing):
        name = f"r{wanted.round:04d}-{content_id(missing.to_pylist())[:12]}"
        new = warehouse.shards(wanted.run_id) / name
        rows = wanted.chosen.take(pc.index_in(missing, ids))
        screens = WarehouseScreens(warehouse)
        export_release(new, exporters, {"examples": wanted.stored(rows)}, screens, written, wanted.shown(rows))
        shards[new] = rows.select(_KEYS.names).cast(_KEYS)
    places = pc.index_in(ids, _ids(shards)).to_numpy()
    folders, starts = list(shards), [0, *accumulate(keys.num_rows for keys in shards.values())]
    numbers = np.searchsorted(starts, places, side="right") - 1
    up = "../" * wanted.folders_up
    relative = [f"{up}{folder.relative_to(warehouse.root).as_posix()}" for folder in folders]
    weights = wanted.chosen["loss_weight"].to_pylist()
    selected = [
        SelectedRow(example_id, weight, relative[number], int(place) - starts[number])
        for example_id, weight, number, place in zip(ids.to_pylist(), weights, numbers, places, strict=True)
    ]
    used = {folders[number]: shards[folders[number]] for number in sorted(set(numbers.tolist()))}
    names = (*(each.file for each in exporters), SCREENS_FILE)
    files = [folder / name for folder in used for name in names]
    left_out_rows = sum(keys.num_rows for keys in used.values()) - len(selected)
    return SharedRows(selected, new, files, _left_out(list(used.values()), ids), left_out_rows)


def _shards(warehouse: Warehouse, run_id: str, exporters: Sequence[Exporter]) -> dict[Path, pa.Table]:
    """The shards of a run that releases name and that have all formats, in the order of their names.

    Raises:
        BadInputError: a file of one is missing or damaged. Its rows are not written again beside it, since the releases
            that name it would stay broken.
    """
    place, named = warehouse.shards(run_id), named_shards(warehouse)
    names = sorted({path.relative_to(place).parts[0] for path in named if path.is_relative_to(place)})
    found = [place / name for name in names]
    folders = [folder for folder in found if all(folder / each.file in named for each in exporters)]
    for path in (folder / each.file for folder in folders for each in exporters):
        _fetched(warehouse, path)
    shards = {}
    for folder in folders:
        path = folder / exporters[0].file
        with damage_as_error(warehouse.store.uri(warehouse.name(path))):
            shards[folder] = pq.read_table(path, columns=_KEYS.names).cast(_KEYS)
    return shards


def _fetched(warehouse: Warehouse, path: Path) -> None:
    """Bring a file that releases name to this machine."""
    try:
        warehouse.store.fetch(warehouse.name(path))
    except FileNotFoundError:
        releases = (read_release(warehouse, name) for name in release_names(warehouse))
        name = warehouse.name(path)
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
