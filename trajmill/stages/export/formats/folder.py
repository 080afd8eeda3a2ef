"""Writes a release as a folder that a trainer reads: rows, the trainer's other files, card and figures."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa

from trajmill.schemas.coordinates import PixelBudget
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.record import arrow_type
from trajmill.stages.export.formats.base import DATA_FOLDER, TrainerFormat, TrainerSettings
from trajmill.stages.export.formats.card import ExportedFolder, ExportedRelease, RowCounts, WrittenRows, export_card
from trajmill.stages.export.formats.steps import Comparison, LeftOutStep, Lineage, RLStepExample, StepExample
from trajmill.stages.export.images import (
    BOUNDED_IMAGES,
    IMAGES,
    GroupLimits,
    ImageCache,
    ReleaseScreenReader,
    row_groups,
    with_features,
    with_images,
    without_images,
)
from trajmill.stages.export.release import write_parquet

FIGURES_FILE: Final = "export.json"
RL_FOLDER: Final = "rl_steps"
"""The sub-folder of the RL steps, in formats for RL."""
_WEIGHT = tuple(pa.schema([("example_id", pa.string()), ("loss_weight", pa.float64()), ("copy", pa.int64())]))
"""How much a supervised row counts."""

E = TypeVar("E", StepExample, RLStepExample)


class ReleaseSteps(NamedTuple):
    supervised: Iterable[StepExample | LeftOutStep]
    rl: Iterable[RLStepExample | LeftOutStep] = ()


def write_folder(
    folder: Path,
    form: TrainerFormat,
    family: Family,
    source: ExportedRelease,
    steps: ReleaseSteps,
    screens: ReleaseScreenReader,
) -> ExportedFolder:
    """Write the rows of all steps into an empty folder; memory does not grow with their number.

    Raises:
        BadInputError: the format does not take a kind of row, or an RL step does not have one log probability for each
            token.
        KeyError: a screen is not stored.
        OSError: the disk is full, or the folder cannot be written.
    """
    counts, rl_counts = RowCounts(), RowCounts()
    bounds = family.budget if form.images_have_bounds else None
    weighing = (
        LeftOutStep("weight_zero") if isinstance(step, StepExample) and step.loss_weight <= 0 else step
        for step in steps.supervised
    )
    examples = _counted(weighing, counts)
    rows = supervised_rows(form, repeat_by_weight(examples) if form.weights_as_rows else examples)
    rl_written = WrittenRows(0, ())
    if form.columns:
        schema = supervised_schema(form)
        written = write_parquet_shards(folder, DATA_FOLDER, schema, rows, screens, form.shard_bytes, bounds)
    else:
        written = write_json_lines(folder, rows, screens, form.shard_bytes)
    if form.rl_columns:
        rl_schema = _with_images_and_lineage(form, (*form.rl_columns, *arrow_type(Comparison)))
        rl_rows = (
            {**form.rl_row(example), **example.comparison._asdict(), **example.lineage._asdict()}
            for example in _counted(steps.rl, rl_counts)
        )
        rl_written = write_parquet_shards(folder, RL_FOLDER, rl_schema, rl_rows, screens, form.shard_bytes, bounds)
    exported = ExportedFolder(written, counts, rl_written, rl_counts)
    settings = TrainerSettings(family, max(counts.max_length, rl_counts.max_length), counts.largest_image)
    form.write_settings(folder, settings)
    (folder / "README.md").write_text(export_card(source, form, settings, exported), encoding="utf-8")
    figures = _figures(source, form, settings, exported)
    (folder / FIGURES_FILE).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return exported


def _figures(
    source: ExportedRelease, form: TrainerFormat, settings: TrainerSettings, exported: ExportedFolder
) -> dict[str, Any]:
    written, counts, rl_counts, family = exported.written, exported.counts, exported.rl_counts, settings.family
    return {
        **source._asdict(),
        "format": form.kind,
        "family": family.name,
        "coordinate_space": family.space.value,
        "min_pixels": family.budget.min_pixels,
        "max_pixels": family.budget.max_pixels,
        "max_length": settings.max_length,
        "rows": written.rows,
        "steps": counts.examples,
        "repeated_rows": exported.repeated_rows,
        "shards": list(written.shards),
        "left_out": dict(sorted(counts.left_out.items())),
        "rl_rows": exported.rl_written.rows,
        "rl_shards": list(exported.rl_written.shards),
        "rl_left_out": dict(sorted(rl_counts.left_out.items())),
        "rl_group_sizes": {str(size): count for size, count in sorted(Counter(rl_counts.group_sizes.values()).items())},
    }


def supervised_schema(form: TrainerFormat) -> pa.Schema:
    return _with_images_and_lineage(form, (*form.columns, *_WEIGHT))


def supervised_rows(form: TrainerFormat, examples: Iterable[StepExample]) -> Iterator[Row]:
    """Yield the row of each example: the format's columns, the weight and the lineage."""
    for number, example in enumerate(examples):
        lineage = example.lineage._asdict()
        weight = {"example_id": example.example_id, "loss_weight": example.loss_weight, "copy": example.copy}
        yield {**form.row(example, number), "images": example.lineage.screen_ids, **weight, **lineage}


