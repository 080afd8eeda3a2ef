"""Derives the manual of a task from its successes: a row with the task as question and the plan as answer.

The policy tries a manual after it is derived (see `trials`). Without trials, only the lift of stored guidance at the
task is known (see `GuidanceLift`): a manual without a lift is refused, and one without a comparison is `unmeasured`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import Field, StringConstraints

from trajmill.schemas.episode import Episode
from trajmill.schemas.record import Record
from trajmill.stages.critics.model.marking import untrusted
from trajmill.stages.critics.replay import replay, seen
from trajmill.stages.curate.leaks import TrainingText
from trajmill.stages.derive.collected import RULE_AGENTS, TEMPLATE, WALK_WORDS, Collected, KindDeriver, Lesson, unfit
from trajmill.stages.derive.conversation import about, dialogue, holds_placeholder
from trajmill.stages.derive.kind_spec import GuidanceLift, Tools
from trajmill.stages.derive.planning.manual import general_success, names_in, plain_steps, with_names
from trajmill.stages.derive.spec import PlanningSpec
from trajmill.stages.guidance.strip import quotes_guidance
from trajmill.stages.models.prompts import PromptedModel, Sampling, on_lines

GUIDANCE_HELPED = "guidance_helped"
"""Variant of a manual at whose task guided attempts succeeded more often than unguided ones of the same round."""
UNMEASURED = "unmeasured"
DISTILLED = "distilled"
"""Variant of a plan that a language model wrote for a task without a success, from the task alone."""
ONE_VALUE = "fits_one_value"
"""Refusal reason of a task at which each success pressed what only its own values need."""
SYSTEM = (
    "You plan the work of an agent that operates a phone, a desktop or a web page. Answer with the steps that lead to "
    "the goal, numbered, one on each line. A name in braces stands for a value that the user chooses."
)
_QUOTED = re.compile(r'"([^"]+)"')
_LONGEST = 240
_MOST_STEPS = 30
_Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=_LONGEST)]


class ManualAnswer(Record):
    """The answer of a writer: the steps of the manual in order."""

    steps: Annotated[tuple[_Sentence, ...], Field(min_length=1, max_length=_MOST_STEPS)]


class _Draft(NamedTuple):
    steps: Sequence[str]
    used: tuple[Episode, ...]
    variant: str
    author: str


class Planning(KindDeriver[PlanningSpec]):
    def __init__(self, spec: PlanningSpec, tools: Tools) -> None:
        super().__init__(spec, tools)
        self._screens = seen(tools.screens)
        self._writer = self._planner = None
        if tools.writer is not None:
            self._writer = PromptedModel(tools.writer, tools.prompts["manual"])
            self._planner = PromptedModel(tools.writer, tools.prompts["plan"]) if spec.distil else None

    async def collect(self, episode: Episode, only: frozenset[int] | None, collected: Collected) -> None:
        draft = await self._draft(episode)
        if draft is None:
            collected.refuse(ONE_VALUE)
            return
        slots = [slot for one in draft.used for slot in one.query.slots]
        manual = "\n".join(f"{number}. {with_names(step, slots)}" for number, step in enumerate(draft.steps, start=1))
        asked = draft.used[0].query
        question = f"Task: {with_names(asked.instruction, asked.slots)}"
        refused = self._refused(draft, manual, question)
        if refused is not None:
            collected.refuse(refused, variant=draft.variant, detail=manual)
            return
        names = [one.trajectory.trajectory_id for one in draft.used]
        messages = dialogue(SYSTEM, question, manual)
        collected.add(Lesson(messages, (), draft.variant, draft.author, trajectories=names), None)

    def unusable(self, episode: Episode) -> str | None:
        """Also refuse failures without a planner, words of rules, and tasks at which guidance did not help."""
        reason = unfit(episode)
        if reason is not None:
            return reason
        if not episode.judged_reward:
            return "judged_incorrect" if self._planner is None else None
        if self._writer is None and all(map(_is_by_rule, self._successes(episode))):
            return WALK_WORDS
        lift = self._lift(episode)
        return "guidance_did_not_help" if lift is not None and lift.guided <= lift.without else None

    async def _draft(self, episode: Episode) -> _Draft | None:
        """Return the steps of a task, None if those of each success fit its values alone.

        Raises ModelFailure if the writer gives no valid answer.
        """
        if self._planner is not None and not episode.judged_reward:
            # The actions of the attempt are not shown.
            apps = untrusted(", ".join(episode.query.apps))
            planned = await _written(self._planner, episode, apps=apps)
            return _Draft(planned, (episode,), DISTILLED, self._planner.version)
        variant = UNMEASURED if self._lift(episode) is None else GUIDANCE_HELPED
        successes = self._successes(episode)
        if self._writer is None:
            general = general_success([each for each in successes if not _is_by_rule(each)])
            return None if general is None else _Draft(plain_steps(general), (general,), variant, TEMPLATE)
        told = []
        for number, success in enumerate(successes, start=1):
            slots = success.query.slots
            steps = replay(success, self._screens)
            effects = [untrusted(with_names(step.caption, slots), _LONGEST) for step in steps]
            lines = "\n".join(f"{place}. {effect}" for place, effect in enumerate(effects, start=1))
            task = untrusted(with_names(success.query.instruction, slots))
            told.append(f"Success {number}, of the task {task}:\n{lines}")
        written = await _written(self._writer, episode, successes="\n\n".join(told))
        return _Draft(written, successes, variant, self._writer.version)

    def _lift(self, episode: Episode) -> GuidanceLift | None:
        of_tasks = None if self.spec.trials else self.tools.of_tasks
        lift = None if of_tasks is None else of_tasks.lifts.get(episode.trajectory.trajectory_id)
        return None if lift is None or lift.tells_nothing else lift

    def _successes(self, episode: Episode) -> tuple[Episode, ...]:
        of_tasks = self.tools.of_tasks
        return (episode, *(() if of_tasks is None else of_tasks.others.get(episode.trajectory.trajectory_id, ())))

    def _refused(self, draft: _Draft, manual: str, question: str) -> str | None:
        """Return why a manual must not be learned; None if it may be."""
        if len(draft.steps) == 1:
            return "too_short"
        if holds_placeholder((manual, question)):
            return "placeholder_in_text"
        if any(quotes_guidance(text, one.guidance) for one in draft.used for text in ("\n".join(draft.steps), manual)):
            return "quotes_guidance"
        slots = {slot.name for one in draft.used for slot in one.query.slots}
        if names_in(manual) - slots:
            return "unknown_value"
        if names_in(question) - names_in(manual):
            return "value_not_used"
        quoted = (name for one in draft.used for step in one.steps for name in _QUOTED.findall(step.conclusion))
        known = {*(app for one in draft.used for app in one.query.apps), *("{" + name + "}" for name in slots), *quoted}
        if not any(name.casefold() in manual.casefold() for name in known if len(name) > 1):
            return "names_nothing"
        of_tasks = self.tools.of_tasks
        texts = [TrainingText("", draft.used[0].query.query_id, text) for text in (question, manual, *draft.steps)]
        found = {} if of_tasks is None else of_tasks.leaks.in_texts(texts)
        return found[""].reason if found else None


async def _written(prompted: PromptedModel, first: Episode, **fields: str) -> list[str]:
    """Return a model's steps for the task of an episode, with names in the place of its values."""
    task = untrusted(with_names(first.query.instruction, first.query.slots))
    request = prompted.request("writer", {"task": task, **fields}, sampling=Sampling(max_tokens=2048), layout=on_lines)
    answer = await prompted.ask(about(request, first), ManualAnswer)
    return [" ".join(step.split()) for step in answer.steps]


def _is_by_rule(success: Episode) -> bool:
    # The conclusions of an agent without a model name elements as no user sees them.
    return success.trajectory.model_version in RULE_AGENTS
