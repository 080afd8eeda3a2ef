"""GRPO by execution feedback: `transformers.Trainer`, whose batches are sampled and rewarded before each update.

The objective is that of CES (equation 4) and CODA (equation 3), token by token as GRPO has it: the mean over the
replies of an update of the mean over their tokens of min(r A, clip(r, 1 - e, 1 + e) A) - beta D. A reply is learned
from once. So r is 1 but for the rounding errors between sampling and training, which the clip range bounds.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from accelerate.utils import send_to_device
from datasets import Dataset
from torch import Tensor
from transformers import Trainer

from trajmill.schemas.actions import Action
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.errors import BadInputError, ModelFailure, TrainingFailedError
from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Platform
from trajmill.stages.agents.base import Agent, Decision, EpisodeView
from trajmill.stages.agents.ces.agent import INSTRUCTION, TRACKER_PROMPT, CesAgent
from trajmill.stages.agents.coda.agent import PLAN, CodaAgent, past_thoughts
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.roles import EmbeddedRole, Role
from trajmill.stages.derive.rl_plan import moments
from trajmill.stages.export.rewards import ReplyScore, ReplyTarget, ces_reward, coda_reward
from trajmill.stages.metrics.action_match import RightAction, match_action
from trajmill.stages.models.base import ChatMessage, ChatModel, ChatRequest
from trajmill.stages.models.local.chat import Sample
from trajmill.stages.models.prompts import load_prompt
from trajmill.stages.models.transformers_local.generation import LoadedModel, LoadedParts, SampleTask
from trajmill.stages.training.hugging_face.encoding import (
    REFERENCE,
    LearnedReply,
    ReplyBatch,
    ReplyCollator,
    prompt_messages,
    read_rows,
    reply_logits,
    shown_screens,
    supervised_files,
    token_log_probs,
)
from trajmill.stages.training.hugging_face.launch import TrainingJob
from trajmill.stages.training.hugging_face.run import ROWS, ClippedLoss, load_trained, run_training
from trajmill.stages.training.hugging_face.spec import CesStage2Spec, CodaSpecialistSpec, FeedbackRecipe
from trajmill.stages.training.spec import ParentPolicy, Progress, TrainingReport

_LEARNED = "learned"
_TASKS = "tasks"
_SEEDS = 2**31


def sample_replies(
    recipe: FeedbackRecipe, network: Any, model: LoadedParts, tasks: Sequence[FeedbackTask], seed: str
) -> list[Sample]:
    """Return `samples` replies to each task, by the present weights, with the log probabilities of their tokens.

    `network` is the trained one itself, outside of wrappers for several devices. Raises BadInputError for a prompt that
    cannot be encoded or is too long with its reply, TrainingFailedError if the network fails.
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
    if failures := [one for one in made if isinstance(one, ModelFailure)]:
        raise TrainingFailedError(f"no reply could be sampled: {failures[0]}")
    return [one for one in made if isinstance(one, Sample)]


