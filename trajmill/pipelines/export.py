"""Writes a release as the folder that a trainer reads."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trajmill.pipelines.exporting.exporting import Exporting
from trajmill.pipelines.exporting.kinds import kind_examples
from trajmill.pipelines.exporting.rl import compared_trajectories, rl_steps
from trajmill.pipelines.exporting.supervised import supervised_steps
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.errors import BadInputError
from trajmill.stages.export.formats.base import TrainerFormat
from trajmill.stages.export.formats.card import ExportedFolder, ExportedRelease
from trajmill.stages.export.formats.folder import ReleaseSteps, write_folder
from trajmill.warehouse.atomic import disk_full_as_error, replacing_folder
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.releases import verify_release
from trajmill.warehouse.screens import WarehouseScreens

_LICENCE = "apache-2.0"


class ExportRequest(NamedTuple):
    """What to write, and where."""

    release: str
    form: TrainerFormat
    family: Family
    """The family, with the pixel budget that its model is trained with."""
    folder: Path
    """A new folder, or an empty one."""
    kind: str = ""
    """A derived kind; empty for the steps of judged attempts."""


def export_release_to(warehouse: Warehouse, request: ExportRequest) -> ExportedFolder:
    """Write the rows of a release in a trainer's format and a family's words.

    Raises:
        BadInputError: there is no such release, a file of it is damaged, it has no supervised rows, the format is for
            RL and the release has no groups, an RL step has not one log probability for each token, no step can be
            written in this form, or the folder is not empty.
        TrajmillError: the disk is full; the folder is not made.
    """
    release, form = verify_release(warehouse, request.release), request.form
    compared = [] if not form.rl_columns or request.kind else compared_trajectories(warehouse, release)
    screens = WarehouseScreens(warehouse)
    source = ExportedRelease(release.name, release.run_id, release.round, release.code_version, _LICENCE, request.kind)
    with disk_full_as_error(request.folder), replacing_folder(request.folder) as folder:
        exporting = Exporting(warehouse, release, request.family, screens, folder)
        supervised = kind_examples(exporting, request.kind, form) if request.kind else supervised_steps(exporting)
        steps = ReleaseSteps(supervised, rl_steps(exporting, compared))
        exported = write_folder(folder, form, request.family, source, steps, screens)
        if not exported.written.rows:
            reasons = ", ".join(f"{count} {reason}" for reason, count in exported.counts.left_out.most_common())
            raise BadInputError(
                f"release {release.name}: no step can be written for {request.family.name} ({reasons or 'it is empty'})"
            )
    return exported
