"""Writes the manual of a task from a success, and chooses the success whose steps hold for other values.

Names of slots replace their values, so that a text holds for all queries of a task. Manuals are tried: attempts at
queries of their tasks, with the manual as guidance and without (GUI-Owl 2.2.2).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from trajmill.schemas.actions import Terminate, action_from_json
from trajmill.schemas.episode import Episode
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.failure import Refusal
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.query import ASKED, Query, Slot
from trajmill.schemas.tables.trajectory import Step

MANUAL: Final = "manual"
"""`source` of the guidance that a manual gives."""
MANUAL_HELPED: Final = "manual_helped"
"""Variant of a manual with which attempts succeeded more often than without."""


class TriedManual(NamedTuple):
    queries: int
    """Queries whose attempts were both scored."""
    without: float
    with_manual: float

    @property
    def helped(self) -> bool:
        return self.with_manual > self.without

    @property
    def tells_nothing(self) -> bool:
        return not self.queries or self.without >= 1.0


def guidance_by(manual: Example, queries: Sequence[Query], most: int, origin: Origin) -> list[tuple[Query, Guidance]]:
    """Return at most `most` queries of a manual's task at which it is tried, each with the manual as its guidance.

    The query that the manual was made from comes last: a manual should help with others.
    """
    found = []
    for query in sorted(queries, key=lambda query: query.query_id == manual.query_id):
        filled = filled_manual(manual.messages[-1].content, query)
        if filled is None:
            continue
        guidance = Guidance(
            guidance_id=Guidance.make_id(query.query_id, filled),
            query_id=query.query_id,
            source_trajectory=manual.trajectory_id,
            source=MANUAL,
            step_descriptions=(),
            dropped_steps=(),
            text=filled,
            **origin.common(manual.made_by),
        )
        found.append((query, guidance))
    return found[:most]


def tried_manual(
    pairs: Collection[tuple[str, str]], without: Mapping[str, float | None], guided: Mapping[str, float | None]
) -> TriedManual:
    """Compare the attempts at pairs of a query and its guidance; a pair counts if both attempts have a reward."""
    scored = [
        (before >= 1.0, after >= 1.0)
        for query, guidance in pairs
        if (before := without.get(query)) is not None and (after := guided.get(guidance)) is not None
    ]
    if not scored:
        return TriedManual(0, 0.0, 0.0)
    return TriedManual(len(scored), fmean(one for one, _ in scored), fmean(two for _, two in scored))


def kept_manuals(
    manuals: Sequence[Example], tried: Mapping[str, TriedManual], origin: Origin
) -> tuple[list[Example], list[Refusal]]:
    """Return the manuals that helped or could not be compared, and the refusals of the others.

    `tried` has the results by example id.
    """
    kept, refused = [], []
    for manual in manuals:
        found = tried[manual.example_id]
        if found.helped:
            kept.append(manual.model_copy(update={"variant": MANUAL_HELPED}))
        elif found.tells_nothing:
            kept.append(manual)
        else:
            figures = f"{found.with_manual:.0%} with, {found.without:.0%} without, at {found.queries} queries"
            refusal = Refusal(
                kind=manual.kind,
                trajectory_id=manual.trajectory_id,
                variant=manual.variant,
                step_index=None,
                screen_id=None,
                reason="manual_did_not_help",
                detail=f"{figures}: {' '.join(manual.messages[-1].content.split())}",
                count=1,
                **origin.common(manual.made_by),
            )
            refused.append(refusal)
    return kept, refused


_NAMED = re.compile(r"\{([^{}\s]+)\}")
_TO_DO: Final = {
    "Tapped ": "Tap ",
    "Clicked ": "Click ",
    "Held ": "Hold ",
    "Right-clicked ": "Right-click ",
    "Dragged to ": "Drag to ",
    "Dragged ": "Drag to ",
    "Opened ": "Open ",
    "Typed ": "Type ",
    "Scrolled ": "Scroll ",
    "Confirmed on ": "Confirm on ",
    **dict.fromkeys(("Returned from ", "Returned on "), "Go back from "),
    **dict.fromkeys(("Left for the home screen from ", "Left on "), "Go to the home screen from "),
}
"""The first words of the conclusions of the embedded policy; those of a model are copied."""
_NOTED = re.compile(r'(?:, noting|\. Noted) ("[^"]*"(?:, "[^"]*")*)\.$')
_ANSWERED = re.compile(r'Answered "[^"]*" for ("[^"]*") on ("[^"]*")[.,].*')
"""The answer of one query, which holds for no other: a manual names only where it stands."""
_BESIDE_NAME = re.compile(r'("\{[^"{}]+\}") (?:for|beside) "[^"]*"')
_NAME = re.compile(r'"\{[^"{}]+\}"')
_PRESSES = ("click", "long_press")
_PRESSED = re.compile(r'"([^"{}]+)"')


def with_names(text: str, slots: Iterable[Slot]) -> str:
    """Return a text with `{name}` for each value but a switch's, as shown or said: whole words, longer values first."""
    names: dict[str, str] = {}
    for slot in slots:
        for value in (slot.value, slot.said):
            if value.strip() and slot.value not in ("on", "off", ASKED):
                names.setdefault(value.strip().casefold(), slot.name)
    if not names:
        return text
    longest_first = sorted(names, key=lambda value: (-len(value), value))
    values = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)", re.IGNORECASE)
    return values.sub(lambda found: "{" + names[found[0].casefold()] + "}", text)


