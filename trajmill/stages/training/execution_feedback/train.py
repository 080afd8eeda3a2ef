"""GRPO by execution feedback: `transformers.Trainer`, whose batches are sampled and rewarded before each update.

The objective is that of CES (equation 4) and CODA (equation 3), token by token as GRPO has it: the mean over the
replies of an update of the mean over their tokens of min(r A, clip(r, 1 - e, 1 + e) A) - beta D. A reply is learned
from once. So r is 1 but for the rounding errors between sampling and training, which the clip range bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import Trainer

from trajmill.schemas.errors import BadInputError, ModelFailure, TrainingFailedError
from trajmill.schemas.record import content_id
from trajmill.stages.derive.rewards import moments
from trajmill.stages.export.rewards import ReplyScore
from trajmill.stages.models.base import ChatRequest
from trajmill.stages.models.local.chat import Sample
from trajmill.stages.models.transformers_local.generation import LoadedModel, LoadedParts, SampleTask
from trajmill.stages.training.execution_feedback.chain import (
    Execute,
    FeedbackTask,
    FeedbackTasks,
    feedback_tasks,
    frozen_models,
    reward_of,
    score_of,
)
from trajmill.stages.training.execution_feedback.spec import FeedbackRecipe
from trajmill.stages.training.hugging_face.encoding import (
    REFERENCE,
    LearnedReply,
    ReplyBatch,
    ReplyCollator,
    moved,
    reply_logits,
    supervised_files,
    token_log_probs,
)
from trajmill.stages.training.hugging_face.launch import TrainingJob
from trajmill.stages.training.hugging_face.run import ROWS, ClippedLoss, load_trained, run_training
from trajmill.stages.training.spec import Progress, TrainingReport

_LEARNED = "learned"
_TASKS = "tasks"
_SEEDS = 2**31


class TriedReplies(NamedTuple):
    """Replies to the tasks of a batch, with the parts of their rewards and, for each task, their rewards."""

    learned: list[LearnedReply]
    scores: list[ReplyScore]
    rewards: list[list[float]]


def sample_replies(
    recipe: FeedbackRecipe, network: Any, model: LoadedParts, tasks: Sequence[FeedbackTask], seed: str
) -> list[Sample]:
    """Return `samples` replies to each task, by the present weights, with the log probabilities of their tokens.

    `network` is the trained one itself, outside of wrappers for several devices. Equal seeds give equal replies. Raises
    BadInputError for a prompt that cannot be encoded or is too long with its reply, TrainingFailedError if the network
    fails.
    """
    # The adapter's wrapper passes calls on, but keeps a generation configuration of its own.
    inner = network.get_base_model() if hasattr(network, "get_base_model") else network
    configured, was_training = inner.generation_config, network.training
    network.eval()
    try:
        sampler = LoadedModel(model._replace(network=inner))
        if model.reader is not None:
            # A reply with this token could not be learned: it would stand for a picture that is not there.
            inner.generation_config.suppress_tokens = [model.reader.placeholder]
        rows = []
        for task in tasks:
            first = int(content_id("feedback", seed, task.task_id), 16) % _SEEDS
            request = ChatRequest(
                "policy", task.messages, recipe.temperature, first, recipe.max_tokens, n=recipe.samples, top_logprobs=1
            )
            try:
                prompt = sampler.encode(request)
            except ModelFailure as error:
                raise BadInputError(f"a row of the release cannot be asked: {error}") from error
            rows += [SampleTask(prompt, request.sample(number)) for number in range(recipe.samples)]
        made = sampler.generate(rows)
    finally:
        inner.generation_config = configured
        network.train(was_training)
    samples = []
    for one in made:
        if isinstance(one, ModelFailure):
            raise TrainingFailedError(f"no reply could be sampled: {one}")
        samples.append(one)
    return samples


class FeedbackTrainer(ClippedLoss, Trainer):  # type: ignore[misc]
    """A trainer on the numbers of tasks: replies to them are sampled and rewarded before an update.

    They are learned by GRPO's objective: the sum over replies of the mean over their tokens.
    """

    weighs_divergence = True

    def __init__(
        self,
        recipe: FeedbackRecipe,
        tasks: FeedbackTasks,
        trained: LoadedParts,
        execute: Execute,
        reference: Any,
        **arguments: Any,
    ) -> None:
        def numbered(numbers: list[int]) -> dict[str, Tensor]:
            return {_TASKS: torch.tensor(numbers)}

        super().__init__(model=trained.network, train_dataset=range(len(tasks)), data_collator=numbered, **arguments)
        self.recipe: FeedbackRecipe = recipe
        self._tasks = tasks
        self._trained = trained
        self._execute = execute
        self._reference = reference
        self._collate = ReplyCollator(trained, lambda row: row[_LEARNED])
        self._figures: dict[str, float] = {}

    def prepared(self, batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
        tried = [self._tried([self._tasks.task(number) for number in each[_TASKS].tolist()]) for each in batches]
        groups = [group for batch in tried for group in batch.rewards]
        formats = [score.format for batch in tried for score in batch.scores]
        self._figures = {
            "reward": sum(map(sum, groups)) / len(formats),
            "format": sum(formats) / len(formats),
            "spread": sum(len(set(group)) > 1 for group in groups) / len(groups),
        }
        return [self._batch(batch.learned) for batch in tried]

    def _tried(self, tasks: list[FeedbackTask]) -> TriedReplies:
        """Sample and reward replies; an advantage is (r - mean) / deviation, 0 where no two rewards of a task differ.

        The weight of a reply is one over its number of tokens, so that all replies count the same.
        """
        recipe, network = self.recipe, self.accelerator.unwrap_model(self.model)
        seed = f"{self.args.seed}/{self.state.global_step}"
        samples = sample_replies(recipe, network, self._trained, tasks, seed)
        asked = [task for task in tasks for _ in range(recipe.samples)]
        actions = self._execute([(task, sample.text) for task, sample in zip(asked, samples, strict=True)])
        made = TriedReplies([], [], [])
        for task, sample, action in zip(asked, samples, actions, strict=True):
            made.scores.append(score_of(recipe.role, sample.text, action, task.right))
        for start in range(0, len(asked), recipe.samples):
            group = slice(start, start + recipe.samples)
            rewards = [reward_of(recipe, score) for score in made.scores[group]]
            made.rewards.append(rewards)
            scale = moments(rewards)
            for task, sample, reward in zip(asked[group], samples[group], rewards, strict=True):
                share, advantage = 1.0 / len(sample.ids), scale.advantage(reward)
                replied = (task.messages, sample.text, share, sample.ids, advantage, sample.id_logprobs)
                made.learned.append(LearnedReply(*replied))
        return made

    def _batch(self, learned: list[LearnedReply]) -> dict[str, Any]:
        made = self._collate([{_LEARNED: each} for each in learned])
        if not self.recipe.divergence:
            return made
        network = self.accelerator.unwrap_model(self.model)
        batch = ReplyBatch(**moved(made, self.args.device))
        # Without its adapter, a network with a new one is the policy before the training.
        without = network.disable_adapter() if self._reference is None else nullcontext()
        with torch.no_grad(), without:
            logits = reply_logits(network if self._reference is None else self._reference, batch)
            return made | {REFERENCE: token_log_probs(logits, batch.tokens).cpu()}

    def divisor(self, batch: ReplyBatch) -> Tensor:
        return torch.tensor(float(len(batch.weights)))

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Also log the mean reward, and the shares with the right format and of groups with different rewards."""
        logs.update(self._figures)
        super().log(logs, start_time)


def train_by_feedback(job: TrainingJob, processes: int = 1, progress: Progress | None = None) -> TrainingReport:
    """Train a role on the task pool of a release. Raises TrainingFailedError if a frozen model did not answer."""
    recipe, files = job.recipe, supervised_files(job.release)
    assert isinstance(recipe, FeedbackRecipe)
    with frozen_models(recipe, job.parent, job.variables) as execute:
        tasks = feedback_tasks(recipe, files, job.folder / ROWS)

        def trainer_of(model: LoadedParts, given: dict[str, Any]) -> FeedbackTrainer:
            # The trained network without its new adapter is the reference, if there is one.
            reference = None
            if recipe.divergence and not (recipe.lora_rank and job.parent.adapter is None):
                reference = load_trained(recipe, job.parent, given["args"].seed).network
                reference = reference.requires_grad_(False).eval().to(given["args"].device)
            return FeedbackTrainer(recipe, tasks, model, execute, reference, **given)

        return run_training(job, processes, progress, files, len(tasks), trainer_of)
