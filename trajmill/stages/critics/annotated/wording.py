"""Compares the words and values of screens with those of instructions and constraints."""

from __future__ import annotations

import re

from trajmill.schemas.tables.query import Slot
from trajmill.stages.critics.trees.screen_state import OFF, ON, Control

TRUE_WORDS = frozenset({"true", "on", "yes", "enabled", "checked"})
FALSE_WORDS = frozenset({"false", "off", "no", "disabled", "unchecked"})
_STEM = 4
"""Two words count as forms of one word if this many first letters agree, without common endings."""
_DONE_TITLE = re.compile(
    r"\b(?:\w{2,}(?<!e)ed|sent|left|done|complete|running|paid|bought|made|gone|kept)(?: (?:up|off|out|to|from)\b.*)?$"
    r"|^now \w+ing\b|^on the way\b",
    re.IGNORECASE,
)
_REPEATABLE = re.compile(
    r"\b(?:delet|remov|cancel|mov|renam|chang|clear|empti|mut|left|leav|disabl|turn)", re.IGNORECASE
)
_DONE_DESCRIPTION = re.compile(
    r"^(?:confirms|tells that|shows that)\b|\b(?:was|were|has been|have been|that is)\b", re.IGNORECASE
)


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.casefold().replace("'", ""))


_EMPTY_WORDS = frozenset(
    words_of(
        "a an the to of on in at for from with and or me my i it its is be by up this that then please would like want "
        "could can you your into off out all choice toggle stepper field search"
    )
)
_NEGATIONS = frozenset(
    words_of("off stop disable no not without mute silence hide never deactivate remove cancel none dont")
)


def content_stems(text: str) -> set[str]:
    """Return the stems of the words that have a meaning of their own."""
    return {_stem(word) for word in words_of(text) if word not in _EMPTY_WORDS}


def _stem(word: str) -> str:
    ending = next((each for each in ("ing", "ed", "es", "s") if word.endswith(each) and len(word) > len(each) + 2), "")
    word = word.removesuffix(ending)
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    return word[:_STEM]


def shared_stems(one: str, other: str) -> set[str]:
    """Return the stems of the words that two texts share."""
    return content_stems(one) & content_stems(other)


def is_said(label: str, instruction: str) -> bool:
    """Whether an instruction has all words of a label."""
    stems = content_stems(label)
    return bool(stems) and stems <= content_stems(instruction)


def says_no(label: str, instruction: str) -> bool:
    """Whether an instruction asks to switch off what a label names.

    Only the clauses that name it count, and a clause right after them that says `it`.
    """
    goes_on = False
    for clause in re.split(r"[,.;:]|\b(?:and|but)\b", instruction.casefold()):
        words, about = words_of(clause), bool(shared_stems(label, clause))
        if (about or (goes_on and "it" in words)) and not _NEGATIONS.isdisjoint(words):
            return True
        goes_on = about
    return False


def mentions(text: str, value: str) -> bool:
    """Whether a text has a value as whole words; for true and false, any word for yes or no counts."""
    lower = value.casefold().strip()
    words = next((words for words in (TRUE_WORDS, FALSE_WORDS) if lower in words), {lower} - {""})
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text.casefold()) for word in words)


def title_says_done(title: str) -> bool:
    """Whether a title says that something has been done, e.g. `Order placed`; a question does not."""
    return not title.rstrip().endswith("?") and _DONE_TITLE.search(title) is not None


def repeats_harmlessly(title: str) -> bool:
    """Whether repeating what the title says changes nothing more, e.g. deleting something twice."""
    return _REPEATABLE.search(title) is not None


def description_says_done(description: str) -> bool:
    """Whether a page's description says that the page confirms something."""
    return _DONE_DESCRIPTION.search(description) is not None


def same_value(shown: str, asked: str) -> bool:
    """Whether two texts are the same value; case does not matter, and `on` equals `true`."""
    shown, asked = shown.casefold().strip(), asked.casefold().strip()
    return shown == asked or (shown == ON and asked in TRUE_WORDS) or (shown == OFF and asked in FALSE_WORDS)


def holds(control: Control, slot: Slot) -> bool:
    """Whether a control has the constraint's value; a box whose label is the value must be ticked."""
    if control.kind == "toggle" and same_value(control.label, slot.value):
        return control.value == ON
    return same_value(control.value, slot.value)


def wanted(control: Control, slots: tuple[Slot, ...]) -> Slot | None:
    """Return the constraint of a page that a control belongs to; None if the user asks nothing of it.

    A shared name decides. Without one, a choice belongs to the constraint whose value it offers, and a field to the
    constraint whose value it has.
    """
    if control.kind == "search":
        return None
    words = f"{control.key.replace('_', ' ')} {control.label}"
    able = [slot for slot in slots if _could_hold(control, slot)]
    shared = [len(shared_stems(slot.name.replace("_", " "), words)) for slot in able]
    if any(shared):
        return able[shared.index(max(shared))]
    if control.kind == "choice":
        return able[0] if able else None
    return next((slot for slot in able if control.kind != "stepper" and holds(control, slot)), None)


def _could_hold(control: Control, slot: Slot) -> bool:
    match control.kind:
        case "choice":
            return any(same_value(option, slot.value) for option in control.options)
        case "toggle":
            switch = slot.value.casefold().strip() in TRUE_WORDS | FALSE_WORDS
            return switch or same_value(control.label, slot.value)
        case "stepper":
            return slot.value.strip().lstrip("-").isdigit()
        case _:
            return True
