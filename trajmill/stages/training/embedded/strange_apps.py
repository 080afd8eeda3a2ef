"""Makes apps look unknown for one update, so that the policy learns to work in apps that training never opens.

An app that training never uses stands on the launcher of every lesson. As one more wrong answer, the policy would learn
never to open it, even where the instruction says its name. So such an app looks different in every update, and a share
of the other apps looks unknown, too, with all words and entries that they have to themselves: the policy has to act on
what the instruction says and the screen shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from trajmill.stages.models.embedded.network.batch import Batch
from trajmill.stages.training.embedded.lesson_apps import App


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
