"""What the roles of Mobile-Agent-v3 know between steps (paper 7.1.1); it travels in the decisions' role outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from trajmill.stages.agents.roles.sections import one_line

SUCCESS, FAILURE = "SUCCESS", "FAILURE"


class TaskState(NamedTuple):
    """The plan, the feedback and the notes at one step."""

    plan: tuple[str, ...]
    """Pending subgoals, SS in the paper."""
    completed: tuple[str, ...] = ()
    """Completed subgoals, CS."""
    notes: tuple[str, ...] = ()
    """All notes so far, N."""
    outcome: str = ""
    """Outcome of the last action, j of F: `SUCCESS` or `FAILURE`; empty before the first one."""
    feedback: str = ""
    """Why the last action failed, phi of F; empty after a success."""

    def noted(self, found: tuple[str, ...]) -> TaskState:
        """The state with further notes; known ones are not repeated."""
        return self._replace(notes=tuple(dict.fromkeys((*self.notes, *found))))

    def outputs(self) -> dict[str, str]:
        """The state as role outputs of a step: one line for each item of a list; what is empty is left out."""
        texts = {
            "plan": "\n".join(map(one_line, self.plan)),
            "completed": "\n".join(map(one_line, self.completed)),
            "notes": "\n".join(map(one_line, self.notes)),
            "outcome": self.outcome,
            "feedback": self.feedback,
        }
        return {name: text for name, text in texts.items() if text}


def read_state(outputs: Mapping[str, str]) -> TaskState:
    """The state in the role outputs of a step."""
    plan, completed, notes = (tuple(outputs.get(name, "").splitlines()) for name in ("plan", "completed", "notes"))
    return TaskState(plan, completed, notes, outputs.get("outcome", ""), outputs.get("feedback", ""))
