"""The embedded Coordinator and State Tracker: the simplest that fit, to compare trained ones with."""

from __future__ import annotations

from trajmill.stages.agents.roles.embedded_role import EmbeddedRole, RoleQuestion
from trajmill.stages.agents.roles.sections import NONE

LONGEST_STATE = 350
"""Characters that are kept of the state, the latest ones."""


def embedded_coordinator() -> EmbeddedRole:
    """Hands the task on as it is, whatever the state."""
    return EmbeddedRole("embedded-coordinator-1", lambda asked: f"<answer>{asked.section('high-level task')}</answer>")


def embedded_state_tracker() -> EmbeddedRole:
    """Appends what the Executor says that it did."""
    return EmbeddedRole("embedded-state-tracker-1", _appended)


def _appended(asked: RoleQuestion) -> str:
    before, output = asked.section("previous task state"), asked.section("latest output of executor agent")
    done = output.rpartition("}")[2].strip() or output
    state = done if before == NONE else f"{before} {done}"
    return f"<answer>{state[-LONGEST_STATE:]}</answer>"
