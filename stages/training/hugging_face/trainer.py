"""What the trainers of both recipes share: settings, the loss over a whole update, and what is noticed on the way."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from transformers import TrainerCallback

from trajmill.schemas.errors import BadInputError, TrainingFailedError
from trajmill.stages.training.base import Progress
from trajmill.stages.training.hugging_face.encoding import ReplyBatch
from trajmill.stages.training.hugging_face.spec import HuggingFaceRecipe

CHECKPOINTS: Final = "checkpoints"
"""Folder of the checkpoints of a training that is under way."""


def trainer_settings(recipe: HuggingFaceRecipe, rows: int, seed: int, folder: Path, processes: int) -> dict[str, Any]:
    """The arguments of `TrainingArguments`.

    Args:
        recipe: its keys.
        rows: how many are learned from.
        seed: of their order.
        folder: of the new version.
        processes: how many train together.

    Raises:
        BadInputError: an update's rows cannot be divided evenly.
    """
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
        # A loss that is no number must be seen, not left out of a mean.
        "logging_nan_inf_filter": False,
        "save_steps": recipe.checkpoint_updates,
        "save_total_limit": 1,
        # Weights, advantages and old probabilities are columns that no model knows.
        "remove_unused_columns": False,
        "report_to": "none",
        "disable_tqdm": True,
    }


class WholeUpdateLoss:
    """Mixed into a trainer: a loss that is the same however an update is cut into batches and spread over devices.

    A trainer that is given means of batches weighs a token of a short batch more than one of a long batch. Here each
    batch gives a sum, which is divided by what the whole update holds.
    """

    loss_is_scaled_for_ga: bool | None = True
    """Tells `transformers.Trainer` not to divide the loss by the number of batches of an update."""
    accelerator: Any

    def batch_sum(self, model: Any, batch: ReplyBatch) -> Tensor:
        """The sum of the objective over a batch."""
        raise NotImplementedError

    def divisor(self, batch: ReplyBatch) -> Tensor:
        """What a batch adds to the number that the sum of an update is divided by."""
        raise NotImplementedError

    def get_batch_samples(
        self, epoch_iterator: Iterator[dict[str, Any]], num_batches: int, device: torch.device
    ) -> tuple[list[dict[str, Any]], Tensor]:
        """The batches of one update, and the divisor of their loss, of all devices together."""
        batches: list[dict[str, Any]]
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)  # type: ignore[misc]
        own = sum((self.divisor(ReplyBatch(**batch)) for batch in batches), torch.zeros(()))
        return batches, self.accelerator.gather(own.to(device)).sum()

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | None = None,
    ) -> Tensor:
        """The share of a batch in the loss of its update."""
        assert num_items_in_batch is not None
        loss = self.batch_sum(model, ReplyBatch(**inputs)) / num_items_in_batch
        # Gradients are averaged over the devices, and are meant to be summed.
        share: Tensor = loss * self.accelerator.num_processes
        return share

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """Not counted: the trainer looks for the tokens under another name."""
        return 0


class TrainingWatch(TrainerCallback):
    """Tells the progress, and ends a training whose loss is no number."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Raises TrainingFailedError for a loss or a gradient that is no number."""
        for name in ("loss", "grad_norm"):
            value = (logs or {}).get(name, 0.0)
            if not math.isfinite(value):
                what = "loss" if name == "loss" else "gradient"
                raise TrainingFailedError(
                    f"the {what} is {value} at update {state.global_step} of {state.max_steps}: "
                    "lower train.learning_rate, or look at the rows of the release"
                )

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Tells how many updates are done."""
        if self._progress is not None:
            self._progress(state.global_step, state.max_steps)