def repeat_by_weight(examples: Iterable[StepExample]) -> Iterator[StepExample]:
    """Repeat each example as often as it weighs, rounded to a whole number, and at least once.

    The copies share the weight: their `loss_weight` sums to the weight of the example. A trainer that reads it learns
    exactly the weight; one that does not learns each example at least once.
    """
    for example in examples:
        copies = max(1, math.floor(example.loss_weight + 0.5))
        for copy in range(copies):
            yield example._replace(copy=copy, loss_weight=example.loss_weight / copies)


def _with_images_and_lineage(form: TrainerFormat, columns: Iterable[pa.Field]) -> pa.Schema:
    images = pa.field("images", BOUNDED_IMAGES if form.images_have_bounds else IMAGES)
    return with_features(pa.schema([*columns, images, *arrow_type(Lineage)]))


def _counted(steps: Iterable[E | LeftOutStep], counts: RowCounts) -> Iterator[E]:
    for step in steps:
        if isinstance(step, LeftOutStep):
            counts.left_out[step.reason] += 1
        else:
            counts.add(step)
            yield step


IMAGE_FOLDER: Final = "images"
GROUP: Final = GroupLimits(rows=4096, distinct=16_000_000, repeated=128_000_000)
_ROWS_AT_ONCE = 256
_ENDINGS = ((b"\x89PNG", "png"), (b"\xff\xd8\xff", "jpg"), (b"RIFF", "webp"), (b"GIF8", "gif"))

T = TypeVar("T")
Row = Mapping[str, Any]
"""Values by column, with the ids of its screens in `screen_ids`."""


def write_parquet_shards(
    folder: Path,
    rows_folder: str,
    schema: pa.Schema,
    rows: Iterable[Row],
    screens: ReleaseScreenReader,
    shard_bytes: int,
    bounds: PixelBudget | None = None,
) -> WrittenRows:
    """Write rows as Parquet with few, large row groups; `bounds` are those that each image carries."""
    count, names = 0, list[str]()
    with TemporaryFile(dir=folder) as file:
        cache = ImageCache(file, screens)
        remaining, plain = iter(rows), without_images(schema)
        chunks = iter(lambda: list(islice(remaining, _ROWS_AT_ONCE)), [])
        groups = row_groups((pa.RecordBatch.from_pylist(chunk, plain) for chunk in chunks), cache, GROUP)
        for shard in _in_shards(((group.rows, group.bytes) for group in groups), shard_bytes):
            names.append(f"{rows_folder}/train-{len(names):05d}.parquet")
            filled = (with_images(group, schema, cache, bounds) for group in shard)
            count += write_parquet(folder, names[-1], schema, filled).rows
    return WrittenRows(count, tuple(names))


def write_json_lines(folder: Path, rows: Iterable[Row], screens: ReleaseScreenReader, shard_bytes: int) -> WrittenRows:
    """Write a line for each row, with paths of its images, and each distinct image as a file."""
    (folder / DATA_FOLDER).mkdir()
    count, names = 0, list[str]()
    for shard in _in_shards(((line, len(line)) for line in _json_lines(folder, rows, screens)), shard_bytes):
        names.append(f"{DATA_FOLDER}/train-{len(names):05d}.jsonl")
        with (folder / names[-1]).open("wb") as file:
            for line in shard:
                file.write(line)
                count += 1
    return WrittenRows(count, tuple(names))


def _json_lines(folder: Path, rows: Iterable[Row], screens: ReleaseScreenReader) -> Iterator[bytes]:
    remaining = iter(rows)
    paths: dict[str, str] = {}
    while chunk := list(islice(remaining, _ROWS_AT_ONCE)):
        missing = {screen_id for row in chunk for screen_id in row["screen_ids"]} - paths.keys()
        paths |= write_images(folder, missing, screens)
        for row in chunk:
            # No list that may be empty: readers of JSON would guess its type wrongly.
            changed = {"images": [paths[screen_id] for screen_id in row["screen_ids"]], "apps": ", ".join(row["apps"])}
            yield json.dumps({**row, **changed}, ensure_ascii=False).encode() + b"\n"


def write_images(folder: Path, screen_ids: Iterable[str], screens: ReleaseScreenReader) -> dict[str, str]:
    """Write the images of screens, undecoded; returns their paths in the folder by id of the screen."""
    paths: dict[str, str] = {}
    for screen_id, data in screens.images(sorted(screen_ids)):
        # Sub-folders keep each folder small.
        path = paths[screen_id] = f"{IMAGE_FOLDER}/{screen_id[:2]}/{screen_id}.{image_ending(data)}"
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return paths


def image_ending(data: bytes) -> str:
    return next((ending for start, ending in _ENDINGS if data.startswith(start)), "img")


def _in_shards(sized: Iterable[tuple[T, int]], most: int) -> Iterator[Iterator[T]]:
    """Divide items with their sizes into consecutive shards, each closed by the item that fills it."""

    def numbered() -> Iterator[tuple[int, T]]:
        shard = size = 0
        for item, length in sized:
            if size >= most:
                shard, size = shard + 1, 0
            size += length
            yield shard, item

    for _, shard in groupby(numbered(), key=itemgetter(0)):
        yield (item for _, item in shard)
