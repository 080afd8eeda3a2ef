"""Finds the apps of some lessons, and the words and codes that each has to itself."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from trajmill.stages.models.embedded.reading.features import KINDS
from trajmill.stages.models.embedded.reading.situation import Situation
from trajmill.stages.training.embedded.lesson_steps import LessonStep

_ICON, _FINISH = KINDS.index("icon"), KINDS.index("finish")
_OWN_SHARE = 0.9
"""A word or code belongs to an app that has at least so large a share of its appearances."""
_LEAST_ENDS = 2
"""An app is used if attempts at so many instructions end in it; a single attempt may have opened it by mistake."""


class App(NamedTuple):
    """An app whose icon some lesson shows."""

    icon: int
    """The code of its icon."""
    words: tuple[int, ...]
    """The ids of the words of its name, and of those that hardly appear in other apps and their instructions."""
    codes: tuple[int, ...]
    """The codes of the candidates and titles that hardly appear in other apps."""
    is_used: bool
    """Whether attempts end in it."""


class _Icon(NamedTuple):
    code: int
    words: tuple[int, ...]


def apps_of(steps: Sequence[LessonStep]) -> tuple[App, ...]:
    """The apps on the launchers of some lessons, by the code of their icon."""
    places = _places(steps)
    apps_of_task, ends = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    words, codes = _Appearances(), _Appearances()
    for step, app in zip(steps, places, strict=True):
        if not app:
            continue
        situation = step.policy_input.situation
        words.add(app, _words_shown(situation))
        codes.add(app, {*situation.codes.tolist(), int(situation.anchors[0])})
        apps_of_task[step.user.instruction].add(app)
        if situation.kinds[step.label] == _FINISH:
            ends[app].add(step.user.instruction)
    for step in steps:
        apps = list(apps_of_task[step.user.instruction])
        if len(apps) == 1:
            words.add(apps[0], set(step.policy_input.situation.instruction.tolist()))
    own_words, own_codes = words.own(), codes.own()
    return tuple(
        App(
            icon.code,
            tuple(sorted({*icon.words, *own_words[name]})),
            tuple(sorted(own_codes[name])),
            len(ends[name]) >= _LEAST_ENDS,
        )
        for name, icon in sorted(_icons(steps).items(), key=lambda each: each[1].code)
    )


def _icons(steps: Sequence[LessonStep]) -> dict[str, _Icon]:
    """The icons on the launchers, by their text."""
    icons = {}
    for step in steps:
        situation = step.policy_input.situation
        for at in (situation.kinds == _ICON).nonzero()[0].tolist():
            words = tuple(word for word in situation.texts[at].tolist() if word)
            icons[step.policy_input.candidates[at].text] = _Icon(int(situation.codes[at]), words)
    return icons


def _places(steps: Sequence[LessonStep]) -> list[str]:
    """The app in which each step is taken: the last one that was opened; empty on a launcher."""
    launchers = {step.policy_input.title for step in steps if _ICON in step.policy_input.situation.kinds}

    def place(step: LessonStep) -> str:
        opened = (c.target for c in reversed(step.policy_input.conclusions) if c.title in launchers)
        return "" if step.policy_input.title in launchers else next(opened, "")

    return [place(step) for step in steps]


def _words_shown(situation: Situation) -> set[int]:
    return {
        *situation.title.tolist(),
        *situation.shown.tolist(),
        *situation.texts.ravel().tolist(),
        *situation.fields.ravel().tolist(),
    }


class _Appearances:
    """Counts in how many steps of each app a word or code appears."""

    def __init__(self) -> None:
        self._counts: dict[int, Counter[str]] = defaultdict(Counter)

    def add(self, app: str, shown: Iterable[int]) -> None:
        """Count what one step shows; 0 stands for nothing."""
        for each in shown:
            self._counts[each][app] += 1

    def own(self) -> Mapping[str, set[int]]:
        """What belongs to each app."""
        owned = defaultdict[str, set[int]](set)
        for each, counts in self._counts.items():
            app, most = counts.most_common(1)[0]
            if each and most >= _OWN_SHARE * counts.total():
                owned[app].add(each)
        return owned