def names_in(text: str) -> frozenset[str]:
    return frozenset(_NAMED.findall(text))


def filled_manual(manual: str, query: Query) -> str | None:
    """Return the steps of a manual with the values of a query; None if the query lacks one."""
    values = {slot.name: slot.value for slot in query.slots}
    if names_in(manual) - values.keys():
        return None
    return _NAMED.sub(lambda name: values[name[1]], manual)


def plain_steps(success: Episode) -> list[str]:
    """Return the steps of a manual from the conclusions of a success, with names in the place of values.

    Left out are redundant and harmful steps, the end, and texts that only this success's screens have: notes of other
    things than values, and the element's own description where a value is its label.
    """
    steps = []
    for step in steps_to_tell(success):
        conclusion = with_names(" ".join(step.conclusion.split()), success.query.slots)
        conclusion = _ANSWERED.sub(r"Answer with the \1 shown on \2.", conclusion)
        begun = next((begin for begin in _TO_DO if conclusion.startswith(begin)), None)
        if begun is not None:
            found = _NOTED.search(conclusion)
            values = ", ".join(_NAME.findall(found[1])) if found else ""
            noted = _NOTED.sub(f", noting {values}." if values else ".", conclusion)
            conclusion = _TO_DO[begun] + _BESIDE_NAME.sub(r"\1", noted.removeprefix(begun))
        steps += [conclusion] if conclusion else []
    return steps


def steps_to_tell(success: Episode) -> list[Step]:
    left_out = success.harmful.union(success.judgement.redundant_steps if success.judgement else ())
    return [
        step
        for step in success.steps
        if step.index not in left_out
        and step.action is not None
        and not isinstance(action_from_json(step.action), Terminate)
    ]


def general_success(successes: Sequence[Episode]) -> Episode | None:
    """Return the first success whose manual names only what successes with other values name, too.

    Successes of one task, the plainest first, are compared if their queries have the same slots and other values:
    "Parks" leads to some places only, and a success at a museum pressed another category. If no two can be compared, it
    is the first. A success that pressed a list item that is no value, such as the artist of a song, is never returned.
    """
    successes = [each for each in successes if not _pressed_other_item(each)]
    said = [{name for step in plain_steps(each) for name in _PRESSED.findall(step)} for each in successes]
    values = [{slot.name: slot.value for slot in each.query.slots} for each in successes]
    compared = [
        [other for other, theirs in zip(said, values, strict=True) if own.keys() == theirs.keys() and own != theirs]
        for own in values
    ]
    if not any(compared):
        return successes[0] if successes else None
    for success, own, others in zip(successes, said, compared, strict=True):
        if others and all(own <= each for each in others):
            return success
    return None


def _pressed_other_item(success: Episode) -> bool:
    """Return whether a step presses a list item that is neither a value of the query nor in its instruction.

    A query without values has no others that the item could fail to lead to.
    """
    slots, instruction = success.query.slots, success.query.instruction.casefold()
    pressed = (
        step.target.text
        for step in (steps_to_tell(success) if slots else ())
        if step.target is not None and step.target.role == "list_item" and step.action_kind in _PRESSES
    )
    return any(not names_in(with_names(item, slots)) and item.casefold() not in instruction for item in pressed)
