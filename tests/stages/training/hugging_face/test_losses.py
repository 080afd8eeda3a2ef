"""The objectives against a reference in double precision, written from the equations token by token."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from trajmill.stages.training.hugging_face.encoding import (
    ReplyBatch,
    clipped_sum,
    clipped_tokens,
    divergence_sum,
    supervised_sum,
    token_log_probs,
)
from trajmill.stages.training.hugging_face.run import WholeUpdateLoss

CLIP = 0.2
LENGTHS = (3, 1, 5, 2)
ADVANTAGES = (1.25, -0.75, -0.5, 0.0)
WEIGHTS = (1.0, 0.25, 1 / 3, 0.5)
WORDS = 7


class Replies(NamedTuple):
    logits: Tensor
    tokens: Tensor
    old: Tensor
    mask: Tensor


def replies(seed: int = 0) -> Replies:
    """Replies of several lengths, aligned to the right; the values in the padding must have no effect."""
    draw = torch.Generator().manual_seed(seed)
    rows, longest = len(LENGTHS), max(LENGTHS)
    logits = torch.randn(rows, longest, WORDS, generator=draw, dtype=torch.float64)
    tokens = torch.randint(WORDS, (rows, longest), generator=draw)
    now = logits.log_softmax(-1).gather(-1, tokens[..., None]).squeeze(-1)
    # Ratios on both sides of the range, and within it.
    old = now + 0.5 * torch.randn(rows, longest, generator=draw, dtype=torch.float64)
    mask = torch.tensor([[0.0] * (longest - length) + [1.0] * length for length in LENGTHS], dtype=torch.float64)
    old[mask == 0] = -700.0
    return Replies(logits, tokens, old, mask)


def written_out(made: Replies, term: Callable[[int, float, float], float]) -> float:
    total = 0.0
    for row, length in enumerate(LENGTHS):
        for place in range(max(LENGTHS) - length, max(LENGTHS)):
            numbers: Sequence[float] = made.logits[row, place].tolist()
            norm = math.log(math.fsum(math.exp(each) for each in numbers))
            total += term(row, numbers[int(made.tokens[row, place])] - norm, float(made.old[row, place]))
    return total


def test_equation_3() -> None:
    made = replies()

    def term(row: int, now: float, old: float) -> float:
        ratio, advantage = math.exp(now - old), ADVANTAGES[row]
        clipped = min(max(ratio, 1 - CLIP), 1 + CLIP)
        return -WEIGHTS[row] * min(ratio * advantage, clipped * advantage)

    now = token_log_probs(made.logits, made.tokens)
    advantages, weights = torch.tensor(ADVANTAGES).double(), torch.tensor(WEIGHTS, dtype=torch.float64)
    loss = clipped_sum(now, made.old, made.mask, advantages, weights, CLIP)
    assert loss.item() == pytest.approx(written_out(made, term), rel=1e-12)
    outside = written_out(made, lambda _, now, old: float(abs(math.exp(now - old) - 1) > CLIP))
    assert clipped_tokens(now, made.old, made.mask, CLIP).item() == outside > 0


def test_the_objective_of_execution_feedback() -> None:
    """Equation 3 of CODA, and 4 of CES token by token: each reply counts by the mean over its tokens."""
    made, beta = replies(5), 0.04

    def term(row: int, now: float, old: float) -> float:
        ratio, advantage = math.exp(now - old), ADVANTAGES[row]
        gain = min(ratio * advantage, min(max(ratio, 1 - CLIP), 1 + CLIP) * advantage)
        away = math.exp(old - now) - 1 - (old - now)
        return -(gain - beta * away) / LENGTHS[row] / len(LENGTHS)

    now = token_log_probs(made.logits, made.tokens)
    weights = torch.tensor([1 / length for length in LENGTHS], dtype=torch.float64)
    clipped = clipped_sum(now, made.old, made.mask, torch.tensor(ADVANTAGES).double(), weights, CLIP)
    away = divergence_sum(now, made.old, made.mask, weights)
    loss = (clipped + beta * away) / len(LENGTHS)
    assert loss.item() == pytest.approx(written_out(made, term), rel=1e-12)


def test_weighted_cross_entropy() -> None:
    made = replies(1)
    weights = torch.tensor(WEIGHTS, dtype=torch.float64)
    loss = supervised_sum(token_log_probs(made.logits, made.tokens), made.mask, weights)
    assert loss.item() == pytest.approx(written_out(made, lambda row, now, _: -WEIGHTS[row] * now), rel=1e-12)


def test_the_divergence_is_never_negative_and_0_from_itself() -> None:
    made = replies(2)
    now = token_log_probs(made.logits, made.tokens)
    found = divergence_sum(now, made.old, made.mask).item()
    assert found == pytest.approx(written_out(made, lambda _, now, old: math.exp(old - now) - (old - now) - 1))
    assert found > 0
    assert divergence_sum(now, now, made.mask).item() == 0


@pytest.mark.parametrize(
    ("ratio", "advantage", "moves"), [(1.5, 1.0, False), (1.5, -1.0, True), (0.5, 1.0, True), (0.5, -1.0, False)]
)
def test_a_gain_beyond_the_clip_range_pulls_no_further(ratio: float, advantage: float, moves: bool) -> None:
    now = torch.tensor([[math.log(ratio)]], dtype=torch.float64, requires_grad=True)
    one = torch.ones(1, 1, dtype=torch.float64)
    clipped_sum(now, torch.zeros_like(one), one, torch.tensor([advantage]).double(), one[0], CLIP).backward()  # type: ignore[no-untyped-call]
    assert now.grad is not None
    assert (now.grad.item() != 0) == moves


def test_padding_that_would_overflow_does_not() -> None:
    now = torch.tensor([[-1.0, -1.0]], requires_grad=True)
    old, mask = torch.tensor([[-1e4, -1.0]]), torch.tensor([[0.0, 1.0]])
    loss = clipped_sum(now, old, mask, torch.ones(1), torch.ones(1), CLIP)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == -1.0 and now.grad is not None and now.grad.isfinite().all()


def test_an_update_without_a_token_to_learn_is_divided_by_no_zero() -> None:
    class Batches:
        accelerator = SimpleNamespace(gather=lambda value: value)

        def get_batch_samples(self, batches: Any, count: int, device: torch.device) -> tuple[list[Any], None]:
            return list(batches), None

    class Tokens(WholeUpdateLoss, Batches):  # type: ignore[misc]
        def divisor(self, batch: ReplyBatch) -> Tensor:
            return batch.mask.sum()

    for tokens, divisor in (([3.0, 4.0], 7.0), ([0.0, 0.0], 1.0)):
        batches = [dict.fromkeys(ReplyBatch._fields) | {"mask": torch.tensor([each])} for each in tokens]
        assert Tokens().get_batch_samples(iter(batches), 2, torch.device("cpu"))[1] == divisor
