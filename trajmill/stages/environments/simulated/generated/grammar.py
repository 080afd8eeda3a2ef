"""The grammar of generated apps: word lists and domains, read from the package's YAML files."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.app_files.loader import Mistake, read_yaml


class OwnTexts(Record):
    """Texts that only one field can have."""

    texts: tuple[str, ...]


FieldKind = str | tuple[str, ...] | OwnTexts
"""`switch`, a type of `Words.types` or `LOW-HIGH`; options; or texts of its own."""


class Act(Record):
    """What a user can do with a form."""

    verbs: tuple[str, ...]
    noun: str
    """The record that it makes."""
    fields: dict[str, FieldKind]


class Domain(Record):
    """What an app can be about."""

    names: tuple[str, ...]
    about: str
    platform: Platform | None = None
    """None for both."""
    thing: tuple[str, str]
    """One, and many."""
    items: tuple[str, ...]
    trait: tuple[str, tuple[str, ...]]
    """A label and values; each item has one."""
    order: Act
    """Done with one of the things."""
    create: Act
    """Its first field is required."""
    marks: dict[str, str]
    """Verb and participle of what can be done to one's own thing."""
    removes: tuple[str, ...]
    moves: tuple[str, tuple[str, ...]]
    settings: dict[str, FieldKind]


class Words(Record):
    """Word lists that all domains share."""

    types: dict[str, tuple[str, ...]]
    entry: dict[str, tuple[str, ...]]
    titles: dict[str, tuple[str, ...]]
    phrasings: dict[str, tuple[str, ...]]
    clauses: dict[str, tuple[str, ...]]
    texts: dict[str, tuple[str, ...]]
    """Texts of buttons and of screens that end a task or ask, and what makes apps differ."""


class Grammar(Record):
    """Everything that apps are made from."""

    words: Words
    domains: dict[str, Domain]


@cache
def packaged_grammar() -> Grammar:
    words = Words.model_validate(_read("words"))
    return Grammar(words=words, domains=TypeAdapter(dict[str, Domain]).validate_python(_read("domains")))


def _read(name: str) -> Any:
    found = read_yaml(Path(__file__).with_name(f"{name}.yaml"))
    if isinstance(found, Mistake):
        raise BadInputError(str(found))
    return found.data
