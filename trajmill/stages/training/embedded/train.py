"""Trains the embedded policy on a release: supervised (rejection fine-tuning) or trajectory-level RL.

The default is supervised: it learned faster than RL on the same trajectories in every comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from trajmill.schemas.errors import TrainingFailedError
from trajmill.stages.export.rl import RL_FILE
from trajmill.stages.export.selection import files_of, screen_files
from trajmill.stages.export.sft import SFT_FILE
from trajmill.stages.models.embedded.model import load_network, save_network
from trajmill.stages.models.embedded.network_inputs import Bags, Batch
from trajmill.stages.models.embedded.policy_network import Hidden, PolicyNetwork
from trajmill.stages.training.base import ParentPolicy, Progress, TrainingReport
from trajmill.stages.training.embedded.lessons import Lessons, rl_lessons, sft_lessons
from trajmill.stages.training.embedded.spec import EmbeddedRecipe, EmbeddedRlSpec, EmbeddedSftSpec
from trajmill.stages.training.embedded.strange_apps import disguise, strange_apps
from trajmill.stages.training.lineage import made_from, tail_mean, write_metrics, write_source


def train_policy(
    parent: ParentPolicy,
    release: Path,
    recipe: EmbeddedRecipe,
    seed: int,
    folder: Path,
    progress: Progress | None = None,
) -> TrainingReport:
    """Train the policy in `parent` on a release and save the result to `folder`; equal arguments give equal weights.

    Raises:
        BadInputError: `parent` holds no embedded policy, or the release is not complete.
        TrainingFailedError: the loss is no number.
    """
    network = load_network(parent.folder)
    lessons = _lessons(release, recipe, seed)
    report = train_network(network, lessons, recipe, seed, progress)
    if not math.isfinite(report.loss):
        raise TrainingFailedError(f"the loss is {report.loss}: lower train.learning_rate")
    report = report._replace(version=save_network(network, folder))
    rows = [release / RL_FILE] if isinstance(recipe, EmbeddedRlSpec) else files_of(release, SFT_FILE)
    files = [*rows, *screen_files(release)]
    write_source(folder, made_from(recipe, parent, files, seed))
    write_metrics(folder, report, [])
    return report


def train_network(
    network: PolicyNetwork, lessons: Lessons, recipe: EmbeddedRecipe, seed: int, progress: Progress | None = None
) -> TrainingReport:
    """Train a network in place."""
    if not len(lessons):
        return TrainingReport(0, lessons.skipped, 0, 0.0)
    draw = torch.Generator().manual_seed(seed)
    objective = _objective(network, lessons, recipe, draw)
    losses = _optimise(network, len(lessons), objective, recipe, draw, progress)
    return TrainingReport(len(lessons) - lessons.detours, lessons.skipped, len(losses), tail_mean(losses))


def _lessons(release: Path, recipe: EmbeddedRecipe, seed: int) -> Lessons:
    if isinstance(recipe, EmbeddedSftSpec):
        return sft_lessons(release, recipe.detours, seed)
    return rl_lessons(release)


Objective = Callable[[Tensor], Tensor]
"""The loss of the lessons with the given row numbers."""


def _objective(network: PolicyNetwork, lessons: Lessons, recipe: EmbeddedRecipe, draw: torch.Generator) -> Objective:
    match recipe:
        case EmbeddedSftSpec():
            return _supervised(network, lessons, recipe, draw)
        case EmbeddedRlSpec():
            return _trajectory_level(network, lessons, recipe)
        case _:
            raise NotImplementedError(f"no objective for {type(recipe).__name__}")


def _supervised(network: PolicyNetwork, lessons: Lessons, recipe: EmbeddedSftSpec, draw: torch.Generator) -> Objective:
    def loss(rows: Tensor) -> Tensor:
        batch = select(lessons.situations, rows)
        hidden = Hidden(
            torch.rand(batch.instruction.shape, generator=draw) < recipe.word_dropout,
            torch.rand(len(rows), generator=draw) < recipe.pair_dropout,
        )
        vectors = network.word_vectors(lessons.bags)
        strange = strange_apps(lessons.apps, recipe.strange_apps, draw)
        shown = disguise(batch, vectors, strange, draw)
        logits: Tensor = network(shown.batch, shown.vectors, lessons.bags.weights, hidden)
        # In an app that looks unknown, nothing tells whether what is sought is not there, or has another name.
        is_learned = ~torch.isin(lessons.left_apps[rows], torch.tensor([app.icon for app in strange]))
        return supervised_loss(logits, lessons.labels[rows], lessons.weights[rows] * is_learned)

    return loss


def _trajectory_level(network: PolicyNetwork, lessons: Lessons, recipe: EmbeddedRlSpec) -> Objective:
    """The old log-probabilities are those of the network before the first update."""
    with torch.no_grad():
        before = torch.cat(
            [
                chosen_log_probabilities(
                    _logits(network, select(lessons.situations, rows), lessons.bags), lessons.labels[rows]
                )
                for rows in torch.split(torch.arange(len(lessons)), recipe.batch)
            ]
        )

    def loss(rows: Tensor) -> Tensor:
        now = chosen_log_probabilities(
            _logits(network, select(lessons.situations, rows), lessons.bags), lessons.labels[rows]
        )
        return trajectory_loss(now, before[rows], lessons.weights[rows], recipe.clip_ratio)

    return loss


def _logits(network: PolicyNetwork, batch: Batch, words: Bags) -> Tensor:
    logits: Tensor = network(batch, network.word_vectors(words), words.weights)
    return logits


def _optimise(
    network: PolicyNetwork,
    rows: int,
    objective: Objective,
    recipe: EmbeddedRecipe,
    draw: torch.Generator,
    progress: Progress | None,
) -> list[float]:
    updates = recipe.updates(rows)
    tell = progress or _tell_nobody
    tell(0, updates)
    network.train()
    parameters = list(network.parameters())
    pairs = list(network.pairs.parameters())
    others = [parameter for parameter in parameters if all(parameter is not pair for pair in pairs)]
    optimiser = torch.optim.AdamW([{"params": others}, {"params": pairs}], weight_decay=recipe.weight_decay, fused=True)
    order = torch.randperm(rows, generator=draw)
    losses = []
    for update in range(updates):
        if len(order) < min(recipe.batch, rows):
            order = torch.cat([order, torch.randperm(rows, generator=draw)])
        chosen, order = order[: recipe.batch], order[recipe.batch :]
        loss = objective(chosen)
        network.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, recipe.gradient_norm)
        rate = recipe.learning_rate * _rate(update / updates, recipe.final_rate)
        for group, scale in zip(optimiser.param_groups, (1.0, recipe.pair_rate), strict=True):
            group["lr"] = scale * rate
        optimiser.step()
        losses.append(loss.item())
        tell(update + 1, updates)
    network.eval()
    return losses


def _tell_nobody(done: int, updates: int) -> None:
    """Report no progress."""


def _rate(done: float, final: float) -> float:
    return final + (1 - final) * (1 + math.cos(math.pi * done)) / 2


def select(batch: Batch, rows: Tensor) -> Batch:
    """Some situations of a batch, cut to the padding that they need."""
    chosen = {field.name: getattr(batch, field.name)[rows] for field in fields(batch)}
    spoken = max(1, int((chosen["instruction"] > 0).sum(1).max()))
    offered = int(chosen["exists"].sum(1).max())
    return replace(
        batch,
        **chosen
        | {name: chosen[name][:, :spoken] for name in ("instruction", "instruction_flags", "instruction_codes")}
        | {name: chosen[name][:, :offered] for name in ("texts", "fields", "kinds", "flags", "codes", "exists")},
    )


def supervised_loss(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Weighted mean cross entropy.

    Args:
        logits: (rows, candidates), -inf where there is no candidate.
        labels: (rows,) index of the action to learn.
        weights: (rows,) at least 0.
    """
    losses = functional.cross_entropy(logits, labels, reduction="none")
    return (losses * weights).sum() / weights.sum().clamp(min=1e-8)


def chosen_log_probabilities(logits: Tensor, labels: Tensor) -> Tensor:
    """(rows,) log-probability of the chosen candidates."""
    return logits.log_softmax(-1).gather(1, labels[:, None]).squeeze(1)


def trajectory_loss(now: Tensor, before: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """Equation 3: the negative mean of min(r A, clip(r, 1 - e, 1 + e) A).

    Args:
        now: (rows,) log-probabilities under the policy that is trained.
        before: (rows,) log-probabilities under the policy that acted.
        advantages: (rows,) trajectory-level advantage times the step weight.
        clip: epsilon.
    """
    ratio = (now - before).exp()
    clipped = ratio.clamp(1 - clip, 1 + clip)
    return -torch.minimum(ratio * advantages, clipped * advantages).mean()
