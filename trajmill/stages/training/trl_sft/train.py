"""Trains with TRL's `SFTTrainer`, with a weight for each reply.

TRL uses no weights: its loss is the mean over all tokens. The loss here is the weighted mean. So a weight of 0.3 counts
as 0.3 of a row, and a row of weight 8 is computed once and not eight times.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from torch import Tensor
from trl import SFTConfig, SFTTrainer

from trajmill.stages.training.base import Progress, TrainingReport
from trajmill.stages.training.hugging_face.encoding import ReplyBatch, ReplyCollator, reply_logits
from trajmill.stages.training.hugging_face.launch import TrainingJob
from trajmill.stages.training.hugging_face.loading import TrainedModel
from trajmill.stages.training.hugging_face.losses import supervised_sum, token_log_probs
from trajmill.stages.training.hugging_face.rows import supervised_files, supervised_reply, supervised_rows
from trajmill.stages.training.hugging_face.run import WholeUpdateLoss, run_training
from trajmill.stages.training.hugging_face.spec import TrlSftSpec


class WeightedSftTrainer(WholeUpdateLoss, SFTTrainer):  # type: ignore[misc]
    """TRL's trainer with another loss: the mean over the tokens of replies, weighted by their replies' weights."""

    def batch_sum(self, model: Any, batch: ReplyBatch) -> Tensor:
        return supervised_sum(token_log_probs(reply_logits(model, batch), batch.tokens), batch.mask, batch.weights)

    def divisor(self, batch: ReplyBatch) -> Tensor:
        return (batch.mask * batch.weights[:, None]).sum()


def train_supervised(job: TrainingJob, processes: int = 1, progress: Progress | None = None) -> TrainingReport:
    recipe = job.recipe
    assert isinstance(recipe, TrlSftSpec)

    def read(files: Sequence[Path], cache: Path) -> Dataset:
        return supervised_rows(files, cache, recipe.only_newest_round)

    def trainer_of(rows: Dataset, model: TrainedModel, given: dict[str, Any]) -> WeightedSftTrainer:
        collate = ReplyCollator(model.tokenizer, model.reader, model.context, supervised_reply)
        return WeightedSftTrainer(model=model.network, train_dataset=rows, data_collator=collate, **given)

    unprepared = {"max_length": None, "dataset_kwargs": {"skip_prepare_dataset": True}}
    files = supervised_files(job.release)
    return run_training(job, processes, progress, files, read, trainer_of, SFTConfig, **unprepared)
