"""The dataset card of a release (README.md): contents, origin, how to load it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from trajmill.stages.curate.diversity import Diversity
from trajmill.stages.derive.collected import TEMPLATE, writes_templates
from trajmill.stages.export.exporter import Exporter
from trajmill.stages.export.release import SCREENS_FILE, SCREENS_SCHEMA, SELECTION_FILE, ExportedFile

TEMPLATES: Final = "filled into templates"
MODELS: Final = "a model's"
IMPORTED: Final = "a data set's"
NO_WORDS: Final = "none, the call alone"


class LeftOutRows(NamedTuple):
    """The rows of shards that a release does not take."""

    values: Mapping[str, Sequence[str]] = {}
    """By column, the values that they have alone."""
    rows: int = 0


class AuthoredRows(NamedTuple):
    configuration: str
    variant: str
    """The sort within a derived kind; empty for `sft`."""
    author: str
    """The version of a policy or a model, or `template`."""
    rows: int


def authored_rows(supervised: pa.Table, of_kinds: Mapping[str, pa.Table]) -> list[AuthoredRows]:
    """Count rows in the schema `DIGESTS` by author; of derived kinds also by variant."""
    counts = Counter(("sft", "", policy or "") for policy in supervised["written_by"].to_pylist())
    for kind, rows in of_kinds.items():
        values = zip(rows["variant"].to_pylist(), rows["written_by"].to_pylist(), strict=True)
        counts.update((kind, variant, author) for variant, author in values)
    return [AuthoredRows(*key, rows) for key, rows in sorted(counts.items())]


class CardContents(NamedTuple):
    """The facts of a card that cannot be read from the files."""

    name: str
    licence: str
    """SPDX identifier in lower case, as the Hugging Face Hub writes it."""
    run_id: str
    round: int
    code_version: str
    policy: str
    judge: str
    """How trajectories were judged, e.g. `consensus(text,multimodal)`."""
    tables: Mapping[str, int]
    queries: int
    trajectories: int
    dropped: Mapping[str, int]
    left_out: Mapping[str, LeftOutRows] = {}
    """By configuration, the rows of its shards that the release does not take."""
    authors: Sequence[AuthoredRows] = ()
    notes: Sequence[str] = ()
    """Sentences that name what else is missing, and why."""
    diversity: Sequence[Diversity] = ()
    """Of the supervised rows."""
    narrowed: Sequence[str] = ()
    """Sentences about the aspects in which it is narrower than the release before."""


class _Config(NamedTuple):
    name: str
    file: str
    """Path of its file, within the release or within each of the release's shards."""
    schema: pa.Schema
    row_is: str
    parts: Sequence[ExportedFile]
    left_out: LeftOutRows

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts) - self.left_out.rows

    @property
    def columns(self) -> list[tuple[str, str]]:
        return [(f"`{field.name}`", f"`{field.type}`") for field in self.schema]

    @property
    def described(self) -> tuple[object, ...]:
        """Its row in the table of files."""
        parts = self.parts
        place = f"`{parts[0].path}`" if len(parts) == 1 else f"`{self.file}` of {len(parts)} shards"
        return self.name, place, self.rows, sum(part.bytes for part in parts), self.row_is


def dataset_card(contents: CardContents, exporters: Sequence[Exporter], files: Iterable[ExportedFile]) -> str:
    """Return the text of README.md. Each path in `files` ends with that of its format's file."""
    written = list(files)
    screens = "the accessibility tree of one screen, without pixels; each shard has those that its rows show"
    described = [(each.name, each.file, each.schema, each.row_is) for each in exporters]
    configs = [
        _Config(name, file, schema, row_is, parts, contents.left_out.get(name, LeftOutRows()))
        for name, file, schema, row_is in (*described, ("screens", SCREENS_FILE, SCREENS_SCHEMA, screens))
        if (parts := [each for each in written if each.path == file or each.path.endswith(f"/{file}")])
    ]
    configs = [config for config in configs if config.rows]
    lineage = [("code", contents.code_version), ("policy", contents.policy), ("judge", contents.judge)]
    return render_markdown(
        __package__,
        "card.md.jinja",
        contents=contents,
        configs=configs,
        exporters=exporters,
        front=_front_matter(contents, configs),
        shared=any("../" in part.path for config in configs for part in config.parts),
        selection_file=SELECTION_FILE,
        authors=[
            (each.configuration, each.variant, each.author, words_of(*each[:3]), each.rows) for each in contents.authors
        ],
        diversity=[
            (of.aspect, of.rows, of.distinct_values, f"{of.effective:.1f}", of.largest, f"{of.largest_share:.0%}")
            for of in contents.diversity
        ],
        lineage=[*lineage, *((f"table `{name}`", version) for name, version in sorted(contents.tables.items()))],
    )


def render_markdown(package: str, template: str, /, **values: object) -> str:
    """Fill in a template of a package, in which `table` and `cell` make Markdown of any values."""
    environment = Environment(
        loader=PackageLoader(package, "."),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["number"] = "{:,}".format
    return environment.get_template(template).render(table=markdown_table, cell=markdown_cell, **values)


def _front_matter(contents: CardContents, configs: Sequence[_Config]) -> str:
    most = max((config.rows for config in configs), default=0)
    limits = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
    entries: list[dict[str, object]] = []
    for config in configs:
        paths = [part.path for part in config.parts]
        data_files = [{"split": "train", "path": paths[0] if len(paths) == 1 else paths}]
        entry: dict[str, object] = {"config_name": config.name, "data_files": data_files}
        if config.left_out.values:
            # What `load_dataset` takes as `filters`: all conditions hold for a row that is loaded.
            values = config.left_out.values.items()
            entry["filters"] = [[column, "not in", list(left_out)] for column, left_out in values]
        entries.append(entry if entries else entry | {"default": True})
    size = next((name for limit, name in limits if most < limit), "n>1M")
    return front_matter(contents.name, contents.licence, {"size_categories": [size], "configs": entries})


def words_of(kind: str, variant: str, author: str) -> str:
    """Return whose words rows teach: `TEMPLATES`, `MODELS`, `IMPORTED` or `NO_WORDS`; `kind` may be `sft`."""
    if (kind, variant) == ("action_semantics", "action"):
        return NO_WORDS
    if author == TEMPLATE or writes_templates(author):
        return TEMPLATES
    return IMPORTED if author.startswith("import.") else MODELS


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table, empty without rows; a cell cannot break out of its column."""
    body = list(rows)
    lines = [head, ["---"] * len(head), *body] if body else []
    return "\n".join("| " + " | ".join(markdown_cell(value) for value in line) + " |" for line in lines)


def markdown_cell(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return " ".join(text.replace("|", "\\|").split())


def front_matter(name: str, licence: str, values: Mapping[str, object]) -> str:
    common: dict[str, object] = {
        "pretty_name": name,
        "license": licence,
        "language": ["en"],
        "tags": ["gui-agent", "trajectories", "trajmill"],
        "task_categories": ["image-text-to-text"],
    }
    return f"---\n{yaml.safe_dump(common | dict(values), sort_keys=False, allow_unicode=True)}---"
