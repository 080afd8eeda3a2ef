"""Writes the files of a release, selects its rows from the shards of many rounds, and checks what was written.

A shard is a folder that `export_release` has written, with rows of one round; it never changes, and later releases use
its rows too. A release names its rows in `selection.parquet`.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from PIL import Image

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.screen import ELEMENT
from trajmill.stages.export.exporter import SFT_FILE, Exporter
from trajmill.stages.export.images import (
    GroupLimits,
    ImageCache,
    ReleaseScreenReader,
    row_groups,
    with_distinct_images,
    with_features,
    with_images,
)

SCREENS_FILE: Final = "screens.parquet"
SCREENS_SCHEMA = with_features(
    pa.schema(
        [("screen_id", pa.string()), ("width", pa.int32()), ("height", pa.int32()), ("elements", pa.list_(ELEMENT))]
    )
)
GROUP: Final = GroupLimits(rows=1024, distinct=4_000_000, repeated=4_000_000)
_SCREENS_AT_ONCE = 1024
_IMAGE_BYTES = "images.list.element.bytes"
_NOT_SMALLER = (_IMAGE_BYTES, "_id", "_ids.list.element")
"""Suffixes of leaves that compression hardly makes smaller; it costs most of the time of writing a small column."""
_DICTIONARY_BYTES = 64 << 20

RowsWritten = Callable[[int], None]
"""Called with the number of rows that were just written."""


class ExportedFile(NamedTuple):
    path: str
    """Relative to the release's directory."""
    rows: int
    sha256: str
    bytes: int


def export_release(
    directory: Path,
    exporters: Sequence[Exporter],
    tables: Mapping[str, Iterable[pa.RecordBatch]],
    screens: ReleaseScreenReader,
    written: RowsWritten = lambda rows: None,
    shown: Iterable[str] = (),
) -> list[ExportedFile]:
    """Write the file of each exporter, and `screens.parquet`; the same input gives the same bytes.

    Memory holds some thousands of rows without pixels, the distinct images of one row group, and the ids of the
    distinct screens. The images go through a temporary file in the same folder.

    Args:
        directory: the release's folder; it is made if missing, and files of the same names are replaced.
        exporters: the formats to write.
        tables: the rows of each table that an exporter takes, in the schema of the table (its `to_batches()`). If
            several exporters take a table, its rows are iterated over several times.
        screens: all screens that the rows show.
        written: called with the number of rows of each row group that is written.
        shown: the screens of all rows, if known: the store is then read once instead of once per some thousand rows.

    Raises:
        BadInputError: a row has more or fewer placeholders than screens.
        KeyError: a screen is not stored.
        OSError: the disk is full, or the folder cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    with TemporaryFile(dir=directory) as file:
        cache = ImageCache(file, screens)
        cache.add(shown)
        for exporter in exporters:
            groups = row_groups(exporter.batches(_sliced(tables[exporter.table])), cache, GROUP)
            filled = (with_images(group.rows, exporter.schema, cache) for group in groups)
            files.append(write_parquet(directory, exporter.file, exporter.schema, filled, written))
        files.append(
            write_parquet(directory, SCREENS_FILE, SCREENS_SCHEMA, screen_batches(cache.screen_ids(), screens))
        )
    return files


def _sliced(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from (batch.slice(start, GROUP.rows) for start in range(0, batch.num_rows, GROUP.rows))
        # Release it before the next one is read.
        del batch


def screen_batches(screen_ids: Iterable[str], screens: ReleaseScreenReader) -> Iterator[pa.RecordBatch]:
    remaining = iter(screen_ids)
    while ids := list(islice(remaining, _SCREENS_AT_ONCE)):
        sizes = [screens.size(screen_id) for screen_id in ids]
        widths = pa.array([size.width for size in sizes], pa.int32())
        heights = pa.array([size.height for size in sizes], pa.int32())
        columns = [pa.array(ids, pa.string()), widths, heights, screens.trees(ids)]
        yield pa.record_batch(columns, schema=SCREENS_SCHEMA)


def write_parquet(
    directory: Path,
    name: str,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    written: RowsWritten = lambda rows: None,
) -> ExportedFile:
    """Write one file with a row group for each batch, whose columns of images are those of `with_images`.

    Compression does not shrink encoded images and hashes, so they are stored uncompressed. A dictionary stores an image
    that repeats within a row group only once.
    """
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    leaves = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
    rows = 0
    try:
        # Without Arrow's own schema, images are read as bytes, not as the dictionary that they were written from.
        with pq.ParquetWriter(
            unfinished,
            with_distinct_images(schema),
            compression={leaf: "none" if leaf.endswith(_NOT_SMALLER) else "zstd" for leaf in leaves},
            write_statistics=[leaf for leaf in leaves if leaf != _IMAGE_BYTES],
            dictionary_pagesize_limit=_DICTIONARY_BYTES,
            store_schema=False,
            write_page_checksum=True,
        ) as writer:
            writer.add_key_value_metadata(schema.metadata)
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
                written(batch.num_rows)
                # Release it before the next one is made.
                del batch
        with unfinished.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = unfinished.stat().st_size
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return ExportedFile(name, rows, digest, size)


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    if pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    else:
        yield path


SELECTION_FILE: Final = "selection.parquet"

_WEIGHT = "loss_weight"
_SCHEMA = pa.schema(
    [
        ("example_id", pa.string()),
        (_WEIGHT, pa.float64()),
        ("shard", pa.dictionary(pa.int32(), pa.string())),
        ("row", pa.int32()),
    ]
)


class SelectedRow(NamedTuple):
    example_id: str
    loss_weight: float
    shard: str
    """The shard's folder, relative to that of the release."""
    row: int
    """Number of the row in each file of the shard."""


