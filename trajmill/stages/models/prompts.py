"""Reads prompt files. A file has the sections `# system` and `# user` with `$field` placeholders."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import NamedTuple

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import content_id

_SECTIONS = ("system", "user")
_SECTION_LINE = re.compile(r"^# (system|user)[ \t]*$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


class FilledPrompt(NamedTuple):
    """The texts of a prompt with its fields filled in."""

    system: str
    user: str


class Prompt(NamedTuple):
    """A prompt with placeholders."""

    version: str
    """Stored on every row that is made with it."""
    system: str
    user: str

    def fill(self, **fields: str) -> FilledPrompt:
        """Replace the placeholders by values; a `$` within a value is not changed.

        Raises:
            KeyError: a field of the prompt is not given.
        """
        return FilledPrompt(Template(self.system).substitute(fields), Template(self.user).substitute(fields))


def own_or_packaged(own: Path | None, package: str, name: str, fields: frozenset[str]) -> Prompt:
    """Read the prompt of the user's own file; without one, the prompt of a package.

    Raises:
        BadInputError: see `read_prompt` and `packaged_prompt`.
    """
    return packaged_prompt(package, name, fields) if own is None else read_prompt(own, fields)


@cache
def packaged_prompt(package: str, name: str, fields: frozenset[str]) -> Prompt:
    """Read a prompt of a package, from its data file `prompts/NAME.md`; its version is its name.

    Args:
        package: dotted name, e.g. `trajmill.stages.critics`.
        name: name of the prompt, e.g. `critic_step-1`.
        fields: the placeholders that the file must have, each at least once, and no others.

    Raises:
        BadInputError: there is no such prompt, or its sections or placeholders are wrong.
    """
    folder = files(package) / "prompts"
    try:
        text = (folder / f"{_checked_name(name)}.md").read_text(encoding="utf-8")
    except FileNotFoundError:
        known = sorted(entry.name.removesuffix(".md") for entry in folder.iterdir()) if folder.is_dir() else []
        raise BadInputError(f"{package} has no prompt {name!r}; it has: {', '.join(known) or 'none'}") from None
    return _parse(text, name, f"{package}/prompts/{name}.md", fields)


def read_prompt(path: Path, fields: frozenset[str]) -> Prompt:
    """Read a prompt from the user's own file; its version is the file's name and a hash of its text.

    Characters that are not allowed in a name, such as spaces, become `-` in the version.

    Raises:
        BadInputError: the file cannot be read, or its sections or placeholders are wrong.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"{path}: prompt file cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: prompt file is not UTF-8 (byte {error.start})") from None
    return _parse(text, f"{_NOT_IN_A_NAME.sub('-', path.stem)}-{content_id(text)[:8]}", str(path), fields)


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise BadInputError(f"prompt name {name!r} is none: letters, digits, '_', '-' and '.' only")
    return name


def _parse(text: str, version: str, place: str, fields: frozenset[str]) -> Prompt:
    before, *parts = _SECTION_LINE.split(text)
    names = parts[::2]
    for section in _SECTIONS:
        if names.count(section) != 1:
            count = "no" if section not in names else "more than one"
            raise BadInputError(f"{place}: {count} section '# {section}'; a prompt file has exactly one")
    if before.strip():
        raise BadInputError(f"{place}:1: text before the first section; begin with '# system'")
    sections = dict(zip(names, (part.strip() for part in parts[1::2]), strict=True))
    _check_placeholders(text, place, fields)
    return Prompt(version, sections["system"], sections["user"])


def _check_placeholders(text: str, place: str, fields: frozenset[str]) -> None:
    used: set[str] = set()
    for found in Template.pattern.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["invalid"] is not None:
            raise BadInputError(f"{place}:{line}: a '$' that begins no field; write '$$' for a dollar sign")
        name = found["named"] or found["braced"]
        if name is not None and name not in fields:
            known = ", ".join(f"${field}" for field in sorted(fields)) or "none"
            raise BadInputError(f"{place}:{line}: unknown field ${name}; it may use: {known}")
        used.add(name or "")
    missing = sorted(fields - used)
    if missing:
        raise BadInputError(f"{place}: field ${missing[0]} is missing; put it where its value shall stand")
