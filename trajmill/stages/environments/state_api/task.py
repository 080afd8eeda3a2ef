"""The tasks for applications with a state API: a state to start from, and the changes that are the goal."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field, JsonValue, StringConstraints, field_validator, model_validator

from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments import difference
from trajmill.stages.environments.browser.task import BrowserStart
from trajmill.stages.environments.difference import ABSENT, ANY, Outcome, Path, covers, is_same
from trajmill.stages.environments.tasks import TaskLine

MOST_STATE_BYTES = 2_000_000
"""Largest state of a task; each of its queries stores it."""
Key = Annotated[str, StringConstraints(min_length=1)]
AnyPath = Annotated[str, StringConstraints(min_length=1)] | Annotated[tuple[Key, ...], Field(min_length=1)]


class StateStart(BrowserStart):
    """`Query.start_state` of a query for a state API, as JSON."""

    state: dict[str, JsonValue] | None = None
    """State that the session starts with; by default the application's own."""

    @field_validator("state")
    @classmethod
    def _refuse_large_states(cls, state: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        if (size := len(json.dumps(state))) > MOST_STATE_BYTES:
            raise ValueError(f"a state of {size:,} bytes; the most are {MOST_STATE_BYTES:,}")
        return state


class StateChange(Record):
    """One change that the goal wants; values that were so from the start do not count."""

    path: AnyPath
    """Keys with dots between them, or a list of keys; `*` stands for any key. Items of lists by id, else by number."""
    to: JsonValue = None
    """The new value."""
    contains: str | None = None
    """A part of the new text."""
    added: dict[str, JsonValue] | None = None
    """Fields of an object that was not there."""
    removed: bool = False
    """Whether what was there is gone."""

    @model_validator(mode="after")
    def _refuse_unclear_changes(self) -> StateChange:
        kinds = ("to", "contains", "added", "removed")
        said = [key for key in kinds if key in self.model_fields_set]
        if len(said) != 1 or (said == ["removed"] and not self.removed):
            raise ValueError("a change has exactly one of the keys to, contains, added and removed")
        return self

    @property
    def keys(self) -> Path:
        return keys_of(self.path)

    def found(self, before: Any, after: Any) -> list[Path]:
        return [
            each.path for each in difference.matches(self.keys, before, after) if self._holds(each.before, each.after)
        ]

    def _holds(self, before: Any, after: Any) -> bool:
        if self.removed:
            return before is not ABSENT and after is ABSENT
        if self.added is not None:
            fields = after if isinstance(after, dict) else {}
            agree = (is_same(value, fields.get(key, ABSENT)) for key, value in self.added.items())
            return before is ABSENT and after is not ABSENT and all(agree)
        if self.contains is not None:
            return isinstance(after, str) and self.contains in after and before != after
        return is_same(self.to, after) and not is_same(before, after)


class StateGoal(Record):
    """`Query.goal` of a query for a state API, as JSON; without changes there is no programmatic check."""

    changes: tuple[StateChange, ...] = ()
    """All must have been made."""
    allowed: tuple[AnyPath, ...] = ()
    """What may change besides, with all below it: views, drafts, times of the last visit."""

    def outcome(self, before: Any, after: Any) -> Outcome:
        """Compare a state with that at the start; each change needs a place of its own."""
        anywhere = [change for change in self.changes if ANY in change.keys]
        fixed = [change for change in self.changes if ANY not in change.keys]
        chosen = difference.assign([change.found(before, after) for change in anywhere])
        reached = None not in chosen and all(change.found(before, after) for change in fixed)
        named = [*(path for path in chosen if path), *(change.keys for change in fixed)]
        allowed = tuple(map(keys_of, self.allowed))
        beyond = (
            change.path
            for change in difference.differences(before, after)
            if not any(covers(path, change.path) or covers(change.path, path) for path in named)
            and not any(covers(pattern, change.path) for pattern in allowed)
        )
        return Outcome(reached, tuple(".".join(path) for path in beyond))


class StateTask(TaskLine[StateStart, StateGoal]):
    platform = Platform.WEB

    goal: StateGoal = StateGoal()


def keys_of(path: str | tuple[str, ...]) -> Path:
    return tuple(path.split(".")) if isinstance(path, str) else path
