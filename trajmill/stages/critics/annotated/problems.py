"""Finds the problems of an episode by the annotations of its query and the trees of all screens, without any pixels.

The moments that matter are those at which something is submitted, and the end: each constraint must be met then, and
nothing else may be changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.schemas.tables.query import Slot
from trajmill.stages.critics.annotated.episode import EpisodeState
from trajmill.stages.critics.annotated.task import AnnotatedTask, TaskPart
from trajmill.stages.critics.annotated.wording import is_said, mentions, repeats_harmlessly, same_value, says_no, wanted
from trajmill.stages.critics.trees.replay import SeenStep
from trajmill.stages.critics.trees.screen_state import OFF, ON, Control


def find_problems(task: AnnotatedTask, steps: Sequence[SeenStep]) -> list[str]:
    """Return why steps do not do what the task asks, as sentences; empty if they do."""
    if not steps or not steps[-1].action.ends:
        return ["the agent did not say that it was done"]
    finder = _ProblemFinder(task, steps[0])
    for step in steps:
        finder.observe(step)
    finder.finish()
    return finder.found


class _ProblemFinder:
    def __init__(self, task: AnnotatedTask, first: SeenStep) -> None:
        self.found: list[str] = []
        self._task = task
        self._parts = task.parts()
        self._submitted: dict[str, list[str]] = {}
        self._state = EpisodeState(task)
        self._state.enter(first.outcome.before)

    def observe(self, step: SeenStep) -> None:
        self._state.observe(step)
        if self._task.is_left_by(step):
            self.found.append(f'something else was done: "{step.outcome.after.title}"')
        page, element, outcome = step.outcome.before.page, step.action.element, step.outcome
        for part in self._parts:
            if part.is_submitted_by(step):
                self._submit(part, outcome.after.title)
            elif step.changes_page_in_place and page in part.pages and element is not None:
                # Of items that replace one another, only the last choice counts.
                swaps = bool(outcome.vanished) and len(outcome.vanished) == len(outcome.appeared)
                self._press(page, element.text, part, swaps and element.role == "list_item")

    def finish(self) -> None:
        """Check the end of the episode, where the agent has reported that it is done."""
        changed = self._state.changed_controls()
        for part in self._parts:
            if self._submitted.get(part.pages[-1]):
                continue
            if part.receipt is not None and part.receipt not in self._state.pages:
                self.found.append(f"{part.receipt} was never reached")
            else:
                self._check(part)
            if part.open_page is not None and part.open_page not in {page for page, _ in changed}:
                self.found.append(f"nothing was done on {part.open_page}")
        known = {page for part in self._parts for page in part.pages} | self._state.forms
        self.found += [
            f'"{control.label}" stands at "{control.value}" on {page}' for page, control in changed if page not in known
        ]

    def _press(self, page: str, label: str, part: TaskPart, swaps_item: bool) -> None:
        """Handle a press that changed the content of its page; `swaps_item`: a list item has replaced another one."""
        slots = self._task.slots_on(page)
        if any(same_value(label, slot.value) for slot in slots):
            return
        asked = page == part.open_page and self._task.is_about(label)
        if asked or self._submits_typed_text(page, part):
            self._submit(part, label)
        elif not (swaps_item and slots):
            self.found.append(f'"{label}" was pressed')

    def _submit(self, part: TaskPart, what: str) -> None:
        """Handle a submission: everything must be as asked now, and nothing may be submitted twice."""
        before = self._submitted.setdefault(part.pages[-1], [])
        if before and (what not in before or not repeats_harmlessly(what)):
            self.found.append(f'"{what}" was done after "{before[-1]}"')
        before.append(what)
        self._check(part)

    def _check(self, part: TaskPart) -> None:
        """Compare the controls of a part's pages with what was asked."""
        self.found += [f'no "{slot.value}" for {slot.name}' for slot in part.slots if not self._is_met(slot, part)]
        wrong = [
            control
            for page, control in self._state.changed_controls()
            if page in part.pages and not self._task.is_asked(page, control, part)
        ]
        wrong += [
            seen.control
            for (page, _), seen in self._state.controls.items()
            if page in part.pages and not seen.changed and self._contradicts_instruction(page, seen.control)
        ]
        self.found += [f'"{control.label}" stands at "{control.value}"' for control in wrong]

    def _submits_typed_text(self, page: str, part: TaskPart) -> bool:
        """Whether a press on a page submits typed text: it is the last page of its part, and no receipt follows."""
        return part.receipt is None and page == part.pages[-1] and bool(self._state.typed[page])

    def _contradicts_instruction(self, page: str, control: Control) -> bool:
        """Whether the instruction names a switch without a constraint and asks for its other position."""
        if control.kind != "toggle" or wanted(control, self._task.slots_on(page)) is not None:
            return False
        off = says_no(control.label, self._task.instruction)
        return is_said(control.label, self._task.instruction) and control.value == (ON if off else OFF)

    def _is_met(self, slot: Slot, part: TaskPart) -> bool:
        if not (self._submits_typed_text(slot.page, part) and slot.value in self._state.typed[slot.page]):
            found = self._state.evidence(slot)
            if found is not None:
                return found
            if not slot.said and slot.page not in self._state.pages:
                return True
        pages = self._task.pages_from(slot)
        return any(mentions(text, slot.value) for page in pages for text in self._state.shown[page])
