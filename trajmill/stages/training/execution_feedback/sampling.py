"""Samples replies of the policy that is trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trajmill.schemas.errors import BadInputError, ModelFailure, TrainingFailedError
from trajmill.schemas.record import content_id
from trajmill.stages.models.base import ChatRequest
from trajmill.stages.models.transformers_local.generation import LoadedModel, RowSampling, Sample, SampleTask
from trajmill.stages.training.execution_feedback.spec import FeedbackRecipe
from trajmill.stages.training.execution_feedback.tasks import FeedbackTask
from trajmill.stages.training.hugging_face.loading import TrainedModel

_SEEDS = 2**31


def sample_replies(
    recipe: FeedbackRecipe, network: Any, model: TrainedModel, tasks: Sequence[FeedbackTask], seed: str
) -> list[list[Sample]]:
    """Some replies to each task, by the present weights, with the log probabilities of their tokens.

    Args:
        recipe: says how many replies, and how they are sampled.
        network: the trained network itself, outside of wrappers for several devices.
        model: its tokenizer and its reader of images.
        tasks: what is asked.
        seed: equal seeds give equal replies.

    Raises:
        BadInputError: a prompt with its reply is longer than the model's context, or cannot be encoded.
        TrainingFailedError: the network failed.
    """
    # The adapter's wrapper passes calls on, but keeps a generation configuration of its own.
    inner = network.get_base_model() if hasattr(network, "get_base_model") else network
    configured, was_training = inner.generation_config, network.training
    network.eval()
    try:
        sampler = LoadedModel(inner, model.tokenizer, model.reader, model.context)
        if model.reader is not None:
            # A reply with this token could not be learned: it would stand for a picture that is not there.
            inner.generation_config.suppress_tokens = [model.reader.placeholder]
        rows = [row for task in tasks for row in _rows(recipe, sampler, task, seed)]
        made = sampler.generate(rows)
    finally:
        inner.generation_config = configured
        network.train(was_training)
    samples = []
    for one in made:
        if isinstance(one, ModelFailure):
            raise TrainingFailedError(f"no reply could be sampled: {one}")
        samples.append(one)
    return [samples[start : start + recipe.samples] for start in range(0, len(samples), recipe.samples)]


def _rows(recipe: FeedbackRecipe, sampler: LoadedModel, task: FeedbackTask, seed: str) -> list[SampleTask]:
    try:
        prompt = sampler.encode(ChatRequest("policy", task.messages, max_tokens=recipe.max_tokens))
    except ModelFailure as error:
        raise BadInputError(f"a row of the release cannot be asked: {error}") from error
    first = int(content_id("feedback", seed, task.task_id), 16) % _SEEDS
    return [
        SampleTask(prompt, RowSampling(recipe.temperature, 1.0, first + number, recipe.max_tokens, top_logprobs=1))
        for number in range(recipe.samples)
    ]
