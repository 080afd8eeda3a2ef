"""Trajectory-level RL on stored replies: `transformers.Trainer` with the loss of equation 3 of paper 3.1.2."""

from __future__ import annotations

from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from datasets import Dataset
from torch import Tensor
from transformers import Trainer, TrainingArguments, set_seed

from trajmill.schemas.errors import BadInputError
from trajmill.stages.training.base import Progress, TrainingReport
from trajmill.stages.training.hugging_face.encoding import REFERENCE, ReplyBatch, ReplyCollator, reply_logits
from trajmill.stages.training.hugging_face.launch import TrainingJob
from trajmill.stages.training.hugging_face.loading import load_trained
from trajmill.stages.training.hugging_face.losses import clipped_sum, clipped_tokens, divergence_sum, token_log_probs
from trajmill.stages.training.hugging_face.rows import rl_files, rl_reply, rl_rows
from trajmill.stages.training.hugging_face.run import (
    ROWS,
    TrainingWatch,
    WholeUpdateLoss,
    begin,
    finish,
    moved,
    trainer_settings,
    use_one_device,
)
from trajmill.stages.training.trpo.spec import TrpoSpec


class TrajectoryTrainer(WholeUpdateLoss, Trainer):  # type: ignore[misc]
    """A trainer whose loss is equation 3 with step weights, and optionally a divergence from the old policy."""

    def __init__(self, recipe: TrpoSpec, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._recipe = recipe
        self._clipped = self._divergence = self._tokens = 0.0

    def batch_sum(self, model: Any, batch: ReplyBatch) -> Tensor:
        """The sum over the tokens of a batch."""
        recipe = self._recipe
        now = token_log_probs(reply_logits(model, batch), batch.tokens)
        old = batch.old if recipe.old_log_probs == "stored" else batch.reference
        total = clipped_sum(now, old, batch.mask, batch.advantages, batch.weights, recipe.clip_ratio)
        self._clipped += float(clipped_tokens(now.detach(), old, batch.mask, recipe.clip_ratio))
        self._tokens += float(batch.mask.sum())
        if recipe.divergence:
            away = divergence_sum(now, batch.reference, batch.mask)
            self._divergence += float(away.detach())
            total = total + recipe.divergence * away
        return total

    def divisor(self, batch: ReplyBatch) -> Tensor:
        """N of equation 3: the number of tokens."""
        return batch.mask.sum()

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Also log the share of clipped tokens, and the divergence if it is in the loss."""
        if self._tokens:
            logs["clipped"] = self._clipped / self._tokens
            if self._recipe.divergence:
                logs["divergence"] = self._divergence / self._tokens
        self._clipped = self._divergence = self._tokens = 0.0
        super().log(logs, start_time)


def train_on_trajectories(job: TrainingJob, processes: int = 1, progress: Progress | None = None) -> TrainingReport:
    """Train on the RL rows of a release.

    Raises:
        BadInputError: the model or the rows cannot be used, or the rows lack log probabilities that the recipe needs.
        TrainingFailedError: the training made no policy.
    """
    recipe = job.recipe
    assert isinstance(recipe, TrpoSpec)
    files = rl_files(job.release)
    version = begin(job, files)
    rows = rl_rows(files, job.folder / ROWS)
    if recipe.old_log_probs == "stored":
        _check_log_probs(rows)
    settings = TrainingArguments(**trainer_settings(recipe, len(rows), job.seed, job.folder, processes))
    use_one_device(settings)
    set_seed(settings.seed)
    model = load_trained(recipe, job.parent, settings.seed)
    collate = ReplyCollator(model.tokenizer, model.reader, model.context, rl_reply)
    if recipe.divergence or recipe.old_log_probs == "recomputed":
        network = model.network.to(settings.device)
        rows = rows.add_column(REFERENCE, reference_log_probs(network, rows, collate, recipe.rows_at_once))
    trainer = TrajectoryTrainer(
        recipe,
        model=model.network,
        args=settings,
        train_dataset=rows,
        data_collator=collate,
        processing_class=model.tokenizer,
        callbacks=[TrainingWatch(progress)],
    )
    return finish(job, trainer, model, len(rows), version)


@torch.no_grad()
def reference_log_probs(network: Any, rows: Dataset, collate: ReplyCollator, at_once: int) -> list[list[float]]:
    """For each row, the log probabilities of its reply under the present network; processes share the work."""
    network.eval()
    found: list[list[float]] = []
    with PartialState().split_between_processes(list(range(len(rows)))) as own:
        for start in range(0, len(own), at_once):
            made = collate([rows[number] for number in own[start : start + at_once]])
            batch = ReplyBatch(**moved(made, network.device))
            log_probs = token_log_probs(reply_logits(network, batch), batch.tokens).cpu()
            found.extend(row[mask.bool()].tolist() for row, mask in zip(log_probs, made["mask"], strict=True))
    gathered: list[list[float]] = gather_object(found)
    return gathered


def _check_log_probs(rows: Dataset) -> None:
    """Raises BadInputError if a row has no log probabilities of its reply's tokens."""
    pairs = zip(rows["response_token_ids"], rows["old_logprobs"], strict=True)
    missing = sum(not tokens or len(tokens) != len(log_probs or ()) for tokens, log_probs in pairs)
    if missing:
        raise BadInputError(
            f"{missing} of {len(rows)} RL rows have no log probabilities of their replies' tokens: serve the policy so "
            "that it gives them (vLLM, rl.tokens = true), or set train.old_log_probs = 'recomputed'"
        )
