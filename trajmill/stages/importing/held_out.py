"""Refuses imports of held-out instructions and apps as training data."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Self

from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.queries.leaks import comparable, has_own_words


@dataclass(frozen=True)
class HeldOut:
    """The instructions and apps that nothing may be learned from."""

    instructions: frozenset[str]
    apps: frozenset[str]

    @classmethod
    def of(cls, queries: Iterable[Query], apps: Collection[str]) -> Self:
        """What some queries and apps hold out."""
        return cls(
            frozenset(
                comparable(query.instruction)
                for query in queries
                if query.split is not Split.TRAIN and has_own_words(query)
            ),
            frozenset(apps),
        )

    def reason(self, query: Query) -> str:
        """Why a query may not be learned from; empty if it may."""
        if comparable(query.instruction) in self.instructions:
            return "its instruction is that of a held-out query"
        held = sorted(self.apps.intersection(query.apps))
        return f"its app {held[0]!r} is held out" if held else ""
