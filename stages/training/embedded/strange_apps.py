"""Makes apps look unknown for one update, so that the policy learns to find apps that training never opens.

An app that training never opens stands on the launcher of every lesson. As one more wrong answer, the policy would
learn never to open it, even where the instruction says its name. So such an app looks different in every update, and a
share of the apps that lessons do open looks unknown, too: the policy has to press an icon because the instruction says
its name or fits no other app.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from trajmill.stages.models.embedded.network.batch import Batch
from trajmill.stages.models.embedded.reading.features import KINDS
from trajmill.stages.training.embedded.lesson_batch import Lessons

_ICON = KINDS.index("icon")


class App(NamedTuple):
    """An app whose icon some lesson shows."""

    code: int
    """The code of its icon."""
    words: tuple[int, ...]
    """The ids of the words of its name."""
    is_opened: bool
    """Whether a lesson presses its icon."""


class Disguised(NamedTuple):
    """A batch in which some apps look unknown."""

    batch: Batch
    vectors: Tensor
    """(words, width) vectors of all words."""


def apps_of(lessons: Lessons) -> tuple[App, ...]:
    """The apps on the launchers of some lessons, by code."""
    shown = lessons.situations
    chosen = lessons.labels[:, None]
    pressed = shown.codes.gather(1, chosen)[shown.kinds.gather(1, chosen) == _ICON]
    opened = set(pressed.tolist())
    is_icon = (shown.kinds == _ICON) & shown.exists
    names = dict(zip(shown.codes[is_icon].tolist(), shown.texts[is_icon].tolist(), strict=True))
    return tuple(
        App(code, tuple(word for word in words if word), code in opened) for code, words in sorted(names.items())
    )


def disguise(batch: Batch, vectors: Tensor, apps: tuple[App, ...], share: float, draw: torch.Generator) -> Disguised:
    """Give apps that no lesson opens, and each other app with a chance, names that the policy does not know.

    The words of such a name get random vectors, wherever they stand, and the memory of pairs ignores them and the icon.

    Args:
        batch: some situations.
        vectors: (words, width) vectors of the words of all situations.
        apps: the apps on the launchers of all situations.
        share: chance of an app that lessons open.
        draw: decides which, and draws the vectors.
    """
    chances = torch.rand(len(apps), generator=draw).tolist()
    strange = [app for app, chance in zip(apps, chances, strict=True) if not app.is_opened or chance < share]
    if not strange:
        return Disguised(batch, vectors)
    words = torch.tensor(sorted({word for app in strange for word in app.words}))
    spread = vectors.detach().std()
    random = torch.randn(len(words), vectors.shape[1], generator=draw).to(vectors.dtype) * spread
    is_strange = torch.isin(batch.codes, torch.tensor([app.code for app in strange])) & (batch.kinds == _ICON)
    is_said = torch.isin(batch.instruction, words.to(batch.instruction.dtype))
    return Disguised(
        replace(
            batch,
            codes=batch.codes.masked_fill(is_strange, 0),
            instruction_codes=batch.instruction_codes.masked_fill(is_said, 0),
        ),
        vectors.index_copy(0, words, random),
    )
