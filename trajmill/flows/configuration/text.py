"""Writes a configuration as TOML, and the table of all keys for the documentation."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.tables import Table, all_tables, tables_in
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
    """Markdown tables of every key, its type, default and meaning: the body of `docs/configuration.md`."""
    lines: list[str] = []
    for table in all_tables(Config):
        kind = "" if table.kind is None else f' with `kind = "{table.kind}"`'
        lines += ["", f"## `[{'.'.join(table.keys)}]`{kind}", "", _meaning(table.spec), ""]
        lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
        lines += [_row(name, info) for name, info in table.fields().items()]
    return "\n".join(lines).lstrip("\n") + "\n"


def _row(name: str, info: FieldInfo) -> str:
    default = _default(info).replace("|", "\\|")
    return f"| `{name}` | {_type_name(info.annotation)} | {default} | {_description(info)} |"


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
