"""Write the reference pages that come from the code: configuration, commands, tables and API."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

import trajmill
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.tables import KeyPath, Table, all_tables, toml_value
from trajmill.schemas.spec import Spec
from trajmill.schemas.tables.registry import TABLES
from trajmill.schemas.text import one_line
from trajmill.warehouse.shards import stored_schema
from trajmill.warehouse.store.base import BucketUrl
from trajmill.warehouse.views import ready_made, table_description, view_description

HERE = Path(__file__).parent
_PLAIN_NAMES = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    BucketUrl: "URL",
    Path: "path",
}

_CONFIGURATION = """# Configuration

After reading this page you can write a configuration file and find any key.

One TOML file configures a run. `trajmill evolve --config FILE` reads it. Without `--config`, commands read
`trajmill.toml` in the working folder. Without that file, they use the defaults: the default job.

```
trajmill config > trajmill.toml     # all keys with defaults and meanings
trajmill config --config FILE       # the configuration in force with that file
```

- Relative paths are relative to the file's folder.
- Unknown keys, wrong types and missing paths are errors, listed with their lines before anything runs. The first stage
  checks what a value names, such as apps and tasks.
- A table with a `kind` takes the keys of that kind only. Without `kind`, the first kind listed is used. The column
  *kinds* names the kinds that have a key.

## The ten keys to set first

| key | default | meaning |
|---|---|---|
"""

_RUN_ID = """
## What starts a new run

A run is named `NAME-HASH`. The hash covers every setting that affects rows: seeds, queries, judge, training, and the
contents of apps, graphs, tasks and prompts. Change one, and a new run starts beside the old one in the warehouse.

These settings affect no rows. You can change them at any time: `run.rounds`, `run.root`, `run.asynchronous`,
`rl.max_staleness`, `rollout.workers`, `rollout.concurrency`, `[beam]`, `[serve]`, `[notify]`, `[retention]`,
`[judges.NAME]`, `[recipes.NAME]`, `[derive]`, `[explore]`, the address and name of an endpoint, endpoints without a
role, and the model of `models.policy`.
"""

_FIRST_KEYS = (
    ("run", "root"),
    ("run", "rounds"),
    ("environment", "kind"),
    ("models", "policy"),
    ("endpoints.NAME", "urls"),
    ("endpoints.NAME", "family"),
    ("rollout", "episodes_per_round"),
    ("rollout", "concurrency"),
    ("train", "kind"),
    ("serve", "cron"),
)

_THEMES = {
    "Run and warehouse": ("run", "beam", "retention"),
    "Models": ("models", "endpoints", "prompts"),
    "Environments and apps": ("environment", "explore"),
    "Queries": ("queries", "graphs", "pathways", "atomic", "causal"),
    "Rollouts and agents": ("rollout", "agent", "guidance"),
    "Judging": ("judge", "judges"),
    "Training data": ("derive", "curate", "release", "rl"),
    "Training and promotion": ("train", "recipes", "evaluate"),
    "Unattended operation": ("serve", "notify"),
}

_COMMANDS = """# Commands

After reading this page you know which command to run, and its options. `trajmill COMMAND --help` prints the same.

These options are shared:

| option | meaning |
|---|---|
| `-c, --config FILE` | Configuration file. Default: `trajmill.toml` in the working folder. |
| `--root PLACE` | Folder or bucket URL of the warehouse, for commands that only need a warehouse. |
| `--new-run` | Start a new run if the configuration changed. |
| `--traceback` | Show where in the code an error was raised. |
"""

_COMMAND_THEMES = {
    "Start": ("init", "config", "doctor", "evolve"),
    "One stage at a time": ("generate", "rollout", "judge", "guide", "derive", "release", "train", "evaluate"),
    "Policies and releases": ("policy", "compare", "releases", "export", "import", "calibrate"),
    "Environments and apps": ("walk", "graph", "apps", "pathways", "tasks", "env", "untrained"),
    "Look at results": ("status", "report", "view", "show", "sql"),
    "Unattended operation": ("serve", "deploy", "worker", "vacuum", "compact", "verify"),
}
_SHARED_OPTIONS = {"--config", "--help", "--root", "--new-run"}

_API = """# Python API

