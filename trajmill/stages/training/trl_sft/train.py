"""Trains with TRL's `SFTTrainer`, with a weight for each reply.

TRL uses no weights: its loss is the mean over all tokens. The loss here is the weighted mean. So a weight of 0.3 counts
as 0.3 of a row, and a row of weight 8 is computed once and not eight times.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers import set_seed
from trl import SFTConfig, SFTTrainer

from trajmill.stages.training.base import Progress, TrainingReport
from trajmill.stages.training.hugging_face.encoding import ReplyBatch, ReplyCollator, reply_logits
from trajmill.stages.training.hugging_face.launch import TrainingJob
from trajmill.stages.training.hugging_face.loading import load_trained
from trajmill.stages.training.hugging_face.losses import supervised_sum, token_log_probs
from trajmill.stages.training.hugging_face.rows import supervised_files, supervised_reply, supervised_rows
from trajmill.stages.training.hugging_face.run import (
    ROWS,
    TrainingWatch,
    WholeUpdateLoss,
    begin,
    finish,
    trainer_settings,
    use_one_device,
)
from trajmill.stages.training.trl_sft.spec import TrlSftSpec


class WeightedSftTrainer(WholeUpdateLoss, SFTTrainer):  # type: ignore[misc]
    """TRL's trainer with another loss: the mean over the tokens of replies, weighted by their replies' weights."""

    def batch_sum(self, model: Any, batch: ReplyBatch) -> Tensor:
        """The weighted sum of the tokens' cross entropy."""
        return supervised_sum(token_log_probs(reply_logits(model, batch), batch.tokens), batch.mask, batch.weights)

    def divisor(self, batch: ReplyBatch) -> Tensor:
        """The weights of the tokens."""
        return (batch.mask * batch.weights[:, None]).sum()


def train_supervised(job: TrainingJob, processes: int = 1, progress: Progress | None = None) -> TrainingReport:
    """Train on the supervised rows of a release.

    Raises:
        BadInputError: the model or the rows cannot be used.
        TrainingFailedError: the training made no policy.
    """
    files = supervised_files(job.release)
    version = begin(job, files)
    assert isinstance(job.recipe, TrlSftSpec)
    rows = supervised_rows(files, job.folder / ROWS, job.recipe.only_newest_round)
    settings = SFTConfig(
        **trainer_settings(job.recipe, len(rows), job.seed, job.folder, processes),
        max_length=None,
        dataset_kwargs={"skip_prepare_dataset": True},
    )
    use_one_device(settings)
    set_seed(settings.seed)
    model = load_trained(job.recipe, job.parent, settings.seed)
    trainer = WeightedSftTrainer(
        model=model.network,
        args=settings,
        train_dataset=rows,
        data_collator=ReplyCollator(model.tokenizer, model.reader, model.context, supervised_reply),
        processing_class=model.tokenizer,
        callbacks=[TrainingWatch(progress)],
    )
    return finish(job, trainer, model, len(rows), version)
