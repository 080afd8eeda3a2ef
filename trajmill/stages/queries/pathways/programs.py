"""Programs to walk for pathways: their records, the bounds of a walk, and the YAML file that names them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt, TypeAdapter, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import instead_of
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin, Record
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.pathway import Pathway
from trajmill.schemas.tables.query import PathStep, Platform, Query, Source
from trajmill.stages.environments.tasks import bare_query

STAGE = "pathways"


class PathwayProgram(Record):
    """A program to walk: one entry of a programs file."""

    name: str
    title: str
    """Its name in instructions, e.g. `the text editor`."""
    platform: Platform = Platform.DESKTOP
    start_state: str
    """As JSON; a mapping in the file."""
    opening: tuple[PathStep, ...] = ()
    """Operations that bring it to the front after a reset, if the start state does not."""
    selecting: tuple[PathStep, ...] = ()
    """Operations after which an object is selected; empty if nothing can be selected."""
    selection: str = ""
    presses_commands: bool = False
    """Whether to press also entries and buttons without an ellipsis, which announces a dialog. A reset undoes their
    changes, so this suits programs that reset quickly."""

    @field_validator("start_state", mode="before")
    @classmethod
    def _as_json(cls, value: Any) -> str:
        if not isinstance(value, dict | str):
            raise PydanticCustomError("start_state", "Input should be a mapping")
        return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


class WalkBounds(Record):
    depth: PositiveInt = 4
    """Most elements on a pathway."""
    breadth: PositiveInt = 40
    """Most elements that are pressed in one state of the program."""
    steps: PositiveInt = 1500
    """Most actions of the whole walk, replays included."""
    seconds: PositiveFloat = 300.0
    """Longest time of the whole walk; a walk that reaches it keeps its results."""
    seconds_per_step: PositiveFloat = 30.0
    """Longest time of one action; a program that takes longer hangs."""
    seconds_per_reset: PositiveFloat = 120.0
    failures: NonNegativeInt = 5
    """Most crashes and hangs; the next one ends the walk."""


class WalkTally(NamedTuple):
    steps: int
    resets: int
    seconds: float


class WalkResult(NamedTuple):
    pathways: tuple[Pathway, ...]
    failures: tuple[Failure, ...]
    """Branches that could not be walked, the reason if the walk ended early, and pathways without a classification."""
    screens: dict[str, Observation]
    """By screen id, the screens that the pathways' steps name."""
    tally: WalkTally


def packaged_programs() -> Path:
    return Path(__file__).with_name("programs.yaml")


def read_programs(file: Path, names: tuple[str, ...] = ()) -> tuple[PathwayProgram, ...]:
    """Read the programs of a file, all or the named ones; raises BadInputError in one line that names the place."""
    try:
        entries = yaml.safe_load(file.read_text())
        if not isinstance(entries, list):
            raise TypeError("it holds something else")
        programs = TypeAdapter(list[PathwayProgram]).validate_python(entries)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadInputError(f"{file}: {'.'.join(map(str, first['loc'][1:]))}: {first['msg']}") from error
    except (OSError, yaml.YAMLError, TypeError) as error:
        raise BadInputError(f"{file}: no list of programs: {' '.join(str(error).split())}") from error
    known = {program.name: program for program in programs}
    for name in names:
        if name not in known:
            raise BadInputError(f"{file}: there is no program {name!r}; {instead_of(name, known)}")
    return tuple(known[name] for name in names or known)


def start_query(program: PathwayProgram, origin: Origin) -> Query:
    """Return a query without instruction and goal; its reset brings the program into its start state."""
    return bare_query(program.platform, program.name, program.start_state, Source.PATHWAY, origin, "deep-search")
