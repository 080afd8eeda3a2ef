"""The filters of attempts, as a query string has them and as SQL with bound parameters."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import Field

from trajmill.schemas.record import Record

FACETS = {
    "run": "run_id",
    "round": "round",
    "purpose": "purpose",
    "split": "split",
    "outcome": "outcome",
    "judged": "judged",
    "disagreement": "disagreement",
    "failure": "failure_class",
    "stop": "stop_reason",
    "app": "apps",
    "task": "task",
    "platform": "platform",
    "difficulty": "difficulty",
    "source": "source",
    "agent": "agent",
    "policy": "model_version",
}
"""The column of table `attempts` for each filter of values."""
LISTS = frozenset({"app", "disagreement"})
"""Filters whose column has several values in a row."""
NUMBERS = frozenset({"round", "difficulty"})
"""Filters whose values are numbers."""
_MOST_CHARACTERS = 200


class AttemptFilter(Record):
    """Which attempts are meant: those with one of the values of each filter that has any."""

    run: list[str] = []
    round: list[int] = []
    purpose: list[str] = []
    split: list[str] = []
    outcome: list[str] = []
    judged: list[str] = []
    disagreement: list[str] = []
    failure: list[str] = []
    stop: list[str] = []
    app: list[str] = []
    task: list[str] = []
    platform: list[str] = []
    difficulty: list[int] = []
    source: list[str] = []
    agent: list[str] = []
    policy: list[str] = []
    query: str = ""
    """Id of a query."""
    text: str = Field(default="", max_length=_MOST_CHARACTERS)
    """Part of the instruction, the task, the answer or the failure, or the start of an id; case does not matter."""

    def condition(self) -> Condition:
        """All filters as SQL."""
        parts = [self.text_condition(), *self.value_conditions().values()]
        parameters = [value for part in parts for value in part.parameters]
        return Condition(" AND ".join(part.sql for part in parts), parameters)

    def value_conditions(self) -> dict[str, Condition]:
        """The filters that have values, each as SQL."""
        return {
            name: Condition(f"list_has_any({column}, ?)" if name in LISTS else f"list_contains(?, {column})", [values])
            for name, column in FACETS.items()
            if (values := getattr(self, name))
        }

    def text_condition(self) -> Condition:
        """The filters of texts."""
        parts, parameters = ["true"], list[object]()
        if self.query:
            parts.append("query_id = ?")
            parameters.append(self.query)
        if self.text:
            parts.append("(contains(searched, lower(?)) OR starts_with(trajectory_id, ?) OR starts_with(query_id, ?))")
            parameters += [self.text] * 3
        return Condition(" AND ".join(parts), parameters)


class Condition(NamedTuple):
    """A condition of table `attempts`."""

    sql: str
    """Made of column names of this module alone; values are `?`."""
    parameters: list[object]
