"""Describes the mistakes in a configuration file: one message for each, with its line number."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from pydantic_core import ErrorDetails

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.tables import KeyPath, key_paths, spec_at
from trajmill.schemas.names import UNKNOWN_KIND, nearest

_LARGEST = 2**63 - 1

_Place: TypeAlias = tuple[str | int, ...]
"""Keys of tables and numbers of list items, from the outside in."""


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
