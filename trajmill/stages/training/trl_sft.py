"""TRL's `SFTTrainer` with a weight for each row, and supervised training with it.

TRL 1.16 has no weights: its vision collator drops the column `loss_weight`, and its loss is the mean over all tokens.
The loss here is the weighted mean, so a row of weight 8 is computed once and not eight times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor
from trl import SFTConfig, SFTTrainer

from trajmill.stages.models.transformers_local.generation import LoadedParts
from trajmill.stages.training.hugging_face.encoding import (
    ReplyBatch,
    ReplyCollator,
    reply_logits,
    supervised_files,
    supervised_reply,
    supervised_rows,
    supervised_sum,
    token_log_probs,
)
from trajmill.stages.training.hugging_face.launch import TrainingJob
from trajmill.stages.training.hugging_face.run import ROWS, WholeUpdateLoss, run_training
from trajmill.stages.training.hugging_face.spec import TrlSftSpec
from trajmill.stages.training.spec import Progress, TrainingReport

WEIGHT: Final = "loss_weight"
_IGNORED: Final = -100  # the label of a token that is not learned


def _weighted(collate: Callable[[Sequence[dict[str, Any]]], Any], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {**collate(rows), WEIGHT: torch.tensor([row[WEIGHT] for row in rows], dtype=torch.float32)}


class WeightedSFTTrainer(WholeUpdateLoss, SFTTrainer):  # type: ignore[misc]
    """`SFTTrainer` whose loss is the mean over the learned tokens of an update, weighted by the rows' `loss_weight`.

    It takes the arguments of `SFTTrainer`; the rows need the column `loss_weight`, as those of `trajmill export
    --format trl`. The loss does not depend on how an update is divided between batches and devices.
    """

    data_collator: Any
    _signature_columns: list[str]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.data_collator = partial(_weighted, self.data_collator)

    def batch_of(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return inputs

    def batch_sum(self, model: Any, batch: dict[str, Any]) -> Tensor:
        inputs = {name: value for name, value in batch.items() if name not in {"labels", WEIGHT}}
        learned = batch["labels"] != _IGNORED
        first = int(learned.any(0).int().argmax())
        tokens, mask = batch["labels"][:, first:].clamp(min=0), learned[:, first:]
        # Logits of the prompts are not computed: they would be gigabytes.
        logits = model(**inputs, logits_to_keep=mask.shape[1] + 1, use_cache=False).logits[:, :-1]
        return supervised_sum(token_log_probs(logits, tokens), mask, batch[WEIGHT])

    def divisor(self, batch: dict[str, Any]) -> Tensor:
        weight: Tensor = ((batch["labels"] != _IGNORED) * batch[WEIGHT][:, None]).sum()
        return weight

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        if WEIGHT not in self._signature_columns:
            self._signature_columns = [*self._signature_columns, WEIGHT]


class ReplyTrainer(WholeUpdateLoss, SFTTrainer):  # type: ignore[misc]
    """`SFTTrainer` with the same loss on batches of a `ReplyCollator`."""

    def batch_sum(self, model: Any, batch: ReplyBatch) -> Tensor:
        return supervised_sum(token_log_probs(reply_logits(model, batch), batch.tokens), batch.mask, batch.weights)

    def divisor(self, batch: ReplyBatch) -> Tensor:
        return (batch.mask * batch.weights[:, None]).sum()


def train_supervised(job: TrainingJob, processes: int = 1, progress: Progress | None = None) -> TrainingReport:
    recipe, files = job.recipe, supervised_files(job.release)
    assert isinstance(recipe, TrlSftSpec)
    rows = supervised_rows(files, job.folder / ROWS, recipe.only_newest_round)

    def trainer_of(model: LoadedParts, given: dict[str, Any]) -> ReplyTrainer:
        collate = ReplyCollator(model, supervised_reply)
        return ReplyTrainer(model=model.network, train_dataset=rows, data_collator=collate, **given)

    unprepared = {"max_length": None, "dataset_kwargs": {"skip_prepare_dataset": True}}
    return run_training(job, processes, progress, files, len(rows), trainer_of, SFTConfig, **unprepared)
