"""Guidance never becomes training data: what a policy is to learn is to do without (paper 6.4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from schemas.example import Example
from schemas.guidance import Guidance


class Leak(NamedTuple):
    """A training example in whose text guidance stands."""

    example_id: str
    guidance_id: str


def find_leaks(examples: Iterable[Example], guidance: Iterable[Guidance]) -> list[Leak]:
    """Examples that carry the text of a guidance of their query, in any message; there must be none.

    Lines are looked for with their number, so that a thought which happens to name the same button is no leak, and one
    that quotes its hints is.
    """
    by_query: dict[str, list[Guidance]] = {}
    for row in guidance:
        by_query.setdefault(row.query_id, []).append(row)
    return [
        Leak(example.example_id, row.guidance_id)
        for example in examples
        for row in by_query.get(example.query_id, [])
        if _stands_in(example, row.text)
    ]


def _stands_in(example: Example, text: str) -> bool:
    hints = {line.strip() for line in text.splitlines() if line.strip()}
    return any(hint in message.content for message in example.messages for hint in hints)
