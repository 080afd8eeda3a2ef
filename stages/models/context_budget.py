"""The room for one request to a model."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from trajmill.schemas.record import Record


class ContextBudget(Record):
    """The room for one request."""

    screens: int = Field(default=24, ge=2)
    """Most screens in it, as pictures or as captions."""
    tokens: int = Field(default=24_000, ge=1)
    """Most tokens of text and pictures together, as estimated here; the answer is not among them."""


USUAL_BUDGET: Final = ContextBudget()
"""Leaves room for the answer in a context of 32 k tokens."""


def budget_of(context_tokens: int, images: int) -> ContextBudget:
    """The room in a model's context: a quarter of it is left for the answer and for what the estimate misses."""
    return ContextBudget(screens=images, tokens=context_tokens * 3 // 4)