def write_selection(release: Path, rows: Iterable[SelectedRow]) -> None:
    release.mkdir(parents=True, exist_ok=True)
    columns = list(zip(*rows, strict=True)) or [()] * len(_SCHEMA)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)]
    pq.write_table(pa.table(arrays, schema=_SCHEMA), release / SELECTION_FILE, write_page_checksum=True)


def left_out_filters(used: Sequence[pa.Table], ids: pa.Array) -> dict[str, list[str]]:
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


def has_rows_of(release: Path, file: str) -> bool:
    """Whether a release has rows of a format, given by the path of its file; early releases have no selection."""
    if (release / file).is_file():
        return True
    return (release / SELECTION_FILE).is_file() and all(
        (release / shard / file).is_file() for shard in _shards(release)
    )


def released_rows(release: Path, file: str, columns: Sequence[str]) -> pa.Table:
    """Read columns of the rows of a release in one format, in its order; `file` is the path in a shard."""
    if (release / file).is_file():
        return pq.read_table(release / file, columns=list(columns), page_checksum_verification=True)
    selection = pq.read_table(release / SELECTION_FILE, page_checksum_verification=True)
    tables, starts, rows = [], {}, 0
    for shard in _shards(release):
        starts[shard] = rows
        tables.append(pq.read_table(release / shard / file, columns=list(columns), page_checksum_verification=True))
        rows += tables[-1].num_rows
    if not tables:
        return pa.table({name: pa.nulls(0) for name in columns})
    chosen = zip(selection["shard"].to_pylist(), selection["row"].to_pylist(), strict=True)
    selected = pa.concat_tables(tables).take(pa.array((starts[shard] + row for shard, row in chosen), pa.int64()))
    weight = selected.schema.get_field_index(_WEIGHT)
    return selected if weight < 0 else selected.set_column(weight, _WEIGHT, selection[_WEIGHT])


class ReleaseDiff(NamedTuple):
    both: int
    only_first: int
    only_second: int


