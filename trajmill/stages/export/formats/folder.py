"""Writes a release as a folder that a trainer reads: rows, the trainer's other files, card and figures."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from trajmill.schemas.dialects.families import Family
from trajmill.schemas.record import arrow_type
from trajmill.stages.export.base import BulkScreenReader
from trajmill.stages.export.formats.base import TrainerFormat, TrainerSettings
from trajmill.stages.export.formats.card import ExportedFolder, ExportedRelease, export_card
from trajmill.stages.export.formats.counts import RLCounts, SupervisedCounts
from trajmill.stages.export.formats.json_lines import JsonLinesWriter
from trajmill.stages.export.formats.parquet import DATA_FOLDER, ParquetWriter, WrittenRows
from trajmill.stages.export.formats.rl import Comparison, RLStepExample
from trajmill.stages.export.formats.steps import LeftOutStep, StepExample

FIGURES_FILE: Final = "export.json"
RL_FOLDER: Final = "rl_steps"
"""The sub-folder of the RL steps, in formats for RL."""
_WEIGHT = tuple(pa.schema([("example_id", pa.string()), ("loss_weight", pa.float64()), ("copy", pa.int64())]))
"""How much a supervised row counts."""


class ReleaseSteps(NamedTuple):
    """The steps of a release in a family's dialect."""

    supervised: Iterable[StepExample | LeftOutStep]
    rl: Iterable[RLStepExample | LeftOutStep] = ()
    """The RL steps; only formats for RL read them."""


def write_folder(
    folder: Path,
    form: TrainerFormat,
    family: Family,
    source: ExportedRelease,
    steps: ReleaseSteps,
    screens: BulkScreenReader,
) -> ExportedFolder:
    """Write the rows of all steps into an empty folder; memory does not grow with their number.

    Raises:
        BadInputError: the format does not take a kind of row, or the log probabilities of an RL step are not one for
            each token.
        KeyError: a screen is not stored.
        OSError: the disk is full, or the folder cannot be written.
    """
    counts, rl_counts = SupervisedCounts(), RLCounts()
    examples = counts.counted(_without_weightless(steps.supervised))
    rows = repeat_by_weight(examples) if form.weights_as_rows else examples
    written = supervised_writer(form, family).write(folder, rows, screens)
    rl_written = WrittenRows(0, ())
    if form.rl_columns:
        rl_written = _rl_writer(form, family).write(folder, rl_counts.counted(steps.rl), screens)
    exported = ExportedFolder(written, counts, rl_written, rl_counts)
    settings = TrainerSettings(family, max(counts.max_length, rl_counts.max_length), counts.largest_image)
    form.write_settings(folder, settings)
    (folder / "README.md").write_text(export_card(source, form, settings, exported), encoding="utf-8")
    figures = json.dumps(_figures(source, form, settings, exported), indent=1)
    (folder / FIGURES_FILE).write_text(figures + "\n", encoding="utf-8")
    return exported


def supervised_writer(form: TrainerFormat, family: Family) -> ParquetWriter[StepExample] | JsonLinesWriter:
    """Return what writes the rows of a format."""
    if not form.columns:
        return JsonLinesWriter(form.row, form.shard_bytes)
    bounds = family.budget if form.images_have_bounds else None

    def values(example: StepExample, number: int) -> dict[str, Any]:
        return {**form.row(example, number), **example.weight()}

    return ParquetWriter((*form.columns, *_WEIGHT), values, form.shard_bytes, bounds, DATA_FOLDER)


def _rl_writer(form: TrainerFormat, family: Family) -> ParquetWriter[RLStepExample]:
    bounds = family.budget if form.images_have_bounds else None

    def values(example: RLStepExample, number: int) -> dict[str, Any]:
        return {**form.rl_row(example), **example.comparison._asdict()}

    return ParquetWriter((*form.rl_columns, *arrow_type(Comparison)), values, form.shard_bytes, bounds, RL_FOLDER)


def repeat_by_weight(examples: Iterable[StepExample]) -> Iterator[StepExample]:
    """Repeat each example as often as it weighs, rounded to a whole number, and at least once.

    The copies share the weight: their `loss_weight` sums to the weight of the example. A trainer that reads it learns
    exactly the weight; one that does not learns each example at least once.
    """
    for example in examples:
        copies = max(1, math.floor(example.loss_weight + 0.5))
        for copy in range(copies):
            yield example._replace(copy=copy, loss_weight=example.loss_weight / copies)


def _without_weightless(steps: Iterable[StepExample | LeftOutStep]) -> Iterator[StepExample | LeftOutStep]:
    for step in steps:
        weightless = isinstance(step, StepExample) and step.loss_weight <= 0
        yield LeftOutStep("weight_zero") if weightless else step


def _figures(
    source: ExportedRelease, form: TrainerFormat, settings: TrainerSettings, exported: ExportedFolder
) -> dict[str, Any]:
    family, counts, rl_counts = settings.family, exported.counts, exported.rl_counts
    return {
        **source._asdict(),
        "format": form.kind,
        "family": family.name,
        "coordinate_space": family.space.value,
        "min_pixels": family.budget.min_pixels,
        "max_pixels": family.budget.max_pixels,
        "max_length": settings.max_length,
        "rows": exported.written.rows,
        "steps": counts.examples,
        "repeated_rows": exported.repeated_rows,
        "shards": list(exported.written.shards),
        "left_out": dict(sorted(counts.left_out.items())),
        "rl_rows": exported.rl_written.rows,
        "rl_shards": list(exported.rl_written.shards),
        "rl_left_out": dict(sorted(rl_counts.left_out.items())),
        "rl_group_sizes": {str(size): count for size, count in sorted(Counter(rl_counts.group_sizes.values()).items())},
    }
