"""Writes a configuration as TOML, and the table of all keys for the documentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.section import ANY_NAME, KeyPath, key_paths, section_at


def config_as_toml(config: Config) -> str:
    """The effective configuration, with what each key means; reading it back gives the same configuration."""
    lines: list[str] = []
    section: KeyPath = ()
    for keys in _in_force(config):
        value = _value(config, keys)
        if keys[:-1] != section:
            section = keys[:-1]
            lines += ["", f"# {section_at(Config, section).__doc__}", f"[{'.'.join(section)}]"]
        lines += [f"# {_description(keys)}", f"{keys[-1]} = {_toml(value)}"]
    return "\n".join(lines).lstrip("\n") + "\n"


def configuration_tables() -> str:
    """Markdown tables of every key, its type, default and meaning: the body of `docs/configuration.md`."""
    lines: list[str] = []
    section: KeyPath = ()
    for keys in key_paths(Config):
        if keys[:-1] != section:
            section = keys[:-1]
            doc = section_at(Config, section).__doc__
            lines += ["", f"## `[{'.'.join(section)}]`", "", f"{doc}", ""]
            lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
        default = _default(keys).replace("|", "\\|")
        lines.append(f"| `{keys[-1]}` | {_type_name(keys)} | {default} | {_description(keys)} |")
    return "\n".join(lines).lstrip("\n") + "\n"


def _in_force(config: Config) -> list[KeyPath]:
    """All keys, those of tables that the user names once for each of them, table by table."""
    expanded = (named for keys in key_paths(Config) for named in _with_names(config, keys))
    found = [keys for keys in expanded if _is_set(config, keys)]
    order = {section: place for place, section in enumerate(dict.fromkeys(keys[:-1] for keys in found))}
    return sorted(found, key=lambda keys: order[keys[:-1]])


def _with_names(config: Config, keys: KeyPath) -> list[KeyPath]:
    if ANY_NAME not in keys:
        return [keys]
    place = keys.index(ANY_NAME)
    tables: Any = _value(config, keys[:place])
    return [(*keys[:place], name, *keys[place + 1 :]) for name in tables]


def _is_set(config: Config, keys: KeyPath) -> bool:
    """Whether there is something to write: not so for a key without a value, and for all keys of a table left out."""
    value: object = config
    for name in keys:
        value = value[name] if isinstance(value, dict) else getattr(value, name)
        if value is None:
            return False
    return True


def _description(keys: KeyPath) -> str:
    text = section_at(Config, keys[:-1]).model_fields[keys[-1]].description or ""
    return " ".join(text.split())


def _value(config: Config, keys: KeyPath) -> object:
    value: object = config
    for name in keys:
        value = value[name] if isinstance(value, dict) else getattr(value, name)
    return value


def _default(keys: KeyPath) -> str:
    field = section_at(Config, keys[:-1]).model_fields[keys[-1]]
    if field.is_required():
        return "must be set"
    default = field.get_default(call_default_factory=True)
    return "" if default is None else f"`{_toml(default)}`"


def _type_name(keys: KeyPath) -> str:
    annotation: Any = section_at(Config, keys[:-1]).model_fields[keys[-1]].annotation
    if get_origin(annotation) is dict:
        return "table"
    if get_origin(annotation) is tuple:
        return f"list of {_plain_name(get_args(annotation)[0])}"
    return _plain_name(annotation)


def _plain_name(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return " or ".join(f'`"{choice}"`' for choice in get_args(annotation))
    names = {str: "text", int: "whole number", float: "number", bool: "true or false", Path: "path"}
    base = get_args(annotation)[0] if get_origin(annotation) is not None else annotation
    return names[base]


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Path):
        return json.dumps(str(value))
    return json.dumps(value, ensure_ascii=False)
