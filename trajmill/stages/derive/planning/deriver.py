"""Derives the manual of a task from its successes: a row with the task as question and the plan as answer.

The policy tries a manual after it is derived (see `trials`). Where it is not asked to, all that is known is how stored
guidance did at its task (see `GuidanceLift`): where it did not raise success the manual is refused, and where nothing
was compared its variant is `unmeasured`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import StageError
from trajmill.schemas.tables.example import Message
from trajmill.stages.critics.trees.replay import seen
from trajmill.stages.curate.leaks import TrainingText
from trajmill.stages.derive.base import DerivedRows, unfit
from trajmill.stages.derive.collected import RULE_AGENTS, TEMPLATE, WALK_WORDS, Collected, Lesson
from trajmill.stages.derive.conversation import PLACEHOLDERS
from trajmill.stages.derive.end_to_end import LEARNED_FROM
from trajmill.stages.derive.kind_spec import Tools
from trajmill.stages.derive.planning.manual import general_success, names_in, plain_steps, with_names
from trajmill.stages.derive.planning.spec import PlanningSpec
from trajmill.stages.derive.planning.task_sources import GuidanceLift
from trajmill.stages.derive.planning.writer import ManualWriter, PlanWriter
from trajmill.stages.guidance.strip import quotes_guidance

GUIDANCE_HELPED = "guidance_helped"
"""The sort of a manual at whose task guided attempts succeeded more often than unguided ones of the same round."""
UNMEASURED = "unmeasured"
DISTILLED = "distilled"
"""The sort of a plan that a language model wrote for a task without a success, from the task alone."""
ONE_VALUE = "fits_one_value"
"""The reason of a task at which each success pressed what only its own values need."""
SYSTEM = (
    "You plan the work of an agent that operates a phone, a desktop or a web page. Answer with the steps that lead to "
    "the goal, numbered, one on each line. A name in braces stands for a value that the user chooses."
)
_QUOTED = re.compile(r'"([^"]+)"')


class _Draft(NamedTuple):
    """A manual that is not checked yet."""

    steps: Sequence[str]
    used: tuple[Episode, ...]
    """The trajectories that it is about."""
    variant: str
    author: str


class Planning:
    """Derives manuals; asks a writer where one is configured."""

    def __init__(self, spec: PlanningSpec, tools: Tools) -> None:
        self._spec = spec
        self._tools = tools
        self._writer = None
        if tools.writer is not None:
            self._writer = ManualWriter(tools.writer, tools.prompts.manual, seen(tools.screens))
        self._planner = None
        if tools.writer is not None and spec.distil:
            self._planner = PlanWriter(tools.writer, tools.prompts.plan)

    async def derive(self, episode: Episode, only: frozenset[int] | None = None) -> DerivedRows:
        """The manual of the task of an episode, which is the shortest of its successes, or an attempt without one."""
        collected = Collected(self._tools.maker, episode)
        reason = self._unusable(episode)
        if reason is not None:
            collected.refuse(reason)
            return collected.rows()
        try:
            draft = await self._draft(episode)
        except StageError as error:
            collected.fail(error)
            return collected.rows()
        if draft is None:
            collected.refuse(ONE_VALUE)
            return collected.rows()
        manual = _numbered(draft.steps, draft.used)
        asked = draft.used[0].query
        question = f"Task: {with_names(asked.instruction, asked.slots)}"
        refused = self._refused(draft.steps, manual, question, draft.used)
        if refused is not None:
            collected.refuse(refused, variant=draft.variant, detail=manual)
            return collected.rows()
        messages = (
            Message(role="system", content=SYSTEM),
            Message(role="user", content=question),
            Message(role="assistant", content=manual),
        )
        names = [one.trajectory.trajectory_id for one in draft.used]
        collected.add(Lesson(messages, (), draft.variant, draft.author, trajectories=names), None)
        return collected.rows()

    async def _draft(self, episode: Episode) -> _Draft | None:
        """The steps of a task, None if those of each success fit its values alone.

        Raises:
            ModelFailure: the writer gives no valid answer.
        """
        if self._planner is not None and not _is_success(episode):
            return _Draft(await self._planner.steps(episode), (episode,), DISTILLED, self._planner.version)
        variant = UNMEASURED if self._lift(episode) is None else GUIDANCE_HELPED
        successes = (episode, *self._others(episode))
        if self._writer is None:
            general = general_success([each for each in successes if not _is_by_rule(each)])
            return None if general is None else _Draft(plain_steps(general), (general,), variant, TEMPLATE)
        return _Draft(await self._writer.steps(successes), successes, variant, self._writer.version)

    def _unusable(self, episode: Episode) -> str | None:
        """Why an episode gives no manual; None if it does."""
        reason = unfit(episode, LEARNED_FROM)
        if reason is not None:
            return reason
        if not _is_success(episode):
            return "judged_incorrect" if self._planner is None else None
        if self._writer is None and all(map(_is_by_rule, (episode, *self._others(episode)))):
            return WALK_WORDS
        lift = self._lift(episode)
        if lift is not None and lift.guided <= lift.without:
            return "guidance_did_not_help"
        return None

    def _lift(self, episode: Episode) -> GuidanceLift | None:
        of_tasks = None if self._spec.trials else self._tools.of_tasks
        lift = None if of_tasks is None else of_tasks.lifts.get(episode.trajectory.trajectory_id)
        return None if lift is None or lift.tells_nothing else lift

    def _others(self, episode: Episode) -> tuple[Episode, ...]:
        of_tasks = self._tools.of_tasks
        return () if of_tasks is None else of_tasks.others.get(episode.trajectory.trajectory_id, ())

    def _refused(self, said: Sequence[str], manual: str, question: str, used: Sequence[Episode]) -> str | None:
        """Why a manual must not be learned; None if it may be."""
        if len(said) < self._spec.least_steps:
            return "too_short"
        if any(placeholder in text for placeholder in PLACEHOLDERS for text in (manual, question)):
            return "placeholder_in_text"
        if any(quotes_guidance(text, one.guidance) for one in used for text in ("\n".join(said), manual)):
            return "quotes_guidance"
        if names_in(manual) - {slot.name for one in used for slot in one.query.slots}:
            return "unknown_value"
        if names_in(question) - names_in(manual):
            return "value_not_used"
        if not any(name in manual.casefold() for name in _known_names(used)):
            return "names_nothing"
        of_tasks = self._tools.of_tasks
        texts = [TrainingText("", used[0].query.query_id, text) for text in (question, manual, *said)]
        found = {} if of_tasks is None else of_tasks.leaks.in_texts(texts)
        return found[""].reason if found else None


def _is_success(episode: Episode) -> bool:
    return episode.judgement is not None and episode.judgement.correct


def _is_by_rule(success: Episode) -> bool:
    """Whether an agent without a model made it, whose conclusions name elements as no user sees them."""
    return success.trajectory.model_version in RULE_AGENTS


def _numbered(said: Sequence[str], used: Sequence[Episode]) -> str:
    slots = [slot for one in used for slot in one.query.slots]
    return "\n".join(f"{number}. {with_names(step, slots)}" for number, step in enumerate(said, start=1))


def _known_names(used: Sequence[Episode]) -> set[str]:
    """What stands on the elements and pages of the successes, their apps and their slots, in lower case."""
    found = {app for one in used for app in one.query.apps}
    for one in used:
        found |= {"{" + slot.name + "}" for slot in one.query.slots}
        for step in one.steps:
            found |= set(_QUOTED.findall(step.conclusion))
    return {name.casefold() for name in found if len(name) > 1}
