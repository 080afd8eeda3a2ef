"""The writer by a language model: synthesis from path metadata, then few-shot refinement (GUI-Owl 6.2, steps 3, 4).

`check_instruction` compares each draft with the slots of its task; a draft that misses, invents or changes something is
sent back with the reason. Held-out phrasings are questions, training phrasings never, which is checked in every draft.
No training prompt shows an example of a held-out style.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Annotated, NamedTuple

from pydantic import StringConstraints

from trajmill.schemas.record import Record, seed_of
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.text import printable
from trajmill.stages.environments.simulated.annotations import NUMBER_WORDS, KnownSlot, PathMetadata
from trajmill.stages.models.base import ChatMessage, ChatModel, ChatRequest
from trajmill.stages.models.prompts import PromptedModel, Sampling
from trajmill.stages.queries.base import Candidate, DraftRefused, Written
from trajmill.stages.queries.templates import HELDOUT_MARK, operations, tidy
from trajmill.stages.queries.written import ROLE, TEMPERATURE, QueryPrompts, query_prompts

TRIES = 3
"""Most drafts of each step; then the query fails."""
LONGEST_INSTRUCTION = 400
LONGEST_RAW = 1600
"""Most characters of the explicit instruction, which names every page."""
_MAX_TOKENS = 512
_TRAIN_MARK = "t"
_LONGEST_QUOTE = 300


class Instruction(Record):
    instruction: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_RAW)]


@dataclass(frozen=True, slots=True)
class ModelWriter:
    model: ChatModel
    prompts: QueryPrompts = field(default_factory=query_prompts)

    @property
    def version(self) -> str:
        return PromptedModel(self.model, self.prompts.synthesise).version

    async def write(self, candidate: Candidate) -> Written:
        """Word a goal in both steps; the seed decides the style. A goal without facts keeps the words of its source.

        Raises DraftRefused if no draft asked for exactly what the goal asks for, ModelFailure without a valid answer.
        """
        goal, _, heldout, seed = candidate
        facts = goal.facts()
        if facts is None:
            return goal.worded(heldout, seed)
        task, (metadata, slots) = goal.task, facts
        vocabulary = vocabulary_of(metadata)
        fields, synthesis = _fields(metadata, slots), PromptedModel(self.model, self.prompts.synthesise)
        request = synthesis.request(ROLE, fields, sampling=Sampling(max_tokens=_MAX_TOKENS))

        def is_right(text: str) -> InstructionCheck:
            return check_instruction(text, slots, vocabulary, LONGEST_RAW)

        raw, _ = await _accepted_draft(synthesis, request, f"{task}: synthesis", is_right)
        style = Random(seed).choice(self.prompts.heldout if heldout else self.prompts.trained)

        def in_style(text: str) -> InstructionCheck:
            checked = check_instruction(text, slots, vocabulary)
            if ("?" in _QUOTED.sub('""', text)) is heldout:
                return checked
            problem = "it must be a question that ends with a question mark" if heldout else "it must not be a question"
            return InstructionCheck(checked.said, (*checked.problems, problem))

        refinement = PromptedModel(self.model, style)
        sampling = Sampling(TEMPERATURE, seed=seed_of("draft", seed, 0), max_tokens=_MAX_TOKENS)
        request = refinement.request(ROLE, {**fields, "raw": raw}, sampling=sampling)
        text, said = await _accepted_draft(refinement, request, f"{task}: refinement", in_style)
        mark = HELDOUT_MARK if heldout else _TRAIN_MARK
        return Written(raw, text, f"{task}/{mark}-{style.version}", said.said, self.version)


async def _accepted_draft(
    model: PromptedModel, request: ChatRequest, subject: str, check: Callable[[str], InstructionCheck]
) -> tuple[str, InstructionCheck]:
    """Return the first draft without problems; a refused draft is sent back with its problems."""
    attempt, text, problems = request, "", ""
    for number in range(1, TRIES + 1):
        text = tidy(printable((await model.ask(attempt, Instruction)).instruction))
        checked = check(text)
        if not checked.problems:
            return text, checked
        problems = "; ".join(checked.problems)
        refused = ChatMessage("assistant", (json.dumps({"instruction": text}, ensure_ascii=False),))
        correction = ChatMessage("user", (f"That cannot be used: {problems}. Write it again without these mistakes.",))
        # Earlier drafts are left out to keep the request short.
        messages = (*request.messages, refused, correction)
        attempt = replace(request, messages=messages, seed=seed_of("draft", request.seed, number))
    quoted = text[:_LONGEST_QUOTE]
    raise DraftRefused(f"{subject}: {TRIES} drafts were refused, the last: {problems}, in: {quoted}", TRIES)


def _fields(metadata: PathMetadata, slots: tuple[KnownSlot, ...]) -> dict[str, str]:
    is_phone = metadata.platform is Platform.PHONE
    pages: list[str] = []
    for number, page in enumerate(metadata.pages, start=1):
        pages.append(f"{number}. {page.app_name}: {page.description}")
        pages += [f"   - {operation}" for operation in operations(page, "tap" if is_phone else "click")]
    lines: list[str] = []
    for slot in (slot for slot in slots if slot.accepted):
        words = "say " + either(slot.accepted)
        words = f'type "{slot.accepted[0]}"' if slot.is_typed else f"on; {words}" if slot.is_option else words
        lines.append(f"- {slot.name.replace('_', ' ')}: {words}")
    for value in (value for value in metadata.constraints if value.carried_from):
        lines.append(f"- {value.name.replace('_', ' ')}: the user does not know it; it stands in {value.carried_from}")
    return {
        "task": metadata.description,
        "slots": "\n".join(lines) or "(none: the task is always the same)",
        "platform": "phone (apps are opened, things are tapped)" if is_phone else "computer (things are clicked)",
        "pages": "\n".join(pages),
    }


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
    start: int
    end: int

    def within(self, spans: Iterable[Span]) -> bool:
        return any(span.start <= self.start and self.end <= span.end for span in spans)

    def touches(self, spans: Iterable[Span]) -> bool:
        return any(span.start < self.end and self.start < span.end for span in spans)


class InstructionCheck(NamedTuple):
    said: Mapping[str, str]
    """By slot, the words for its value; only slots that were found."""
    problems: tuple[str, ...]


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
    if not text.strip():
        return InstructionCheck({}, ("it is empty",))
    if len(text) > longest:
        return InstructionCheck({}, (f"it has {len(text)} characters; at most {longest} are allowed",))
    quoted = tuple(Span(*found.span(1 if found[1] is not None else 2)) for found in _QUOTED.finditer(text))
    found = {slot.name: _places(text, slot.accepted) for slot in slots if slot.accepted}
    for slot in slots:
        if slot.is_typed and slot.accepted:
            # In `write the code in a note "Code"` the title is the second match, the one in quotes.
            found[slot.name] = tuple(sorted(found[slot.name], key=lambda span: not span.within(quoted)))
    places: dict[str, Span] = {}
    # The longest words come first, so that `2` is not found within `2 hours`; no place is used for two slots.
    for name, spans in sorted(found.items(), key=lambda item: -max((s.end - s.start for s in item[1]), default=0)):
        place = next((span for span in spans if not span.touches(places.values())), None)
        if place is not None:
            places[name] = place
    values = [span for spans in found.values() for span in spans]
    draft = _Draft(text, slots, vocabulary, quoted, places, values)
    said = {name: text[span.start : span.end] for name, span in places.items()}
    return InstructionCheck(said, tuple(dict.fromkeys(draft.problems())))


class _Draft(NamedTuple):
    """An instruction with the places where its slots are named."""

    text: str
    slots: Sequence[KnownSlot]
    vocabulary: Sequence[str]
    quoted: Sequence[Span]
    places: Mapping[str, Span]
    """By slot, where its value is named."""
    values: Sequence[Span]
    """All places with words of a value."""

    def problems(self) -> Iterator[str]:
        allowed = (*self.values, *_places(self.text, self.vocabulary))
        for slot in self.slots:
            if slot.accepted and slot.name not in self.places:
                yield f"{_plain(slot)} is lost: say {either(slot.accepted)}"
        yield from self._changed(allowed)
        yield from self._denied()
        yield from self._invented(allowed)
        for span in self.quoted:
            words = self.text[span.start : span.end]
            if Span(span.start, span.start + len(words.rstrip(".,!?"))) not in allowed:
                yield f'"{words}" stands in quotes, but the task does not have exactly these words'
        for slot in self.slots:
            place = self.places.get(slot.name)
            if slot.is_typed and place is not None and not place.within(self.quoted):
                words = self.text[place.start : place.end]
                yield f'{_plain(slot)} must stand in double quotes, nothing else with it: "{words}"'

    def _changed(self, allowed: Sequence[Span]) -> Iterator[str]:
        for slot in self.slots:
            # Typed values can be everyday words; only their capitals, if any, distinguish them.
            for span in _places(self.text, slot.refused, any_case=not slot.is_typed):
                words = f'"{self.text[span.start : span.end]}"'
                if not span.within(allowed) and slot.accepted:
                    yield f"{_plain(slot)} is changed: {words} is another value; say {either(slot.accepted)}"
                elif not span.within(allowed):
                    yield f"{_plain(slot)} is not to be told, so {words} must not stand there"

    def _denied(self) -> Iterator[str]:
        for slot in self.slots:
            place = self.places.get(slot.name)
            if slot.is_option and place is not None:
                for denial in _NEGATION.finditer(self.text, max(0, place.start - _NEGATION_REACH), place.start):
                    ends_before = re.search("[.,;:]", self.text[denial.end() : place.start])
                    if not Span(*denial.span()).within(self.values) and not ends_before:
                        yield f'{_plain(slot)} is changed: "{denial[0]}" denies it, but it is wanted'

    def _invented(self, allowed: Sequence[Span]) -> Iterator[str]:
        words = (word for phrase in self.vocabulary for word in re.findall(r"[\w'’-]+", phrase.casefold()))
        known = _CAPITALISED_WORDS.union(words)
        for kind, pattern in (("number", _NUMBER), ("time", _TIME), ("name", _NAME)):
            for match in pattern.finditer(self.text):
                word = match[0].casefold().replace("’", "'").removesuffix("'s")
                span = Span(match.start(), match.start() + len(word))
                is_word = kind == "name" and (word in known or _SENTENCE_END.search(self.text, 0, span.start))
                if not is_word and not span.within(allowed):
                    yield f'the {kind} "{match[0]}" is invented: the task does not have it'


def _plain(slot: KnownSlot) -> str:
    return slot.name.replace("_", " ")


def _places(text: str, words: Iterable[str], any_case: bool = True) -> tuple[Span, ...]:
    """Find any of the words, as whole words and whole numbers, the longest first."""
    flags = re.IGNORECASE if any_case else 0
    # The 4 in 4:30 is not the number 4.
    patterns = (rf"(?<!\w)(?<!\d[:.,]){re.escape(each)}(?!\w|[:.,]\d)" for each in words if each)
    found = {Span(*match.span()) for pattern in patterns for match in re.finditer(pattern, text, flags)}
    return tuple(sorted(found, key=lambda span: (span.start - span.end, span.start)))


def either(words: Sequence[str]) -> str:
    return " or ".join(f'"{word}"' for word in words)
