"""Samples tokens for a batch in which each row has its own temperature, seed and length."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import LogitsProcessor, StoppingCriteria

from trajmill.stages.models.base import ChatRequest


class RowSampling(NamedTuple):
    """How one row of a batch is sampled."""

    temperature: float
    """0 takes the most likely token."""
    top_p: float
    seed: int
    max_tokens: int
    top_logprobs: int
    """0 records no log probabilities."""


class TokenChoice(NamedTuple):
    """A chosen token and the most likely ones at its position, as ids with log probabilities."""

    token: int
    logprob: float
    candidates: tuple[tuple[int, float], ...]


class SeededSampling(LogitsProcessor):
    """Chooses the next token of each row and makes all other tokens impossible.

    Each row uses one own random number for each token, so its samples do not depend on the other rows. Only rounding
    errors of its logits depend on the size of the batch, which rarely changes a choice.
    """

    def __init__(self, rows: Sequence[RowSampling]) -> None:
        self._rows = rows
        self._draws = [random.Random(row.seed) for row in rows]
        self.choices: list[list[TokenChoice]] = [[] for _ in rows]
        """The choices of each row, token by token; empty for rows that ask for no log probabilities."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Logits (rows, vocabulary): 0 at the chosen tokens and minus infinity elsewhere."""
        chosen = scores.argmax(-1)
        sampled = [at for at, row in enumerate(self._rows) if row.temperature > 0]
        if sampled:
            chosen[sampled] = self._sample(scores[sampled], sampled)
        self._record(scores, chosen)
        only: Tensor = torch.full_like(scores, -torch.inf).scatter_(1, chosen[:, None], 0.0)
        return only

    def _sample(self, scores: Tensor, places: Sequence[int]) -> Tensor:
        rows = [self._rows[at] for at in places]
        temperatures = torch.tensor([row.temperature for row in rows], device=scores.device)[:, None]
        top_p = torch.tensor([row.top_p for row in rows], device=scores.device)[:, None]
        draws = torch.tensor([self._draws[at].random() for at in places], device=scores.device)[:, None]
        probabilities, tokens = (scores.float() / temperatures).softmax(-1).sort(dim=-1, descending=True, stable=True)
        before = probabilities.cumsum(-1) - probabilities
        kept = torch.where(before < top_p, probabilities, 0.0).cumsum(-1)
        place = torch.searchsorted(kept, draws * kept[:, -1:], right=True).clamp(max=kept.shape[1] - 1)
        # After the last kept token the sum is constant; rounding must not choose a token from there.
        last = (before < top_p).sum(-1, keepdim=True) - 1
        drawn: Tensor = tokens.gather(1, torch.minimum(place, last)).squeeze(1)
        return drawn

    def _record(self, scores: Tensor, chosen: Tensor) -> None:
        asked = [at for at, row in enumerate(self._rows) if row.top_logprobs > 0]
        if not asked:
            return
        logprobs = scores[asked].float().log_softmax(-1)
        best = logprobs.topk(min(max(self._rows[at].top_logprobs for at in asked), logprobs.shape[1]))
        own = logprobs.gather(1, chosen[asked][:, None]).squeeze(1).tolist()
        for at, logprob, values, tokens in zip(asked, own, best.values.tolist(), best.indices.tolist(), strict=True):
            candidates = tuple(zip(tokens, values, strict=True))[: self._rows[at].top_logprobs]
            self.choices[at].append(TokenChoice(int(chosen[at]), logprob, candidates))


class RowLimits(StoppingCriteria):
    """Ends each row at its own `max_tokens`."""

    def __init__(self, rows: Sequence[RowSampling], prompt_length: int) -> None:
        self._limits = torch.tensor([row.max_tokens for row in rows])
        self._prompt_length = prompt_length

    def __call__(self, input_ids: Tensor, scores: Tensor, **_: object) -> Tensor:
        """Whether each row is finished."""
        return (input_ids.shape[1] - self._prompt_length >= self._limits).to(input_ids.device)


def rows_of(request: ChatRequest) -> list[RowSampling]:
    """One row for each sample of a request, with consecutive seeds, as in vLLM."""
    return [
        RowSampling(request.temperature, request.top_p, request.seed + at, request.max_tokens, request.top_logprobs)
        for at in range(request.n)
    ]
