"""The embedded Planner: the simplest that fits, to compare trained ones with."""

from __future__ import annotations

from trajmill.stages.agents.roles.embedded_role import EmbeddedRole, RoleQuestion


def embedded_planner() -> EmbeddedRole:
    """Says which page is shown, whether the last action changed it, and what the task is."""
    return EmbeddedRole("embedded-planner-1", _told)


def _told(asked: RoleQuestion) -> str:
    now = asked.screens[-1]
    title = next((e.text for e in now.elements or () if "title" in e.states), now.app)
    ids = {screen.screen.screen_id for screen in asked.screens}
    stuck = " The last action changed nothing." if len(asked.screens) > len(ids) else ""
    return f'The screen shows "{title}".{stuck} The next step serves the task: {asked.section("task")}'
