"""The objectives of the embedded policy against a reference in double precision, written from the equations."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from trajmill.stages.training.embedded.train import chosen_log_probabilities, supervised_loss, trajectory_loss

pytestmark = pytest.mark.slow

CLIP = 0.2
CANDIDATES = (4, 1, 3, 2)
"""Actions that each row has to choose from; the others of the table are none."""
CHOSEN = (2, 0, 1, 1)
ADVANTAGES = (1.25, -0.75, -0.5, 0.0)
WEIGHTS = (3.0, 0.25, 1 / 3, 0.0)


def logits(seed: int) -> Tensor:
    drawn = torch.randn(
        len(CANDIDATES), max(CANDIDATES), generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    present = torch.arange(max(CANDIDATES)) < torch.tensor(CANDIDATES)[:, None]
    return drawn.masked_fill(~present, -torch.inf)


def log_probability(scores: Tensor, row: int) -> float:
    numbers: list[float] = scores[row, : CANDIDATES[row]].tolist()
    return numbers[CHOSEN[row]] - math.log(math.fsum(map(math.exp, numbers)))


def test_equation_3() -> None:
    now, before = logits(0), logits(1)
    terms = []
    for row, advantage in enumerate(ADVANTAGES):
        ratio = math.exp(log_probability(now, row) - log_probability(before, row))
        terms.append(min(ratio * advantage, min(max(ratio, 1 - CLIP), 1 + CLIP) * advantage))
    chosen = torch.tensor(CHOSEN)
    loss = trajectory_loss(
        chosen_log_probabilities(now, chosen),
        chosen_log_probabilities(before, chosen),
        torch.tensor(ADVANTAGES, dtype=torch.float64),
        CLIP,
    )
    assert loss.item() == pytest.approx(-math.fsum(terms) / len(terms), rel=1e-12)


def test_the_supervised_loss_is_a_weighted_mean() -> None:
    scores = logits(2)
    total = math.fsum(-weight * log_probability(scores, row) for row, weight in enumerate(WEIGHTS))
    loss = supervised_loss(scores, torch.tensor(CHOSEN), torch.tensor(WEIGHTS, dtype=torch.float64))
    assert loss.item() == pytest.approx(total / math.fsum(WEIGHTS), rel=1e-12)
