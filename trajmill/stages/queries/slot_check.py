"""Checks that an instruction asks for exactly its slot values: nothing missing, invented or changed (paper 6.2).

The check searches for the words of all annotated values, without a model; it is stricter than a reader. A refused good
draft costs one more try, an accepted bad one a query that asks for one thing and is checked for another. It misses
invented names at the start of a sentence, and wishes without a number, name, time or known value (`and be quick`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from trajmill.stages.environments.simulated.annotations import NUMBER_WORDS, KnownSlot, PathMetadata

LONGEST_INSTRUCTION = 400
"""Most characters of an instruction."""
LONGEST_RAW = 1600
"""Most characters of the explicit instruction, which names every page."""

_NUMBER = re.compile(
    rf"(?<![\w.,:])\d+(?:[:.,]\d+)*(?:\s?[ap]\.?m\b\.?)?|\b(?:{'|'.join(NUMBER_WORDS[2:])}|dozen|half)\b", re.IGNORECASE
)
_TIME = re.compile(
    r"\b(?:tomorrow|yesterday|tonight|noon|midnight|(?:mon|tues|wednes|thurs|fri|satur|sun)days?)\b", re.IGNORECASE
)
_NAME = re.compile(r"(?<![\w'’])[A-Z][\w'’-]*")
_SENTENCE_END = re.compile(r"(?:^|[.?!:;…])[\s\"“(]*$")
_QUOTED = re.compile(r'"([^"]*)"|“([^”]*)”')
_NEGATION = re.compile(
    r"\b(?:no|not|never|without|off|disable|skip|remove|stop|(?:do|does|is|are|should|wo|ca)n['’]t)\b", re.IGNORECASE
)
_CAPITALISED_WORDS = frozenset({"i", "i'm", "i'd", "i'll", "i've", "ok"})
_NEGATION_REACH = 24
"""Characters before an option in which a `not` negates it."""


class Span(NamedTuple):
    """A place in a text."""

    start: int
    end: int

    def within(self, spans: Iterable[Span]) -> bool:
        """Whether one of the spans contains it."""
        return any(span.start <= self.start and self.end <= span.end for span in spans)

    def touches(self, spans: Iterable[Span]) -> bool:
        """Whether it shares a character with one of the spans."""
        return any(span.start < self.end and self.start < span.end for span in spans)


class InstructionCheck(NamedTuple):
    """The words of an instruction for its slots, and its problems."""

    said: Mapping[str, str]
    """By slot, the words for its value; only slots that were found."""
    problems: tuple[str, ...]
    """One line for each problem."""


def vocabulary_of(metadata: PathMetadata) -> tuple[str, ...]:
    """Return the words an instruction may use besides its slots: apps, controls, and settings that never vary."""
    settings = [setting for page in metadata.pages for setting in page.settings]
    fixed = [setting.value for setting in settings if not setting.words and not setting.carried_from]
    named = [page.app_name for page in metadata.pages] + [page.leave_by for page in metadata.pages]
    labels = [setting.label for setting in settings] + [slot.carried_from for slot in metadata.constraints]
    return tuple(word for word in dict.fromkeys([metadata.description, *named, *labels, *fixed]) if word)


def check_instruction(
    text: str, slots: Sequence[KnownSlot], vocabulary: Sequence[str], longest: int = LONGEST_INSTRUCTION
) -> InstructionCheck:
    """Compare an instruction with its slots.

    Args:
        text: one line.
        slots: all slots of the task.
        vocabulary: further phrases that it may contain, from `vocabulary_of`.
        longest: most characters that it may have.
    """
    if not text.strip():
        return InstructionCheck({}, ("it is empty",))
    if len(text) > longest:
        return InstructionCheck({}, (f"it has {len(text)} characters; at most {longest} are allowed",))
    check = _Check(text, slots, vocabulary)
    return InstructionCheck(check.said, tuple(dict.fromkeys(check.problems())))


def without_quotes(text: str) -> str:
    """Remove everything between double quotes."""
    return _QUOTED.sub('""', text)


class _Check:
    """The places of a text that express slots and the vocabulary of its task."""

    def __init__(self, text: str, slots: Sequence[KnownSlot], vocabulary: Sequence[str]) -> None:
        self.text, self.slots, self.vocabulary = text, slots, vocabulary
        self.quoted = tuple(Span(*found.span(1 if found[1] is not None else 2)) for found in _QUOTED.finditer(text))
        self.places: dict[str, Span] = {}
        """By slot, the place that expresses its value."""
        found = {slot.name: _places(text, slot.accepted) for slot in slots if slot.accepted}
        for slot in slots:
            if slot.is_typed and slot.accepted:
                # In `write the code in a note "Code"` the title is the second match, the one in quotes.
                found[slot.name] = tuple(sorted(found[slot.name], key=lambda span: not span.within(self.quoted)))
        # The longest words come first, so that `2` is not found within `2 hours`; no place is used for two slots.
        for name, spans in sorted(found.items(), key=lambda item: -max((s.end - s.start for s in item[1]), default=0)):
            place = next((span for span in spans if not span.touches(self.places.values())), None)
            if place is not None:
                self.places[name] = place
        self.values = tuple(span for spans in found.values() for span in spans)
        """Every place with words of an accepted value."""
        self.free = _places(text, vocabulary)
        self.said = {name: text[span.start : span.end] for name, span in self.places.items()}

    def problems(self) -> Iterator[str]:
        for slot in self.slots:
            if slot.accepted and slot.name not in self.said:
                yield f"{_name(slot)} is lost: say {either(slot.accepted)}"
        for slot in self.slots:
            yield from self._other_values(slot)
        for slot in self.slots:
            if slot.is_option and slot.name in self.places:
                yield from self._negations(slot, self.places[slot.name])
        yield from self._invented_words()
        for span in self.quoted:
            words = self.text[span.start : span.end]
            if Span(span.start, span.start + len(words.rstrip(".,!?"))) not in (*self.values, *self.free):
                yield f'"{words}" stands in quotes, but the task does not have exactly these words'
        for slot in self.slots:
            place = self.places.get(slot.name)
            if slot.is_typed and place is not None and not place.within(self.quoted):
                yield f'{_name(slot)} must stand in double quotes, nothing else with it: "{self.said[slot.name]}"'

    def _other_values(self, slot: KnownSlot) -> Iterator[str]:
        # Typed values can be everyday words; only their capitals, if any, distinguish them.
        for span in _places(self.text, slot.refused, any_case=not slot.is_typed):
            if span.within(self.values) or span.within(self.free):
                continue
            words = self.text[span.start : span.end]
            if slot.accepted:
                yield f'{_name(slot)} is changed: "{words}" is another value; say {either(slot.accepted)}'
            else:
                yield f'{_name(slot)} is not to be told, so "{words}" must not stand there'

    def _negations(self, slot: KnownSlot, place: Span) -> Iterator[str]:
        for found in _NEGATION.finditer(self.text, max(0, place.start - _NEGATION_REACH), place.start):
            ends_before = re.search("[.,;:]", self.text[found.end() : place.start])
            if not Span(*found.span()).within(self.values) and not ends_before:
                yield f'{_name(slot)} is changed: "{found[0]}" denies it, but it is wanted'

    def _invented_words(self) -> Iterator[str]:
        known = {word for phrase in self.vocabulary for word in re.findall(r"[\w'’-]+", phrase.casefold())}
        for kind, pattern in (("number", _NUMBER), ("time", _TIME), ("name", _NAME)):
            for found in pattern.finditer(self.text):
                word = found[0].casefold().replace("’", "'").removesuffix("'s")
                span = Span(found.start(), found.start() + len(word))
                if span.within(self.values) or span.within(self.free):
                    continue
                is_first = _SENTENCE_END.search(self.text, 0, span.start)
                if kind == "name" and (word in known | _CAPITALISED_WORDS or is_first):
                    continue
                yield f'the {kind} "{found[0]}" is invented: the task does not have it'


def _places(text: str, words: Iterable[str], any_case: bool = True) -> tuple[Span, ...]:
    """Find any of the words, as whole words and whole numbers, the longest first."""
    flags = re.IGNORECASE if any_case else 0
    # The 4 in 4:30 is not the number 4.
    patterns = (rf"(?<!\w)(?<!\d[:.,]){re.escape(each)}(?!\w|[:.,]\d)" for each in words if each)
    found = {Span(*match.span()) for pattern in patterns for match in re.finditer(pattern, text, flags)}
    return tuple(sorted(found, key=lambda span: (span.start - span.end, span.start)))


def _name(slot: KnownSlot) -> str:
    return slot.name.replace("_", " ")


def either(words: Sequence[str]) -> str:
    """Quote words and join them by `or`."""
    return " or ".join(f'"{word}"' for word in words)
