"""Chooses the success whose steps hold for other values, too, by comparing it with successes with other values."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trajmill.schemas.episode import Episode
from trajmill.stages.derive.planning.plain_manual import plain_steps

_PRESSED = re.compile(r'"([^"{}]+)"')


def general_success(successes: Sequence[Episode]) -> Episode | None:
    """The first success whose manual names only what successes with other values name, too.

    Compared are successes whose queries have the same slots and other values: "Parks" leads to some places only, and a
    success at a museum pressed another category. If no two can be compared, nothing tells, and it is the first.

    Args:
        successes: of one task, the plainest first; at least one.

    Returns:
        None if every success that can be compared names something that fits its own values alone.
    """
    said = [_names(each) for each in successes]
    compared = [[said[at] for at, other in enumerate(successes) if _has_other_values(one, other)] for one in successes]
    if not any(compared):
        return successes[0]
    for one, own, others in zip(successes, said, compared, strict=True):
        if others and all(own <= each for each in others):
            return one
    return None


def _names(success: Episode) -> frozenset[str]:
    """What the steps of a success name beside its values."""
    return frozenset(name for step in plain_steps(success) for name in _PRESSED.findall(step))


def _has_other_values(one: Episode, other: Episode) -> bool:
    own, others = ({slot.name: slot.value for slot in each.query.slots} for each in (one, other))
    return own.keys() == others.keys() and own != others
