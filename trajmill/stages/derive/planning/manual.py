"""Writes the manual of a task from a success, and chooses the success whose steps hold for other values, too.

Names of slots stand in the place of their values, so that a text holds for all queries of a task.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from trajmill.schemas.actions import Terminate, action_from_json
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.query import Slot
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.verdict import StepLabel

_NAMED = re.compile(r"\{([^{}\s]+)\}")


def with_names(text: str, slots: Iterable[Slot]) -> str:
    """A text in which each value, as the screen shows it or as the user says it, is `{name}`.

    Whole words are replaced, whatever their case, and longer values first. Of two slots with one value, the first
    counts.
    """
    names: dict[str, str] = {}
    for slot in slots:
        for value in (slot.value, slot.said):
            if value.strip():
                names.setdefault(value.strip().casefold(), slot.name)
    if not names:
        return text
    longest_first = sorted(names, key=lambda value: (-len(value), value))
    values = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)", re.IGNORECASE)
    return values.sub(lambda found: "{" + names[found[0].casefold()] + "}", text)


def names_in(text: str) -> frozenset[str]:
    """All names in braces."""
    return frozenset(_NAMED.findall(text))


_TO_DO: Final = {
    "Tapped ": "Tap ",
    "Opened ": "Open ",
    "Typed ": "Type ",
    "Scrolled ": "Scroll ",
    "Confirmed on ": "Confirm on ",
    "Returned on ": "Go back from ",
    "Left on ": "Go to the home screen from ",
}
"""How the conclusions of the embedded policy begin; those of a model are kept as they are."""
_NOTED = re.compile(r' Noted ("[^"]*"(?:, "[^"]*")*)\.$')
_BESIDE_NAME = re.compile(r'("\{[^"{}]+\}") for "[^"]*"')
_NAME = re.compile(r'"\{[^"{}]+\}"')


def plain_steps(success: Episode) -> list[str]:
    """The steps of a manual from the conclusions of a success, with names in the place of values.

    Left out are redundant and harmful steps, the end of the episode, and what stood on the screens of this success
    alone: notes of other things than values, and what an element is told by if a value is its label.
    """
    told = (with_names(" ".join(step.conclusion.split()), success.query.slots) for step in steps_to_tell(success))
    return [_to_do(each) for each in told if each]


def steps_to_tell(success: Episode) -> list[Step]:
    """The steps of a success without redundant and harmful ones and its end."""
    redundant = frozenset() if success.judgement is None else frozenset(success.judgement.redundant_steps)
    harmful = {verdict.index for verdict in success.step_verdicts if verdict.label is StepLabel.HARMFUL}
    return [step for step in success.steps if step.index not in redundant | harmful and not _ends(step)]


def _ends(step: Step) -> bool:
    return step.action is None or isinstance(action_from_json(step.action), Terminate)


def _to_do(conclusion: str) -> str:
    begun = next((begin for begin in _TO_DO if conclusion.startswith(begin)), None)
    if begun is None:
        return conclusion
    told = _NOTED.sub(_values_noted, conclusion)
    return _TO_DO[begun] + _BESIDE_NAME.sub(r"\1", told.removeprefix(begun))


def _values_noted(noted: re.Match[str]) -> str:
    values = _NAME.findall(noted[1])
    return f" Note {', '.join(values)}." if values else ""


_PRESSES = ("click", "long_press")
_PRESSED = re.compile(r'"([^"{}]+)"')


def general_success(successes: Sequence[Episode]) -> Episode | None:
    """The first success whose manual names only what successes with other values name, too.

    Compared are successes whose queries have the same slots and other values: "Parks" leads to some places only, and a
    success at a museum pressed another category. If no two can be compared, nothing tells, and it is the first. A
    success that pressed an item of a list that is no value, such as the artist of a song, is never it: who searched for
    the song went a way that holds for others.

    Args:
        successes: of one task, the plainest first; at least one.

    Returns:
        None if every success pressed an item, or names something, that fits its own values alone.
    """
    successes = [each for each in successes if not _pressed_other_item(each)]
    said = [_names(each) for each in successes]
    compared = [[said[at] for at, other in enumerate(successes) if _has_other_values(one, other)] for one in successes]
    if not any(compared):
        return successes[0] if successes else None
    for one, own, others in zip(successes, said, compared, strict=True):
        if others and all(own <= each for each in others):
            return one
    return None


def _pressed_other_item(success: Episode) -> bool:
    """Whether a step presses an item of a list that neither is a value of the query nor stands in its instruction.

    Where a query has no values, there are no others that the item could fail to lead to.
    """
    slots, instruction = success.query.slots, success.query.instruction.casefold()
    if not slots:
        return False
    pressed = (
        step.target.text
        for step in steps_to_tell(success)
        if step.target is not None and step.target.role == "list_item" and step.action_kind in _PRESSES
    )
    return any(not names_in(with_names(item, slots)) and item.casefold() not in instruction for item in pressed)


def _names(success: Episode) -> frozenset[str]:
    """What the steps of a success name beside its values."""
    return frozenset(name for step in plain_steps(success) for name in _PRESSED.findall(step))


def _has_other_values(one: Episode, other: Episode) -> bool:
    own, others = ({slot.name: slot.value for slot in each.query.slots} for each in (one, other))
    return own.keys() == others.keys() and own != others
