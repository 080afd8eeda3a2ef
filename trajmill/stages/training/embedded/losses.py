"""The two losses: supervised cross entropy, and the clipped trajectory-level objective of paper 3.1.2, equation 3.

A reply of the embedded policy is one choice, so the sum over a reply's tokens in equation 3 has one term.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def supervised_loss(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Weighted mean cross entropy.

    Args:
        logits: (rows, candidates), -inf where there is no candidate.
        labels: (rows,) index of the action to learn.
        weights: (rows,) at least 0.
    """
    losses = functional.cross_entropy(logits, labels, reduction="none")
    return (losses * weights).sum() / weights.sum().clamp(min=1e-8)


def chosen_log_probabilities(logits: Tensor, labels: Tensor) -> Tensor:
    """(rows,) log-probability of the chosen candidates."""
    return logits.log_softmax(-1).gather(1, labels[:, None]).squeeze(1)


def trajectory_loss(now: Tensor, before: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """Equation 3: the negative mean of min(r A, clip(r, 1 - e, 1 + e) A).

    Args:
        now: (rows,) log-probabilities under the policy that is trained.
        before: (rows,) log-probabilities under the policy that acted.
        advantages: (rows,) trajectory-level advantage times the step weight.
        clip: epsilon.
    """
    ratio = (now - before).exp()
    clipped = ratio.clamp(1 - clip, 1 + clip)
    return -torch.minimum(ratio * advantages, clipped * advantages).mean()
