"""Counts the rows of an exported folder, and writes its card: contents, judgement, and how to call the trainer."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from trajmill.schemas.dialects.families import FAMILIES, Family
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.stages.export.card import (
    IMPORTED,
    MODELS,
    NO_WORDS,
    TEMPLATES,
    front_matter,
    markdown_cell,
    markdown_table,
    render_markdown,
    words_of,
)
from trajmill.stages.export.formats.base import TrainerFormat, TrainerSettings
from trajmill.stages.export.formats.steps import RLStepExample, StepExample, image_tokens

SIMULATED: Final = frozenset({"simulated", "webapp"})
"""Environments whose apps are trajmill's own app files."""
_LENGTHS_ROUNDED_TO = 256


class RowCounts:
    """Counts the examples of a folder, supervised or RL, and the steps that give none."""

    def __init__(self) -> None:
        self.examples = 0
        self.longest = 0
        self.trajectories: set[str] = set()
        self.queries: set[str] = set()
        self.left_out: Counter[str] = Counter()
        self.guided = 0
        self.words: Counter[str] = Counter()
        """Supervised examples by author of the text, as `words_of` classifies it."""
        self.rules: Counter[str] = Counter()
        """Examples by the rule of their judge."""
        self.sizes: Counter[Size] = Counter()
        self.tables: dict[str, Counter[str]] = defaultdict(Counter)
        """Examples by the values of other facts, each a table of the card."""
        self.with_tokens = 0
        self.replayed: set[str] = set()
        self.group_sizes: dict[str, int] = {}
        """Attempts of each RL group."""

    @property
    def max_length(self) -> int:
        return math.ceil(self.longest / _LENGTHS_ROUNDED_TO) * _LENGTHS_ROUNDED_TO

    @property
    def largest_image(self) -> int:
        return max((size.width * size.height for size in self.sizes), default=0)

    def add(self, example: StepExample | RLStepExample) -> None:
        lineage = example.lineage
        self.examples += 1
        self.longest = max(self.longest, lineage.tokens_at_most)
        self.trajectories.add(lineage.trajectory_id)
        self.queries.add(lineage.query_id)
        self.guided += lineage.guided
        self.rules[lineage.judged_by or "none"] += 1
        self.sizes.update(lineage.image_sizes)
        if isinstance(example, RLStepExample):
            comparison = example.comparison
            self.with_tokens += bool(comparison.response_token_ids)
            self.replayed.update([lineage.trajectory_id] if comparison.replayed else [])
            self.group_sizes[comparison.group + comparison.branch] = comparison.group_size
            return
        self.words[example.words or words_of("sft", "", lineage.policy_version)] += 1
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


class WrittenRows(NamedTuple):
    rows: int
    shards: tuple[str, ...]
    """Paths of the files, relative to the folder."""


class ExportedRelease(NamedTuple):
    release: str
    run_id: str
    round: int
    code_version: str
    licence: str
    """SPDX identifier in lower case."""
    kind: str = ""
    """The derived kind of its rows; empty for the steps of judged attempts."""


class ExportedFolder(NamedTuple):
    written: WrittenRows
    counts: RowCounts
    rl_written: WrittenRows
    """The RL steps; a supervised format writes none."""
    rl_counts: RowCounts

    @property
    def repeated_rows(self) -> int:
        return self.written.rows - self.counts.examples


def export_card(
    source: ExportedRelease, form: TrainerFormat, settings: TrainerSettings, exported: ExportedFolder
) -> str:
    counts, replies = exported.counts, exported.rl_counts
    configs = [
        {"config_name": name, "data_files": [{"split": "train", "path": list(rows.shards)}]}
        for name, rows in (("default", exported.written), ("rl_steps", exported.rl_written))
        if rows.rows
    ]

    def share(part: int) -> str:
        return f"{part / counts.examples:.0%}" if counts.examples else "0%"

    sizes = sorted(Counter(replies.group_sizes.values()).items())
    rules = (f"`{markdown_cell(rule)}` ({count:,} steps)" for rule, count in counts.rules.most_common())
    return render_markdown(
        __package__,
        "card.md.jinja",
        source=source,
        form=form,
        settings=settings,
        family=settings.family,
        exported=exported,
        counts=counts,
        replies=replies,
        front=front_matter(f"{source.release} for {form.kind}", source.licence, {"configs": configs}),
        groups=", ".join(f"{count:,} of size {size}" for size, count in sizes),
        simulated=share(sum(counts.tables["environments"][name] for name in SIMULATED)),
        words={words: share(counts.words[words]) for words in (TEMPLATES, MODELS, IMPORTED, NO_WORDS)},
        guided=share(counts.guided),
        rules=", ".join(rules),
        tokens=_tokens(counts),
    )


def _tokens(counts: RowCounts) -> str:
    families = [family for family in FAMILIES.values() if family.budget.factor > 1]
    rows: list[Sequence[object]] = [
        (f"{size.width}x{size.height}", count, *(_tokens_of(family, size) for family in families))
        for size, count in counts.sizes.most_common()
    ]
    return markdown_table(("screen", "images", *(family.name for family in families)), rows)


def _tokens_of(family: Family, size: Size) -> str:
    try:
        return f"{image_tokens(family, size):,}"
    except ModelFailure:
        return "does not fit"
