"""Writes the card of an exported folder: what the data is, how it was judged, and how to call the trainer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from trajmill.schemas.dialects.families import FAMILIES, Family
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.stages.export.card import front_matter, markdown_cell, markdown_table
from trajmill.stages.export.formats.base import TrainerFormat, TrainerSettings
from trajmill.stages.export.formats.counts import RLCounts, SupervisedCounts
from trajmill.stages.export.formats.lineage import image_tokens
from trajmill.stages.export.formats.parquet import WrittenRows
from trajmill.stages.export.words import IMPORTED, MODELS, NO_WORDS, TEMPLATES

SIMULATED: Final = frozenset({"simulated", "webapp"})
"""Environments whose apps are trajmill's own app files."""


class ExportedRelease(NamedTuple):
    """The release whose rows a folder has."""

    release: str
    run_id: str
    round: int
    code_version: str
    licence: str
    """SPDX identifier in lower case."""
    kind: str = ""
    """The derived kind of its rows; empty for the steps of judged attempts."""


class ExportedFolder(NamedTuple):
    """The contents of an exported folder."""

    written: WrittenRows
    counts: SupervisedCounts
    rl_written: WrittenRows
    """The RL steps; a supervised format writes none."""
    rl_counts: RLCounts

    @property
    def repeated_rows(self) -> int:
        """Rows beside the first one of each step."""
        return self.written.rows - self.counts.examples


def export_card(
    source: ExportedRelease, form: TrainerFormat, settings: TrainerSettings, exported: ExportedFolder
) -> str:
    """The text of README.md."""
    family, counts, written = settings.family, exported.counts, exported.written
    sections = [
        _front_matter(source, form, exported),
        f"# {source.release} for {form.kind}, {family.name}\n\n{_what(source, settings, counts, written)}",
        f"## How to train on it\n\n{form.advice(settings)}\n\nNo row has more than {settings.max_length:,} tokens: "
        "those of its images, and one for each byte of text. Most tokenizers make a quarter as many of the text: count "
        "with that of your model to set less.",
        *_stored_replies(form, exported),
        f"## What it is\n\n{_origin(counts)}\n\n{_weights(form, counts, written)}",
        f"## How it was judged\n\n{_judged(source, counts)}",
        *(
            f"## {name.capitalize()}\n\n{markdown_table((name, 'steps'), table.items())}"
            for name, table in counts.sorted_tables().items()
        ),
        f"## Tokens of a screen\n\n{_tokens(counts)}",
        "## What was left out\n\n"
        + (markdown_table(("reason", "steps"), sorted(counts.left_out.items())) or "Nothing."),
    ]
    return "\n\n".join(sections) + "\n"


def _front_matter(source: ExportedRelease, form: TrainerFormat, exported: ExportedFolder) -> str:
    named = [("default", exported.written), ("rl_steps", exported.rl_written)]
    values = {
        "configs": [
            {"config_name": name, "data_files": [{"split": "train", "path": list(written.shards)}]}
            for name, written in named
            if written.rows
        ],
    }
    return front_matter(f"{source.release} for {form.kind}", source.licence, values)


def _what(source: ExportedRelease, settings: TrainerSettings, counts: SupervisedCounts, written: WrittenRows) -> str:
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


def _origin(counts: SupervisedCounts) -> str:
    simulated = sum(count for name, count in counts.tables["environments"].items() if name in SIMULATED)
    return (
        f"{_share(simulated, counts.examples)} of the steps were made in simulated apps, the rest in real programs. "
        f"The words of {_share(counts.words[TEMPLATES], counts.examples)} were filled into templates by the built-in "
        f"policy or a rule, those of {_share(counts.words[MODELS], counts.examples)} were written by a model, those of "
        f"{_share(counts.words[IMPORTED], counts.examples)} came with an import; "
        f"{_share(counts.words[NO_WORDS], counts.examples)} are calls without words. "
        f"{_share(counts.guided, counts.examples)} of the steps are of attempts that were made with hints, which stand "
        "in no prompt (column `guided`)."
    )


def _weights(form: TrainerFormat, counts: SupervisedCounts, written: WrittenRows) -> str:
    if not form.weights_as_rows:
        return "Every step is one row, whose `loss_weight` is its weight."
    repeated = written.rows - counts.examples
    return (
        f"Every step is at least one row: {counts.examples:,} distinct steps and {repeated:,} repeated rows. The "
        "trainer itself reads no weights, so a step is repeated as often as it weighs, rounded (`copy` numbers its "
        "rows). The `loss_weight` of its rows sums to its weight, for trainers that read it; without it, a step that "
        "weighs less than 1 counts as 1."
    )


def _stored_replies(form: TrainerFormat, exported: ExportedFolder) -> Iterable[str]:
    if not form.rl_columns:
        return
    counts = exported.rl_counts
    yield (
        f"## Stored replies\n\n`rl_steps/` holds {counts.examples:,} replies of {len(counts.trajectories):,} attempts "
        f"in {len(counts.group_sizes):,} groups, those that failed among them, each with the advantage of its attempt "
        f"within its group ({_sizes_of_groups(counts)}). {len(counts.replayed):,} attempts are remembered successes of "
        f"earlier rounds (`replayed`). {counts.with_tokens:,} replies have their tokens and log probabilities "
        "(`response_token_ids`, `old_logprobs`): those that a server gave and that stand here as they came.\n\n"
        "They are for a trainer that updates on stored replies, as `trpo` of trajmill does; weigh each by `advantage` "
        "times `step_weight`. TRL and verl sample their own replies to the prompts in `data/`, in groups of their own "
        f"size, and have no use for them.{_rl_left_out(counts)}"
    )


def _sizes_of_groups(counts: RLCounts) -> str:
    sizes = Counter(counts.group_sizes.values())
    return ", ".join(f"{count:,} of size {size}" for size, count in sorted(sizes.items()))


def _rl_left_out(counts: RLCounts) -> str:
    table = markdown_table(("reason", "stored replies left out"), sorted(counts.left_out.items()))
    return f"\n\n{table}" if table else ""


def _judged(source: ExportedRelease, counts: SupervisedCounts) -> str:
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


def _tokens(counts: SupervisedCounts) -> str:
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


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "0%"
