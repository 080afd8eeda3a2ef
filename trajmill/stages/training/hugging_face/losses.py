"""The losses over the tokens of replies: weighted cross entropy, and equation 3 of paper 3.1.2.

All are sums. The caller divides by the tokens of the whole update, which may have several batches and devices.
"""

from __future__ import annotations

import torch
from torch import Tensor


def token_log_probs(logits: Tensor, tokens: Tensor) -> Tensor:
    """Return the log probabilities of the tokens, (rows, tokens), at least in single precision.

    Args:
        logits: (rows, tokens, vocabulary), the logits that predict each token.
        tokens: (rows, tokens) ids.
    """
    exact = logits if logits.dtype is torch.float64 else logits.float()
    return exact.gather(-1, tokens[..., None]).squeeze(-1) - exact.logsumexp(-1)


def supervised_sum(log_probs: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
    """Return the sum of the tokens' cross entropy, each times the weight of its row.

    Args:
        log_probs: (rows, tokens).
        mask: (rows, tokens) 1 for a token, 0 for padding.
        weights: (rows,) at least 0.
    """
    return -(log_probs * mask * weights[:, None]).sum()


def clipped_sum(now: Tensor, old: Tensor, mask: Tensor, advantages: Tensor, weights: Tensor, clip: float) -> Tensor:
    """The sum in equation 3: of -min(r A, clip(r, 1 - e, 1 + e) A) over all tokens, each times its step's weight.

    Args:
        now: (rows, tokens) log probabilities under the policy that is trained.
        old: (rows, tokens) log probabilities under the policy that gave the replies.
        mask: (rows, tokens) 1 for a token, 0 for padding.
        advantages: (rows,) advantage of each step's trajectory.
        weights: (rows,) step weights: one over the length of their trajectory, or 1.
        clip: epsilon.
    """
    # Padding has no ratio: it must not overflow, because infinity times 0 is NaN.
    ratio = ((now - old) * mask).exp()
    clipped = ratio.clamp(1 - clip, 1 + clip)
    gain = torch.minimum(ratio * advantages[:, None], clipped * advantages[:, None])
    return -(gain * mask * weights[:, None]).sum()


def divergence_sum(now: Tensor, reference: Tensor, mask: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the sum of the tokens' divergence from a reference policy: exp(d) - d - 1 with d = reference - now.

    It is never negative, and its expectation over the policy's own tokens is the Kullback-Leibler divergence.

    Args:
        now: (rows, tokens) log probabilities under the policy that is trained.
        reference: (rows, tokens) log probabilities under the reference policy.
        mask: (rows, tokens) 1 for a token, 0 for padding.
        weights: (rows,) factors of the rows; None for 1.
    """
    difference = (reference - now) * mask
    tokens = difference.exp() - difference - 1
    return (tokens if weights is None else tokens * weights[:, None]).sum()


def clipped_tokens(now: Tensor, old: Tensor, mask: Tensor, clip: float) -> Tensor:
    """Return the number of tokens whose ratio is outside the clip range."""
    ratio = ((now - old) * mask).exp()
    return (((ratio - 1).abs() > clip) * mask).sum()
