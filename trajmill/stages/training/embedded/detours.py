"""Makes lessons in looking elsewhere: behind a wrong entry, what is sought is not there, so go back and try another.

Accepted attempts show the right way alone. A policy that has only seen these takes the first entry that fits a little
and works on in the wrong place, in an app that it does not know most of all. So a share of the presses on an icon, an
item of a list or a menu is preceded by up to two presses on its neighbours. Their screens are those that other attempts
saw behind them. The wrong press itself is not learned; the way back and the right press after it are.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.dialects.user_text import UserText
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
    """An entry of a screen, as far as it can be known again in another attempt."""

    phone: bool
    title: str
    kind: str
    text: str


def detours(
    steps: Sequence[LessonStep], screens: Mapping[str, SeenScreen], reader: InputReader, share: float, seed: int
) -> list[Detour]:
    """The detours of some attempts.

    Args:
        steps: the steps of the attempts.
        screens: all screens of the steps, by id.
        reader: reads requests as it did for the steps.
        share: chance that a press on an entry is preceded by wrong ones.
        seed: decides which, and by how many.
    """
    draw = random.Random(seed)
    following = _following(steps)
    behind: dict[_Place, list[str]] = defaultdict(list)
    for step, after in following:
        if _kind(step.chosen) in _ENTRIES:
            behind[_place(step, step.chosen)].append(after.turn.screen_id)
    maker = _DetourMaker(screens, reader, behind, draw)
    return [
        lesson
        for step, after in following
        if _kind(step.chosen) in _ENTRIES and after.chosen.verb in ("press", "open") and draw.random() < share
        for lesson in maker.lessons(step, after.chosen)
    ]


class _DetourMaker(NamedTuple):
    screens: Mapping[str, SeenScreen]
    reader: InputReader
    behind: Mapping[_Place, Sequence[str]]
    """Screens that attempts saw behind an entry."""
    draw: random.Random

    def lessons(self, step: LessonStep, sought: CandidateAction) -> Iterator[Detour]:
        """The detours before a right step, after which `sought` was pressed."""
        wrong = [each for each in _neighbours(step) if _place(step, each) in self.behind]
        self.draw.shuffle(wrong)
        here, conclusions, returned = step.policy_input, list(step.user.conclusions), False
        for entry in wrong[: self.draw.randint(1, _MOST_WRONG)]:
            screen_id = self.draw.choice(self.behind[_place(step, entry)])
            pressed = [*conclusions, _conclusion(step, here, _index(here, entry), conclusions)]
            there = self._read(step, screen_id, pressed)
            back = _way_back(step.chosen, there)
            if back is None or any((c.verb, c.text) == (sought.verb, sought.text) for c in there.candidates):
                continue
            leaves = pair_code(entry) if _kind(entry) == "icon" else 0
            yield Detour(there.situation, back, step.turn.weight, leaves)
            if _kind(entry) == "menu":
                return
            conclusions = [*pressed, _conclusion(step, there, back, pressed)]
            here, returned = self._read(step, step.turn.screen_id, conclusions), True
        if returned:
            yield Detour(here.situation, _index(here, step.chosen), step.turn.weight, 0)

    def _read(self, step: LessonStep, screen_id: str, conclusions: Sequence[str]) -> PolicyInput:
        screen = self.screens[screen_id]
        user = _user(step, conclusions)
        return self.reader.read(user, screen_id, screen.size, screen.elements, phone=step.phone)


def _user(step: LessonStep, conclusions: Sequence[str]) -> UserText:
    """Return the prompt of a step after another history."""
    return step.user._replace(conclusions=tuple(conclusions))


def _conclusion(step: LessonStep, here: PolicyInput, chosen: int, conclusions: Sequence[str]) -> str:
    return reply_for(here, chosen, _user(step, conclusions), phone=step.phone).conclusion


def _following(steps: Sequence[LessonStep]) -> list[tuple[LessonStep, LessonStep]]:
    """Each step with the next step of its attempt, where that is known."""
    by_place = {(step.turn.trajectory_id, step.turn.step_index): step for step in steps}
    pairs = ((step, by_place.get((step.turn.trajectory_id, step.turn.step_index + 1))) for step in steps)
    return [(step, after) for step, after in pairs if after is not None]


def _neighbours(step: LessonStep) -> list[CandidateAction]:
    """The entries of the same kind on its screen."""
    kind = _kind(step.chosen)
    return [each for each in step.policy_input.candidates if _kind(each) == kind and each.text != step.chosen.text]


def _way_back(right: CandidateAction, there: PolicyInput) -> int | None:
    """Index of the candidate that leads from behind a wrong entry towards the right one."""
    if _kind(right) == "menu":
        menus = (index for index, each in enumerate(there.candidates) if _kind(each) == "menu")
        return next((index for index in menus if there.candidates[index].text == right.text), None)
    ways = (index for kind in _WAYS_BACK[_kind(right)] for index, c in enumerate(there.candidates) if _kind(c) == kind)
    return next(ways, None)


def _index(here: PolicyInput, entry: CandidateAction) -> int:
    """Index of an entry on its own screen; states and values of elements do not depend on the history."""
    return here.candidates.index(entry)


def _place(step: LessonStep, entry: CandidateAction) -> _Place:
    return _Place(step.phone, step.policy_input.title, _kind(entry), entry.text)


def _kind(candidate: CandidateAction) -> str:
    return KINDS[kind_of(candidate)]
