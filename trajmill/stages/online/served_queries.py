"""The queries that trainers may ask for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.nearest import instead_of
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Query, Split


class ServedQueries:
    """The queries of some splits, in order of id; no others are served."""

    def __init__(self, queries: Iterable[Query], splits: Collection[Split]) -> None:
        """Choose from all queries of a run.

        Raises:
            BadInputError: these splits have no queries.
        """
        self._all = {query.query_id: query for query in sorted(queries, key=lambda query: query.query_id)}
        self.by_split: dict[Split, Sequence[Query]] = {
            split: [query for query in self._all.values() if query.split is split] for split in splits
        }
        self._served = [query for of_split in self.by_split.values() for query in of_split]
        if not self._served:
            raise BadInputError(f"no query is of split {', '.join(splits)}; {instead_of('', self._splits())}")

    def find(self, query_id: str) -> Query:
        """The query with an id.

        Raises:
            BadInputError: there is none, or its split is not served.
        """
        query = self._all.get(query_id)
        if query is None:
            raise BadInputError(f"no query has the id {query_id!r:.60}; the task list names those that are served")
        if query.split not in self.by_split:
            raise BadInputError(
                f"query {query_id} is of split {query.split}, which is not served; serve it with --split"
            )
        return query

    def at(self, number: int) -> Query:
        """A pseudo-random query; equal numbers give equal queries."""
        return self._served[int(content_id("online query", number), 16) % len(self._served)]

    def _splits(self) -> list[str]:
        return sorted({query.split.value for query in self._all.values()})
