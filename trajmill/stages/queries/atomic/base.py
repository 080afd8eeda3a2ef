"""The records of an atomic operation: the objects that it creates, its actions, and its goal check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from random import Random
from typing import Any, Literal, NamedTuple

import yaml

from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import PathStep

STAGE = "atomic"
HOME = "/home/user"

AtomicApp = Literal["libreoffice-calc", "libreoffice-writer", "mousepad", "pcmanfm"]
"""Programs that have operations."""


class Objects(Record):
    """Names and texts to draw from."""

    folders: tuple[str, ...]
    files: tuple[str, ...]
    lines: tuple[str, ...]
    fields: tuple[str, ...]
    headings: tuple[str, ...]
    goods: tuple[str, ...]


class AtomicTask(NamedTuple):
    """One operation on objects that its start state creates."""

    operation: str
    app: AtomicApp
    slots: Mapping[str, str]
    """By slot, the words that the instruction uses."""
    config: Sequence[Mapping[str, Any]]
    """Steps of the start state."""
    path: tuple[PathStep, ...]
    goal: Mapping[str, Any]


Operation = Callable[[Objects, Random], AtomicTask]


def packaged_objects() -> Objects:
    """The names and texts of `objects.yaml`."""
    return Objects.model_validate(yaml.safe_load(files(__package__).joinpath("objects.yaml").read_text()))


def path_step(operation: str, target: str = "", text: str = "") -> PathStep:
    """One step of a path; its page is filled in with the query."""
    return PathStep(page="", operation=operation, target=target, text=text)


def folder(name: str) -> Mapping[str, Any]:
    """Makes a folder in the home folder."""
    return {"type": "execute", "parameters": {"command": ["mkdir", "-p", f"{HOME}/{name}"]}}


def file(path: str, content: str) -> Mapping[str, Any]:
    """Makes a file."""
    # The content is passed as an argument, so that the shell never runs it.
    command = ["sh", "-c", 'printf %s "$2" > "$1"', "sh", path, content]
    return {"type": "execute", "parameters": {"command": command}}


def launch(*command: str) -> Mapping[str, Any]:
    """Starts a program."""
    return {"type": "launch", "parameters": {"command": list(command)}}


def output_is(command: list[str], expected: str) -> Mapping[str, Any]:
    """The goal that a command prints a text."""
    result = {"type": "vm_command_line", "command": command}
    return {
        "func": "exact_match",
        "result": result,
        "expected": {"type": "rule", "rules": {"expected": expected}},
    }
