"""Prompts: files with the sections `# system` and `# user` and `$field` placeholders; requests; answers as records."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import ValidationError

from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.record import Record, content_id, seed_of
from trajmill.schemas.text import one_line, storable
from trajmill.stages.concurrency import side_by_side
from trajmill.stages.models.base import ChatMessage, ChatModel, ChatRequest, Completion, MessagePart, forget_answer

_SECTIONS = ("system", "user")
_SECTION_LINE = re.compile(r"^# (system|user)[ \t]*$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


class Prompt(NamedTuple):
    version: str
    """Stored on every row that is made with it."""
    system: str
    user: str

    @property
    def fields(self) -> frozenset[str]:
        return frozenset(Template(f"{self.system}\n{self.user}").get_identifiers())

    def fill(self, **fields: str) -> Prompt:
        """Replace the placeholders by values, in which `$` is not changed. Raises KeyError for a missing field."""
        return Prompt(self.version, *(Template(text).substitute(fields) for text in (self.system, self.user)))


def load_prompt(package: str, name: str, own: Path | None = None) -> Prompt:
    """Load the prompt `name` of a package, or the user's file `own` in its place.

    A prompt is a package's data file `prompts/NAME.md`, and its version is its name. A user's file must have the same
    placeholders, each at least once, and no others; its version is the file's name, with `-` for characters such as
    spaces, and a hash of its text. Raises BadInputError if there is no such prompt, a file cannot be read, or its
    sections or placeholders are wrong.
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
        raise BadInputError(f"prompt name {name!r} is invalid: use letters, digits, '_', '-' and '.' only")
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
        trajectory_id: str | None = None,
        step_index: int | None = None,
    ) -> ChatRequest:
        """Return a request with a system message, and a user message of the prompt's text and further parts.

        `layout` arranges the parts of the user's message; the default does not change them. Raises KeyError for a
        missing field.
        """
        filled = self.prompt.fill(**fields)
        return ChatRequest(
            role=role,
            messages=(ChatMessage("system", (filled.system,)), ChatMessage("user", layout((filled.user, *parts)))),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            seed=sampling.seed,
            max_tokens=sampling.max_tokens,
            trajectory_id=trajectory_id,
            step_index=step_index,
        )

    async def ask(self, request: ChatRequest, answer: type[A]) -> A:
        return await ask(self.model, request, answer)


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


_OBJECT_START = re.compile(r'\{\s*["}]')
_MOST_STARTS = 200
"""Most positions in a reply that are tried as the start of an object; it bounds the time of parsing."""
_MOST_SHOWN = 4000
"""Most characters of a refused reply that are sent back with the question."""
_MOST_ERRORS = 6
_MOST_QUOTED = 80


class AnswerFailure(ModelFailure):
    """The model answered, but no answer was valid."""


async def ask(model: ChatModel, request: ChatRequest, answer: type[A], tries: int = 3) -> A:
    """Ask for a record, see `ask_several`. Raises AnswerFailure if none is valid, ModelFailure without an answer."""
    (found,) = await ask_several(model, request, answer, tries)
    if isinstance(found, ModelFailure):
        raise found
    return found


async def ask_several(
    model: ChatModel, request: ChatRequest, answer: type[A], tries: int = 3
) -> list[A | ModelFailure]:
    """Ask for `request.n` records in one request; records that are not valid are asked for again one by one.

    The record's JSON schema replaces the request's `answer_schema`; sample i is the answer to its seed plus i. After a
    reply without exactly one valid object, the model is shown that reply with its mistake, and asked again with another
    seed, at most `tries` times for one record. The conversation has only the last refused reply.

    Returns a record or a failure for each sample. Raises ModelFailure if the model did not answer for any of them.
    """
    asked = replace(request, answer_schema=json.dumps(answer.model_json_schema()))
    completion = await model.complete(asked)

    async def settle(number: int) -> A | ModelFailure:
        single = attempt = asked.sample(number)
        found: Completion | None = completion
        if asked.n > 1:
            # A completion has one finish reason and one count of tokens for all its samples.
            texts = (completion.text, *completion.others)[number : number + 1]
            found = completion._replace(text=texts[0], others=(), finish_reason="") if texts else None
        answered, problem = asked, ""
        for tried in range(1, tries + 1):
            if found is None:
                try:
                    found, answered = await model.complete(attempt), attempt
                except ModelFailure as failure:
                    return failure
            try:
                return parse_answer(found.text, answer)
            except ValueError as error:
                cut = f" (cut off after {found.output_tokens} tokens)" if found.finish_reason == "length" else ""
                begins = one_line(storable(found.text[: 4 * _MOST_QUOTED]))[:_MOST_QUOTED]
                problem = f'{error}{cut}, reply begins "{begins}"' if begins else f"the reply is empty{cut}"
            await forget_answer(model, answered)
            refused = ChatMessage("assistant", (storable(found.text[:_MOST_SHOWN]),))
            correction = (
                f"That is not a valid answer: {problem}.\n"
                "Answer again with one JSON object that follows the schema, and nothing else.\n"
                f"Schema: {asked.answer_schema}"
            )
            messages = (*single.messages, refused, ChatMessage("user", (correction,)))
            seed = seed_of("ask again", single.seed, tried)
            attempt, found = replace(single, messages=messages, seed=seed), None
        return AnswerFailure(f"{asked.role}: no valid answer in {tries} tries; last: {problem}")

    return await side_by_side(settle(number) for number in range(asked.n))


def parse_answer(text: str, answer: type[A]) -> A:
    """Parse the record in a reply; text around it, and thoughts between `<think>` tags, are ignored.

    Raises ValueError, in one line, if it has no valid object, or several different ones.
    """
    valid: list[A] = []
    problem = "the reply holds no JSON object"
    for found in json_objects(text.rpartition("</think>")[2].partition("<think>")[0]):
        try:
            record = answer.model_validate(found)
        except ValidationError as error:
            problem = _problems(error)
        except RecursionError:
            problem = "the JSON object is nested too deeply"
        else:
            if record not in valid:
                valid.append(record)
    if len(valid) > 1:
        raise ValueError(f"the reply holds {len(valid)} different answers; give one")
    if not valid:
        raise ValueError(problem)
    return valid[0]


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the outermost JSON objects in a text; objects within a broken one do not count."""
    # Not strict, because models write unescaped line breaks within strings.
    decoder = json.JSONDecoder(parse_constant=refuse_constant, strict=False)
    at = 0
    for _ in range(_MOST_STARTS):
        start = _OBJECT_START.search(text, at)
        if start is None:
            return
        try:
            found, at = decoder.raw_decode(text, start.start())
            yield _storable(found)
        except json.JSONDecodeError as error:
            at = max(error.pos, start.start() + 1)
        except (ValueError, RecursionError):
            return


def refuse_constant(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


def _storable(value: Any) -> Any:
    """Return the value with storable texts: an escape sequence may give characters that no file can store."""
    match value:
        case str():
            return storable(value)
        case list():
            return [_storable(item) for item in value]
        case dict():
            return {storable(key): _storable(item) for key, item in value.items()}
        case _:
            return value


def _problems(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    listed = [f"{'.'.join(map(str, each['loc'])) or 'answer'}: {each['msg']}" for each in found[:_MOST_ERRORS]]
    more = len(found) - len(listed)
    return one_line(storable("; ".join([*listed, f"and {more} more"] if more else listed)))
