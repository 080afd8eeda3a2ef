"""Counts the rows of an export while they are written, for its card and its figures."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from trajmill.schemas.geometry import Size
from trajmill.stages.export.formats.parquet import RowWithImages
from trajmill.stages.export.formats.rl import RLStepExample
from trajmill.stages.export.formats.steps import LeftOutStep, StepExample
from trajmill.stages.export.words import words_of

_ROUNDED_TO = 256

E = TypeVar("E", bound=RowWithImages)


class RowCounts(Generic[E]):
    """Counts the examples of one kind, and the steps that give none."""

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
                self.add(step)
                yield step

    @property
    def max_length(self) -> int:
        """A number of tokens that no row exceeds."""
        return math.ceil(self.longest / _ROUNDED_TO) * _ROUNDED_TO

    def add(self, example: E) -> None:
        """Count one example."""
        self.examples += 1
        self.longest = max(self.longest, example.lineage.tokens_at_most)
        self.trajectories.add(example.lineage.trajectory_id)


class SupervisedCounts(RowCounts[StepExample]):
    """Counts supervised examples."""

    def __init__(self) -> None:
        super().__init__()
        self.guided = 0
        self.words: Counter[str] = Counter()
        """Examples by whose words they teach."""
        self.queries: set[str] = set()
        self.rules: Counter[str] = Counter()
        """Examples by the rule of their judge."""
        self.sizes: Counter[Size] = Counter()
        """Number of images of each size."""
        self.tables: dict[str, Counter[str]] = defaultdict(Counter)
        """Examples by the values of other facts, each a table of the card."""

    @property
    def largest_image(self) -> int:
        """Pixels of the largest image; 0 without any."""
        return max((size.width * size.height for size in self.sizes), default=0)

    def sorted_tables(self) -> Mapping[str, Mapping[str, int]]:
        """The tables, the most frequent values first."""
        return {
            name: dict(sorted(table.items(), key=lambda each: (-each[1], each[0])))
            for name, table in self.tables.items()
        }

    def add(self, example: StepExample) -> None:
        """Count one example."""
        super().add(example)
        lineage = example.lineage
        self.guided += lineage.guided
        self.words[example.words or words_of("sft", "", lineage.policy_version)] += 1
        self.queries.add(lineage.query_id)
        self.rules[lineage.judged_by or "none"] += 1
        self.sizes.update(lineage.image_sizes)
        facts = {
            "step labels": lineage.step_label or "none",
            "actions": "text" if example.target is None else example.target.action.kind,
            "platforms": lineage.platform,
            "environments": lineage.environment,
            "agents": lineage.agent,
            "policy versions": lineage.policy_version,
            "rounds": str(lineage.round),
        }
        for name, value in facts.items():
            self.tables[name][value] += 1


class RLCounts(RowCounts[RLStepExample]):
    """Counts RL steps."""

    def __init__(self) -> None:
        super().__init__()
        self.with_tokens = 0
        self.replayed: set[str] = set()
        """Trajectories."""
        self.group_sizes: dict[str, int] = {}
        """Attempts of each group."""

    def add(self, example: RLStepExample) -> None:
        """Count one RL step."""
        super().add(example)
        comparison = example.comparison
        self.with_tokens += bool(comparison.response_token_ids)
        if comparison.replayed:
            self.replayed.add(example.lineage.trajectory_id)
        self.group_sizes[comparison.group] = comparison.group_size
