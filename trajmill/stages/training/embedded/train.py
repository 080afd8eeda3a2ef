"""Trains the embedded policy on a release: supervised (rejection fine-tuning) or trajectory-level RL.

The default is supervised: it learned faster than RL on the same trajectories in every comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from trajmill.schemas.errors import TrainingFailedError
from trajmill.stages.export.exporter import RL_FILE, SFT_FILE, SftExporter
from trajmill.stages.export.release import files_of, has_rows_of, screen_files
from trajmill.stages.models.embedded.model import load_network, save_network
from trajmill.stages.models.embedded.policy_network import Hidden, PolicyNetwork
from trajmill.stages.models.embedded.situation import Bags, Batch, InputReader, bags, collate, empty_situation
from trajmill.stages.training.embedded.augmentation import App, apps_of, detours, disguise, naming, rename, strange_apps
from trajmill.stages.training.embedded.lessons import SeenScreen, Turn, lesson_steps, rl_turns, seen_screens, sft_turns
from trajmill.stages.training.embedded.spec import EmbeddedRecipe, EmbeddedRlSpec, EmbeddedSftSpec
from trajmill.stages.training.lineage import made_from, tail_mean, write_metrics, write_source
from trajmill.stages.training.spec import ParentPolicy, Progress, TrainingReport


@dataclass(frozen=True, slots=True)
class Lessons:
    """Situations with the action to learn in each."""

    situations: Batch
    labels: Tensor
    """(rows,) index of the candidate that was chosen."""
    weights: Tensor
    """(rows,) loss weight; in RL it is the advantage times the step weight."""
    bags: Bags
    """The words of all situations."""
    apps: tuple[App, ...]
    """The apps on the launchers of all situations."""
    left_apps: Tensor
    """(rows,) code of the icon of the app that a detour leaves; 0 for every other lesson."""
    detours: int
    """Number of lessons, the last ones, that are detours and no row of the release."""
    skipped: int
    """Rows whose action is none of the candidates."""

    def __len__(self) -> int:
        return len(self.labels)


def lessons(
    turns: Sequence[Turn], screens: Mapping[str, SeenScreen], detour_share: float = 0.0, seed: int = 0
) -> Lessons:
    """Return the lessons of some turns, and of their detours; a turn whose action is no candidate is skipped.

    `screens` are those of the turns by id; `detour_share` and `seed` are explained at `detours`.
    """
    reader = InputReader()
    steps = lesson_steps(turns, screens, reader)
    more = detours(steps, screens, reader, detour_share, seed)
    situations = [step.policy_input.situation for step in steps] + [each.situation for each in more]
    return Lessons(
        collate(situations or [empty_situation()]),
        torch.tensor([step.label for step in steps] + [each.label for each in more], dtype=torch.long),
        torch.tensor([step.turn.weight for step in steps] + [each.weight for each in more], dtype=torch.float32),
        bags(reader.lexicon, range(len(reader.lexicon.buckets))),
        apps_of(steps),
        torch.tensor([0] * len(steps) + [each.left_app for each in more], dtype=torch.long),
        len(more),
        len(turns) - len(steps),
    )


def train_policy(
    parent: ParentPolicy,
    release: Path,
    recipe: EmbeddedRecipe,
    seed: int,
    folder: Path,
    progress: Progress | None = None,
) -> TrainingReport:
    """Train the policy in `parent` on a release and save the result to `folder`, see `RecipeSpec.train`."""
    network = load_network(parent.folder)
    if isinstance(recipe, EmbeddedSftSpec):
        turns, screens, rows = sft_turns(release), seen_screens(release), files_of(release, SFT_FILE)
        kind, file = release / recipe.learns_kind, SftExporter(derived_kind=recipe.learns_kind).file
        if recipe.forks and has_rows_of(kind, file):
            turns, screens = turns + sft_turns(kind, file), screens | seen_screens(kind)
            rows = [*rows, *files_of(kind, file)]
        found = lessons(turns, screens, recipe.detours, seed)
    else:
        found, rows = lessons(rl_turns(release), seen_screens(release)), [release / RL_FILE]
    report = train_network(network, found, recipe, seed, progress)
    if not math.isfinite(report.loss):
        raise TrainingFailedError(f"the loss is {report.loss}: lower train.learning_rate")
    report = report._replace(version=save_network(network, folder))
    write_source(folder, made_from(recipe, parent, [*rows, *screen_files(release)], seed))
    write_metrics(folder, report, [])
    return report


_FINAL, _PAIR_RATE = 0.1, 10.0
"""The last learning rate as a share of the peak, and that of the memory of pairs as a multiple of the others'."""
Objective = Callable[[Tensor], Tensor]
"""The loss of the lessons with the given row numbers."""


