"""Writes a release as a folder that a trainer reads: rows, the trainer's other files, card and figures."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa

from trajmill.schemas.dialects.families import Family
from trajmill.schemas.record import arrow_type
from trajmill.stages.export.formats.base import TrainerFormat, TrainerSettings
from trajmill.stages.export.formats.card import (
    ExportedFolder,
    ExportedRelease,
    RowCounts,
    export_card,
)
from trajmill.stages.export.formats.shards import (
    DATA_FOLDER,
    Row,
    WrittenRows,
    write_json_lines,
    write_parquet_shards,
)
from trajmill.stages.export.formats.steps import Comparison, LeftOutStep, Lineage, RLStepExample, StepExample
from trajmill.stages.export.images import BOUNDED_IMAGES, IMAGES, ReleaseScreenReader, with_features

FIGURES_FILE: Final = "export.json"
RL_FOLDER: Final = "rl_steps"
"""The sub-folder of the RL steps, in formats for RL."""
_WEIGHT = tuple(pa.schema([("example_id", pa.string()), ("loss_weight", pa.float64()), ("copy", pa.int64())]))
"""How much a supervised row counts."""

E = TypeVar("E", StepExample, RLStepExample)


class ReleaseSteps(NamedTuple):
    supervised: Iterable[StepExample | LeftOutStep]
    rl: Iterable[RLStepExample | LeftOutStep] = ()
    """The RL steps; only formats for RL read them."""


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
    examples = _counted(_without_weightless(steps.supervised), counts)
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
    figures = {
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
        "rl_rows": rl_written.rows,
        "rl_shards": list(rl_written.shards),
        "rl_left_out": dict(sorted(rl_counts.left_out.items())),
        "rl_group_sizes": {str(size): count for size, count in sorted(Counter(rl_counts.group_sizes.values()).items())},
    }
    (folder / FIGURES_FILE).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return exported


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


def _without_weightless(steps: Iterable[StepExample | LeftOutStep]) -> Iterator[StepExample | LeftOutStep]:
    for step in steps:
        weightless = isinstance(step, StepExample) and step.loss_weight <= 0
        yield LeftOutStep("weight_zero") if weightless else step


def _counted(steps: Iterable[E | LeftOutStep], counts: RowCounts) -> Iterator[E]:
    for step in steps:
        if isinstance(step, LeftOutStep):
            counts.left_out[step.reason] += 1
        else:
            counts.add(step)
            yield step
