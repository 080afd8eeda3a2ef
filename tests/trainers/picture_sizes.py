"""The sizes at which a trainer's loader hands pictures to the model; run by the recipe `command` in its environment.

python -m tests.trainers.picture_sizes TRAINER RELEASE MODEL OUT ANSWERS
"""

from __future__ import annotations

import json
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.trainers.loaded import Job


def main(trainer: str, release: Path, model: Path, out: Path, answers: Path) -> None:
    figures = json.loads((release / "export.json").read_text())
    loader: Any = import_module(f"tests.trainers.load_{trainer}")
    job = Job(
        format=figures["format"],
        folder=str(release),
        processor=str(model),
        work=str(answers.parent / "work"),
        max_length=figures["max_length"],
        replies=(),
    )
    rows = loader.supervised(job)
    answers.write_text(json.dumps([row.grids for row in (rows["rows"] if isinstance(rows, dict) else rows)]))
    save_file({"weight": torch.zeros(1)}, out / "model.safetensors")
    for name in ("config.json", "preprocessor_config.json"):
        shutil.copyfile(model / name, out / name)


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