def compare_releases(first: Path, second: Path) -> ReleaseDiff:
    """Count the supervised rows that two releases share, and those that only one of them has.

    Raises BadInputError if one has none, or a file of it is missing or damaged.
    """

    def ids(release: Path) -> set[str]:
        if not has_rows_of(release, SFT_FILE):
            raise BadInputError(f"release {release.name}: it has no supervised rows to compare; name another release")
        try:
            return set(released_rows(release, SFT_FILE, ["example_id"])["example_id"].to_pylist())
        except (pa.ArrowInvalid, OSError) as error:
            reason = str(error).splitlines()[0]
            line = f"{release}: a committed file is missing or damaged ({reason}); restore it from a copy"
            raise BadInputError(line) from error

    one, other = ids(first), ids(second)
    return ReleaseDiff(len(one & other), len(one - other), len(other - one))


def files_of(release: Path, file: str) -> list[Path]:
    """Return the files with the rows of a release in one format, and its selection if it has one."""
    if (release / file).is_file():
        return [release / file]
    return [release / SELECTION_FILE, *(release / shard / file for shard in _shards(release))]


def screen_files(release: Path) -> list[Path]:
    """Return the files with the screens of a release; a screen may be in several."""
    own = [release / SCREENS_FILE] if (release / SCREENS_FILE).is_file() else []
    return own + [release / shard / SCREENS_FILE for shard in _shards(release)]


def _shards(release: Path) -> list[str]:
    if not (release / SELECTION_FILE).is_file():
        return []
    column = pq.read_table(release / SELECTION_FILE, columns=["shard"], page_checksum_verification=True).column(0)
    return sorted(column.unique().to_pylist())


_ROWS_AT_ONCE = 64


class RowProblem(NamedTuple):
    file: str
    row_id: str
    what: str


class ReleaseCheck(NamedTuple):
    rows: Mapping[str, int]
    """Number of rows that were read, by file."""
    images: int
    """Distinct screens whose image was opened."""
    problems: tuple[RowProblem, ...]


def check_release(
    directory: Path,
    exporters: Sequence[Exporter],
    guidance: Mapping[str, str],
    images_every: int = 1,
    groups_every: int = 1,
) -> ReleaseCheck:
    """Check a release that `export_release` wrote; memory holds a few rows with their images.

    `guidance` has the hints by trajectory id; no row of that trajectory may contain one of their lines. Of the distinct
    screens, every `images_every`-th image is opened; of a file, every `groups_every`-th row group is read. Raises
    OSError (a file is missing or unreadable), pyarrow.ArrowInvalid (it is no Parquet file).
    """
    table = pq.read_table(
        directory / SCREENS_FILE, columns=["screen_id", "width", "height"], page_checksum_verification=True
    )
    columns = (column.to_pylist() for column in table.columns)
    sizes = {screen_id: Size(width, height) for screen_id, width, height in zip(*columns, strict=True)}
    seen: set[str] = set()
    opened = 0
    problems: list[RowProblem] = []
    counts: dict[str, int] = {}
    for exporter in exporters:
        counts[exporter.file] = 0
        for row in _rows(directory / exporter.file, groups_every):
            counts[exporter.file] += 1
            found = list(exporter.problems(row, sizes, guidance.get(row["trajectory_id"], "")))
            if len(row["images"]) != len(row["screen_ids"]):
                found.append(f"{len(row['images'])} images of {len(row['screen_ids'])} screens")
            for screen_id, image in zip(row["screen_ids"], row["images"], strict=False):
                if screen_id not in seen:
                    seen.add(screen_id)
                    if len(seen) % images_every == 0:
                        opened += 1
                        found += _image_problems(screen_id, image["bytes"], sizes.get(screen_id))
            problems.extend(RowProblem(exporter.file, row[exporter.row_id], what) for what in found)
    return ReleaseCheck(counts, opened, tuple(problems))


def _image_problems(screen_id: str, data: bytes, size: Size | None) -> Iterator[str]:
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.load()
            found = Size(*image.size)
    except (OSError, ValueError, SyntaxError) as error:
        yield f"the image of screen {screen_id} does not open: {error}"
        return
    if found != size:
        yield f"the image of screen {screen_id} is {found}, but {size} in {SCREENS_FILE}"


def _rows(path: Path, groups_every: int) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        groups = list(range(0, file.num_row_groups, groups_every))
        for batch in file.iter_batches(_ROWS_AT_ONCE, groups):
            yield from batch.to_pylist()
