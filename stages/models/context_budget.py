"""How much a critic may show a model in one request."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from trajmill.schemas.record import Record


class ContextBudget(Record):
    """Bounds of what one request may hold."""

    screens: int = Field(default=24, ge=2)
    """Largest number of screens in a request, as pictures or as captions."""
    tokens: int = Field(default=24_000, ge=1)
    """Largest number of tokens of text and pictures together, as estimated here. The answer is not counted."""


USUAL_BUDGET: Final = ContextBudget()
"""Leaves room for the answer in a context of 32 k tokens."""


def budget_of(context_tokens: int, images: int) -> ContextBudget:
    """The budget for a model's context. A quarter is left for the answer and for errors of the estimate."""
    return ContextBudget(screens=images, tokens=context_tokens * 3 // 4)
