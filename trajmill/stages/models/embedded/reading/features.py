"""Kinds and flags of candidates; beside the words, the network sees nothing else of a candidate."""

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
"""The kinds of candidates: the role of a pressed element, the origin of a typed text, or a verb."""
_FLAG_NAMES = """chosen focused x y done_once done_twice done_often just_done same_verb filled known_text
counts number_said towards_number away_from_number hinted hint_unseen hints_done was_noted"""
FLAGS = tuple(_FLAG_NAMES.split())
"""The flags of a candidate: state and position of its element, and what the history says about it."""
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
"""The verb of a conclusion, by the candidate's verb."""
_LEAVING = {"back": "back", "close": "back", "show desktop": "home"}
"""Verbs of app buttons that do the same as a system button, by their label."""
_KIND_INDEX = {kind: index for index, kind in enumerate(KINDS)}
_FLAG_INDEX = {flag: index for index, flag in enumerate(FLAGS)}
_SETTLED = [_FLAG_INDEX[name] for name in ("chosen", "done_once", "done_twice", "done_often")]
_COUNTS = slice(_FLAG_INDEX["counts"], _FLAG_INDEX["counts"] + 4)
_SEARCHES, _TO_LAUNCHER = ("down", "up", "back", "enter"), ("home",)
"""Kinds of candidates that can show the target of a guidance line; apps are opened on the launcher."""


def kind_of(candidate: CandidateAction) -> int:
    """Index into KINDS."""
    name = candidate.role if candidate.verb in ("press", "open", "type") else candidate.verb
    if name == "button":
        name = _LEAVING.get(candidate.text.casefold(), name)
    return _KIND_INDEX.get(name, 0)


def pair_code(candidate: CandidateAction) -> int:
    """The candidate's code in the memory of pairs; 0 for text to type, which users choose freely."""
    if candidate.verb == "type":
        return 0
    return code_of(f"{candidate.verb} {candidate.text}".casefold())


def fixed_flags(candidate: CandidateAction, size: Size) -> list[float]:
    """The flags that depend on the screen only; the other flags are 0."""
    x, y = candidate.bounds.center
    states = candidate.states
    flags = [0.0] * len(FLAGS)
    flags[0] = float("selected" in states or "checked" in states)
    flags[1] = float("focused" in states)
    flags[2], flags[3] = x / size.width, y / size.height
    return flags


def is_open(flags: Tensor) -> Tensor:
    """From the flags of candidates: 1 for those that are neither selected nor done already."""
    settled = flags[..., _SETTLED].sum(-1)
    return (settled == 0).to(flags.dtype)


def with_task_flags(
    flags: NDArray[np.float32],
    candidates: Sequence[CandidateAction],
    title: str,
    conclusions: Sequence[Conclusion],
    numbers: Sequence[int],
    *,
    filled: bool,
) -> NDArray[np.float32]:
    """Set the flags that depend on the task.

    Args:
        flags: (candidates, FLAGS), the result of `fixed_flags`.
        candidates: the candidates, in the same order.
        title: title of the screen.
        conclusions: the conclusions of the steps so far.
        numbers: whole numbers of the instruction.
        filled: whether the focused input has text.
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
    """Flags of a stepper: it has a number, the number is wanted, the button moves towards a wanted number, or away."""
    said = shown in numbers
    wanted = {"+": any(number > shown for number in numbers), "-": any(number < shown for number in numbers)}
    towards = not said and wanted.get(sign, False)
    return 1.0, float(said), float(towards), float(not towards)


def _says(note: str, text: str) -> bool:
    """Whether a noted value is the text, with or without a label before it."""
    return note == text or note.endswith(f": {text}")


def with_guidance_flags(
    flags: NDArray[np.float32], candidates: Sequence[CandidateAction], left: Sequence[GuidanceLine]
) -> NDArray[np.float32]:
    """Set the flags that depend on the guidance; `left` are its lines that are not done yet."""
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
