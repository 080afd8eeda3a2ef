"""Work that gave no row: failures, and what a derivation refused. Both are stored and never dropped silently."""

from __future__ import annotations

from trajmill.schemas.errors import FailureClass
from trajmill.schemas.record import Row


class Failure(Row):
    """Work that gave no row."""

    stage: str
    """The stage that could not make the row."""
    input_id: str
    """Id of the query, trajectory or example that the stage was working on."""
    failure_class: FailureClass
    """The cause."""
    message: str
    """What went wrong, in one line."""
    attempts: int = 1
    """How often it was tried."""


class Refusal(Row):
    """Work of a derivation that gave no example, and why."""

    kind: str
    """The kind of example that was to be derived."""
    variant: str | None
    """The sort within the kind; null if all sorts of it were refused."""
    trajectory_id: str
    """The trajectory; of a screen that many have, the one that it was read from."""
    step_index: int | None
    """The step; null for a whole trajectory."""
    screen_id: str | None
    """The screen; null where the reason is none of a screen."""
    reason: str
    """One word, so that reasons can be counted: `harmful`, `ambiguous`, `other_action`, ..."""
    detail: str
    """What was found, in one line; empty where the reason says it all."""
    count: int
    """How many possible examples of this step or screen were refused for this reason."""
