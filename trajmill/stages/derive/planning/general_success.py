"""Chooses the success whose steps hold for other values, too, by comparing it with successes with other values."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trajmill.schemas.episode import Episode
from trajmill.stages.derive.planning.named_values import names_in, with_names
from trajmill.stages.derive.planning.plain_manual import plain_steps, steps_to_tell

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
