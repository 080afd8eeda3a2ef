"""The templates of instructions, e.g. `order [me] {dish} (on|from) Bites{clauses}`, and the analysis of their texts.

`(a|b)` gives one of its alternatives, `[a]` gives `a` or nothing, `{name}` gives the words of a slot; all other text is
copied. The parser is a recursive descent over the characters:

    sequence     = (words | name | alternatives | optional)*
    name         = "{" identifier "}"
    alternatives = "(" sequence ("|" sequence)* ")"
    optional     = "[" sequence ("|" sequence)* "]"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from random import Random
from typing import NamedTuple

import yaml

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import Query

HELDOUT_MARK = "h"
"""In a phrasing id, the letter before the number of a held-out template or clause."""
_SPECIAL = "()[]{}|"


class Variant(NamedTuple):
    """One of several templates for the same thing."""

    text: str
    """The template."""
    number: int
    heldout: bool
    """Whether training never sees it."""

    @property
    def id(self) -> str:
        """Its number, marked when it is held out."""
        return f"{HELDOUT_MARK if self.heldout else ''}{self.number}"


class PlainText(NamedTuple):
    """Text that is copied."""

    text: str


class SlotName(NamedTuple):
    """A place for the words of a slot."""

    name: str


class Alternatives(NamedTuple):
    """One of several sequences; an optional part is an alternative to nothing."""

    options: tuple[Template, ...]


class Template(NamedTuple):
    """A parsed phrasing: its parts in order."""

    parts: tuple[PlainText | SlotName | Alternatives, ...]

    def names(self) -> frozenset[str]:
        """All names in the template."""
        found: set[str] = set()
        for part in self.parts:
            if isinstance(part, SlotName):
                found.add(part.name)
            elif isinstance(part, Alternatives):
                found.update(*(option.names() for option in part.options))
        return frozenset(found)

    def expand(self, words: Mapping[str, str], rng: Random) -> str:
        """One sentence of the template; spaces and capitals are not corrected.

        Raises:
            KeyError: a name that was drawn has no words.
        """
        return "".join(_expand(part, words, rng) for part in self.parts)


def parse_template(text: str, where: str) -> Template:
    """Parse a phrasing; `where` names the task it belongs to.

    Raises:
        BadInputError: a bracket is not closed or opened, a `|` is outside brackets, or a name is no identifier.
    """
    return _Parser(text, where).template()


def tidy(text: str) -> str:
    """Single spaces, none before punctuation, a capital at the start, and an end mark."""
    text = " ".join(text.split())
    for mark in (",", ".", "?", "!", ";"):
        text = text.replace(" " + mark, mark)
    text = text.strip(" ,;")
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else text + _end_mark(text)


def one_line(text: str) -> str:
    """A model's text on one line, tidied, without invisible characters."""
    return tidy("".join(letter if letter.isprintable() else " " for letter in text))


def _end_mark(text: str) -> str:
    return "?" if text.partition(" ")[0] in _QUESTION_WORDS else "."


_QUESTION_WORDS = frozenset({"Can", "Could", "Would", "Will", "May"})


def _expand(part: PlainText | SlotName | Alternatives, words: Mapping[str, str], rng: Random) -> str:
    match part:
        case PlainText(text):
            return text
        case SlotName(name):
            return words[name]
        case Alternatives(options):
            return rng.choice(options).expand(words, rng)