After reading this page you can call trajmill from your own code. These names are the public API: `import trajmill`,
then `trajmill.NAME`. [From Python](notebook.md) has ten examples. Everything else in the package is private and may
change, but for three parts that need a trainer's packages: `trajmill.stages.training.trl_sft.WeightedSFTTrainer`
([Export](export.md#weights)), and `trajmill.stages.online.verl_agent_loop.GuiAgentLoop` and
`trajmill/stages/online/swift_scheduler.py` ([Online training](online.md)).
"""


_TABLES = """# Tables and views

After reading this page you can query a warehouse. The same texts are comments in `trajmill.duckdb`:

```
trajmill sql "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'trajectories'"
```

## Columns of every table
"""


def pages() -> dict[str, str]:
    """Return the text of each generated page by its file name."""
    return {
        "configuration.md": configuration_page(),
        "commands.md": commands_page(),
        "tables.md": all_tables_page(),
        "api.md": api_page(),
    }


def configuration_page() -> str:
    """Return every key once, by theme, after the keys that people set first."""
    sections = dict(
        re.findall(r"^## `\[([^`]+)\]`\n\n(.+?)(?=\n## |\Z)", configuration_tables(), re.MULTILINE | re.DOTALL)
    )
    lines = [_CONFIGURATION.rstrip(), *(_first_key(sections[table], table, key) for table, key in _FIRST_KEYS), _RUN_ID]
    sections["judges.NAME"] = _without_rows_of(sections["judge"], sections["judges.NAME"])
    themed = {each for names in _THEMES.values() for each in names}
    unthemed = sorted({name.split(".")[0] for name in sections} - themed)
    for theme, tables in ({**_THEMES, "Other": tuple(unthemed)} if unthemed else _THEMES).items():
        lines += [f"## {theme}", ""]
        for name in (name for table in tables for name in sections if name.split(".")[0] == table):
            if not sections[name].rstrip().endswith("`.") or "Its keys are those of" not in sections[name]:
                lines += [f"### `[{name}]`", "", sections[name].strip(), ""]
        lines += _referring(name_text for name_text in sections.items() if name_text[0].split(".")[0] in tables)
    return "\n".join(lines).rstrip() + "\n"


def configuration_tables() -> str:
    """Return Markdown tables of every key, its type, default and meaning.

    Each table of the file has one section. Kinds share the rows of the keys that they share, and a table whose keys
    stand in an earlier section refers to it.
    """
    lines: list[str] = []
    places: dict[KeyPath, list[Table]] = {}
    for table in all_tables(Config):
        places.setdefault(table.keys, []).append(table)
    shown: dict[type[Spec], str] = {}
    for keys, tables in places.items():
        lines += ["", f"## `[{'.'.join(keys)}]`", "", *_section(tables, shown)]
        for table in tables:
            kind = f' with `kind = "{table.kind}"`' if len(tables) > 1 else ""
            shown.setdefault(table.spec, f"`[{'.'.join(keys)}]`{kind}")
    return "\n".join(lines).lstrip("\n") + "\n"


def _section(tables: Sequence[Table], shown: Mapping[type[Spec], str]) -> Iterator[str]:
    first, several = tables[0], len(tables) > 1
    if several and all(table.spec in shown for table in tables):
        yield f"Its kinds and keys are those of {shown[first.spec].partition(' ')[0]}."
        return
    if several:
        yield from ("| kind | meaning |", "|---|---|")
        yield from (f"| `{table.kind}` | {one_line(table.spec.__doc__ or '')} |" for table in tables)
        yield from ("", "| key | kinds | type | default | meaning |", "|---|---|---|---|---|")
    else:
        only = "" if first.kind is None else f' Only with `kind = "{first.kind}"`.'
        yield from (f"{one_line(first.spec.__doc__ or '')}{only}", "")
        if first.spec in shown:
            yield f"Its keys are those of {shown[first.spec]}."
            return
        yield from ("| key | type | default | meaning |", "|---|---|---|---|")
    # By name, type and meaning of a key: its default in each kind that has it.
    keys: dict[tuple[str, str, str], dict[str, str]] = {}
    for table in tables:
        for name, info in table.fields().items():
            if name != "kind" or not several:
                key = (f"`{name}`", _type_name(info.annotation), one_line(info.description or ""))
                keys.setdefault(key, {})[table.kind or ""] = _default_of(info).replace("|", "\\|")
    for (name, type_name, meaning), by_kind in keys.items():
        usual, *others = (default for default, _ in Counter(by_kind.values()).most_common())
        named = ((each, ", ".join(kind for kind, its in by_kind.items() if its == each)) for each in others)
        default = "; ".join([usual or ("none" if others else ""), *(f"{each or 'none'} ({of})" for each, of in named)])
        lacking = [table.kind or "" for table in tables if (table.kind or "") not in by_kind]
        kinds = f"all but {', '.join(lacking)}" if len(lacking) < len(by_kind) else ", ".join(by_kind)
        cells = [name, *([kinds if lacking else "all"] if several else []), type_name, default, meaning]
        yield f"| {' | '.join(cells)} |"


def _default_of(info: FieldInfo) -> str:
    if info.is_required():
        return "must be set"
    default = info.get_default(call_default_factory=True)
    return "" if default is None else f"`{toml_value(default)}`"


def _type_name(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_name(arguments[0])
    if origin in (Union, UnionType):
        return " or ".join(_type_name(each) for each in arguments if each is not NoneType)
    if origin is Literal:
        return " or ".join(f"`{toml_value(choice)}`" for choice in arguments)
    if origin in (tuple, list, frozenset, set):
        return f"list of {_type_name(arguments[0])}"
    if origin is dict:
        return "table"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(f"`{toml_value(choice.value)}`" for choice in annotation)
    return _PLAIN_NAMES[annotation]


def _without_rows_of(other: str, section: str) -> str:
    """Return a section of `[judges.NAME]` without the rows of `[judge]`, which it names instead."""
    head = section.partition("| key |")[0]
    shared = [line for line in section.splitlines() if re.match(r"\| `", line) and line in other.splitlines()]
    named = ", ".join(line.split("|")[1].strip() for line in shared)
    own = "\n".join(line for line in section[len(head) :].splitlines() if line not in shared)
    return f"{head.strip()} It also takes these keys of `[judge]`: {named}.\n\n{own}"


def _referring(sections: Iterator[tuple[str, str]]) -> list[str]:
    found = [(name, text, re.search(r"Its keys are those of (.+)\.", text)) for name, text in sections]
    rows = [f"| `[{name}]` | {match[1]} |" for name, _, match in found if match]
    if not rows:
        return []
    return [
        'With `kind = "devices"` these tables configure the devices:',
        "",
        "| table | keys |",
        "|---|---|",
        *rows,
        "",
    ]


def _first_key(section: str, table: str, key: str) -> str:
    if key == "kind":
        kinds = re.findall(r"^\| `([\w-]+)` \| [^|]+ \|$", section, re.MULTILINE)
        return f'| `{table}.kind` | `"{kinds[0]}"` | {", ".join(f"`{kind}`" for kind in kinds)} |'
    heads, row = (re.search(start, section, re.MULTILINE) for start in (r"^\| key \|.*\|$", rf"^\| `{key}` \|.*\|$"))
    assert heads and row, (table, key)
    cells = dict(
        zip(*([cell.strip() for cell in line[0].strip("| ").split(" | ")] for line in (heads, row)), strict=True)
    )
    return f"| `{table}.{key}` | {cells['default']} | {cells['meaning']} |"


def all_tables_page() -> str:
    """Return all tables and views, with the columns that every table has shown once."""

    def type_name(field: Any) -> str:
        return str(field.type).replace("item: ", "") + (" or null" if field.nullable else "")

    def rows(columns: Mapping[str, str], types: Mapping[str, str]) -> list[str]:
        cells = {name: [f"`{name}`", *([f"`{types[name]}`"] if types else [])] for name in columns}
        return [f"| {' | '.join([*cells[name], text.replace('|', chr(92) + '|')])} |" for name, text in columns.items()]

    described = {}
    for table in TABLES:
        meaning, schema = table_description(table), stored_schema(table)
        described[table] = meaning.text, rows(meaning.columns, {field.name: type_name(field) for field in schema})
    first, *others = (set_of for _, set_of in described.values())
    shared = [row for row in first if all(row in other for other in others)]
    heads = ["| column | type | meaning |", "|---|---|---|"]
    lines = [_TABLES, *heads, *shared, "", "## Tables", ""]
    for table, (text, found) in described.items():
        lines += [f"### `{table}`", "", text, "", *heads, *(row for row in found if row not in shared), ""]
    lines += ["## Views", ""]
    for view in ready_made():
        meaning = view_description(view)
        lines += [f"### `{view}`", "", meaning.text, ""]
        if meaning.columns:
            kept = (row for row in rows(meaning.columns, {}) if row not in shared)
            lines += ["| column | meaning |", "|---|---|", *kept, ""]
    return "\n".join(lines).rstrip() + "\n"


def commands_page() -> str:
    """Return every command with its own options."""
    import typer

    from trajmill.flows.cli.app import app

    commands: dict[str, Any] = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    themed = {name for names in _COMMAND_THEMES.values() for name in names}
    other = tuple(name for name in commands if name not in themed)
    lines = [_COMMANDS.rstrip()]
    for theme, names in ({**_COMMAND_THEMES, "Other": other} if other else _COMMAND_THEMES).items():
        lines += ["", f"## {theme}"]
        for name in (name for name in names if name in commands):
            group = getattr(commands[name], "commands", {})
            lines += [] if group else _command(f"trajmill {name}", commands[name])
            for sub, command in group.items():
                lines += _command(f"trajmill {name} {sub}", command)
    return "\n".join(lines) + "\n"


def _command(name: str, command: Any) -> Iterator[str]:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option"]
    own = [option for option in options if not _SHARED_OPTIONS & {*option.opts}]
    yield from ("", f"### `{name}`", "", _paragraphs(command.help))
    if arguments or own:
        yield from ("", "| option | meaning |", "|---|---|")
        yield from (f"| `{_metavar(each)}` | {_text(each.help)} |" for each in arguments)
        yield from (f"| `{_flags(each)}` | {_text(each.help)}{_default(each)} |" for each in own)
    if example := re.fullmatch(r"Example: (.+)", command.epilog or ""):
        yield from ("", "```", example[1], "```")


def _flags(option: Any) -> str:
    names = ", ".join(sorted(option.opts, key=len))
    return names if option.is_flag else f"{names} {_metavar(option)}"


def _default(option: Any) -> str:
    value = option.default.value if isinstance(option.default, Enum) else option.default
    given = not option.is_flag and not option.required and isinstance(value, str | int | float) and value != ""
    return f" Default: `{value}`." if given else ""


def _metavar(param: Any) -> str:
    is_number = param.type_descriptor.annotation in (int, float)
    return re.sub(r"[][{}]", "", param.metavar or ("N" if is_number else param.name.upper()))


def _text(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _paragraphs(text: str | None) -> str:
    return "\n\n".join(" ".join(part.split()) for part in re.sub(r"\(One stage .+?\)", "", text or "").split("\n\n"))


def api_page() -> str:
    """Return the public names, grouped as in `trajmill/__init__.pyi`."""
    lines = [_API.rstrip()]
    for line in (Path(str(trajmill.__file__)).with_suffix(".pyi")).read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            lines += ["", f"## {line[2:]}", ""]
        elif line.startswith("from "):
            _, home, _, names = line.split(" ", 3)
            lines += [_name(home, name) for name in re.findall(r"(\w+) as", names)]
    return "\n".join(lines) + "\n"


def _name(home: str, name: str) -> str:
    found = getattr(trajmill, name)
    if not (inspect.isclass(found) or inspect.isfunction(found)):
        # The text below a constant is in its source alone.
        source = inspect.getsource(import_module(home))
        [written] = re.findall(rf'^{name}\b[^"]*?=.*?^"""(.+?)"""$', source, re.MULTILINE | re.DOTALL)
        return f"- **`{name}`**: {_text(written)}"
    # Not of a base class, and not the one that NamedTuple and dataclass write.
    own = inspect.cleandoc(vars(found)["__doc__"] or "") if inspect.isclass(found) else inspect.getdoc(found) or ""
    documented = "" if own.startswith(f"{name}(") else _text(own.partition("\n\n")[0])
    meaning = f": {documented}" if documented else ""
    if inspect.isclass(found) and (documented or not hasattr(found, "__match_args__")):
        methods = ", ".join(f"`{each}`" for each in vars(found) if not each.startswith("_") and each != "model_config")
        return f"- **`{name}`**{meaning or f': has {methods}.'}"
    parameters = inspect.signature(found).parameters.values()
    starred = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    named = ((f"{starred.get(each.kind, '')}{each.name}", each.default is each.empty) for each in parameters)
    given = ", ".join(name if is_needed else f"{name}=..." for name, is_needed in named)
    return f"- **`{name}({given})`**{meaning}"


def main() -> None:
    """Write all generated pages."""
    for name, text in pages().items():
        (HERE / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
