"""Makes a generalist Planner's rows of what specialists thought (CODA 3.3.2 and 3.4).

Only clean successes teach: the judge called the trajectory correct, no step redundant and none wrong. A row's variant
is the app of its screen and its author the Planner that wrote it, so that specialists of several apps can be told
apart. The positive action of a row, with which CODA rewards candidate plans (equation 1), is that of its step.
"""

from __future__ import annotations

from dataclasses import dataclass

from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.step import Step
from trajmill.stages.derive.base import DerivedRows, unfit
from trajmill.stages.derive.collected import Collected, Lesson, Maker
from trajmill.stages.derive.end_to_end import LEARNED_FROM
from trajmill.stages.derive.roles.role_rows import conversation_of

PLANNER = "planner"
_HOME = "home"
"""The variant of rows on the home screen, which is no app's."""


@dataclass(frozen=True)
class CodaRows:
    """Derives rows of CODA's Planner; needs no model."""

    maker: Maker

    async def derive(self, episode: Episode, only: frozenset[int] | None) -> DerivedRows:
        """One example for each thought of a Planner in a clean success."""
        collected = Collected(self.maker, episode)
        planned = [call for call in episode.calls if call.role == PLANNER]
        # A step has two calls if the Planner was retried after a malformed reply.
        calls = {call.step_index: call for call in sorted(planned, key=lambda call: call.malformed is None)}
        reason = unfit(episode, LEARNED_FROM) or _not_clean(episode) or (None if calls else "no_planner")
        if reason is not None:
            collected.refuse(reason)
            return collected.rows()
        for step in episode.steps:
            call = calls.get(step.index)
            made = "no_planner" if call is None else _lesson(step, call, episode.guidance)
            if isinstance(made, str):
                collected.refuse(made, step)
            else:
                collected.add(made, step)
        return collected.rows()


def _lesson(step: Step, call: ModelCall, guidance: str) -> Lesson | str:
    """The row of one thought, or the reason why there is none."""
    if step.action is None:
        return "unparsed"
    said = conversation_of(call, guidance)
    return (
        said if isinstance(said, str) else Lesson(said.messages, said.screens, step.app_before or _HOME, call.made_by)
    )


def _not_clean(episode: Episode) -> str | None:
    judgement = episode.judgement
    if judgement is None or not judgement.correct:
        return "judged_incorrect"
    return "not_clean" if judgement.redundant_steps or judgement.first_error_step is not None else None
