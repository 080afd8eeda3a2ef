"""Copies the files of a model that a training does not change."""

from __future__ import annotations

import shutil
from pathlib import Path

from trajmill.stages.training.lineage import MADE_FROM, METRICS

_WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth"})


def copy_settings(parent: Path, folder: Path, keep: bool = False) -> None:
    """Copy configuration, vocabulary, chat template and image settings of a model to the folder of new weights.

    Args:
        parent: folder of the model.
        folder: folder of the new weights.
        keep: whether existing files are kept.
    """
    for file in parent.iterdir():
        weights = file.suffix in _WEIGHTS or file.name.endswith(".index.json")
        if not file.is_file() or weights or file.name in {MADE_FROM, METRICS}:
            continue
        if not (keep and (folder / file.name).exists()):
            shutil.copyfile(file, folder / file.name)
