"""Writes a configuration as TOML, and the table of all keys for the documentation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.tables import KeyPath, Table, all_tables, tables_in
from trajmill.schemas.spec import Spec
from trajmill.warehouse.store.address import BucketUrl

_PLAIN_NAMES = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    BucketUrl: "URL",
    Path: "path",
}


def config_as_toml(config: Config) -> str:
    """Write the effective configuration with a comment for each key; it reads back the same."""
    lines: list[str] = []
    for keys, spec in tables_in(config):
        fields = Table(keys, type(spec), None).fields()
        given = {name: value for name in fields if (value := getattr(spec, name)) is not None}
        if given:
            lines += ["", f"# {_one_line(spec.__doc__)}", f"[{'.'.join(keys)}]"]
        for name, value in given.items():
            lines += [f"# {_one_line(fields[name].description)}", f"{name} = {_toml(value)}"]
    return "\n".join(lines).lstrip("\n") + "\n"


def configuration_tables() -> str:
    """Write Markdown tables of every key, its type, default and meaning: the body of `docs/configuration.md`.

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
    if several:
        yield from ("| kind | meaning |", "|---|---|")
        yield from (f"| `{table.kind}` | {_one_line(table.spec.__doc__)} |" for table in tables)
        yield from ("", "| key | kinds | type | default | meaning |", "|---|---|---|---|---|")
    else:
        only = "" if first.kind is None else f' Only with `kind = "{first.kind}"`.'
        yield from (f"{_one_line(first.spec.__doc__)}{only}", "")
        if first.spec in shown:
            yield f"Its keys are those of {shown[first.spec]}."
            return
        yield from ("| key | type | default | meaning |", "|---|---|---|---|")
    # By name, type and meaning of a key: its default in each kind that has it.
    keys: dict[tuple[str, str, str], dict[str, str]] = {}
    for table in tables:
        for name, info in table.fields().items():
            if name != "kind" or not several:
                key = (f"`{name}`", _type_name(info.annotation), _one_line(info.description))
                keys.setdefault(key, {})[table.kind or ""] = _default(info).replace("|", "\\|")
    for (name, type_name, meaning), by_kind in keys.items():
        usual, *others = (default for default, _ in Counter(by_kind.values()).most_common())
        named = ((each, ", ".join(kind for kind, its in by_kind.items() if its == each)) for each in others)
        default = "; ".join([usual or ("none" if others else ""), *(f"{each or 'none'} ({of})" for each, of in named)])
        lacking = [table.kind or "" for table in tables if (table.kind or "") not in by_kind]
        kinds = f"all but {', '.join(lacking)}" if len(lacking) < len(by_kind) else ", ".join(by_kind)
        cells = [name, *([kinds if lacking else "all"] if several else []), type_name, default, meaning]
        yield f"| {' | '.join(cells)} |"


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "must be set"
    default = info.get_default(call_default_factory=True)
    return "" if default is None else f"`{_toml(default)}`"


def _type_name(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_name(arguments[0])
    if origin in (Union, UnionType):
        return " or ".join(_type_name(each) for each in arguments if each is not NoneType)
    if origin is Literal:
        return " or ".join(f"`{_toml(choice)}`" for choice in arguments)
    if origin in (tuple, list, frozenset, set):
        return f"list of {_type_name(arguments[0])}"
    if origin is dict:
        return "table"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(f"`{_toml(choice.value)}`" for choice in annotation)
    return _PLAIN_NAMES[annotation]


def _toml(value: object) -> str:
    match value:
        case tuple() | list():
            return f"[{', '.join(map(_toml, value))}]"
        case frozenset() | set():
            return f"[{', '.join(sorted(map(_toml, value)))}]"
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
        case Path():
            return json.dumps(str(value))
        case Enum():
            return _toml(value.value)
        case _:
            return json.dumps(value, ensure_ascii=False)
