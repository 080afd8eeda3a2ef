"""Trajectory-level RL on stored replies: `transformers.Trainer` with the loss of equation 3 of paper 3.1.2."""

from __future__ import annotations

from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from datasets import Dataset
from torch import Tensor
from transformers import Trainer

from trajmill.schemas.errors import BadInputError
from trajmill.stages.models.transformers_local.generation import LoadedParts
from trajmill.stages.training.hugging_face.encoding import (
    REFERENCE,
    ReplyBatch,
    ReplyCollator,
    moved,
    reply_logits,
    token_log_probs,
)
from trajmill.stages.training.hugging_face.launch import TrainingJob
from trajmill.stages.training.hugging_face.rows import rl_files, rl_reply, rl_rows
from trajmill.stages.training.hugging_face.run import ROWS, ClippedLoss, run_training
from trajmill.stages.training.hugging_face.spec import TrpoSpec
from trajmill.stages.training.spec import Progress, TrainingReport


class TrajectoryTrainer(ClippedLoss, Trainer):  # type: ignore[misc]
    def __init__(self, recipe: TrpoSpec, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.recipe: TrpoSpec = recipe

    def old(self, batch: ReplyBatch) -> Tensor:
        return batch.old if self.recipe.old_log_probs == "stored" else batch.reference

    def divisor(self, batch: ReplyBatch) -> Tensor:
        """N of equation 3: the number of tokens."""
        return batch.mask.sum()


def train_on_trajectories(job: TrainingJob, processes: int = 1, progress: Progress | None = None) -> TrainingReport:
    """Train on the RL rows of a release. Raises BadInputError if they lack log probabilities that the recipe needs."""
    recipe, files = job.recipe, rl_files(job.release)
    assert isinstance(recipe, TrpoSpec)
    rows = rl_rows(files, job.folder / ROWS)
    pairs = zip(rows["response_token_ids"], rows["old_logprobs"], strict=True)
    missing = sum(not tokens or len(tokens) != len(log_probs or ()) for tokens, log_probs in pairs)
    if missing and recipe.old_log_probs == "stored":
        raise BadInputError(
            f"{missing} of {len(rows)} RL rows have no log probabilities of their replies' tokens: serve the "
            "policy so that it gives them (vLLM, rl.tokens = true), or set train.old_log_probs = 'recomputed'"
        )

    def trainer_of(model: LoadedParts, given: dict[str, Any]) -> TrajectoryTrainer:
        collate, known = ReplyCollator(model, rl_reply), rows
        if recipe.divergence or recipe.old_log_probs == "recomputed":
            network = model.network.to(given["args"].device)
            known = rows.add_column(REFERENCE, reference_log_probs(network, rows, collate, recipe.rows_at_once))
        return TrajectoryTrainer(recipe, model=model.network, train_dataset=known, data_collator=collate, **given)

    return run_training(job, processes, progress, files, len(rows), trainer_of)


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
