"""The process of a training: `python -m trajmill.stages.training.hugging_face.worker JOB OUTCOME`."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from trajmill.schemas.errors import BadInputError, TrainingFailedError, TrajmillError
from trajmill.stages.training.hugging_face.launch import PROGRESS, TrainingJob
from trajmill.stages.training.spec import Progress, TrainingReport


def train_in_this_process(job: TrainingJob, processes: int = 1, progress: Progress | None = None) -> TrainingReport:
    """Do a training in this process. A lack of memory raises TrainingFailedError with one line."""
    module, function = type(job.recipe).trainer.split(":")
    try:
        trained: TrainingReport = getattr(importlib.import_module(module), function)(job, processes, progress)
    except (MemoryError, torch.OutOfMemoryError, RuntimeError) as error:
        message = str(error).lower()
        known = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not (known or "out of memory" in message or "alloc" in message):
            raise
        raise TrainingFailedError(
            f"memory ran out with {job.recipe.rows_at_once} rows at once: lower train.rows_at_once, or set "
            "train.gradient_checkpointing or train.lora_rank"
        ) from error
    return trained


def main(job_file: Path, outcome: Path) -> None:
    from accelerate import PartialState

    def progress(done: int, updates: int) -> None:
        print(f"{PROGRESS}{done} {updates}", flush=True)

    state = PartialState()
    ended: dict[str, Any]
    try:
        job = TrainingJob.from_json(job_file.read_text())._replace(variables=os.environ)
        ended = {"report": train_in_this_process(job, state.num_processes, progress)._asdict()}
    except TrajmillError as error:
        ended = {"error": str(error), "bad_input": isinstance(error, BadInputError)}
    if state.is_main_process:
        outcome.write_text(json.dumps(ended))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
