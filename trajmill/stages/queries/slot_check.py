"""Checks that an instruction asks for exactly what its slots say: nothing missing, invented or changed (paper 6.2).

No model is asked. All values of a slot are annotated, so the check searches for their words; it returns the reasons of
a refusal as text. The check is stricter than a reader: a good draft that is refused costs one more try, but a bad draft
that is accepted costs a query that asks for one thing and is checked for another.

The check does not find an invented name at the start of a sentence, and a wish without a number, a name, a time or a
known value (`and be quick about it`).
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
"""A `not` negates an option if it is at most this many characters before it."""


class Span(NamedTuple):
    """A place in a text."""

    start: int
    end: int

    def within(self, spans: Iterable[Span]) -> bool:
        """Whether one of the spans holds all of it."""
        return any(span.start <= self.start and self.end <= span.end for span in spans)

    def touches(self, spans: Iterable[Span]) -> bool:
        """Whether it shares a character with one of the spans."""
        return any(span.start < self.end and self.start < span.end for span in spans)


class InstructionCheck(NamedTuple):
    """The words of an instruction for its slots, and its problems."""

    said: Mapping[str, str]
    """By slot, the words of the text that express its value; only slots that were found."""
    problems: tuple[str, ...]
    """One line for each problem; empty if the instruction asks for exactly the values of its slots."""


class _SlotPlaces(NamedTuple):
    """The places in a text that express slots and the vocabulary of its task."""

    slots: Mapping[str, Span]
    """By slot, the place that expresses its value."""
    values: tuple[Span, ...]
    """Every place that has words of a slot's accepted value."""
    free: tuple[Span, ...]
    """Every place that has words of the task's vocabulary: names of apps and controls."""


