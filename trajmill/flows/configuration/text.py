"""Writes a configuration as TOML, and the table of all keys for the documentation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

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
    """The effective configuration with a comment for each key; reading it gives the same configuration again."""
    lines: list[str] = []
    for keys, spec in tables_in(config):
        fields = Table(keys, type(spec), None).fields()
        given = {name: value for name in fields if (value := getattr(spec, name)) is not None}
        if given:
            lines += ["", f"# {_meaning(spec)}", f"[{'.'.join(keys)}]"]
        for name, value in given.items():
            lines += [f"# {_description(fields[name])}", f"{name} = {_toml(value)}"]
    return "\n".join(lines).lstrip("\n") + "\n"


def configuration_tables() -> str:
    """Markdown tables of every key, its type, default and meaning: the body of `docs/configuration.md`.

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


class _Key(NamedTuple):
    """A key of one or several kinds."""

    name: str
    type: str
    meaning: str


def _section(tables: Sequence[Table], shown: Mapping[type[Spec], str]) -> Iterator[str]:
    first = tables[0]
    if len(tables) == 1:
        only = "" if first.kind is None else f' Only with `kind = "{first.kind}"`.'
        yield f"{_meaning(first.spec)}{only}"
        yield ""
        if first.spec in shown:
            yield f"Its keys are those of {shown[first.spec]}."
            return
    else:
        yield from ("| kind | meaning |", "|---|---|")
        yield from (f"| `{table.kind}` | {_meaning(table.spec)} |" for table in tables)
        yield ""
    several = len(tables) > 1
    yield "| key | kinds | type | default | meaning |" if several else "| key | type | default | meaning |"
    yield "|---|---|---|---|---|" if several else "|---|---|---|---|"
    for key, defaults in _keys(tables).items():
        kinds = [_kinds([table.kind or "" for table in tables], defaults)] if several else []
        yield f"| {' | '.join([f'`{key.name}`', *kinds, key.type, _defaults(defaults), key.meaning])} |"


def _kinds(every: Sequence[str], having: Collection[str]) -> str:
    lacking = [kind for kind in every if kind not in having]
    if not lacking:
        return "all"
    return f"all but {', '.join(lacking)}" if len(lacking) < len(having) else ", ".join(having)


def _keys(tables: Sequence[Table]) -> dict[_Key, dict[str, str]]:
    """The keys of the kinds of a table; by kind, the default of each."""
    found: dict[_Key, dict[str, str]] = {}
    for table in tables:
        for name, info in table.fields().items():
            if name != "kind" or len(tables) == 1:
                key = _Key(name, _type_name(info.annotation), _description(info))
                found.setdefault(key, {})[table.kind or ""] = _default(info).replace("|", "\\|")
    return found


def _defaults(by_kind: Mapping[str, str]) -> str:
    """The default of most kinds, then the others with their kinds."""
    counted = Counter(by_kind.values()).most_common()
    usual, *others = (default for default, _ in counted)
    named = ((default, ", ".join(kind for kind, its in by_kind.items() if its == default)) for default in others)
    return "; ".join([usual or ("none" if others else ""), *(f"{each or 'none'} ({kinds})" for each, kinds in named)])


def _meaning(spec: Spec | type[Spec]) -> str:
    return " ".join((spec.__doc__ or "").split())


def _description(info: FieldInfo) -> str:
    return " ".join((info.description or "").split())


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
            return f"[{', '.join(_toml(item) for item in value)}]"
        case frozenset() | set():
            return f"[{', '.join(sorted(_toml(item) for item in value))}]"
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
        case Path():
            return json.dumps(str(value))
        case Enum():
            return _toml(value.value)
        case _:
            return json.dumps(value, ensure_ascii=False)
