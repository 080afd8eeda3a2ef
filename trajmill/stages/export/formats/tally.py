"""Counts the examples of an export, for its card and its figures."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from trajmill.schemas.geometry import Size
from trajmill.stages.export.formats.rows.parquet import RowWithImages
from trajmill.stages.export.formats.rows.rl_step_example import RLStepExample
from trajmill.stages.export.formats.rows.spoken_step import LeftOutStep
from trajmill.stages.export.formats.rows.step_example import StepExample
from trajmill.stages.export.words import words_of

_ROUNDED_TO = 256

E = TypeVar("E", bound=RowWithImages)


class ExampleTally(ABC, Generic[E]):
    """Counts the examples of one kind while they are written, and the steps that give none."""

    def __init__(self) -> None:
        self.examples = 0
        self.longest = 0
        """An upper bound on the tokens of the longest row."""
        self.trajectories: set[str] = set()
        self.left_out: Counter[str] = Counter()

    def counted(self, steps: Iterable[E | LeftOutStep]) -> Iterator[E]:
        """Count the steps and pass on those that give a row."""
        for step in steps:
            if isinstance(step, LeftOutStep):
                self.left_out[step.reason] += 1
            else:
                self.examples += 1
                self.longest = max(self.longest, step.lineage.tokens_at_most)
                self.trajectories.add(step.lineage.trajectory_id)
                self._add(step)
                yield step

    @property
    def max_length(self) -> int:
        """A number of tokens that no row exceeds."""
        return math.ceil(self.longest / _ROUNDED_TO) * _ROUNDED_TO

    @abstractmethod
    def _add(self, example: E) -> None:
        """Count what only this kind of example has."""


class Tally(ExampleTally[StepExample]):
    """Counts supervised examples."""

    def __init__(self) -> None:
        super().__init__()
        self.guided = 0
        self.words: Counter[str] = Counter()
        """Rows by whose words they teach."""
        self.images = 0
        self.queries: set[str] = set()
        self.labels: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.platforms: Counter[str] = Counter()
        self.environments: Counter[str] = Counter()
        self.agents: Counter[str] = Counter()
        self.policies: Counter[str] = Counter()
        self.rules: Counter[str] = Counter()
        self.rounds: Counter[int] = Counter()
        self.sizes: Counter[Size] = Counter()
        """Number of images of each size."""

    @property
    def largest_image(self) -> int:
        """Pixels of the largest image; 0 without any."""
        return max((size.width * size.height for size in self.sizes), default=0)

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """All counts by name, the most frequent first."""
        named: dict[str, Counter[str]] = {
            "step labels": self.labels,
            "actions": self.kinds,
            "platforms": self.platforms,
            "environments": self.environments,
            "agents": self.agents,
            "policy versions": self.policies,
            "rounds": Counter({str(number): count for number, count in self.rounds.items()}),
        }
        return {name: dict(sorted(of.items(), key=lambda each: (-each[1], each[0]))) for name, of in named.items()}

    def _add(self, example: StepExample) -> None:
        lineage = example.lineage
        self.guided += lineage.guided
        self.words[example.words or words_of("sft", "", lineage.policy_version)] += 1
        self.images += len(lineage.image_sizes)
        self.queries.add(lineage.query_id)
        self.labels[lineage.step_label or "none"] += 1
        self.kinds["text" if example.target is None else example.target.action.kind] += 1
        self.platforms[lineage.platform] += 1
        self.environments[lineage.environment] += 1
        self.agents[lineage.agent] += 1
        self.policies[lineage.policy_version] += 1
        self.rules[lineage.judged_by or "none"] += 1
        self.rounds[lineage.round] += 1
        self.sizes.update(lineage.image_sizes)


class RLTally(ExampleTally[RLStepExample]):
    """Counts RL steps."""

    def __init__(self) -> None:
        super().__init__()
        self.with_tokens = 0
        self.replayed: set[str] = set()
        """Trajectories."""
        self.group_sizes: dict[str, int] = {}
        """Attempts of each group."""

    def _add(self, example: RLStepExample) -> None:
        comparison = example.comparison
        self.with_tokens += bool(comparison.response_token_ids)
        if comparison.replayed:
            self.replayed.add(example.lineage.trajectory_id)
        self.group_sizes[comparison.group] = comparison.group_size