def train_network(
    network: PolicyNetwork, lessons: Lessons, recipe: EmbeddedRecipe, seed: int, progress: Progress | None = None
) -> TrainingReport:
    """Update the network with AdamW, whose learning rate falls along a half cosine."""
    rows = len(lessons)
    if not rows:
        return TrainingReport(0, lessons.skipped, 0, 0.0)
    network.pairs.meet(lessons.situations)
    draw = torch.Generator().manual_seed(seed)
    objective: Objective
    match recipe:
        case EmbeddedSftSpec():
            objective = _supervised(network, lessons, recipe, draw)
        case EmbeddedRlSpec():
            objective = _trajectory_level(network, lessons, recipe)
        case _:
            raise NotImplementedError(f"no objective for {type(recipe).__name__}")
    updates = recipe.updates(rows)
    if progress:
        progress(0, updates)
    network.train()
    pairs = list(network.pairs.parameters())
    others = [parameter for parameter in network.parameters() if parameter is not pairs[0]]
    optimiser = torch.optim.AdamW([{"params": others}, {"params": pairs}], weight_decay=0.01, fused=True)
    order = torch.randperm(rows, generator=draw)
    losses = []
    for update in range(updates):
        if len(order) < min(recipe.batch, rows):
            order = torch.cat([order, torch.randperm(rows, generator=draw)])
        chosen, order = order[: recipe.batch], order[recipe.batch :]
        loss = objective(chosen)
        network.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        rate = recipe.learning_rate * (_FINAL + (1 - _FINAL) * (1 + math.cos(math.pi * (update / updates))) / 2)
        for group, scale in zip(optimiser.param_groups, (1.0, _PAIR_RATE), strict=True):
            group["lr"] = scale * rate
        optimiser.step()
        losses.append(loss.item())
        if progress:
            progress(update + 1, updates)
    network.eval()
    return TrainingReport(rows - lessons.detours, lessons.skipped, len(losses), tail_mean(losses))


def _supervised(network: PolicyNetwork, lessons: Lessons, recipe: EmbeddedSftSpec, draw: torch.Generator) -> Objective:
    labels = naming(lessons.situations, lessons.bags.weights)

    def loss(rows: Tensor) -> Tensor:
        batch = select(lessons.situations, rows)
        hidden = Hidden(
            torch.rand(batch.instruction.shape, generator=draw) < recipe.word_dropout,
            torch.rand(len(rows), generator=draw) < recipe.pair_dropout,
        )
        vectors = network.word_vectors(lessons.bags)
        strange = strange_apps(lessons.apps, recipe.strange_apps, draw)
        batch, vectors = disguise(batch, vectors, strange, draw)
        batch, vectors = rename(batch, vectors, labels, recipe.renamed_controls, draw)
        weights = functional.pad(lessons.bags.weights, (0, len(vectors) - len(lessons.bags.weights)), value=1.0)
        logits: Tensor = network(batch, vectors, weights, hidden)
        # An app that looks unknown may lack the target, or have it under another name.
        is_learned = ~torch.isin(lessons.left_apps[rows], torch.tensor([app.icon for app in strange]))
        return supervised_loss(logits, lessons.labels[rows], lessons.weights[rows] * is_learned)

    return loss


def _trajectory_level(network: PolicyNetwork, lessons: Lessons, recipe: EmbeddedRlSpec) -> Objective:
    """Return the loss whose old log-probabilities are those of the network before the first update."""

    def log_probabilities(rows: Tensor) -> Tensor:
        batch, words = select(lessons.situations, rows), lessons.bags
        logits: Tensor = network(batch, network.word_vectors(words), words.weights)
        return chosen_log_probabilities(logits, lessons.labels[rows])

    with torch.no_grad():
        splits = torch.split(torch.arange(len(lessons)), recipe.batch)
        before = torch.cat([log_probabilities(rows) for rows in splits])

    def loss(rows: Tensor) -> Tensor:
        return trajectory_loss(log_probabilities(rows), before[rows], lessons.weights[rows], recipe.clip_ratio)

    return loss


def select(batch: Batch, rows: Tensor) -> Batch:
    """Return some situations of a batch, cut to the padding that they need."""
    chosen = Batch(*(tensor[rows] for tensor in batch))
    spoken = max(1, int((chosen.instruction > 0).sum(1).max()))
    offered = int(chosen.exists.any(0).nonzero().max()) + 1
    words = ("instruction", "instruction_flags", "instruction_codes")
    candidates = ("texts", "fields", "kinds", "flags", "codes", "spots", "exists")
    return chosen._replace(
        **{name: getattr(chosen, name)[:, :spoken] for name in words},
        **{name: getattr(chosen, name)[:, :offered] for name in candidates},
    )


def supervised_loss(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Return the mean cross entropy, weighted by `weights` (rows,), which are at least 0.

    `logits` are (rows, candidates), -inf where there is no candidate; `labels` are (rows,) indices of the right ones.
    """
    losses = functional.cross_entropy(logits, labels, reduction="none")
    return (losses * weights).sum() / weights.sum().clamp(min=1e-8)


def chosen_log_probabilities(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the log-probability of the chosen candidates, (rows,)."""
    return logits.log_softmax(-1).gather(1, labels[:, None]).squeeze(1)


def trajectory_loss(now: Tensor, before: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """Equation 3: the negative mean of min(r A, clip(r, 1 - e, 1 + e) A).

    `now` and `before` (rows,) are log-probabilities under the policy that is trained and the one that acted;
    `advantages` (rows,) are those of the trajectory times the step weight; `clip` is epsilon.
    """
    ratio = (now - before).exp()
    clipped = ratio.clamp(1 - clip, 1 + clip)
    return -torch.minimum(ratio * advantages, clipped * advantages).mean()
