"""Kinds and flags of candidates: with the words, they are all that the network sees of a candidate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from trajmill.schemas.geometry import Size
from trajmill.stages.models.embedded.reading.candidates import CandidateAction
from trajmill.stages.models.embedded.reading.conclusions import Conclusion, noted_values, plain
from trajmill.stages.models.embedded.reading.guidance_lines import GuidanceLine, asks_to_fill, names
from trajmill.stages.models.embedded.reading.words import code_of

_KIND_NAMES = """other button list_item radio checkbox switch stepper_button text_field search_field icon menu menu_item
tab link quoted noted span down up back home enter finish"""
KINDS = tuple(_KIND_NAMES.split())
"""What a candidate is: the role of what it presses, the origin of what it types, or its verb."""
_FLAG_NAMES = """chosen focused x y done_once done_twice done_often just_done same_verb filled known_text
counts number_said towards_number away_from_number hinted hint_unseen hints_done was_noted"""
FLAGS = tuple(_FLAG_NAMES.split())
"""Per candidate: state and place of its element, and what the history says of it."""
CONCLUSION_VERBS = {
    "press": "Tapped",
    "open": "Opened",
    "type": "Typed",
    "down": "Scrolled",
    "up": "Scrolled",
    "back": "Returned",
    "home": "Left",
    "enter": "Confirmed",
    "finish": "Finished",
}
"""How a conclusion names what a candidate does."""
_LEAVING = {"back": "back", "close": "back", "show desktop": "home"}
"""Buttons of apps that do the same as a button of the system, by their label."""
_KIND_INDEX = {kind: index for index, kind in enumerate(KINDS)}
_FLAG_INDEX = {flag: index for index, flag in enumerate(FLAGS)}
_SETTLED = [_FLAG_INDEX[name] for name in ("chosen", "done_once", "done_twice", "done_often")]
_COUNTS = slice(_FLAG_INDEX["counts"], _FLAG_INDEX["counts"] + 4)
_SEARCHES, _TO_LAUNCHER = ("down", "up", "back", "enter"), ("home",)
"""Kinds of candidates that can bring the target of a guidance line into view; apps are opened on the launcher."""


def kind_of(candidate: CandidateAction) -> int:
    """Index into KINDS."""
    name = candidate.role if candidate.verb in ("press", "open", "type") else candidate.verb
    if name == "button":
        name = _LEAVING.get(candidate.text.casefold(), name)
    return _KIND_INDEX.get(name, 0)


def pair_code(candidate: CandidateAction) -> int:
    """The candidate's code in the memory of pairs; 0 for text to type, which the user makes up."""
    if candidate.verb == "type":
        return 0
    return code_of(f"{candidate.verb} {candidate.text}".casefold())


def fixed_flags(candidate: CandidateAction, size: Size) -> list[float]:
    """The flags that follow from the screen alone, zeros for the others."""
    x, y = candidate.bounds.center
    states = candidate.states
    flags = [0.0] * len(FLAGS)
    flags[0] = float("selected" in states or "checked" in states)
    flags[1] = float("focused" in states)
    flags[2], flags[3] = x / size.width, y / size.height
    return flags


def is_open(flags: Tensor) -> Tensor:
    """1 for candidates that are neither chosen nor done already, from their flags."""
    settled = flags[..., _SETTLED].sum(-1)
    return (settled == 0).to(flags.dtype)


def with_task(
    flags: NDArray[np.float32],
    candidates: Sequence[CandidateAction],
    title: str,
    conclusions: Sequence[Conclusion],
    numbers: Sequence[int],
    *,
    filled: bool,
) -> NDArray[np.float32]:
    """Fill in the flags that depend on the task.

    Args:
        flags: (candidates, FLAGS) as the screen alone gives them.
        candidates: in the same order.
        title: of the screen.
        conclusions: what has been done so far.
        numbers: whole numbers that the instruction says.
        filled: whether the focused input holds text.
    """
    flags = flags.copy()
    title = plain(title)
    times = Counter(
        (conclusion.verb, conclusion.target, conclusion.field, conclusion.title) for conclusion in conclusions
    )
    targets = {conclusion.target for conclusion in conclusions if conclusion.target}
    notes = noted_values(conclusions)
    last = conclusions[-1] if conclusions else None
    for row, candidate in enumerate(candidates):
        verb, text, label = CONCLUSION_VERBS[candidate.verb], plain(candidate.text), plain(candidate.field)
        done = times[verb, text, label, title]
        if done:
            flags[row, _FLAG_INDEX["done_once"] + min(done, 3) - 1] = 1.0
            flags[row, _FLAG_INDEX["just_done"]] = float(last[:4] == (verb, text, label, title)) if last else 0.0
        flags[row, _FLAG_INDEX["same_verb"]] = float(last is not None and last.verb == verb)
        flags[row, _FLAG_INDEX["filled"]] = float(filled and candidate.verb in ("type", "enter"))
        flags[row, _FLAG_INDEX["known_text"]] = float(text in targets)
        flags[row, _FLAG_INDEX["was_noted"]] = float(bool(text) and any(_says(note, text) for note in notes))
        if candidate.beside.isdecimal():
            flags[row, _COUNTS] = _counting(candidate.text, int(candidate.beside), numbers)
    return flags


def _counting(sign: str, shown: int, numbers: Sequence[int]) -> tuple[float, ...]:
    """Flags of a stepper: has a number, the number is the wanted one, the button moves towards it, or away from it."""
    said = shown in numbers
    wanted = {"+": any(number > shown for number in numbers), "-": any(number < shown for number in numbers)}
    towards = not said and wanted.get(sign, False)
    return 1.0, float(said), float(towards), float(not towards)


def _says(note: str, text: str) -> bool:
    """Whether a noted value is the text, alone or after a label."""
    return note == text or note.endswith(f": {text}")


def with_guidance(
    flags: NDArray[np.float32], candidates: Sequence[CandidateAction], left: Sequence[GuidanceLine]
) -> NDArray[np.float32]:
    """Fill in the flags that depend on the guidance; `left` are its lines that are not done yet."""
    flags = flags.copy()
    if not left:
        flags[:, _FLAG_INDEX["hints_done"]] = [float(candidate.verb == "finish") for candidate in candidates]
        return flags
    hinted = [names(left[0], candidate) or asks_to_fill(left[0], candidate) for candidate in candidates]
    flags[:, _FLAG_INDEX["hinted"]] = hinted
    if not any(hinted):
        searches = _TO_LAUNCHER if left[0].verb == "open" else _SEARCHES
        flags[:, _FLAG_INDEX["hint_unseen"]] = [KINDS[kind_of(candidate)] in searches for candidate in candidates]
    return flags
