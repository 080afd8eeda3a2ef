"""What the Worker is told beside the task: plan, feedback, notes (equation 7 of paper 7.2.3), and the failed steps.

The Worker is an end-to-end agent: it is asked and answers in the layout of its model's family, so that any GUI model
can stand behind the role. The further text comes before the task and is no part of the stored prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trajmill.stages.agents.base import Decision, EpisodeView
from trajmill.stages.agents.mobile_agent_v3.task_state import FAILURE, TaskState, read_state
from trajmill.stages.agents.roles.sections import numbered, one_line

WITHOUT_EFFECT = "Without effect: "
"""Before the conclusion of a step that the Reflector found to have failed."""


def worker_context(state: TaskState) -> str:
    """The plan, the completed subgoals, the feedback on a failed action and the notes, as sections."""
    sections = [f"### Overall Plan ###\n{numbered(state.plan)}"]
    if state.completed:
        sections.append(f"### Completed Subgoals ###\n{numbered(state.completed)}")
    if state.outcome == FAILURE:
        sections.append(f"### Last Action ###\nFAILURE: {one_line(state.feedback) or 'it had no effect'}")
    if state.notes:
        sections.append(f"### Important Notes ###\n{numbered(state.notes)}")
    return "\n\n".join(sections)


def with_outcomes(episode: EpisodeView, state: TaskState) -> EpisodeView:
    """The episode as the Worker sees it: conclusions of failed steps say so.

    An action that failed twice in a row is told without the mark, so that a Worker that trusts its history tries
    something else; the feedback still tells of the failure.
    """
    return replace(episode, history=tuple(_marked(episode.history, state)))


def _marked(history: tuple[Decision, ...], state: TaskState) -> Iterator[Decision]:
    states = [*(read_state(decision.role_outputs) for decision in history), state]
    failed_before = ""
    for decision, after in zip(history, states[1:], strict=True):
        failed = after.outcome == FAILURE and decision.action is not None
        if failed and decision.conclusion != failed_before:
            yield replace(decision, conclusion=f"{WITHOUT_EFFECT}{decision.conclusion}")
        else:
            yield decision
        failed_before = decision.conclusion if failed else ""
