"""Reads the TOML file of a run and says in one line each what is wrong with it."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from trajmill.flows.configuration.check import (
    missing_endpoints,
    missing_files,
    missing_for_operations,
    missing_for_proposals,
)
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.paths import anchored
from trajmill.flows.configuration.section import KeyPath, key_paths, section_at
from trajmill.schemas.errors import BadInputError
from trajmill.stages.queries.proposals.human_tasks import read_human_tasks

DEFAULT_FILE = Path("trajmill.toml")
"""Read from the working folder when no file is named."""


def load_config(path: Path | None = None) -> Config:
    """The configuration of a run.

    Without a file, `trajmill.toml` of the working folder is read if there is one. Paths in a file are relative to the
    file's folder.

    Raises:
        BadInputError: the file cannot be read, or says something wrong; one line for each mistake.
    """
    if path is None:
        if not DEFAULT_FILE.exists():
            return Config()
        path = DEFAULT_FILE
    text = _read(path)
    config = _parse(path, text)
    missing = [
        *missing_files(config, path.parent),
        *missing_endpoints(config),
        *missing_for_proposals(config),
        *missing_for_operations(config),
    ]
    if missing:
        raise BadInputError("\n".join(_mistake(path, text, each.keys, each.message) for each in missing))
    config = anchored(config, path.parent)
    if config.queries.example_tasks is not None:
        read_human_tasks(config.queries.example_tasks)
    return config


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadInputError(
            f"{path}: there is no such configuration file; `trajmill config` prints one to start from"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path}: the configuration file cannot be read: {error}") from None


def _parse(path: Path, text: str) -> Config:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInputError(_syntax_mistake(path, str(error))) from None
    try:
        return Config.model_validate_json(json.dumps(data, default=str), strict=True)
    except ValidationError as error:
        raise BadInputError("\n".join(_mistakes(path, text, error.errors()))) from None


def _syntax_mistake(path: Path, message: str) -> str:
    found = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", message)
    if found is None:
        return f"{path}: not TOML: {message}"
    return f"{path}:{found[2]}: not TOML: {found[1]}"


def _mistakes(path: Path, text: str, details: list[ErrorDetails]) -> list[str]:
    first_of_key: dict[KeyPath, ErrorDetails] = {}
    for detail in details:
        first_of_key.setdefault(tuple(str(part) for part in detail["loc"] if isinstance(part, str)), detail)
    lines = [(_line_of(text, keys) or 0, _describe(path, text, keys, detail)) for keys, detail in first_of_key.items()]
    return [message for _, message in sorted(lines)]


def _describe(path: Path, text: str, keys: KeyPath, detail: ErrorDetails) -> str:
    if detail["type"] == "extra_forbidden":
        return _mistake(path, text, keys, f"unknown key {'.'.join(keys)}{_nearest(keys)}")
    what = detail["msg"].removeprefix("Input ")
    given = json.dumps(detail["input"], default=str)
    return _mistake(path, text, keys, f"{'.'.join(keys)} {what}, not {given}")


def _mistake(path: Path, text: str, keys: KeyPath, message: str) -> str:
    line = _line_of(text, keys)
    return f"{path}: {message}" if line is None else f"{path}:{line}: {message}"


def _nearest(keys: KeyPath) -> str:
    siblings = list(section_at(Config, keys[:-1]).model_fields)
    close = difflib.get_close_matches(keys[-1], siblings, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {'.'.join((*keys[:-1], close[0]))}?"
    elsewhere = [".".join(known) for known in key_paths(Config) if known[-1] == keys[-1]]
    return f"; did you mean {elsewhere[0]}?" if elsewhere else f"; there are {', '.join(siblings)}"


def _line_of(text: str, keys: KeyPath) -> int | None:
    """The line that sets a key, or opens its table; found by looking, since tomllib keeps no positions."""
    section: KeyPath = ()
    best: tuple[int, int] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[+([^\]]+)\]", line)
        setting = re.match(r"\s*([\w\"'.-]+(?:\s*\.\s*[\w\"'-]+)*)\s*=", line)
        if header:
            section = here = _split(header[1])
        elif setting:
            here = (*section, *_split(setting[1]))
        else:
            continue
        if keys[: len(here)] == here and (best is None or len(here) > best[0]):
            best = (len(here), number)
    return best[1] if best else None


def _split(dotted: str) -> KeyPath:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
