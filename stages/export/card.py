"""Writes the dataset card of a release: a README.md that says what it contains, how it was made and how to load it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import yaml

from trajmill.stages.export.base import ExportedFile, Exporter
from trajmill.stages.export.screens import SCREENS_FILE, SCREENS_SCHEMA


class DroppedRows(NamedTuple):
    """The number of rows that were left out for one reason."""

    reason: str
    rows: int


class CardContents(NamedTuple):
    """The facts of a card that cannot be read from the files."""

    name: str
    """Name of the release."""
    licence: str
    """SPDX identifier in lower case, as the Hugging Face Hub writes it."""
    run_id: str
    round: int
    code_version: str
    policy: str
    """Version of the policy that acted."""
    judge: str
    """How trajectories were judged, e.g. `consensus(text,multimodal)`."""
    tables: Mapping[str, int]
    """The version of each warehouse table that the rows were read from."""
    queries: int
    """Distinct training queries in the supervised file."""
    trajectories: int
    """Distinct trajectories in it."""
    dropped: Sequence[DroppedRows]
    notes: Sequence[str] = ()
    """Sentences that say what else is missing, and why."""


class _Config(NamedTuple):
    name: str
    file: str
    schema: pa.Schema
    what: str


_SCREENS = _Config(
    "screens", SCREENS_FILE, SCREENS_SCHEMA, "the accessibility tree of one distinct screen, without pixels"
)

_HOW_MADE = """\
An agent attempted generated queries in GUI environments. A step critic labelled every action and two channels judged
every trajectory; both had to call it correct. Of each query the shortest successes were kept. HARMFUL steps and
NEUTRAL steps that changed nothing were left out; the prompts of the steps after them still tell what really happened.
Where an attempt was made with guidance, the guidance is not in the prompt. Exact duplicates were removed.

All rows are of split `train`; held-out queries are never exported. Coordinates are pixels of the image in the row.
Images are the stored screenshots, byte for byte. `rl`, where there is one, holds the round's groups of attempts at one
query whose rewards differ: `advantage` is the trajectory's reward (accuracy plus format) normalised within its group
unless `[rl]` says otherwise, `step_weight` weighs its steps, `replayed` marks remembered successes."""

_PLACEHOLDERS = "The placeholder dialects of the files do not mix."


def dataset_card(contents: CardContents, exporters: Sequence[Exporter], files: Iterable[ExportedFile]) -> str:
    """The text of README.md; the front matter names one configuration per file that has rows."""
    written = {file.path: file for file in files}
    known = [_Config(each.name, each.file, each.schema, each.row_is) for each in exporters]
    configs = [config for config in (*known, _SCREENS) if config.file in written and written[config.file].rows]
    sections = [
        _front_matter(contents, configs, written),
        f"# {_cell(contents.name)}\n\nTrajectories of a GUI agent, produced and judged by trajmill in round "
        f"{contents.round} of run `{contents.run_id}`: {contents.trajectories} trajectories of "
        f"{contents.queries} queries.",
        _files(configs, written),
        _loading(configs),
        "## How it was made\n\n" + _HOW_MADE,
        "\n\n".join(["## What was left out", *contents.notes, _table(("reason", "rows"), contents.dropped)]),
        "## Lineage\n\n" + _table(("what", "version"), _lineage(contents)),
        "## Columns\n\n" + "\n\n".join(_columns(config) for config in configs),
        "## For trainers\n\n" + "\n".join([*(each.advice for each in exporters), _PLACEHOLDERS]),
    ]
    return "\n\n".join(sections) + "\n"


def _front_matter(contents: CardContents, configs: Sequence[_Config], written: Mapping[str, ExportedFile]) -> str:
    values = {
        "pretty_name": contents.name,
        "license": contents.licence,
        "language": ["en"],
        "tags": ["gui-agent", "trajectories", "trajmill"],
        "task_categories": ["image-text-to-text"],
        "size_categories": [_size_category(max((written[config.file].rows for config in configs), default=0))],
        "configs": [
            {"config_name": config.name, "data_files": [{"split": "train", "path": config.file}]}
            | ({"default": True} if config is configs[0] else {})
            for config in configs
        ],
    }
    return f"---\n{yaml.safe_dump(values, sort_keys=False, allow_unicode=True)}---"


def _size_category(rows: int) -> str:
    """The size category of the Hugging Face Hub for a number of rows."""
    for limit, name in ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M")):
        if rows < limit:
            return name
    return "n>1M"


def _files(configs: Sequence[_Config], written: Mapping[str, ExportedFile]) -> str:
    rows = [
        (config.name, f"`{config.file}`", written[config.file].rows, written[config.file].bytes, config.what)
        for config in configs
    ]
    return "## Files\n\n" + _table(("configuration", "file", "rows", "bytes", "one row is"), rows)


def _loading(configs: Sequence[_Config]) -> str:
    lines = "\n".join(f'{config.name} = load_dataset("PATH", "{config.name}", split="train")' for config in configs)
    return f"## Loading\n\n```python\nfrom datasets import load_dataset\n\n{lines}\n```\n\n`PATH` is this folder."


def _lineage(contents: CardContents) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = [
        ("code", contents.code_version),
        ("policy", contents.policy),
        ("judge", contents.judge),
    ]
    return rows + [(f"table `{name}`", version) for name, version in sorted(contents.tables.items())]


def _columns(config: _Config) -> str:
    return f"`{config.name}`\n\n" + _table(("column", "type"), [(f"`{f.name}`", f"`{f.type}`") for f in config.schema])


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; a cell cannot break out of its column."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(value) for value in line) + " |" for line in lines)


def _cell(value: object) -> str:
    return " ".join(str(value).replace("|", "\\|").split())