class _Parser:
    """Recursive descent over one text."""

    def __init__(self, text: str, where: str) -> None:
        self._text, self._where, self._at = text, where, 0

    def template(self) -> Template:
        template = self._sequence()
        if self._at < len(self._text):
            mark = self._text[self._at]
            advice = "put alternatives in parentheses" if mark == "|" else "nothing opens it; remove it or open it"
            raise self._error(f"'{mark}' stands alone", advice, self._at)
        return template

    def _sequence(self) -> Template:
        parts: list[PlainText | SlotName | Alternatives] = []
        while self._at < len(self._text) and self._text[self._at] not in ")]}|":
            parts.append(self._part())
        return Template(tuple(parts))

    def _part(self) -> PlainText | SlotName | Alternatives:
        match self._text[self._at]:
            case "{":
                return self._name()
            case "(":
                return Alternatives(self._options(")"))
            case "[":
                return Alternatives((Template(()), _either(self._options("]"))))
            case _:
                return self._words()

    def _words(self) -> PlainText:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in _SPECIAL:
            self._at += 1
        return PlainText(self._text[start : self._at])

    def _name(self) -> SlotName:
        start = self._at
        end = self._text.find("}", start)
        if end < 0:
            raise self._error("'{' is not closed", "close it with '}'", start)
        name = self._text[start + 1 : end]
        if not name.isidentifier():
            raise self._error(f"'{{{name}}}' is no name", "put the name of a slot between the braces", start)
        self._at = end + 1
        return SlotName(name)

    def _options(self, closing: str) -> tuple[Template, ...]:
        start = self._at
        options: list[Template] = []
        while not options or self._next_is("|"):
            self._at += 1
            options.append(self._sequence())
        if not self._next_is(closing):
            raise self._error(f"'{self._text[start]}' is not closed", f"close it with '{closing}'", start)
        self._at += 1
        return tuple(options)

    def _next_is(self, mark: str) -> bool:
        return self._text.startswith(mark, self._at)

    def _error(self, what: str, advice: str, at: int) -> BadInputError:
        return BadInputError(f"{self._where}: phrasing {self._text!r}: {what} at column {at + 1}; {advice}")


def _either(options: tuple[Template, ...]) -> Template:
    return options[0] if len(options) == 1 else Template((Alternatives(options),))


class Phrasings(Record):
    """The templates of one kind of goal."""

    phrasings: tuple[str, ...]
    heldout: tuple[str, ...]

    def draw(self, heldout: bool, rng: Random) -> Variant:
        """Draw a training template, or a held-out one."""
        texts = self.heldout if heldout else self.phrasings
        number = rng.randrange(len(texts))
        return Variant(texts[number], number, heldout)


@cache
def packaged_phrasings(package: str) -> dict[str, Phrasings]:
    """The phrasings of a package's `phrasings.yaml`, by kind."""
    by_kind = yaml.safe_load(files(package).joinpath("phrasings.yaml").read_text())
    return {kind: Phrasings.model_validate(texts) for kind, texts in by_kind.items()}


def lost_slots(text: str, said: Mapping[str, str]) -> tuple[str, ...]:
    """The slots whose words, given by slot, are missing in a text."""
    return tuple(slot for slot, words in said.items() if not words_pattern(words).search(text))


def words_pattern(words: str) -> re.Pattern[str]:
    """A pattern that finds whole words in any case."""
    return re.compile(rf"(?<!\w){re.escape(words)}(?!\w)", re.IGNORECASE)


def phrasing_parts(query: Query) -> frozenset[str]:
    """The template and the clauses of a query's phrasing id, each with its task."""
    template, *clauses = query.phrasing.split(" ")
    return frozenset([template, *(f"{query.task}:{clause}" for clause in clauses)]) - {""}


def heldout_parts(query: Query) -> frozenset[str]:
    """Those of `phrasing_parts` that are marked as held out."""
    return frozenset(part for part in phrasing_parts(query) if part.rpartition("/")[2].startswith(HELDOUT_MARK))


def skeleton(query: Query) -> str:
    """The instruction with the words of its slots replaced by `_`; queries of one phrasing have the same."""
    return blank(query.instruction, (slot.said for slot in query.slots))


def blank(text: str, said: Iterable[str]) -> str:
    """`text` in small letters, with each of the `said` words replaced by `_`, the longest first."""
    text = text.casefold()
    for words in sorted(set(said) - {""}, key=lambda words: (-len(words), words)):
        text = words_pattern(words.casefold()).sub("_", text)
    return text
