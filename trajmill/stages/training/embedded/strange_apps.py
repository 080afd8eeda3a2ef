"""Makes apps look unknown for one update, so that the policy learns to work in apps that training never opens.

An app that training never uses stands on the launcher of every lesson. As one more wrong answer, the policy would learn
never to open it, even where the instruction names it. So such an app looks different in every update, and a share of
the other apps looks unknown, too, with all words and entries that they have to themselves: only the instruction and the
screen are left to act on.
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
from trajmill.stages.training.embedded.lesson_steps import LessonStep

_ICON, _FINISH = KINDS.index("icon"), KINDS.index("finish")
_OWN_SHARE = 0.9
"""A word or code belongs to an app with at least this share of its appearances."""
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


class Disguised(NamedTuple):
    """A batch in which some apps look unknown."""

    batch: Batch
    vectors: Tensor
    """(words, width) vectors of all words."""


def strange_apps(apps: Sequence[App], share: float, draw: torch.Generator) -> list[App]:
    """Return the apps that training never uses, and each other app with the probability `share`."""
    chances = torch.rand(len(apps), generator=draw).tolist()
    return [app for app, chance in zip(apps, chances, strict=True) if not app.is_used or chance < share]


def disguise(batch: Batch, vectors: Tensor, strange: Sequence[App], draw: torch.Generator) -> Disguised:
    """Make apps look unknown.

    Their words get random vectors everywhere, and the memory of words, candidates and titles by their codes is cut.

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
    masked = replace(
        batch,
        codes=batch.codes.masked_fill(torch.isin(batch.codes, codes), 0),
        anchors=batch.anchors.masked_fill(torch.isin(batch.anchors, codes), 0),
        instruction_codes=batch.instruction_codes.masked_fill(is_said, 0),
    )
    return Disguised(masked, vectors.index_copy(0, words, random))


def apps_of(steps: Sequence[LessonStep]) -> tuple[App, ...]:
    """Return the apps on the launchers of some lessons, by the code of their icon."""
    apps_of_task, ends = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    words, codes = _Appearances(), _Appearances()
    launchers = {step.policy_input.title for step in steps if _ICON in step.policy_input.situation.kinds}
    icons: dict[str, tuple[int, list[int]]] = {}
    for step in steps:
        situation, instruction = step.policy_input.situation, step.user.instruction
        for at in (situation.kinds == _ICON).nonzero()[0].tolist():
            named = [word for word in situation.texts[at].tolist() if word]
            icons[step.policy_input.candidates[at].text] = int(situation.codes[at]), named
        # A step is taken in the app that was opened last.
        opened = (c.target for c in reversed(step.policy_input.conclusions) if c.title in launchers)
        app = "" if step.policy_input.title in launchers else next(opened, "")
        if not app:
            continue
        texts = (situation.title, situation.shown, situation.texts.ravel(), situation.fields.ravel())
        words.add(app, {word for each in texts for word in each.tolist()})
        codes.add(app, {*situation.codes.tolist(), int(situation.anchors[0])})
        apps_of_task[instruction].add(app)
        if situation.kinds[step.label] == _FINISH:
            ends[app].add(instruction)
    for step in steps:
        apps = list(apps_of_task[step.user.instruction])
        if len(apps) == 1:
            words.add(apps[0], set(step.policy_input.situation.instruction.tolist()))
    own_words, own_codes = words.own(), codes.own()
    return tuple(
        App(
            code,
            tuple(sorted({*named, *own_words[name]})),
            tuple(sorted(own_codes[name])),
            len(ends[name]) >= _LEAST_ENDS,
        )
        for name, (code, named) in sorted(icons.items(), key=lambda each: each[1][0])
    )


class _Appearances:
    """Counts in how many steps of each app a word or code appears."""

    def __init__(self) -> None:
        self._counts: dict[int, Counter[str]] = defaultdict(Counter)

    def add(self, app: str, shown: Iterable[int]) -> None:
        for each in shown:
            self._counts[each][app] += 1

    def own(self) -> Mapping[str, set[int]]:
        """Return the words or codes that belong to each app; 0 stands for nothing."""
        owned = defaultdict[str, set[int]](set)
        for each, counts in self._counts.items():
            app, most = counts.most_common(1)[0]
            if each and most >= _OWN_SHARE * counts.total():
                owned[app].add(each)
        return owned