def vocabulary_of(metadata: PathMetadata) -> tuple[str, ...]:
    """The words that an instruction may use besides its slots: apps, controls, and settings that never vary."""
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
        vocabulary: phrases that it may contain though no slot has them, from `vocabulary_of`.
        longest: most characters that it may have.
    """
    if not text.strip():
        return InstructionCheck({}, ("it is empty",))
    if len(text) > longest:
        return InstructionCheck({}, (f"it has {len(text)} characters; at most {longest} are allowed",))
    places_found = _slot_places(text, slots, vocabulary)
    said = {name: text[span.start : span.end] for name, span in places_found.slots.items()}
    problems = [
        *_missing_slots(slots, said),
        *_other_values(text, slots, places_found),
        *_negated_options(text, slots, places_found),
        *_invented_words(text, places_found, vocabulary),
        *_wrong_quotes(text, slots, places_found),
    ]
    return InstructionCheck(said, tuple(dict.fromkeys(problems)))


def without_quotes(text: str) -> str:
    """A text with everything between double quotes removed."""
    return _QUOTED.sub('""', text)


def _slot_places(text: str, slots: Sequence[KnownSlot], vocabulary: Sequence[str]) -> _SlotPlaces:
    places: dict[str, Span] = {}
    quoted = _quotes(text)
    found = {slot.name: _places(text, slot.accepted) for slot in slots if slot.accepted}
    for slot in slots:
        if slot.is_typed and slot.accepted:
            # In `write the code in a note "Code"` the title is the second match, the one in quotes.
            found[slot.name] = tuple(sorted(found[slot.name], key=lambda span: not span.within(quoted)))
    # The longest words come first, so that `2` is not found within `2 hours`; no place is used for two slots.
    for name, spans in sorted(found.items(), key=lambda item: -max((s.end - s.start for s in item[1]), default=0)):
        place = next((span for span in spans if not span.touches(places.values())), None)
        if place is not None:
            places[name] = place
    values = tuple(span for spans in found.values() for span in spans)
    return _SlotPlaces(places, values, _places(text, vocabulary))


def _missing_slots(slots: Sequence[KnownSlot], said: Mapping[str, str]) -> Iterator[str]:
    for slot in slots:
        if slot.accepted and slot.name not in said:
            yield f"{_name(slot)} is lost: say {_either(slot.accepted)}"


def _other_values(text: str, slots: Sequence[KnownSlot], places_found: _SlotPlaces) -> Iterator[str]:
    for slot in slots:
        # Typed values can be everyday words; only their capitals, if any, distinguish them.
        for span in _places(text, slot.refused, any_case=not slot.is_typed):
            if span.within(places_found.values) or span.within(places_found.free):
                continue
            words = text[span.start : span.end]
            if slot.accepted:
                yield f'{_name(slot)} is changed: "{words}" is another value; say {_either(slot.accepted)}'
            else:
                yield f'{_name(slot)} is not to be told, so "{words}" must not stand there'


def _negated_options(text: str, slots: Sequence[KnownSlot], places_found: _SlotPlaces) -> Iterator[str]:
    for slot in slots:
        place = places_found.slots.get(slot.name)
        if not slot.is_option or place is None:
            continue
        reach = max(0, place.start - _NEGATION_REACH)
        for found in _NEGATION.finditer(text, reach, place.start):
            if not Span(*found.span()).within(places_found.values) and not re.search(
                "[.,;:]", text[found.end() : place.start]
            ):
                yield f'{_name(slot)} is changed: "{found[0]}" denies it, but it is wanted'


def _invented_words(text: str, places_found: _SlotPlaces, vocabulary: Sequence[str]) -> Iterator[str]:
    known = frozenset(word for phrase in vocabulary for word in re.findall(r"[\w'’-]+", phrase.casefold()))
    for kind, pattern in (("number", _NUMBER), ("time", _TIME), ("name", _NAME)):
        for found in pattern.finditer(text):
            word = found[0].casefold().replace("’", "'").removesuffix("'s")
            span = Span(found.start(), found.start() + len(word))
            if span.within(places_found.values) or span.within(places_found.free):
                continue
            if kind == "name" and (word in known | _CAPITALISED_WORDS or _SENTENCE_END.search(text, 0, span.start)):
                continue
            yield f'the {kind} "{found[0]}" is invented: the task does not have it'


def _wrong_quotes(text: str, slots: Sequence[KnownSlot], places_found: _SlotPlaces) -> Iterator[str]:
    quoted = _quotes(text)
    exact = (*places_found.values, *places_found.free)
    for span in quoted:
        words = text[span.start : span.end]
        if Span(span.start, span.start + len(words.rstrip(".,!?"))) not in exact:
            yield f'"{words}" stands in quotes, but the task does not have exactly these words'
    for slot in slots:
        place = places_found.slots.get(slot.name)
        if slot.is_typed and place is not None and not place.within(quoted):
            yield f'{_name(slot)} must stand in double quotes, nothing else with it: "{text[place.start : place.end]}"'


def _quotes(text: str) -> tuple[Span, ...]:
    """The texts between double quotes, straight or curled."""
    return tuple(Span(*found.span(1 if found[1] is not None else 2)) for found in _QUOTED.finditer(text))


def _places(text: str, words: Iterable[str], any_case: bool = True) -> tuple[Span, ...]:
    """The places of any of the words, as whole words and whole numbers, the longest first."""
    found = {Span(*match.span()) for each in words if each for match in _whole(each, any_case).finditer(text)}
    return tuple(sorted(found, key=lambda span: (span.start - span.end, span.start)))


def _whole(words: str, any_case: bool) -> re.Pattern[str]:
    # The 4 in 4:30 is not the number 4.
    return re.compile(rf"(?<!\w)(?<!\d[:.,]){re.escape(words)}(?!\w|[:.,]\d)", re.IGNORECASE if any_case else 0)


def _name(slot: KnownSlot) -> str:
    return slot.name.replace("_", " ")


def _either(words: Sequence[str]) -> str:
    return " or ".join(f'"{word}"' for word in words)
