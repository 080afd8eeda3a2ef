"""Reads the programs to walk from a YAML file; those of the local desktop are package data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.nearest import instead_of
from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import Platform
from trajmill.stages.queries.pathways.base import PathwayProgram


class _Entry(Record):
    """A program in a file: like `PathwayProgram`, but with a start state that is not yet JSON text."""

    name: str
    title: str
    platform: Platform = Platform.DESKTOP
    start_state: dict[str, Any]
    opening: tuple[dict[str, str], ...] = ()
    selecting: tuple[dict[str, str], ...] = ()
    selection: str = ""
    presses_commands: bool = False


def packaged_programs() -> Path:
    """The file of the programs that the local desktop has."""
    return Path(__file__).with_name("programs.yaml")


def read_programs(file: Path, names: tuple[str, ...] = ()) -> tuple[PathwayProgram, ...]:
    """Read the programs of a file, all or those with the given names.

    Raises:
        BadInputError: the file is no list of programs, or lacks a program; the message is one line that names the
            place.
    """
    try:
        entries = yaml.safe_load(file.read_text())
        programs = tuple(_program(entry) for entry in entries)
    except (OSError, yaml.YAMLError, TypeError) as error:
        raise BadInputError(f"{file}: no list of programs: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise BadInputError(f"{file}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    known = {program.name: program for program in programs}
    for name in names:
        if name not in known:
            raise BadInputError(f"{file}: there is no program {name!r}; {instead_of(name, known)}")
    return tuple(known[name] for name in names) if names else programs


def _program(entries: Any) -> PathwayProgram:
    entry = _Entry.model_validate(entries)
    start_state = json.dumps(entry.start_state, sort_keys=True)
    return PathwayProgram.model_validate(entry.model_dump() | {"start_state": start_state})
