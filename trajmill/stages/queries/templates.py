"""The templates of instructions, e.g. `order [me] {dish} (on|from) Bites{clauses}`, and the analysis of their texts.

`(a|b)` gives one of its alternatives, `[a]` gives `a` or nothing, `{name}` gives the words of a slot; other text is
copied. Brackets may be nested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import groupby
from random import Random
from typing import NamedTuple

import yaml

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.simulated.annotations import PageMetadata, PathMetadata

HELDOUT_MARK = "h"
"""In a phrasing id, the letter before the number of a held-out template or clause."""
_TOKEN = re.compile(r"\{[^}]*\}?|[()\[\]}|]|[^()\[\]{}|]+")
_CLOSING = {"(": ")", "[": "]"}
_QUESTION_WORDS = frozenset({"Can", "Could", "Would", "Will", "May"})


class Template(NamedTuple):
    """Parts in order: texts, `{name}`, and tuples of templates, which give one of them."""

    parts: tuple[str | tuple[Template, ...], ...] = ()

    def names(self) -> frozenset[str]:
        named = frozenset(part[1:-1] for part in self.parts if isinstance(part, str) and part.startswith("{"))
        several = (part for part in self.parts if not isinstance(part, str))
        return named.union(*(option.names() for options in several for option in options))

    def expand(self, words: Mapping[str, str], rng: Random) -> str:
        """Draw one sentence; spaces and capitals are not corrected. Raises KeyError if a drawn name has no words."""
        text = ""
        for part in self.parts:
            if not isinstance(part, str):
                text += rng.choice(part).expand(words, rng)
            else:
                text += words[part[1:-1]] if part.startswith("{") else part
        return text


class Variant(NamedTuple):
    text: str
    number: int
    heldout: bool

    @property
    def id(self) -> str:
        return f"{HELDOUT_MARK if self.heldout else ''}{self.number}"

    def names(self, task: str) -> frozenset[str]:
        return parse_template(self.text, task).names()

    def expand(self, task: str, words: Mapping[str, str], rng: Random) -> str:
        return parse_template(self.text, task).expand(words, rng)


def variants(texts: Sequence[str], heldout: bool) -> list[Variant]:
    return [Variant(text, number, heldout) for number, text in enumerate(texts)]


@cache
def parse_template(text: str, where: str) -> Template:
    """Parse a phrasing of the task `where`; raises BadInputError for an unmatched bracket, a bare `|` or a bad name."""

    def error(what: str, at: int, advice: str) -> BadInputError:
        return BadInputError(f"{where}: phrasing {text!r}: {what} at column {at + 1}; {advice}")

    def unclosed(mark: str, at: int) -> BadInputError:
        return error(f"'{mark}' is not closed", at, f"close it with '{_CLOSING[mark]}'")

    # The open brackets: mark, place and options.
    opened: list[tuple[str, int, list[list[str | tuple[Template, ...]]]]] = [("", 0, [[]])]
    for found in _TOKEN.finditer(text):
        token, at, (mark, since, options) = found[0], found.start(), opened[-1]
        if token in _CLOSING:
            opened.append((token, at, [[]]))
        elif token == "|" and mark:
            options.append([])
        elif token in ")]}|":
            if mark and token != _CLOSING[mark]:
                raise unclosed(mark, since)
            if not mark:
                advice = "put alternatives in parentheses" if token == "|" else "nothing opens it; remove it or open it"
                raise error(f"'{token}' stands alone", at, advice)
            opened.pop()
            closed = tuple(Template(tuple(parts)) for parts in options)
            if mark == "[":
                closed = (Template(), closed[0] if len(closed) == 1 else Template((closed,)))
            opened[-1][2][-1].append(closed)
        elif token.startswith("{") and not token.endswith("}"):
            raise error("'{' is not closed", at, "close it with '}'")
        elif token.startswith("{") and not token[1:-1].isidentifier():
            raise error(f"'{token}' is no name", at, "put the name of a slot between the braces")
        else:
            options[-1].append(token)
    if len(opened) > 1:
        raise unclosed(*opened[-1][:2])
    return Template(tuple(opened[0][2][0]))


def tidy(text: str) -> str:
    """Normalise spaces and punctuation, capitalise the first letter, and add an end mark."""
    text = re.sub(r" ([,.?!;])", r"\1", " ".join(text.split())).strip(" ,;")
    text = text[:1].upper() + text[1:]
    if text.endswith((".", "?", "!")):
        return text
    return text + ("?" if text.partition(" ")[0] in _QUESTION_WORDS else ".")


class Phrasings(Record):
    phrasings: tuple[str, ...]
    heldout: tuple[str, ...]

    def draw(self, heldout: bool, rng: Random) -> Variant:
        return rng.choice(variants(self.heldout if heldout else self.phrasings, heldout))


@cache
def packaged_phrasings(package: str) -> dict[str, Phrasings]:
    by_kind = yaml.safe_load(files(package).joinpath("phrasings.yaml").read_text())
    return {kind: Phrasings.model_validate(texts) for kind, texts in by_kind.items()}


def lost_slots(text: str, said: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(slot for slot, words in said.items() if not _words_pattern(words).search(text))


def _words_pattern(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(words)}(?!\w)", re.IGNORECASE)


def phrasing_parts(query: Query) -> frozenset[str]:
    """Return the template and the clauses of a query's phrasing id, each with its task."""
    template, *clauses = query.phrasing.split(" ")
    return frozenset([template, *(f"{query.task}:{clause}" for clause in clauses)]) - {""}


def heldout_parts(query: Query) -> frozenset[str]:
    """Return those of `phrasing_parts` that are marked as held out."""
    return frozenset(part for part in phrasing_parts(query) if part.rpartition("/")[2].startswith(HELDOUT_MARK))


def blank(text: str, said: Iterable[str]) -> str:
    """Lower `text` and replace the `said` words by `_`, the longest first."""
    text = text.casefold()
    for words in sorted(set(said) - {""}, key=lambda words: (-len(words), words)):
        text = _words_pattern(words.casefold()).sub("_", text)
    return text


def explicit_instruction(metadata: PathMetadata) -> str:
    """Name every page and operation of a path, in order (GUI-Owl 6.2, step 3)."""
    kind, press = ("app", "tap") if metadata.platform is Platform.PHONE else ("program", "click")
    steps: list[str] = []
    for app_name, pages in groupby(metadata.pages, key=lambda page: page.app_name):
        steps.append(f"open the {app_name} {kind}")
        steps += [operation for page in pages for operation in operations(page, press)]
    return tidy(listed(steps))


def operations(page: PageMetadata, press: str) -> Iterator[str]:
    for setting in page.settings:
        value, quoted = setting.value, f'"{setting.value}"'
        if setting.carried_from:
            value = quoted = f"the {setting.name.replace('_', ' ')} from {setting.carried_from}"
        match setting.kind:
            case "list":
                yield f"choose {value}"
            case "choice" | "slider" | "stepper":
                yield f"set {setting.label} to {value}"
            case "switch" | "checkbox":
                yield f"turn {value} {setting.label}"
            case "field" | "search":
                yield f"type {quoted} into {setting.label}"
            case _:
                yield f'{press} "{setting.label}"'
    if page.leave_by:
        yield f'{press} "{page.leave_by}"'


def listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
