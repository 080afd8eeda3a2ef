"""Runs a training with a `transformers.Trainer` from its last checkpoint, and saves the new version."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator, Sequence, Sized
from pathlib import Path
from typing import Any, Final, TypeVar

import torch
from torch import Tensor
from transformers import TrainerCallback, TrainingArguments, set_seed
from transformers.trainer import TRAINER_STATE_NAME

from trajmill.schemas.errors import BadInputError, TrainingFailedError
from trajmill.stages.training.base import Progress, TrainingReport
from trajmill.stages.training.hugging_face.encoding import ReplyBatch
from trajmill.stages.training.hugging_face.launch import TrainingJob
from trajmill.stages.training.hugging_face.loading import TrainedModel, load_trained
from trajmill.stages.training.hugging_face.spec import HuggingFaceRecipe
from trajmill.stages.training.lineage import (
    copy_settings,
    is_begun,
    made_from,
    tail_mean,
    version_of,
    write_metrics,
    write_source,
)

CHECKPOINTS: Final = "checkpoints"
"""Folder of the checkpoints during a training."""
ROWS: Final = "rows"
"""Folder for a copy of the rows during the training."""
ADAPTER_FILE: Final = "adapter_config.json"
_FIGURES = ("loss", "grad_norm", "learning_rate", "clipped", "divergence", "reward", "format", "spread")
Rows = TypeVar("Rows", bound=Sized)


def run_training(
    job: TrainingJob,
    processes: int,
    progress: Progress | None,
    files: Sequence[Path],
    read: Callable[[Sequence[Path], Path], Rows],
    trainer_of: Callable[[Rows, TrainedModel, dict[str, Any]], Any],
    arguments: type[TrainingArguments] = TrainingArguments,
    **settings: Any,
) -> TrainingReport:
    """Train on the rows of some files, and save the new version.

    Checkpoints of the same training are continued; those of another one are removed.

    Args:
        job: the training.
        processes: number of processes that train together.
        progress: gets the numbers of updates.
        files: the files that are read.
        read: reads their rows, with a folder for a copy.
        trainer_of: makes the trainer of the rows, the model and keyword arguments.
        arguments: the class of the trainer's settings.
        settings: further settings.

    Raises:
        BadInputError: the model or the rows cannot be used.
        TrainingFailedError: the training made no policy.
    """
    source = made_from(job.recipe, job.parent, files, job.seed)
    if not is_begun(job.folder, source):
        shutil.rmtree(job.folder / CHECKPOINTS, ignore_errors=True)
        write_source(job.folder, source)
    rows = read(files, job.folder / ROWS)
    args = arguments(**trainer_settings(job.recipe, len(rows), job.seed, job.folder, processes), **settings)
    # For more than one GPU, accelerate starts a process for each.
    args._n_gpu = min(args.n_gpu, 1)  # noqa: SLF001
    set_seed(args.seed)
    model = load_trained(job.recipe, job.parent, args.seed)
    callbacks = [TrainingWatch(progress)]
    given = {"args": args, "processing_class": model.tokenizer, "callbacks": callbacks}
    trainer = trainer_of(rows, model, given)
    whole = [state.parent for state in (job.folder / CHECKPOINTS).glob(_STATE_FILES) if _is_json(state)]
    last = max(whole, key=lambda folder: int(folder.name.rpartition("-")[2]), default=None)
    # An adapter has only one set of names.
    if last is not None and not (last / ADAPTER_FILE).is_file():
        _restore(model.network, last)
    trainer.train(resume_from_checkpoint=None if last is None else str(last))
    history = [
        {"update": each["step"], **{name: each[name] for name in _FIGURES if name in each}}
        for each in trainer.state.log_history
        if "loss" in each
    ]
    losses = [each["loss"] for each in history]
    report = TrainingReport(len(rows), 0, len(history), tail_mean(losses), version_of(source))
    if trainer.accelerator.is_main_process:
        _save(trainer, model, job)
        write_metrics(job.folder, report, history)
    trainer.accelerator.wait_for_everyone()
    return report


_STATE_FILES = f"checkpoint-*/{TRAINER_STATE_NAME}"


def _is_json(file: Path) -> bool:
    """Return whether the state of a trainer, the last file of its checkpoint, was written to its end."""
    try:
        json.loads(file.read_text())
    except ValueError:
        return False
    return True


def _restore(network: Any, checkpoint: Path) -> None:
    """Load the weights of a checkpoint into a network.

    The trainer does so too, but with the names of the layers in memory. Vision-language models are saved with the names
    of their first publication, so it finds none, warns, and would continue with the weights of the parent.
    """
    saved = type(network).from_pretrained(checkpoint, local_files_only=True, dtype=network.dtype)
    network.load_state_dict(saved.state_dict())


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


def trainer_settings(recipe: HuggingFaceRecipe, rows: int, seed: int, folder: Path, processes: int) -> dict[str, Any]:
    """Return the arguments of `TrainingArguments`; raises BadInputError if a batch cannot be divided evenly."""
    together = recipe.rows_at_once * processes
    if recipe.batch % together:
        raise BadInputError(f"train.batch is {recipe.batch}, no multiple of rows_at_once times processes, {together}")
    on_gpu = torch.cuda.is_available()
    return {
        "output_dir": str(folder / CHECKPOINTS),
        "per_device_train_batch_size": recipe.rows_at_once,
        "gradient_accumulation_steps": recipe.batch // together,
        "max_steps": recipe.updates(rows),
        "learning_rate": recipe.learning_rate,
        "warmup_steps": recipe.warmup_updates,
        "lr_scheduler_type": "cosine_with_min_lr",
        "lr_scheduler_kwargs": {"min_lr_rate": recipe.final_rate},
        "weight_decay": recipe.weight_decay,
        "adam_beta2": recipe.second_moment,
        "max_grad_norm": recipe.gradient_norm,
        "optim": "adamw_torch",
        "seed": seed % 2**32,
        "use_cpu": not on_gpu,
        "bf16": on_gpu and torch.cuda.is_bf16_supported(),
        "gradient_checkpointing": recipe.gradient_checkpointing,
        "gradient_checkpointing_kwargs": {"use_reentrant": False} if recipe.gradient_checkpointing else None,
        "logging_steps": 1,
        # NaN losses must be visible and not be left out of means.
        "logging_nan_inf_filter": False,
        "save_steps": recipe.checkpoint_updates,
        "save_total_limit": 1,
        # Keep columns that are no arguments of the model: weights, advantages, old probabilities.
        "remove_unused_columns": False,
        "report_to": "none",
        "disable_tqdm": True,
    }


def moved(batch: dict[str, Any], device: torch.device) -> dict[str, Any]:
    return {
        name: moved(value, device) if isinstance(value, dict) else value.to(device) for name, value in batch.items()
    }


class WholeUpdateLoss:
    """A mixin for trainers: the loss does not depend on how an update is divided between batches and devices.

    A trainer that gets the means of batches gives a token of a short batch more weight than one of a long batch. Here
    each batch gives a sum, which is divided by the divisor of the whole update.
    """

    loss_is_scaled_for_ga: bool | None = True
    """Makes `transformers.Trainer` not divide the loss by the number of batches of an update."""
    accelerator: Any

    def batch_of(self, inputs: dict[str, Any]) -> Any:
        return ReplyBatch(**inputs)

    def batch_sum(self, model: Any, batch: Any) -> Tensor:
        raise NotImplementedError

    def divisor(self, batch: Any) -> Tensor:
        raise NotImplementedError

    def get_batch_samples(
        self, epoch_iterator: Iterator[dict[str, Any]], num_batches: int, device: torch.device
    ) -> tuple[list[dict[str, Any]], Tensor]:
        """Return the batches of one update, and the divisor of their loss over all devices."""
        batches: list[dict[str, Any]]
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)  # type: ignore[misc]
        own = sum((self.divisor(self.batch_of(batch)) for batch in batches), torch.zeros(()))
        whole = self.accelerator.gather(own.to(device)).sum()
        # Where nothing is learned, the sum is 0, too.
        return batches, torch.where(whole > 0, whole, torch.ones_like(whole))

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | None = None,
    ) -> Tensor:
        assert num_items_in_batch is not None
        loss = self.batch_sum(model, self.batch_of(inputs)) / num_items_in_batch
        # The devices average gradients, but their sum is needed.
        share: Tensor = loss * self.accelerator.num_processes
        return share

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        # The trainer would look for the tokens under another name.
        return 0


class TrainingWatch(TrainerCallback):
    """Reports the progress, and ends a training whose loss is NaN."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Raises TrainingFailedError for a loss or a gradient that is NaN."""
        for name in ("loss", "grad_norm"):
            value = (logs or {}).get(name, 0.0)
            if not math.isfinite(value):
                what = "loss" if name == "loss" else "gradient"
                raise TrainingFailedError(
                    f"the {what} is {value} at update {state.global_step} of {state.max_steps}: "
                    "lower train.learning_rate, or look at the rows of the release"
                )

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.on_step_end(args, state, control)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._progress is not None:
            self._progress(state.global_step, state.max_steps)
