"""Writes a release as a folder that a trainer reads: rows, the trainer's other files, card and figures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from trajmill.schemas.dialects.families import Family
from trajmill.stages.export.base import BulkScreenReader
from trajmill.stages.export.formats.base import TrainerFormat, TrainerSettings, WrittenRows
from trajmill.stages.export.formats.card import ExportedRelease, export_card
from trajmill.stages.export.formats.repetition import repeated_by_weight
from trajmill.stages.export.formats.rows.step_example import LeftOutStep, StepExample
from trajmill.stages.export.formats.tally import Tally

FIGURES_FILE: Final = "export.json"


class ExportedFolder(NamedTuple):
    """The contents of an exported folder."""

    written: WrittenRows
    tally: Tally


def write_folder(
    folder: Path,
    form: TrainerFormat,
    family: Family,
    source: ExportedRelease,
    steps: Iterable[StepExample | LeftOutStep],
    screens: BulkScreenReader,
) -> ExportedFolder:
    """Write the rows of all steps into an empty folder; memory does not grow with their number.

    Raises:
        KeyError: a screen is not stored.
        OSError: the disk is full, or the folder cannot be written.
    """
    tally = Tally()
    examples = tally.counted(_kept(steps, tally))
    written = form.write(folder, repeated_by_weight(examples) if form.weights_as_rows else examples, screens)
    settings = TrainerSettings(family, tally.max_length)
    form.finish(folder, settings)
    card = export_card(source, form, settings, tally, written)
    (folder / "README.md").write_text(card, encoding="utf-8")
    figures = {
        **source._asdict(),
        "format": form.kind,
        "family": family.name,
        "coordinate_space": family.space.value,
        "min_pixels": family.budget.min_pixels,
        "max_pixels": family.budget.max_pixels,
        "max_length": tally.max_length,
        "rows": written.rows,
        "steps": tally.examples,
        "shards": list(written.shards),
        "left_out": dict(sorted(tally.left_out.items())),
    }
    (folder / FIGURES_FILE).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return ExportedFolder(written, tally)


def _kept(steps: Iterable[StepExample | LeftOutStep], tally: Tally) -> Iterator[StepExample]:
    for step in steps:
        if isinstance(step, LeftOutStep):
            tally.left_out[step.reason] += 1
        else:
            yield step
