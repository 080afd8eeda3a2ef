"""Reads the TOML file of a run; each mistake in it is reported in one line."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from trajmill.flows.configuration.check import (
    missing_endpoints,
    missing_files,
    missing_for_environment,
    missing_for_fresh,
    missing_for_graphs,
    missing_for_groups,
    missing_for_operations,
    missing_for_proposals,
    missing_for_training,
    missing_for_written,
    missing_runner,
)
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.tables import KeyPath, key_paths, spec_at
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import UNKNOWN_KIND, nearest
from trajmill.schemas.spec import Spec
from trajmill.stages.queries.proposals.starts import read_human_tasks

DEFAULT_FILE = Path("trajmill.toml")
"""Read from the working folder when no file is named."""


_GRAPHS = ("graphs", "files")
_LARGEST = 2**63 - 1

_Place: TypeAlias = tuple[str | int, ...]
"""Keys of tables and numbers of list items, from the outside in."""
S = TypeVar("S", bound=Spec)


def load_config(path: Path | None = None, before_exploring: bool = False) -> Config:
    """The configuration of a run.

    Without a file, `trajmill.toml` of the working folder is read if there is one. Paths in a file are relative to the
    file's folder.

    Args:
        path: the file.
        before_exploring: whether the graphs that it names need not exist yet.

    Raises:
        BadInputError: the file cannot be read or has mistakes; one line for each mistake.
    """
    if path is None:
        if not DEFAULT_FILE.exists():
            return Config()
        path = DEFAULT_FILE
    written = _read(path)
    config = _config(written)
    missing = [
        *missing_files(config, path.parent),
        *missing_for_environment(config),
        *missing_endpoints(config),
        *missing_for_proposals(config),
        *missing_for_fresh(config),
        *missing_for_operations(config),
        *missing_for_graphs(config),
        *missing_for_written(config),
        *missing_for_groups(config),
        *missing_for_training(config),
        *missing_runner(config),
    ]
    if before_exploring:
        missing = [each for each in missing if each.keys != _GRAPHS]
    if missing:
        raise BadInputError("\n".join(written.mistake(each.keys, each.message) for each in missing))
    config = with_paths_in(config, path.parent)
    if config.queries.example_tasks is not None:
        read_human_tasks(config.queries.example_tasks)
    return config


def load_config_named(path: str | None) -> Config:
    """The configuration of a run, from the parameter of a flow."""
    return load_config(None if path is None else Path(path))


def _read(path: Path) -> WrittenFile:
    try:
        text = path.read_text(encoding="utf-8")
        written = WrittenFile(path, text, tomllib.loads(text))
    except FileNotFoundError:
        raise BadInputError(
            f"{path}: there is no such configuration file; `trajmill config` prints one to start from"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise BadInputError(_syntax_mistake(path, str(error))) from None
    except (OSError, ValueError) as error:
        raise BadInputError(f"{path}: the configuration file cannot be read: {error}") from None
    impossible = [written.mistake(keys, message) for keys, message in impossible_values(written.tables)]
    if impossible:
        raise BadInputError("\n".join(impossible))
    return written


def _config(written: WrittenFile) -> Config:
    try:
        return Config.model_validate_json(json.dumps(written.tables, default=str), strict=True)
    except ValidationError as error:
        raise BadInputError("\n".join(written.mistakes(error.errors()))) from None


def _syntax_mistake(path: Path, message: str) -> str:
    found = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", message)
    if found is None:
        return f"{path}: not TOML: {message}"
    return f"{path}:{found[2]}: not TOML: {found[1]}"


class WrittenFile(NamedTuple):
    """A configuration file as it was read."""

    path: Path
    text: str
    tables: Mapping[str, Any]

    def mistakes(self, details: Iterable[ErrorDetails]) -> list[str]:
        """The errors of pydantic as messages in the order of the file; one for each key."""
        of_value: dict[_Place, list[ErrorDetails]] = {}
        for detail in details:
            of_value.setdefault(_written_place(detail["loc"], self.tables), []).append(detail)
        first_of_key: dict[KeyPath, list[ErrorDetails]] = {}
        for place, found in of_value.items():
            first_of_key.setdefault(tuple(part for part in place if isinstance(part, str)), found)
        lines = [
            (_line_of(self.text, keys) or 0, self.mistake(keys, self._message(keys, found)))
            for keys, found in first_of_key.items()
        ]
        return [message for _, message in sorted(lines)]

    def mistake(self, keys: KeyPath, message: str) -> str:
        """A message with the path and line number of its key."""
        line = _line_of(self.text, keys)
        return f"{self.path}: {message}" if line is None else f"{self.path}:{line}: {message}"

    def _message(self, keys: KeyPath, found: Sequence[ErrorDetails]) -> str:
        """What is wrong with one value; a value of several possible types has an error for each of them."""
        detail = found[0]
        if detail["type"] == "extra_forbidden":
            return f"unknown key {'.'.join(keys)}; {self._instead(keys)}"
        if detail["type"] == UNKNOWN_KIND:
            return f"{'.'.join(keys)}: {detail['msg']}"
        first, *others = dict.fromkeys(each["msg"].removeprefix("Input ") for each in found)
        what = " or ".join([first, *(other.removeprefix("should be ") for other in others)])
        return f"{'.'.join(keys)} {what}, not {json.dumps(detail['input'], default=str)}"

    def _instead(self, keys: KeyPath) -> str:
        siblings = list(spec_at(Config, keys[:-1], self.tables).model_fields)
        close = nearest(keys[-1], siblings)
        if close:
            return f"did you mean {'.'.join((*keys[:-1], close))}?"
        elsewhere = [".".join(known) for known in key_paths(Config) if known[-1] == keys[-1]]
        return f"did you mean {elsewhere[0]}?" if elsewhere else f"there are {', '.join(siblings)}"


def _written_place(place: _Place, value: object) -> _Place:
    """A place without what pydantic adds after a single value: the members of its type that the value does not fit."""
    for depth, part in enumerate(place):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int):
            value = value[part]
        else:
            return place[:depth]
    return place


def impossible_values(value: object, keys: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """The keys of values that TOML has but no computer: numbers of more than 64 bits, and texts with NUL."""
    match value:
        case Mapping():
            for name, each in value.items():
                yield from impossible_values(each, (*keys, name))
        case list():
            for each in value:
                yield from impossible_values(each, keys)
        case int() if abs(value) > _LARGEST:
            yield keys, f"{'.'.join(keys)} should be at most {_LARGEST}, not {value}"
        case str() if "\0" in value:
            yield keys, f"{'.'.join(keys)} has the character NUL, which no name or path can have"


def _line_of(text: str, keys: KeyPath) -> int | None:
    """The line that sets a key or opens its table; the text is searched, because tomllib keeps no positions."""
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


def with_paths_in(spec: S, folder: Path) -> S:
    """The spec with the folder put before all its paths, also in the specs that it contains."""
    changed = {name: _value_in(getattr(spec, name), folder) for name in type(spec).model_fields}
    return spec.model_copy(update=changed)


def _value_in(value: object, folder: Path) -> object:
    match value:
        case Path():
            return folder / value
        case Spec():
            return with_paths_in(value, folder)
        case tuple():
            return tuple(_value_in(item, folder) for item in value)
        case dict():
            return {name: _value_in(item, folder) for name, item in value.items()}
        case _:
            return value
