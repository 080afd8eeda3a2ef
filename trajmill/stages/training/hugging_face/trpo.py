"""Trajectory-level RL on stored replies: `transformers.Trainer` with the loss of equation 3 of paper 3.1.2."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from datasets import Dataset
from torch import Tensor
from transformers import Trainer

from trajmill.schemas.errors import BadInputError
from trajmill.stages.training.base import Progress, TrainingReport
from trajmill.stages.training.hugging_face.encoding import REFERENCE, ReplyBatch, ReplyCollator, reply_logits
from trajmill.stages.training.hugging_face.launch import TrainingJob
from trajmill.stages.training.hugging_face.loading import TrainedModel
from trajmill.stages.training.hugging_face.losses import clipped_sum, clipped_tokens, divergence_sum, token_log_probs
from trajmill.stages.training.hugging_face.rows import rl_files, rl_reply, rl_rows
from trajmill.stages.training.hugging_face.run import WholeUpdateLoss, moved, run_training
from trajmill.stages.training.hugging_face.spec import TrpoSpec


class TrajectoryTrainer(WholeUpdateLoss, Trainer):  # type: ignore[misc]
    """A trainer whose loss is equation 3 with step weights, and optionally a divergence from the old policy."""

    def __init__(self, recipe: TrpoSpec, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._recipe = recipe
        self._clipped = self._divergence = self._tokens = 0.0

    def batch_sum(self, model: Any, batch: ReplyBatch) -> Tensor:
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
    """Train on the RL rows of a release; raises BadInputError if they lack log probabilities that the recipe needs."""
    recipe = job.recipe
    assert isinstance(recipe, TrpoSpec)

    def read(files: Sequence[Path], cache: Path) -> Dataset:
        rows = rl_rows(files, cache)
        pairs = zip(rows["response_token_ids"], rows["old_logprobs"], strict=True)
        missing = sum(not tokens or len(tokens) != len(log_probs or ()) for tokens, log_probs in pairs)
        if missing and recipe.old_log_probs == "stored":
            raise BadInputError(
                f"{missing} of {len(rows)} RL rows have no log probabilities of their replies' tokens: serve the "
                "policy so that it gives them (vLLM, rl.tokens = true), or set train.old_log_probs = 'recomputed'"
            )
        return rows

    def trainer_of(rows: Dataset, model: TrainedModel, given: dict[str, Any]) -> TrajectoryTrainer:
        collate = ReplyCollator(model.tokenizer, model.reader, model.context, rl_reply)
        if recipe.divergence or recipe.old_log_probs == "recomputed":
            network = model.network.to(given["args"].device)
            rows = rows.add_column(REFERENCE, reference_log_probs(network, rows, collate, recipe.rows_at_once))
        return TrajectoryTrainer(recipe, model=model.network, train_dataset=rows, data_collator=collate, **given)

    return run_training(job, processes, progress, rl_files(job.release), read, trainer_of)


@torch.no_grad()
def reference_log_probs(network: Any, rows: Dataset, collate: ReplyCollator, at_once: int) -> list[list[float]]:
    """Return for each row the log probabilities of its reply under the present network; processes share the work."""
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
