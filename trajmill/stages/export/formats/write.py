"""Writes a release as a folder that a trainer reads: rows, the trainer's other files, card and figures."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

from trajmill.schemas.dialects.families import Family
from trajmill.stages.export.base import BulkScreenReader
from trajmill.stages.export.formats.base import TrainerFormat, TrainerSettings
from trajmill.stages.export.formats.card import ExportedRelease, export_card
from trajmill.stages.export.formats.exported import ExportedFolder, ReleaseSteps
from trajmill.stages.export.formats.repetition import repeat_by_weight, without_weightless
from trajmill.stages.export.formats.rows.written import WrittenRows
from trajmill.stages.export.formats.tally import RLTally, Tally

FIGURES_FILE: Final = "export.json"


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
        BadInputError: the log probabilities of an RL step are not one for each token.
        KeyError: a screen is not stored.
        OSError: the disk is full, or the folder cannot be written.
    """
    tally, rl_tally = Tally(), RLTally()
    examples = tally.counted(without_weightless(steps.supervised))
    written = form.write(folder, repeat_by_weight(examples) if form.weights_as_rows else examples, screens)
    rl_written = WrittenRows(0, ())
    if form.rl_steps is not None:
        rl_written = form.rl_steps.write(folder, rl_tally.counted(steps.rl), screens)
    exported = ExportedFolder(written, tally, rl_written, rl_tally)
    settings = TrainerSettings(family, max(tally.max_length, rl_tally.max_length), tally.largest_image)
    form.finish(folder, settings)
    (folder / "README.md").write_text(export_card(source, form, settings, exported), encoding="utf-8")
    figures = json.dumps(_figures(source, form, settings, exported), indent=1)
    (folder / FIGURES_FILE).write_text(figures + "\n", encoding="utf-8")
    return exported


def _figures(
    source: ExportedRelease, form: TrainerFormat, settings: TrainerSettings, exported: ExportedFolder
) -> dict[str, Any]:
    family, tally, rl_tally = settings.family, exported.tally, exported.rl_tally
    return {
        **source._asdict(),
        "format": form.kind,
        "family": family.name,
        "coordinate_space": family.space.value,
        "min_pixels": family.budget.min_pixels,
        "max_pixels": family.budget.max_pixels,
        "max_length": settings.max_length,
        "rows": exported.written.rows,
        "steps": tally.examples,
        "repeated_rows": exported.repeated_rows,
        "shards": list(exported.written.shards),
        "left_out": dict(sorted(tally.left_out.items())),
        "rl_rows": exported.rl_written.rows,
        "rl_shards": list(exported.rl_written.shards),
        "rl_left_out": dict(sorted(rl_tally.left_out.items())),
        "rl_group_sizes": {str(size): count for size, count in sorted(Counter(rl_tally.group_sizes.values()).items())},
    }
