"""Makes apps look unknown for one update, so that the policy learns to work in apps that training never opens.

An app that training never uses stands on the launcher of every lesson. As one more wrong answer, the policy would learn
never to open it, even where the instruction says its name. So such an app looks different in every update, and a share
of the other apps looks unknown, too, with all words and entries that they have to themselves: the policy has to act on
what the instruction says and the screen shows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from trajmill.stages.models.embedded.candidates import KINDS
from trajmill.stages.models.embedded.network_inputs import Batch
from trajmill.stages.models.embedded.situation import Situation
from trajmill.stages.training.embedded.lesson_steps import LessonStep


class Disguised(NamedTuple):
    """A batch in which some apps look unknown."""

    batch: Batch
    vectors: Tensor
    """(words, width) vectors of all words."""


def strange_apps(apps: Sequence[App], share: float, draw: torch.Generator) -> list[App]:
    """The apps that training never uses, and each other app with a chance.

    Args:
        apps: the apps on the launchers of all lessons.
        share: chance of an app that training uses.
        draw: decides which.
    """
    chances = torch.rand(len(apps), generator=draw).tolist()
    return [app for app, chance in zip(apps, chances, strict=True) if not app.is_used or chance < share]


def disguise(batch: Batch, vectors: Tensor, strange: Sequence[App], draw: torch.Generator) -> Disguised:
    """Make apps look unknown.

    Their words get random vectors, wherever they stand, and what is remembered of words, candidates and titles by their
    codes is not recalled.

    Args:
        batch: some situations.
        vectors: (words, width) vectors of the words of all situations.
        strange: the apps.
        draw: draws the vectors.
    """
    words = torch.tensor(sorted({word for app in strange for word in app.words}), dtype=torch.long)
    codes = torch.tensor(sorted({code for app in strange for code in (app.icon, *app.codes)}), dtype=torch.long)
    spread = vectors.detach().std()
    random = torch.randn(len(words), vectors.shape[1], generator=draw).to(vectors.dtype) * spread
    is_said = torch.isin(batch.instruction, words.to(batch.instruction.dtype))
    return Disguised(
        replace(
            batch,
            codes=batch.codes.masked_fill(torch.isin(batch.codes, codes), 0),
            anchors=batch.anchors.masked_fill(torch.isin(batch.anchors, codes), 0),
            instruction_codes=batch.instruction_codes.masked_fill(is_said, 0),
        ),
        vectors.index_copy(0, words, random),
    )


_ICON, _FINISH = KINDS.index("icon"), KINDS.index("finish")
_OWN_SHARE = 0.9
"""A word or code belongs to an app that has at least so large a share of its appearances."""
_LEAST_ENDS = 2
"""An app is used if attempts at this many instructions end in it; one attempt may have opened it by mistake."""


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
