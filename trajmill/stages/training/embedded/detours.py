"""Makes lessons in recovery: behind a wrong entry the target is missing, so the policy goes back and tries another.

Accepted attempts show the right way alone. A policy trained on these takes the first entry that fits a little and works
on in the wrong place, most of all in an unknown app. So a share of the presses on an icon, an item of a list or a menu
is preceded by up to two presses on its neighbours. Their screens come from other attempts. The wrong press itself is
not learned; the way back and the right press after it are.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from trajmill.stages.models.embedded.candidates import KINDS, CandidateAction, kind_of, pair_code
from trajmill.stages.models.embedded.model import reply_for
from trajmill.stages.models.embedded.situation import InputReader, PolicyInput, Situation
from trajmill.stages.training.embedded.lesson_steps import LessonStep, SeenScreen

_MOST_WRONG = 2
_WAYS_BACK = {"icon": ("home", "back"), "list_item": ("back",)}
"""Kinds of candidates that lead back from behind an entry, by its kind; a menu is left by opening another one."""
_ENTRIES = (*_WAYS_BACK, "menu")


class Detour(NamedTuple):
    """One lesson of a detour."""

    situation: Situation
    label: int
    weight: float
    left_app: int
    """Code of the icon of the app that it leaves; 0 if it leaves none."""


class _Place(NamedTuple):
    """The features of an entry that identify it in another attempt."""

    phone: bool
    title: str
    kind: str
    text: str


def detours(
    steps: Sequence[LessonStep], screens: Mapping[str, SeenScreen], reader: InputReader, share: float, seed: int
) -> list[Detour]:
    """Return the detours of some attempts.

    Args:
        steps: the steps of the attempts.
        screens: all screens of the steps, by id.
        reader: the reader that has read the requests of the steps.
        share: probability that a press on an entry is preceded by wrong ones.
        seed: of the draws.
    """
    draw = random.Random(seed)
    by_place = {(step.turn.trajectory_id, step.turn.step_index): step for step in steps}
    pairs = ((step, by_place.get((step.turn.trajectory_id, step.turn.step_index + 1))) for step in steps)
    following = [(step, after) for step, after in pairs if after is not None and _kind(step.chosen) in _ENTRIES]
    behind: dict[_Place, list[str]] = defaultdict(list)
    for step, after in following:
        behind[_place(step, step.chosen)].append(after.turn.screen_id)
    maker = _DetourMaker(screens, reader, behind, draw)
    return [
        lesson
        for step, after in following
        if after.chosen.verb in ("press", "open") and draw.random() < share
        for lesson in maker.lessons(step, after.chosen)
    ]


class _DetourMaker(NamedTuple):
    screens: Mapping[str, SeenScreen]
    reader: InputReader
    behind: Mapping[_Place, Sequence[str]]
    """Screens that attempts reached behind an entry."""
    draw: random.Random

    def lessons(self, step: LessonStep, sought: CandidateAction) -> Iterator[Detour]:
        """Yield the detours before a right step, after which `sought` was pressed."""
        kind = _kind(step.chosen)
        others = (each for each in step.policy_input.candidates if _kind(each) == kind)
        wrong = [each for each in others if each.text != step.chosen.text and _place(step, each) in self.behind]
        self.draw.shuffle(wrong)
        here, conclusions, returned = step.policy_input, list(step.user.conclusions), False
        for entry in wrong[: self.draw.randint(1, _MOST_WRONG)]:
            screen_id = self.draw.choice(self.behind[_place(step, entry)])
            pressed = [*conclusions, _conclusion(step, here, here.candidates.index(entry), conclusions)]
            there = self._read(step, screen_id, pressed)
            back = _way_back(step.chosen, there)
            if back is None or any((c.verb, c.text) == (sought.verb, sought.text) for c in there.candidates):
                continue
            yield Detour(there.situation, back, step.turn.weight, pair_code(entry) if kind == "icon" else 0)
            if kind == "menu":
                return
            conclusions = [*pressed, _conclusion(step, there, back, pressed)]
            here, returned = self._read(step, step.turn.screen_id, conclusions), True
        if returned:
            yield Detour(here.situation, here.candidates.index(step.chosen), step.turn.weight, 0)

    def _read(self, step: LessonStep, screen_id: str, conclusions: Sequence[str]) -> PolicyInput:
        screen, user = self.screens[screen_id], step.user._replace(conclusions=tuple(conclusions))
        return self.reader.read(user, screen_id, screen.size, screen.elements, phone=step.phone)


def _conclusion(step: LessonStep, here: PolicyInput, chosen: int, conclusions: Sequence[str]) -> str:
    user = step.user._replace(conclusions=tuple(conclusions))
    return reply_for(here, chosen, user, phone=step.phone).conclusion


def _way_back(right: CandidateAction, there: PolicyInput) -> int | None:
    """Return the index of the candidate that leads from behind a wrong entry towards the right one."""
    kinds = [_kind(each) for each in there.candidates]
    if _kind(right) == "menu":
        menus = (index for index, kind in enumerate(kinds) if kind == "menu")
        return next((index for index in menus if there.candidates[index].text == right.text), None)
    return next((kinds.index(kind) for kind in _WAYS_BACK[_kind(right)] if kind in kinds), None)


def _place(step: LessonStep, entry: CandidateAction) -> _Place:
    return _Place(step.phone, step.policy_input.title, _kind(entry), entry.text)


def _kind(candidate: CandidateAction) -> str:
    return KINDS[kind_of(candidate)]
