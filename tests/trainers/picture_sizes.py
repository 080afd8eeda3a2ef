"""The sizes at which a trainer's loader hands pictures to the model."""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.trainers.loaded import Job


def main(trainer: str, release: str, model: str, bounds: dict[str, str]) -> list[list[list[int]]]:
    figures = json.loads((Path(release) / "export.json").read_text())
    job = Job(figures["format"], release, model, work="work", max_length=figures["max_length"], replies=())
    os.environ |= bounds
    rows: Any = import_module(f"tests.trainers.load_{trainer}").supervised(job)
    return [row.grids for row in (rows["rows"] if isinstance(rows, dict) else rows)]
