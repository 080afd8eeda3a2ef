"""The rows of a query set."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Query


class NewQueries(NamedTuple):
    """The rows of a query set."""

    queries: tuple[Query, ...]
    failures: tuple[Failure, ...] = ()
    model_calls: tuple[ModelCall, ...] = ()

    def with_more(self, more: NewQueries) -> NewQueries:
        """These rows, followed by more."""
        return NewQueries(
            (*self.queries, *more.queries), (*self.failures, *more.failures), (*self.model_calls, *more.model_calls)
        )
