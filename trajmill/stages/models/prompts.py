"""Prompts: files with the sections `# system` and `# user` and `$field` placeholders, and requests made of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final, NamedTuple, TypeVar

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Record, content_id
from trajmill.stages.models.base import ChatMessage, ChatModel, ChatRequest, MessagePart
from trajmill.stages.models.structured import ask

_SECTIONS = ("system", "user")
_SECTION_LINE = re.compile(r"^# (system|user)[ \t]*$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


class FilledPrompt(NamedTuple):
    system: str
    user: str


class Prompt(NamedTuple):
    version: str
    """Stored on every row that is made with it."""
    system: str
    user: str

    @property
    def fields(self) -> frozenset[str]:
        return frozenset(Template(f"{self.system}\n{self.user}").get_identifiers())

    def fill(self, **fields: str) -> FilledPrompt:
        """Replace the placeholders by values, in which `$` is not changed. Raises KeyError for a missing field."""
        return FilledPrompt(Template(self.system).substitute(fields), Template(self.user).substitute(fields))


def load_prompt(package: str, name: str, own: Path | None = None) -> Prompt:
    """Load the prompt `name` of a package, or the user's file `own` in its place.

    A prompt is a package's data file `prompts/NAME.md`, and its version is its name. A user's file must have the same
    placeholders, each at least once, and no others; its version is the file's name, with `-` for characters such as
    spaces, and a hash of its text.

    Raises:
        BadInputError: there is no such prompt, a file cannot be read, or its sections or placeholders are wrong.
    """
    packaged = _packaged(package, name)
    if own is None:
        return packaged
    try:
        text = own.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInputError(f"{own}: prompt file cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise BadInputError(f"{own}: prompt file is not UTF-8 (byte {error.start})") from None
    version = f"{_NOT_IN_A_NAME.sub('-', own.stem)}-{content_id(text)[:8]}"
    return _parse(text, version, str(own), packaged.fields)


@cache
def _packaged(package: str, name: str) -> Prompt:
    folder = files(package) / "prompts"
    if not _NAME.fullmatch(name):
        raise BadInputError(f"prompt name {name!r} is none: letters, digits, '_', '-' and '.' only")
    try:
        text = (folder / f"{name}.md").read_text(encoding="utf-8")
    except FileNotFoundError:
        known = sorted(entry.name.removesuffix(".md") for entry in folder.iterdir()) if folder.is_dir() else []
        raise BadInputError(f"{package} has no prompt {name!r}; it has: {', '.join(known) or 'none'}") from None
    return _parse(text, name, f"{package}/prompts/{name}.md", None)


def _parse(text: str, version: str, place: str, fields: frozenset[str] | None) -> Prompt:
    """Parse a prompt; `fields` are the placeholders that it must have, None allows any."""
    before, *parts = _SECTION_LINE.split(text)
    names = parts[::2]
    for section in _SECTIONS:
        if names.count(section) != 1:
            count = "no" if section not in names else "more than one"
            raise BadInputError(f"{place}: {count} section '# {section}'; a prompt file has exactly one")
    if before.strip():
        raise BadInputError(f"{place}:1: text before the first section; begin with '# system'")
    sections = dict(zip(names, (part.strip() for part in parts[1::2]), strict=True))
    used: set[str] = set()
    for found in Template.pattern.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["invalid"] is not None:
            raise BadInputError(f"{place}:{line}: a '$' that begins no field; write '$$' for a dollar sign")
        name = found["named"] or found["braced"]
        if name is not None and fields is not None and name not in fields:
            known = ", ".join(f"${field}" for field in sorted(fields)) or "none"
            raise BadInputError(f"{place}:{line}: unknown field ${name}; it may use: {known}")
        used |= {name} if name else set()
    missing = sorted((fields or frozenset()) - used)
    if missing:
        raise BadInputError(f"{place}: field ${missing[0]} is missing; put it where its value shall stand")
    return Prompt(version, sections["system"], sections["user"])


A = TypeVar("A", bound=Record)
Layout = Callable[[Sequence[MessagePart]], tuple[MessagePart, ...]]
"""Arranges the parts of the user's message."""


class Sampling(NamedTuple):
    temperature: float = 0.0
    """0 decodes greedily; CODA samples votes at 1, with `top_p` 0.6 (its 4.2)."""
    top_p: float = 1.0
    seed: int = 0
    """The number of a vote is added to it."""
    max_tokens: int = 1024


GREEDY: Final = Sampling()


@dataclass(frozen=True, slots=True)
class PromptedModel:
    model: ChatModel
    prompt: Prompt

    @property
    def version(self) -> str:
        return f"{self.prompt.version}@{self.model.version}"

    def request(
        self,
        role: str,
        fields: Mapping[str, str],
        parts: Sequence[MessagePart] = (),
        sampling: Sampling = GREEDY,
        layout: Layout = tuple,
    ) -> ChatRequest:
        """Return `prompt_request` of the filled prompt. Raises KeyError for a missing field."""
        return prompt_request(role, self.prompt.fill(**fields), parts, sampling, layout)

    async def ask(self, request: ChatRequest, answer: type[A]) -> A:
        return await ask(self.model, request, answer)


def prompt_request(
    role: str,
    filled: FilledPrompt,
    parts: Sequence[MessagePart] = (),
    sampling: Sampling = GREEDY,
    layout: Layout = tuple,
) -> ChatRequest:
    """Return a request with a system message, and a user message of the prompt's text and further parts.

    `layout` arranges the parts of the user's message; the default does not change them.
    """
    return ChatRequest(
        role=role,
        messages=(ChatMessage("system", (filled.system,)), ChatMessage("user", layout((filled.user, *parts)))),
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=sampling.seed,
        max_tokens=sampling.max_tokens,
    )


def on_lines(parts: Sequence[MessagePart]) -> tuple[MessagePart, ...]:
    """Join neighbouring texts, and put line ends between texts and images, as chat templates put nothing there."""
    joined: list[MessagePart] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += f"{part}\n"
        elif isinstance(part, str):
            joined.append(f"\n{part}\n" if joined else f"{part}\n")
        else:
            joined.append(part)
    return tuple(joined)
