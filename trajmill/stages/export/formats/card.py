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
    family, counts, written = settings.family, exported.counts, exported.written
    configs = [
        {"config_name": name, "data_files": [{"split": "train", "path": list(rows.shards)}]}
        for name, rows in (("default", written), ("rl_steps", exported.rl_written))
        if rows.rows
    ]
    sections = [
        front_matter(f"{source.release} for {form.kind}", source.licence, {"configs": configs}),
        f"# {source.release} for {form.kind}, {family.name}\n\n{_contents(source, settings, counts, written)}",
        f"## How to train on it\n\n{form.advice(settings)}\n\nNo row has more than {settings.max_length:,} tokens: "
        "those of its images, and one for each byte of text. Most tokenizers make a quarter as many of the text: count "
        "with that of your model to set less.",
        *([_stored_replies(exported.rl_counts)] if form.rl_columns else []),
        f"## What it is\n\n{_origin(counts)}\n\n{_weights(form, counts, written)}",
        f"## How it was judged\n\n{_judged(source, counts)}",
        *(_frequencies(name, table) for name, table in counts.tables.items()),
        f"## Tokens of a screen\n\n{_tokens(counts)}",
        "## What was left out\n\n"
        + (markdown_table(("reason", "steps"), sorted(counts.left_out.items())) or "Nothing."),
    ]
    return "\n\n".join(sections) + "\n"


def _frequencies(name: str, table: Counter[str]) -> str:
    rows = sorted(table.items(), key=lambda each: (-each[1], each[0]))
    return f"## {name.capitalize()}\n\n{markdown_table((name, 'steps'), rows)}"


def _contents(source: ExportedRelease, settings: TrainerSettings, counts: RowCounts, written: WrittenRows) -> str:
    family = settings.family
    return (
        f"{written.rows:,} rows of {counts.examples:,} steps in {len(counts.trajectories):,} trajectories of "
        f"{len(counts.queries):,} queries, exported from release `{source.release}` (round {source.round} of run "
        f"`{source.run_id}`, trajmill {source.code_version}). All are of split `train`. Messages are written as the "
        f"family `{family.name}` writes them: positions as {family.space.value}, pictures in patches of "
        f"{family.budget.factor} pixels and {family.budget.min_pixels:,} to {family.budget.max_pixels:,} pixels in "
        "all. Set both bounds in the trainer: where it shrinks a picture further, the positions are wrong. Images are "
        "the stored screenshots, byte for byte; the column `action` is in their pixels."
    )


def _origin(counts: RowCounts) -> str:
    def share(part: int) -> str:
        return f"{part / counts.examples:.0%}" if counts.examples else "0%"

    simulated = sum(count for name, count in counts.tables["environments"].items() if name in SIMULATED)
    return (
        f"{share(simulated)} of the steps were made in simulated apps, the rest in real programs. "
        f"The words of {share(counts.words[TEMPLATES])} were filled into templates by the built-in "
        f"policy or a rule, those of {share(counts.words[MODELS])} were written by a model, those of "
        f"{share(counts.words[IMPORTED])} came with an import; {share(counts.words[NO_WORDS])} are calls without "
        f"words. {share(counts.guided)} of the steps are of attempts that were made with hints, which stand "
        "in no prompt (column `guided`)."
    )


def _weights(form: TrainerFormat, counts: RowCounts, written: WrittenRows) -> str:
    if not form.weights_as_rows:
        return "Every step is one row, whose `loss_weight` is its weight."
    repeated = written.rows - counts.examples
    return (
        f"Every step is at least one row: {counts.examples:,} distinct steps and {repeated:,} repeated rows. The "
        "trainer itself reads no weights, so a step is repeated as often as it weighs, rounded (`copy` numbers its "
        "rows). The `loss_weight` of its rows sums to its weight, for trainers that read it; without it, a step that "
        "weighs less than 1 counts as 1."
    )


def _stored_replies(counts: RowCounts) -> str:
    sizes = sorted(Counter(counts.group_sizes.values()).items())
    groups = ", ".join(f"{count:,} of size {size}" for size, count in sizes)
    left_out = markdown_table(("reason", "stored replies left out"), sorted(counts.left_out.items()))
    return (
        f"## Stored replies\n\n`rl_steps/` holds {counts.examples:,} replies of {len(counts.trajectories):,} attempts "
        f"in {len(counts.group_sizes):,} groups, those that failed among them, each with the advantage of its attempt "
        f"within its group ({groups}). {len(counts.replayed):,} attempts are remembered successes of "
        f"earlier rounds (`replayed`). {counts.with_tokens:,} replies have their tokens and log probabilities "
        "(`response_token_ids`, `old_logprobs`): those that a server gave and that stand here as they came.\n\n"
        "They are for a trainer that updates on stored replies, as `trpo` of trajmill does; weigh each by `advantage` "
        "times `step_weight`. TRL and verl sample their own replies to the prompts in `data/`, in groups of their own "
        "size, and have no use for them." + (f"\n\n{left_out}" if left_out else "")
    )


def _judged(source: ExportedRelease, counts: RowCounts) -> str:
    if source.kind:
        return (
            f"These are rows of the derived kind `{source.kind}`. Their trajectories were judged, but not all were "
            "found correct; the card of the release says who wrote what is learned, and docs/data.md what is refused."
        )
    rules = ", ".join(f"`{markdown_cell(rule)}` ({count:,} steps)" for rule, count in counts.rules.most_common())
    return (
        f"Every trajectory was found correct by the judge of its run: {rules}. A step critic labelled each action; "
        "HARMFUL steps, and NEUTRAL ones that changed nothing, are not in the release."
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
