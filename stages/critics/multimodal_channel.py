"""The multimodal channel: reasons over the screens themselves, here over their trees (paper 6.3).

It asks whether each constraint was met at the moment when it counted, whether anything else was changed, and whether
the receipt of each part of the task came up, once.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas.episode import Episode
from schemas.observation import ScreenReader
from schemas.query import Slot
from schemas.verdict import Channel
from stages.critics.base import StepResult, Vote
from stages.critics.ledger import Ledger
from stages.critics.plan import Part, commits, parts_of
from stages.critics.replay import SeenStep, TaskView, replay, task_view
from stages.critics.signals import vote
from stages.critics.slots import mentions


class StateChannel:
    """Judges by what the trees show; needs no model."""

    channel = Channel.MULTIMODAL
    resolution = "full"
    version = "state-channel-1"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult]) -> Vote:
        """Judge a finished episode by its screens.

        Raises:
            schemas.errors.JudgeFailure: a screen is missing.
        """
        problems = find_problems(task_view(episode.query), replay(episode, screens))
        return vote(problems, "every constraint stood as asked when it counted, and nothing else was changed", steps)


def find_problems(task: TaskView, steps: Sequence[SeenStep]) -> list[str]:
    """Why the steps do not do what the task asks, in words; empty if they do."""
    if not steps or not steps[-1].deed.ends:
        return ["the agent did not say that it was done"]
    ledger = Ledger()
    ledger.enter(steps[0].outcome.before)
    parts = parts_of(task)
    done: dict[int, int] = {}
    problems: list[str] = []
    for step in steps:
        ledger.observe(step)
        for number, part in enumerate(parts):
            if commits(step, part.receipt):
                done[number] = done.get(number, 0) + 1
                if done[number] == 1:
                    problems += _unmet(part, ledger, task) + _unasked(part, ledger)
    for number, part in enumerate(parts):
        problems += _at_the_end(part, done.get(number, 0), ledger, task)
    return problems + _elsewhere(parts, ledger)


def _at_the_end(part: Part, times: int, ledger: Ledger, task: TaskView) -> list[str]:
    if times > 1:
        return [f"{part.receipt} came up {times} times"]
    if times == 1:
        return []
    if part.receipt is not None and part.receipt not in ledger.pages:
        return [f"{part.receipt} was never reached"]
    return _unmet(part, ledger, task) + _unasked(part, ledger)


def _unmet(part: Part, ledger: Ledger, task: TaskView) -> list[str]:
    return [f'no "{slot.value}" for {slot.name}' for slot in part.slots if not _met(slot, ledger, task)]


def _met(slot: Slot, ledger: Ledger, task: TaskView) -> bool:
    if not slot.said and slot.page != task.pages[0] and ledger.evidence(slot, task.slots) is True:
        return True
    seen = ledger.evidence(slot, task.slots)
    return seen if seen is not None else any(mentions(text, slot.value) for text in ledger.shown)


def _unasked(part: Part, ledger: Ledger) -> list[str]:
    return ledger.unasked(part.slots, frozenset(part.pages))


def _elsewhere(parts: Sequence[Part], ledger: Ledger) -> list[str]:
    known = frozenset(page for part in parts for page in part.pages)
    others = frozenset(page for page, _ in ledger.standings if page not in known)
    return ledger.unasked((), others)
