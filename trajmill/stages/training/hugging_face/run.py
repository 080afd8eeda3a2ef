"""Continues a training from its last checkpoint, and saves the new version with its sources."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from transformers.trainer import TRAINER_STATE_NAME

from trajmill.schemas.errors import TrainingFailedError
from trajmill.stages.training.base import TrainingReport
from trajmill.stages.training.hugging_face.job import TrainingJob
from trajmill.stages.training.hugging_face.loading import TrainedModel
from trajmill.stages.training.hugging_face.trainer import CHECKPOINTS
from trajmill.stages.training.lineage import (
    is_begun,
    made_from,
    tail_mean,
    version_of,
    write_metrics,
    write_source,
)
from trajmill.stages.training.settings_files import copy_settings

ROWS: Final = "rows"
"""Folder for a copy of the rows during the training."""
ADAPTER_FILE: Final = "adapter_config.json"
_TOLD = ("loss", "grad_norm", "learning_rate", "clipped", "divergence", "reward", "format", "spread")


def begin(job: TrainingJob, files: Sequence[Path]) -> str:
    """Prepare the folder of a training, and return the version that it will make.

    Files of another training are removed; checkpoints of this one are kept.
    """
    source = made_from(job.recipe, job.parent, files, job.seed)
    if not is_begun(job.folder, source):
        shutil.rmtree(job.folder / CHECKPOINTS, ignore_errors=True)
        write_source(job.folder, source)
    return version_of(source)


def finish(job: TrainingJob, trainer: Any, model: TrainedModel, rows: int, version: str) -> TrainingReport:
    """Train from the last checkpoint on, and save the new version.

    Raises:
        TrainingFailedError: the loss is NaN, or memory ran out.
    """
    last = _last_whole_checkpoint(job.folder / CHECKPOINTS)
    if last is not None:
        _restore(model.network, last)
    trainer.train(resume_from_checkpoint=None if last is None else str(last))
    history = [{"update": each["step"], **_numbers(each)} for each in trainer.state.log_history if "loss" in each]
    losses = [each["loss"] for each in history]
    report = TrainingReport(rows, 0, len(history), tail_mean(losses), version)
    if trainer.accelerator.is_main_process:
        _save(trainer, model, job)
        write_metrics(job.folder, report, history)
    trainer.accelerator.wait_for_everyone()
    return report


def _last_whole_checkpoint(checkpoints: Path) -> Path | None:
    """The newest checkpoint that was written to its end, which is the state of the trainer."""
    whole = [state.parent for state in checkpoints.glob(f"checkpoint-*/{TRAINER_STATE_NAME}") if _is_json(state)]
    return max(whole, key=lambda folder: int(folder.name.rpartition("-")[2]), default=None)


def _is_json(file: Path) -> bool:
    try:
        json.loads(file.read_text())
    except ValueError:
        return False
    return True


def _restore(network: Any, checkpoint: Path) -> None:
    """Load the weights of a checkpoint into a network.

    The trainer does so too, but with the names of the layers in memory. Vision-language models are saved with the names
    of their first publication, so it finds none, warns, and would continue with the weights of the parent. An adapter
    has only one set of names.
    """
    if not (checkpoint / ADAPTER_FILE).is_file():
        saved = type(network).from_pretrained(checkpoint, local_files_only=True, dtype=network.dtype)
        network.load_state_dict(saved.state_dict())


def _numbers(logged: dict[str, Any]) -> dict[str, float]:
    return {name: logged[name] for name in _TOLD if name in logged}


def _save(trainer: Any, model: TrainedModel, job: TrainingJob) -> None:
    """Write the weights in the precision of the parent, and copies of the parent's other files."""
    network = trainer.accelerator.unwrap_model(trainer.model)
    adapted = bool(job.recipe.lora_rank or job.parent.adapter)
    try:
        (network if adapted else network.to(model.dtype)).save_pretrained(job.folder)
        if not adapted:
            copy_settings(job.parent.folder, job.folder)
    except OSError as error:
        raise TrainingFailedError(f"{job.folder}: the new weights cannot be written: {error}") from error
    for left in (CHECKPOINTS, ROWS):
        shutil.rmtree(job.folder / left, ignore_errors=True)
