"""Counts the examples of an export, for its card and its figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from trajmill.schemas.geometry import Size
from trajmill.stages.export.formats.rows.step_example import StepExample

_BYTES_PER_TOKEN = 2
"""Bytes in a token, chosen below what any tokenizer needs for our texts, so that the length is never too small."""
_ROUNDED_TO = 256


class Tally:
    """Counts examples while they are written."""

    def __init__(self) -> None:
        self.examples = 0
        self.guided = 0
        self.images = 0
        self.longest = 0
        """An upper bound on the tokens of the longest example."""
        self.trajectories: set[str] = set()
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
        self.left_out: Counter[str] = Counter()

    def counted(self, examples: Iterable[StepExample]) -> Iterator[StepExample]:
        """Count the examples and pass them on unchanged."""
        for example in examples:
            self._add(example)
            yield example

    @property
    def max_length(self) -> int:
        """A number of tokens that no example exceeds."""
        return math.ceil(self.longest / _ROUNDED_TO) * _ROUNDED_TO

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
        self.examples += 1
        self.guided += lineage.guided
        self.images += len(lineage.image_sizes)
        self.longest = max(self.longest, lineage.image_tokens + math.ceil(lineage.text_bytes / _BYTES_PER_TOKEN))
        self.trajectories.add(lineage.trajectory_id)
        self.queries.add(lineage.query_id)
        self.labels[lineage.step_label or "none"] += 1
        self.kinds[example.target.action.kind] += 1
        self.platforms[lineage.platform] += 1
        self.environments[lineage.environment] += 1
        self.agents[lineage.agent] += 1
        self.policies[lineage.policy_version] += 1
        self.rules[lineage.judged_by or "none"] += 1
        self.rounds[lineage.round] += 1
        self.sizes.update(lineage.image_sizes)
