"""GRPO by execution feedback: `transformers.Trainer`, whose batches are sampled and rewarded before each update.

The objective is that of CES (equation 4) and CODA (equation 3), token by token as GRPO has it: the mean over the
replies of an update of the mean over their tokens of min(r A, clip(r, 1 - e, 1 + e) A) - beta D. A reply is learned
from once. So r is 1 but for the rounding errors between sampling and training, which the clip range bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import Trainer, TrainingArguments, set_seed

from trajmill.stages.derive.rewards import moments
from trajmill.stages.export.rewards import ReplyScore
from trajmill.stages.models.transformers_local.generation import Sample
from trajmill.stages.training.base import Progress, TrainingReport
from trajmill.stages.training.execution_feedback.frozen import FrozenModels, TriedReply, frozen_models
from trajmill.stages.training.execution_feedback.replies import reward_of, score_of
from trajmill.stages.training.execution_feedback.sampling import sample_replies
from trajmill.stages.training.execution_feedback.spec import FeedbackRecipe
from trajmill.stages.training.execution_feedback.tasks import FeedbackTask, FeedbackTasks, feedback_tasks
from trajmill.stages.training.hugging_face.encoding import REFERENCE, ReplyBatch, ReplyCollator, reply_logits
from trajmill.stages.training.hugging_face.launch import TrainingJob
from trajmill.stages.training.hugging_face.loading import TrainedModel, load_trained
from trajmill.stages.training.hugging_face.losses import clipped_sum, clipped_tokens, divergence_sum, token_log_probs
from trajmill.stages.training.hugging_face.rows import LearnedReply, supervised_files
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

_LEARNED = "learned"
_TASKS = "tasks"


class RewardedReply(NamedTuple):
    """A sampled reply, the parts of its reward, and its reward."""

    task: FeedbackTask
    sample: Sample
    score: ReplyScore
    reward: float


def learned_replies(group: list[RewardedReply]) -> list[LearnedReply]:
    """The replies to one task with their advantages: (r - mean) / deviation, 0 where no two rewards differ.

    The weight of a reply is one over its number of tokens, so that all replies count the same.
    """
    scale = moments([one.reward for one in group])
    return [
        LearnedReply(
            one.task.messages,
            one.sample.text,
            1.0 / len(one.sample.ids),
            one.sample.ids,
            scale.advantage(one.reward),
            one.sample.id_logprobs,
        )
        for one in group
    ]


class SampledBatches(Trainer):
    """A trainer whose dataset are numbers of tasks: replies to them are sampled and rewarded before an update."""

    def __init__(
        self,
        recipe: FeedbackRecipe,
        tasks: FeedbackTasks,
        trained: TrainedModel,
        frozen: FrozenModels,
        reference: Any,
        **arguments: Any,
    ) -> None:
        super().__init__(model=trained.network, train_dataset=range(len(tasks)), data_collator=_numbers, **arguments)
        self._recipe = recipe
        self._tasks = tasks
        self._trained = trained
        self._frozen = frozen
        self._reference = reference
        self._collate = ReplyCollator(trained.tokenizer, trained.reader, trained.context, lambda row: row[_LEARNED])
        self._figures: dict[str, float] = {}

    def get_batch_samples(
        self, epoch_iterator: Iterator[dict[str, Any]], num_batches: int, device: torch.device
    ) -> tuple[list[dict[str, Any]], Tensor | int | None]:
        """The batches of one update: the replies to its tasks."""
        fetched, count = super().get_batch_samples(epoch_iterator, num_batches, device)
        groups = [self._rewarded([self._tasks.task(number) for number in each[_TASKS].tolist()]) for each in fetched]
        self._record([group for batch in groups for group in batch])
        return [self._batch(batch) for batch in groups], count

    def _rewarded(self, tasks: list[FeedbackTask]) -> list[list[RewardedReply]]:
        """For each task, its sampled replies with their rewards."""
        recipe, network = self._recipe, self.accelerator.unwrap_model(self.model)
        seed = f"{self.args.seed}/{self.state.global_step}"
        sampled = sample_replies(recipe, network, self._trained, tasks, seed)
        flat = [(task, sample) for task, samples in zip(tasks, sampled, strict=True) for sample in samples]
        actions = self._frozen.actions([TriedReply(task, sample.text) for task, sample in flat])
        made = []
        for (task, sample), action in zip(flat, actions, strict=True):
            score = score_of(recipe.role, sample.text, action, task.right)
            made.append(RewardedReply(task, sample, score, reward_of(recipe, score)))
        return [made[start : start + recipe.samples] for start in range(0, len(made), recipe.samples)]

    def _batch(self, groups: list[list[RewardedReply]]) -> dict[str, Any]:
        rows = [{_LEARNED: learned} for group in groups for learned in learned_replies(group)]
        made = self._collate(rows)
        if not self._recipe.divergence:
            return made
        network = self.accelerator.unwrap_model(self.model)
        batch = ReplyBatch(**moved(made, self.args.device))
        # Without its adapter, a network with a new one is the policy before the training.
        without = network.disable_adapter() if self._reference is None else nullcontext()
        with torch.no_grad(), without:
            logits = reply_logits(network if self._reference is None else self._reference, batch)
            return made | {REFERENCE: token_log_probs(logits, batch.tokens).cpu()}

    def _record(self, groups: list[list[RewardedReply]]) -> None:
        replies = [one for group in groups for one in group]
        self._figures = {
            "reward": sum(one.reward for one in replies) / len(replies),
            "format": sum(one.score.format for one in replies) / len(replies),
            "spread": sum(len({one.reward for one in group}) > 1 for group in groups) / len(groups),
        }


class FeedbackTrainer(WholeUpdateLoss, SampledBatches):  # type: ignore[misc]
    """Learns the sampled replies by GRPO's objective."""

    def batch_sum(self, model: Any, batch: ReplyBatch) -> Tensor:
        """The sum over the replies of a batch of the mean over their tokens."""
        recipe = self._recipe
        now = token_log_probs(reply_logits(model, batch), batch.tokens)
        total = clipped_sum(now, batch.old, batch.mask, batch.advantages, batch.weights, recipe.clip_ratio)
        clipped = float(clipped_tokens(now.detach(), batch.old, batch.mask, recipe.clip_ratio))
        self._figures["clipped"] = clipped / float(batch.mask.sum())
        if recipe.divergence:
            away = divergence_sum(now, batch.reference, batch.mask, batch.weights)
            self._figures["divergence"] = float(away.detach()) / len(batch.weights)
            total = total + recipe.divergence * away
        return total

    def divisor(self, batch: ReplyBatch) -> Tensor:
        """The number of replies."""
        return torch.tensor(float(len(batch.weights)))

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Also log the mean reward, the shares with the right format, of groups with different rewards, and clipped."""
        logs.update(self._figures)
        super().log(logs, start_time)


def train_by_feedback(job: TrainingJob, processes: int = 1, progress: Progress | None = None) -> TrainingReport:
    """Train a role on the task pool of a release.

    Raises:
        BadInputError: the model, the rows or a frozen model cannot be used.
        TrainingFailedError: the training made no policy, or a frozen model did not answer.
    """
    recipe = job.recipe
    assert isinstance(recipe, FeedbackRecipe)
    files = supervised_files(job.release)
    version = begin(job, files)
    tasks = feedback_tasks(recipe, files, job.folder / ROWS)
    settings = TrainingArguments(**trainer_settings(recipe, len(tasks), job.seed, job.folder, processes))
    use_one_device(settings)
    set_seed(settings.seed)
    with frozen_models(recipe, job.parent, job.variables) as frozen:
        model = load_trained(recipe, job.parent, settings.seed)
        trainer = FeedbackTrainer(
            recipe,
            tasks,
            model,
            frozen,
            _reference(job, settings),
            args=settings,
            processing_class=model.tokenizer,
            callbacks=[TrainingWatch(progress)],
        )
        return finish(job, trainer, model, len(tasks), version)


def _reference(job: TrainingJob, settings: TrainingArguments) -> Any:
    """The network before the training; None if it is not needed, or if it is the trained one without its adapter."""
    if not getattr(job.recipe, "divergence", 0.0) or (job.recipe.lora_rank and job.parent.adapter is None):
        return None
    network = load_trained(job.recipe, job.parent, settings.seed).network
    return network.requires_grad_(False).eval().to(settings.device)


def _numbers(numbers: list[int]) -> dict[str, Tensor]:
    return {_TASKS: torch.tensor(numbers)}
