"""The annotations of a task, and how their words and values compare with those of screens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.tables.query import ASKED, Query, Slot, Source
from trajmill.stages.critics.replay import OFF, ON, Control, ElementAction, SeenStep
from trajmill.stages.overlap import same_answer


class TaskPart(NamedTuple):
    app: str
    pages: tuple[str, ...]
    slots: tuple[Slot, ...]
    receipt: str | None
    """The last page if it confirms something; reaching it then finishes the part."""
    open_page: str | None
    """The last page of the task if it neither confirms anything nor has constraints: only the instruction describes
    what to do there."""

    def is_submitted_by(self, step: SeenStep) -> bool:
        before, after = step.outcome.before.page, step.outcome.after.page
        return self.receipt is not None and step.presses_forward and after == self.receipt != before


class AnnotatedTask(NamedTuple):
    """All that a critic may read of a query: not its reference path, start state or goal check."""

    instruction: str
    slots: tuple[Slot, ...]
    pages: tuple[str, ...]
    """The pages of its path, as `app.screen`."""
    page_descriptions: tuple[str, ...]
    question: Slot | None = None
    """The value that the user asks for; then nothing may be changed. The slots are without it."""

    def parts(self) -> tuple[TaskPart, ...]:
        found: list[TaskPart] = []
        for app, group in groupby(self.pages, key=app_of):
            pages = tuple(group)
            bare = not self.slots_on(pages[-1]) and self.question is None
            confirms = bare and len(pages) > 1 and CONFIRMS.search(self.described(pages[-1])) is not None
            slots = tuple(slot for slot in self.slots if app_of(slot.page) == app)
            receipt, open_page = (pages[-1], None) if confirms else (None, pages[-1] if bare else None)
            found.append(TaskPart(app, pages, slots, receipt, open_page))
        return (*(part._replace(open_page=None) for part in found[:-1]), *found[-1:])

    def described(self, page: str) -> str:
        return self.page_descriptions[self.pages.index(page)].rstrip(".")

    def slots_on(self, page: str) -> tuple[Slot, ...]:
        return tuple(slot for slot in self.slots if slot.page == page)

    def is_about(self, label: str) -> bool:
        return bool(shared_stems(label, self.instruction))

    def is_asked(self, page: str, control: Control, part: TaskPart) -> bool:
        slot = wanted(control, self.slots_on(page))
        return holds(control, slot) if slot is not None else self.asks_in_words(control, page, part)

    def asks_in_words(self, control: Control, page: str, part: TaskPart) -> bool:
        """Whether the instruction itself asks for the value of a control that has no constraint.

        On the open page of a part, one shared word is enough; elsewhere the instruction must have all words of the
        control's label. A switch must be on, or off if the instruction negates it; any other control must have a value
        that the instruction mentions.
        """
        label = control.label
        named = self.is_about(label) if page == part.open_page else is_said(label, self.instruction)
        if control.kind == "toggle":
            return named and control.value == (OFF if says_no(label, self.instruction) else ON)
        return named and mentions(self.instruction, control.value)

    def is_left_by(self, step: SeenStep) -> bool:
        """Whether a press outside the task agrees to a question, opens a confirmation, or changes a page's content."""
        before, after, element = step.outcome.before, step.outcome.after, step.action.element
        if not step.presses_forward:
            return False
        # Pressing `Erase` below `Erase all data?` confirms it; `Keep` does not.
        agrees = element is not None and element.text.split()[:1] == before.title.split()[:1]
        if agrees and before.title.rstrip().endswith("?") and before.page not in self.pages:
            return True
        if after.page in self.pages:
            return False
        if after.page != before.page:
            # A question such as `Order this?` does not report that something was done.
            return not after.title.rstrip().endswith("?") and _DONE_TITLE.search(after.title) is not None
        searching = any(control.kind == "search" for control in after.controls.values())
        return not searching and not step.outcome.opened and bool(step.outcome.appeared or step.outcome.items_changed)


PRESSED_ALONE = frozenset({"button", "menu", "menu_item", "icon", "tab", "link"})
"""Roles of elements that are in no list; groups of pressed items have them as names."""


class PressedItem(NamedTuple):
    """A pressed element that is no control: an item, a tab, a button."""

    group: str
    """Its list, or its role if it is in none; items of one group are alternatives."""
    names: tuple[str, str]
    astray: bool
    """Whether it opened a page that the task does not need."""

    def answers(self, value: str) -> bool:
        return any(same_value(name, value) for name in self.names)


def app_of(page: str) -> str:
    return page.partition(".")[0]


def is_annotated(query: Query) -> bool:
    """Whether a query was sampled from a navigation graph with annotated pages, whose names are in the screens' trees.

    Other queries may name pages too, such as the windows of a program; these have no annotations.
    """
    pages = zip(query.pages, query.page_descriptions, strict=True)
    described = all("." in page and description for page, description in pages)
    return query.source is Source.DAG and bool(query.pages) and described


def annotated_task(query: Query) -> AnnotatedTask:
    """Return the annotations of a query. Raises JudgeFailure if it has none."""
    if not is_annotated(query):
        raise JudgeFailure(
            f"{query.task}: its pages are not those of an annotated app; judge it by a model or by its own check"
        )
    question = next((slot for slot in query.slots if slot.value == ASKED), None)
    slots = tuple(slot for slot in query.slots if slot is not question)
    return AnnotatedTask(query.instruction, slots, query.pages, query.page_descriptions, question)