class FeedbackTrainer(ClippedLoss, Trainer):  # type: ignore[misc]
    """A trainer on the numbers of tasks; the replies to them are sampled, rewarded and learned by GRPO's objective."""

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
        self._tasks, self._trained = tasks, trained
        self._execute, self._reference = execute, reference
        self._collate = ReplyCollator(trained, lambda row: row[_LEARNED])
        self._figures: dict[str, float] = {}

    def prepared(self, batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Sample and reward replies; an advantage is (r - mean) / deviation, 0 where no two rewards of a task differ.

        The weight of a reply is one over its number of tokens, so that all replies count the same.
        """
        groups, formats = list[list[float]](), list[float]()
        tasks = ([self._tasks.task(number) for number in each[_TASKS].tolist()] for each in batches)
        learned = [self._tried(each, groups, formats) for each in tasks]
        self._figures = {
            "reward": sum(map(sum, groups)) / len(formats),
            "format": sum(formats) / len(formats),
            "spread": sum(len(set(group)) > 1 for group in groups) / len(groups),
        }
        return list(map(self._batch, learned))

    def _tried(self, tasks: list[FeedbackTask], groups: list[list[float]], formats: list[float]) -> list[LearnedReply]:
        recipe, network = self.recipe, self.accelerator.unwrap_model(self.model)
        seed = f"{self.args.seed}/{self.state.global_step}"
        samples = sample_replies(recipe, network, self._trained, tasks, seed)
        asked = [task for task in tasks for _ in range(recipe.samples)]
        actions = self._execute([(task, sample.text) for task, sample in zip(asked, samples, strict=True)])
        replied = zip(asked, samples, actions, strict=True)
        scores = [score_of(recipe.role, sample.text, action, task.right) for task, sample, action in replied]
        formats += (score.format for score in scores)
        learned = []
        for start in range(0, len(asked), recipe.samples):
            group = slice(start, start + recipe.samples)
            rewards = [reward_of(recipe, score) for score in scores[group]]
            groups.append(rewards)
            scale = moments(rewards)
            for task, sample, reward in zip(asked[group], samples[group], rewards, strict=True):
                share, advantage = 1.0 / len(sample.ids), scale.advantage(reward)
                known = (sample.ids, advantage, sample.id_logprobs)
                learned.append(LearnedReply(task.messages, sample.text, share, *known))
        return learned

    def _batch(self, learned: list[LearnedReply]) -> dict[str, Any]:
        made = self._collate([{_LEARNED: each} for each in learned])
        if not self.recipe.divergence:
            return made
        network = self.accelerator.unwrap_model(self.model)
        batch = ReplyBatch(**send_to_device(made, self.args.device))
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


_COLUMNS: Final = ["prompt", "variant", "target", "past", "images", "screen_ids"]
_STEP: Final = ["example_id", "trajectory_id", "step_index", "instruction"]


class FeedbackTask(NamedTuple):
    task_id: str
    messages: tuple[ChatMessage, ...]
    instruction: str
    platform: Platform
    screens: tuple[ScreenHandle, ...]
    """The screens that the Executor may be shown; the present one is the last."""
    past: tuple[tuple[str, str], ...]
    right: RightAction


@dataclass(frozen=True)
class FeedbackTasks:
    """The tasks of a training, read from disk lazily."""

    rows: Dataset
    chosen: Sequence[int]
    screens: Sequence[int]
    """For each of them, the number of the row with its screens."""

    def __len__(self) -> int:
        return len(self.chosen)

    def task(self, number: int) -> FeedbackTask:
        row, shown = self.rows[self.chosen[number]], self.rows[self.screens[number]]
        target = ReplyTarget.model_validate_json(row["target"])
        return FeedbackTask(
            row["example_id"],
            prompt_messages(row),
            row["instruction"],
            target.platform,
            tuple(shown_screens(shown)),
            tuple((reply, conclusion) for reply, conclusion in json.loads(row["past"])),
            RightAction(target.action, target.box, target.screen),
        )


def feedback_tasks(recipe: FeedbackRecipe, files: Sequence[Path], cache: Path) -> FeedbackTasks:
    """Return the tasks of a recipe. Raises BadInputError if a file is damaged, or no row is a task.

    A State Tracker is shown no screen; the Coordinator and the Executor that its summary is tried with are. Their
    screen is that of the Coordinator's row of the same step, and a step without such a row is no task.
    """
    rows = read_rows(files, [*_COLUMNS, *_STEP], cache)
    variants: list[str] = rows["variant"]
    steps = list(zip(rows["trajectory_id"], rows["step_index"], strict=True))
    wanted = recipe.app if isinstance(recipe, CodaSpecialistSpec) else recipe.role
    chosen = screens = [number for number, variant in enumerate(variants) if not wanted or variant == wanted]
    if recipe.learns_kind == "ces":
        shown = {step: number for number, step in enumerate(steps) if variants[number] == "coordinator"}
        chosen = [number for number in chosen if steps[number] in shown]
        screens = [shown[steps[number]] for number in chosen]
    if not chosen:
        there = ", ".join(f"{count} of {variant!r}" for variant, count in sorted(Counter(variants).items()))
        raise BadInputError(f"the release has no row of {wanted!r} to train on; it has {there or 'none'}")
    return FeedbackTasks(rows, chosen, screens)


_CES, _CODA = "trajmill.stages.agents.ces", "trajmill.stages.agents.coda"
_BEFORE = Decision("", None, "", role_outputs={INSTRUCTION: "Go on."})
"""A step before the present one, which the State Tracker sums up."""


async def executed_action(
    recipe: FeedbackRecipe, models: Mapping[str, ChatModel], family: Family, task: FeedbackTask, reply: str
) -> Action | None:
    """Return the Executor's greedy action on a reply; None if the reply is malformed or gives no action.

    `models` are the frozen ones by role: `executor`, and for a State Tracker `coordinator`; `family` is the Executor's,
    which is shown at most one past screen. Raises ModelFailure if a model did not answer.
    """
    given = EmbeddedRole("candidate", lambda _: reply)
    executor = EndToEndAgent(
        models["executor"],
        task.platform,
        temperature=0.0,
        role="executor",
        family=family._replace(past_screens=min(family.past_screens, 1)),
        max_tokens=recipe.executor_tokens,
    )
    screens = [Observation(screen, None, "") for screen in task.screens]
    past: tuple[Decision, ...] = ()
    past_screens: tuple[Observation, ...] = ()
    agent: Agent
    match recipe:
        case CodaSpecialistSpec():
            agent = CodaAgent(executor, _role("planner", given, _CODA), executor.model_version)
            # The Executor is shown the Planner's screens: the one before, and the present one (CODA 3.2).
            # The thoughts before are in the Planner's prompt; a long one has the latest of them.
            asked = "".join(part for part in task.messages[-1].parts if isinstance(part, str))
            thoughts = past_thoughts(asked)[-len(task.past) :] if task.past else []
            thoughts = [""] * (len(task.past) - len(thoughts)) + thoughts
            past = tuple(
                Decision("", None, conclusion, raw_response=said, role_outputs={PLAN: thought})
                for (said, conclusion), thought in zip(task.past, thoughts, strict=True)
            )
            past_screens = tuple(screens[:1] * len(past))
        case CesStage2Spec():
            frozen = _role("coordinator", models["coordinator"], _CES, recipe.coordinator_tokens)
            tracker = _role("state_tracker", given, _CES, prompt=TRACKER_PROMPT)
            agent, past = CesAgent(executor, frozen, tracker, executor.model_version), (_BEFORE,)
        case _:
            agent = CesAgent(executor, _role("coordinator", given, _CES), None, executor.model_version)
    decision = await agent.act(EpisodeView(task.instruction, None, screens[-1], past, 0, past_screens))
    malformed = any(call.malformed and call.request.role == recipe.role for call in decision.calls)
    return None if malformed else decision.action


def _role(role: str, model: ChatModel, package: str, max_tokens: int = 1024, prompt: str = "") -> Role:
    return Role(role, model, load_prompt(package, prompt or f"{role}-1"), max_tokens=max_tokens)


Execute = Callable[[Sequence[tuple[FeedbackTask, str]]], list[Action | None]]
"""Returns the Executor's action on each reply to a task. Raises TrainingFailedError if a model did not answer."""


@contextmanager
def frozen_models(recipe: FeedbackRecipe, parent: ParentPolicy, variables: Mapping[str, str]) -> Iterator[Execute]:
    """Connect the models of a recipe's roles. Raises BadInputError if one is missing or cannot be connected."""
    missing = [role for role in recipe.role_names if role not in parent.frozen]
    if missing:
        raise BadInputError(f"train.{missing[0]} is missing: the NAME of the [endpoints.NAME] of the frozen model")
    models = {role: parent.frozen[role].connect(variables) for role in recipe.role_names}
    family = parent.frozen["executor"].vision_family
    # An event loop of their own: the trainer is not asynchronous.
    with asyncio.Runner() as runner:

        def execute(tried: Sequence[tuple[FeedbackTask, str]]) -> list[Action | None]:
            distinct = {(task.task_id, reply): task for task, reply in tried}

            async def made() -> list[Action | None]:
                calls = (executed_action(recipe, models, family, task, reply) for (_, reply), task in distinct.items())
                return await asyncio.gather(*calls)

            try:
                by_reply = dict(zip(distinct, runner.run(made()), strict=True))
            except ModelFailure as error:
                raise TrainingFailedError(f"a frozen model did not answer, so no reward is known: {error}") from error
            return [by_reply[task.task_id, reply] for task, reply in tried]

        try:
            yield execute
        finally:
            for model in models.values():
                runner.run(model.close())


_UNTAGGED = r"(?:(?!</?(?:think|answer)>).)*?\S(?:(?!</?(?:think|answer)>).)*"
_ANSWER = rf"<answer>{_UNTAGGED}</answer>"
_THINK = rf"<think>{_UNTAGGED}</think>"
_FORMATS = {
    "coordinator": re.compile(rf"\s*{_THINK}\s*{_ANSWER}\s*", re.DOTALL),
    # Its prompt asks for the answer alone; a model that thinks first may.
    "state_tracker": re.compile(rf"\s*(?:{_THINK})?\s*{_ANSWER}\s*", re.DOTALL),
    "planner": re.compile(rf"\s*(?:{_THINK})?\s*{_UNTAGGED}\s*", re.DOTALL),
}


def score_of(role: str, reply: str, action: Action | None, right: RightAction) -> ReplyScore:
    """Score a reply, whose format is exactly the tags of its role, each around some text (CES, equation 22)."""
    has_format, match = _FORMATS[role].fullmatch(reply) is not None, match_action(action, right)
    return ReplyScore(float(has_format), float(match.type), float(match.parameters), match.closeness)


def reward_of(recipe: FeedbackRecipe, score: ReplyScore) -> float:
    """Return the reward: equation 21 of CES, or equation 1 of CODA, which has no part for the format."""
    return coda_reward(score) if isinstance(recipe, CodaSpecialistSpec) else ces_reward(score)
