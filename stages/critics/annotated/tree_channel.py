"""The multimodal channel: reasons over the screens themselves, here over their trees (paper 6.3).

It asks whether each constraint was met at the moment when it counted, whether anything else was changed, and whether
the receipt of each part of the task came up, once.
"""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.query import Slot
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.annotated.episode_state import EpisodeState
from trajmill.stages.critics.annotated.signals import vote
from trajmill.stages.critics.annotated.slots import holds, same_value, slots_on, wanted
from trajmill.stages.critics.annotated.task import (
    Part,
    asked_in_words,
    commits,
    does_something_else,
    is_about,
    judged_task,
    pages_from,
    parts_of,
    replaces,
    works_on_the_spot,
)
from trajmill.stages.critics.annotated.wording import is_said, mentions, repeats_harmlessly, says_no
from trajmill.stages.critics.base import StepResult, Vote
from trajmill.stages.critics.trees.replay import SeenStep, TaskView, replay
from trajmill.stages.critics.trees.screen_state import OFF, ON, Control


class AnnotatedTreeChannel:
    """Judges by what the trees show; needs no model."""

    channel = Channel.MULTIMODAL
    resolution = "full"
    version = "state-channel-1"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Judge a finished episode by its screens.

        Raises:
            JudgeFailure: a screen is missing, or only the words of the task are known.
        """
        problems = find_problems(judged_task(episode.query), replay(episode, screens))
        return vote(problems, "every constraint stood as asked when it counted, and nothing else was changed", steps)


def find_problems(task: TaskView, steps: Sequence[SeenStep]) -> list[str]:
    """Why the steps do not do what the task asks, in words; empty if they do."""
    if not steps or not steps[-1].action.ends:
        return ["the agent did not say that it was done"]
    watch = _Watch(task)
    watch.state.enter(steps[0].outcome.before)
    for step in steps:
        watch.observe(step)
    return watch.problems + watch.at_the_end()


class _Watch:
    """Follows one episode and takes down what is wrong when it counts: as something is sent off, or at the end."""

    def __init__(self, task: TaskView) -> None:
        self.state = EpisodeState()
        self.problems: list[str] = []
        self._task = task
        self._parts = parts_of(task)
        self._sent: dict[str, list[str]] = {}
        """By last page of a part: what was sent off, oldest first."""

    def observe(self, step: SeenStep) -> None:
        self.state.observe(step)
        if does_something_else(step, self._task):
            self.problems.append(f'something else was done: "{step.outcome.after.title}"')
        for part in self._parts:
            if commits(step, part.receipt):
                self._commit(part, step.outcome.after.title)
            elif works_on_the_spot(step) and step.outcome.before.page in part.pages:
                self._work(part, step)

    def _work(self, part: Part, step: SeenStep) -> None:
        """Something was done on a page of the task itself."""
        page, label = step.outcome.before.page, step.action.element.text if step.action.element is not None else ""
        slots = slots_on(page, self._task.slots)
        if any(same_value(label, slot.value) for slot in slots):
            return
        sends = self._is_entered(page, part) or (page == part.open_page and is_about(label, self._task))
        if sends:
            self._commit(part, label)
        elif not (
            replaces(step) and step.action.element is not None and step.action.element.role == "list_item" and slots
        ):
            self.problems.append(f'"{label}" was pressed')

    def _commit(self, part: Part, what: str) -> None:
        """Something was sent off: everything must stand as asked now, and it must be the first time."""
        before = self._sent.setdefault(part.pages[-1], [])
        if before and (what not in before or not repeats_harmlessly(what)):
            self.problems.append(f'"{what}" was done after "{before[-1]}"')
        before.append(what)
        self.problems += self._wrong(part)

    def at_the_end(self) -> list[str]:
        found: list[str] = []
        for part in self._parts:
            if self._sent.get(part.pages[-1]):
                continue
            if part.receipt is not None and part.receipt not in self.state.pages:
                found.append(f"{part.receipt} was never reached")
            else:
                found += self._wrong(part)
            if part.open_page is not None and not any(page == part.open_page for page, _ in self.state.moved()):
                found.append(f"nothing was done on {part.open_page}")
        return found + self._elsewhere()

    def _wrong(self, part: Part) -> list[str]:
        """What is missing and what is too much on the pages of a part, as they stand now."""
        unmet = [f'no "{slot.value}" for {slot.name}' for slot in part.slots if not self._met(slot, part)]
        moved = [place for place in self.state.moved() if place[0] in part.pages]
        unasked = [control for page, control in moved if not self._asked(page, control, part)]
        for (page, _), standing in self.state.standings.items():
            if page in part.pages and not standing.moved and self._said_otherwise(page, standing.control):
                unasked.append(standing.control)
        return unmet + [f'"{control.label}" stands at "{control.value}"' for control in unasked]

    def _said_otherwise(self, page: str, control: Control) -> bool:
        """Whether the instruction names a switch, without a constraint for it, and wants it the other way."""
        if control.kind != "toggle" or wanted(control, slots_on(page, self._task.slots)) is not None:
            return False
        off = says_no(control.label, self._task.instruction)
        return is_said(control.label, self._task.instruction) and control.value == (ON if off else OFF)

    def _met(self, slot: Slot, part: Part) -> bool:
        if self._is_entered(slot.page, part) and slot.value in self.state.typed.get(slot.page, ()):
            return self._shown(slot)
        found = self.state.evidence(slot, self._task.slots)
        if found is not None:
            return found
        if not slot.said and slot.page not in self.state.pages:
            return True
        return self._shown(slot)

    def _shown(self, slot: Slot) -> bool:
        pages = pages_from(slot, self._task)
        return any(mentions(text, slot.value) for page in pages for text in self.state.shown.get(page, ()))

    def _asked(self, page: str, control: Control, part: Part) -> bool:
        slot = wanted(control, slots_on(page, self._task.slots))
        return holds(control, slot) if slot is not None else asked_in_words(control, page, self._task, part)

    def _is_entered(self, page: str, part: Part) -> bool:
        """Whether what is typed on a page has to be sent off on the spot, as nothing comes after it."""
        return part.receipt is None and page == part.pages[-1] and page in self.state.typed

    def _elsewhere(self) -> list[str]:
        known = {page for part in self._parts for page in part.pages}
        return [
            f'"{control.label}" stands at "{control.value}" on {page}'
            for page, control in self.state.moved()
            if page not in known and page not in self.state.forms
        ]
