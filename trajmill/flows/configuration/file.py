"""Reads the TOML file of a run; each mistake in it is reported in one line."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from trajmill.flows.configuration.check import missing_in
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
S = TypeVar("S", bound=Spec)


def load_config(path: Path | str | None = None, before_exploring: bool = False) -> Config:
    """Read the configuration of a run.

    Args:
        path: the file; without one, `trajmill.toml` of the working folder if there is one. Paths in a file are relative
            to the file's folder.
        before_exploring: whether the graphs that it names need not exist yet.

    Raises:
        BadInputError: the file cannot be read or has mistakes; one line for each mistake.
    """
    if path is None:
        if not DEFAULT_FILE.exists():
            return Config()
        path = DEFAULT_FILE
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        written = _WrittenFile(path, text, tomllib.loads(text))
    except FileNotFoundError:
        raise BadInputError(
            f"{path}: there is no such configuration file; `trajmill config` prints one to start from"
        ) from None
    except tomllib.TOMLDecodeError as error:
        found = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", str(error))
        where, what = (f"{path}:{found[2]}", found[1]) if found else (str(path), str(error))
        raise BadInputError(f"{where}: not TOML: {what}") from None
    except (OSError, ValueError) as error:
        raise BadInputError(f"{path}: the configuration file cannot be read: {error}") from None
    written.refuse(_impossible_values(written.tables))
    try:
        config = Config.model_validate_json(json.dumps(written.tables, default=str), strict=True)
    except ValidationError as error:
        raise BadInputError("\n".join(written.mistakes(error.errors()))) from None
    missing = missing_in(config, path.parent)
    written.refuse(each for each in missing if not (before_exploring and each.keys == _GRAPHS))
    config = _with_paths_in(config, path.parent)
    if config.queries.example_tasks is not None:
        read_human_tasks(config.queries.example_tasks)
    return config


class _WrittenFile(NamedTuple):
    path: Path
    text: str
    tables: Mapping[str, Any]

    def refuse(self, wrong: Iterable[tuple[KeyPath, str]]) -> None:
        """Raise `BadInputError` if there is a mistake."""
        if lines := [self.mistake(keys, message) for keys, message in wrong]:
            raise BadInputError("\n".join(lines))

    def mistakes(self, details: Iterable[ErrorDetails]) -> list[str]:
        """Return pydantic's errors as messages in the order of the file; one for each key."""
        of_key: dict[KeyPath, tuple[tuple[str | int, ...], list[ErrorDetails]]] = {}
        for detail in details:
            place = _written_place(detail["loc"], self.tables)
            keys = tuple(part for part in place if isinstance(part, str))
            first, found = of_key.setdefault(keys, (place, []))
            if place == first:
                found.append(detail)
        lines = [
            (self.line_of(keys) or 0, self.mistake(keys, self._message(keys, found)))
            for keys, (_, found) in of_key.items()
        ]
        return [message for _, message in sorted(lines)]

    def mistake(self, keys: KeyPath, message: str) -> str:
        """Return a message with the path and line number of its key."""
        line = self.line_of(keys)
        return f"{self.path}: {message}" if line is None else f"{self.path}:{line}: {message}"

    def _message(self, keys: KeyPath, found: list[ErrorDetails]) -> str:
        """Describe what is wrong with one value, which has an error for each type that it could have."""
        detail, name = found[0], ".".join(keys)
        if detail["type"] == UNKNOWN_KIND:
            return f"{name}: {detail['msg']}"
        if detail["type"] != "extra_forbidden":
            first, *others = dict.fromkeys(each["msg"].removeprefix("Input ") for each in found)
            what = " or ".join([first, *(other.removeprefix("should be ") for other in others)])
            return f"{name} {what}, not {json.dumps(detail['input'], default=str)}"
        siblings = list(spec_at(Config, keys[:-1], self.tables).model_fields)
        close = nearest(keys[-1], siblings)
        meant = [".".join((*keys[:-1], close))] if close else []
        meant += [".".join(known) for known in key_paths(Config) if known[-1] == keys[-1]]
        return f"unknown key {name}; " + (f"did you mean {meant[0]}?" if meant else f"there are {', '.join(siblings)}")

    def line_of(self, keys: KeyPath) -> int | None:
        """Return the line that sets a key or opens its table; the text is searched: tomllib keeps no positions."""
        section: KeyPath = ()
        best = (-1, 0)
        for number, line in enumerate(self.text.splitlines(), start=1):
            header = re.match(r"\s*\[+([^\]]+)\]", line)
            setting = re.match(r"\s*([\w\"'.-]+(?:\s*\.\s*[\w\"'-]+)*)\s*=", line)
            if header:
                section = here = _split(header[1])
            elif setting:
                here = (*section, *_split(setting[1]))
            else:
                continue
            if keys[: len(here)] == here and len(here) > best[0]:
                best = (len(here), number)
        return best[1] or None


def _split(dotted: str) -> KeyPath:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _written_place(place: tuple[str | int, ...], value: object) -> tuple[str | int, ...]:
    """Cut off what pydantic appends after a single value: the members of its type that the value does not fit."""
    for depth, part in enumerate(place):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int):
            value = value[part]
        else:
            return place[:depth]
    return place


def _impossible_values(value: object, keys: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Find values that TOML allows and nothing else: numbers of more than 64 bits, and texts with NUL."""
    match value:
        case Mapping():
            for name, each in value.items():
                yield from _impossible_values(each, (*keys, name))
        case list():
            for each in value:
                yield from _impossible_values(each, keys)
        case int() if abs(value) > _LARGEST:
            yield keys, f"{'.'.join(keys)} should be at most {_LARGEST}, not {value}"
        case str() if "\0" in value:
            yield keys, f"{'.'.join(keys)} has the character NUL, which no name or path can have"


def _with_paths_in(spec: S, folder: Path) -> S:
    """Put the folder before all paths of the spec and of the specs in it."""

    def moved(value: object) -> object:
        match value:
            case Path():
                return folder / value
            case Spec():
                return _with_paths_in(value, folder)
            case tuple():
                return tuple(map(moved, value))
            case dict():
                return {name: moved(each) for name, each in value.items()}
            case _:
                return value

    return spec.model_copy(update={name: moved(getattr(spec, name)) for name in type(spec).model_fields})
