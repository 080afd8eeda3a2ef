"""Writes a configuration as TOML, and the table of all keys for the documentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from flows.config import Config
from flows.config_file import KeyPath, key_paths


def config_as_toml(config: Config) -> str:
    """The effective configuration, with what each key means; reading it back gives the same configuration."""
    lines: list[str] = []
    section: KeyPath = ()
    for keys in key_paths(Config):
        if keys[:-1] != section:
            section = keys[:-1]
            lines += ["", f"# {_section_model(section).__doc__}", f"[{'.'.join(section)}]"]
        lines += [f"# {_description(keys)}", f"{keys[-1]} = {_toml(_value(config, keys))}"]
    return "\n".join(lines).lstrip("\n") + "\n"


def configuration_tables() -> str:
    """Markdown tables of every key, its type, default and meaning: the body of `docs/configuration.md`."""
    lines: list[str] = []
    section: KeyPath = ()
    defaults = Config()
    for keys in key_paths(Config):
        if keys[:-1] != section:
            section = keys[:-1]
            doc = _section_model(section).__doc__
            lines += ["", f"## `[{'.'.join(section)}]`", "", f"{doc}", ""]
            lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
        default = _toml(_value(defaults, keys)).replace("|", "\\|")
        lines.append(f"| `{keys[-1]}` | {_type_name(keys)} | `{default}` | {_description(keys)} |")
    return "\n".join(lines).lstrip("\n") + "\n"


def _section_model(section: KeyPath) -> type[BaseModel]:
    model: type[BaseModel] = Config
    for name in section:
        annotation: Any = model.model_fields[name].annotation
        model = annotation
    return model


def _description(keys: KeyPath) -> str:
    text = _section_model(keys[:-1]).model_fields[keys[-1]].description or ""
    return " ".join(text.split())


def _value(config: Config, keys: KeyPath) -> object:
    value: object = config
    for name in keys:
        value = getattr(value, name)
    return value


def _type_name(keys: KeyPath) -> str:
    annotation: Any = _section_model(keys[:-1]).model_fields[keys[-1]].annotation
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
    if isinstance(value, Path):
        return json.dumps(str(value))
    return json.dumps(value, ensure_ascii=False)