TRUE_WORDS = frozenset({"true", "on", "yes", "enabled", "checked"})
FALSE_WORDS = frozenset({"false", "off", "no", "disabled", "unchecked"})
SWITCH_WORDS = TRUE_WORDS | FALSE_WORDS
_STEM = 4
"""Two words count as forms of one word if this many first letters agree, without common endings."""
_DONE_TITLE = re.compile(
    r"\b(?:\w{2,}(?<!e)ed|sent|left|done|complete|running|paid|bought|made|gone|kept)(?: (?:up|off|out|to|from)\b.*)?$"
    r"|^now \w+ing\b|^on the way\b",
    re.IGNORECASE,
)
REPEATABLE = re.compile(
    r"\b(?:delet|remov|cancel|mov|renam|chang|clear|empti|mut|left|leav|disabl|turn)", re.IGNORECASE
)
CONFIRMS = re.compile(
    r"^(?:confirms|tells that|shows that)\b|\b(?:was|were|has been|have been|that is)\b", re.IGNORECASE
)
"""Found in the descriptions of pages that confirm something."""


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.casefold().replace("'", ""))


_EMPTY_WORDS = frozenset(
    _words(
        "a an the to of on in at for from with and or me my i it its is be by up this that then please would like want "
        "could can you your into off out all choice toggle stepper field search"
    )
)
_NEGATIONS = frozenset(
    _words("off stop disable no not without mute silence hide never deactivate remove cancel none dont")
)


def _stems(text: str) -> set[str]:
    stems = set()
    for word in _words(text):
        if word not in _EMPTY_WORDS:
            endings = (each for each in ("ing", "ed", "es", "s") if word.endswith(each) and len(word) > len(each) + 2)
            stem = word.removesuffix(next(endings, ""))
            stems.add((stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] else stem)[:_STEM])
    return stems


def shared_stems(one: str, other: str) -> set[str]:
    return _stems(one) & _stems(other)


def is_said(label: str, instruction: str) -> bool:
    stems = _stems(label)
    return bool(stems) and stems <= _stems(instruction)


def says_no(label: str, instruction: str) -> bool:
    """Whether an instruction asks to switch off what a label names.

    Only the clauses that name it count, and a clause right after them that says `it`.
    """
    goes_on = False
    for clause in re.split(r"[,.;:]|\b(?:and|but)\b", instruction.casefold()):
        words, about = _words(clause), bool(shared_stems(label, clause))
        if (about or (goes_on and "it" in words)) and not _NEGATIONS.isdisjoint(words):
            return True
        goes_on = about
    return False


def mentions(text: str, value: str) -> bool:
    """Whether a text has a value as whole words; for true and false, any word for yes or no counts."""
    lower = value.casefold().strip()
    words = next((words for words in (TRUE_WORDS, FALSE_WORDS) if lower in words), {lower} - {""})
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text.casefold()) for word in words)


def same_value(shown: str, asked: str) -> bool:
    """Whether two texts are the same value; case does not matter, and `on` equals `true`."""
    shown, asked = shown.casefold().strip(), asked.casefold().strip()
    return shown == asked or (shown == ON and asked in TRUE_WORDS) or (shown == OFF and asked in FALSE_WORDS)


def holds(control: Control, slot: Slot) -> bool:
    """Whether a control has the constraint's value; a box whose label is the value must be ticked."""
    if control.kind == "toggle" and same_value(control.label, slot.value):
        return control.value == ON
    return same_value(control.value, slot.value)


def shared_names(control: Control, slot: Slot) -> set[str]:
    return shared_stems(slot.name.replace("_", " "), f"{control.key.replace('_', ' ')} {control.label}")


def wanted(control: Control, slots: tuple[Slot, ...]) -> Slot | None:
    """Return the constraint of a page that a control belongs to; None if the user asks nothing of it.

    A shared name decides. Without one, a choice belongs to the constraint whose value it offers, and a field to the
    constraint whose value it has.
    """

    def could_hold(slot: Slot) -> bool:
        match control.kind:
            case "choice":
                return any(same_value(option, slot.value) for option in control.options)
            case "toggle":
                switch = slot.value.casefold().strip() in SWITCH_WORDS
                return switch or same_value(control.label, slot.value)
            case "stepper":
                return slot.value.strip().lstrip("-").isdigit()
            case _:
                return True

    if control.kind == "search":
        return None
    able = [slot for slot in slots if could_hold(slot)]
    shared = [len(shared_names(control, slot)) for slot in able]
    if any(shared):
        return able[shared.index(max(shared))]
    if control.kind == "choice":
        return able[0] if able else None
    return next((slot for slot in able if control.kind != "stepper" and holds(control, slot)), None)


def unanswered(end: ElementAction, asked: Slot, texts: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with the end of a question, which is answered by the labelled value among a page's texts."""
    values = [value for label, _, value in (text.partition(": ") for text in texts) if same_value(label, asked.name)]
    if end.kind != "answer":
        yield "the question was not answered"
    elif not any(same_answer(end.words, value) for value in values):
        yield f'"{end.words}" does not stand under "{asked.name}"'
