"""Bounds how much a critic shows a model in one request."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from trajmill.schemas.record import Record


class ContextBudget(Record):
    """Bounds of one request."""

    screens: int = Field(default=24, ge=2)
    """Most screens in a request, as images or as captions."""
    tokens: int = Field(default=24_000, ge=1)
    """Most tokens of text and images together, as estimated here; the answer does not count."""


USUAL_BUDGET: Final = ContextBudget()
"""Leaves room for the answer in a context of 32 k tokens."""


def budget_of(context_tokens: int, images: int) -> ContextBudget:
    """The budget for a model's context; a quarter is left for the answer and for errors of the estimate."""
    return ContextBudget(screens=images, tokens=context_tokens * 3 // 4)
