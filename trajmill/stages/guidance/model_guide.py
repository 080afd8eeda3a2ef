"""Guidance by models: a vision-language model describes each action's outcome, a language model summarises (paper 6.4).

Their texts are cut to a length and put on numbered lines, which `strip` finds in training data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, StringConstraints

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import Record
from trajmill.schemas.text import one_line, printable
from trajmill.stages.critics.model.marking import action_in_words, marked_picture, picture, quotable, untrusted
from trajmill.stages.critics.replay import SeenStep, stored_evidence
from trajmill.stages.guidance.filter import ENDINGS
from trajmill.stages.guidance.write import StepDescription, StepOutcome
from trajmill.stages.models.prompts import GREEDY, Prompt, PromptedModel, load_prompt, on_lines

LONGEST_OUTCOME = 300
LONGEST_LINE = 200
MOST_LINES = 20
_LONGEST_EXPECTATION = 600
_LONGEST_REASON = 120
_OWN_NUMBER = re.compile(r"^(?:(?:step\s*)?\d+\s*[.:)]\s*|[-*•]\s+)+", re.IGNORECASE)
_Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2 * LONGEST_OUTCOME)]


class OutcomeAnswer(Record):
    """The answer of a describer."""

    outcome: _Sentence
    result: Literal["as expected", "not as expected", "no effect"]
    reason: str


class StepsAnswer(Record):
    """The answer of a writer."""

    steps: Annotated[tuple[_Sentence, ...], Field(min_length=1, max_length=MOST_LINES)]


class GuidePrompts(NamedTuple):
    describe: Prompt
    synthesise: Prompt


def guide_prompts(own: Mapping[str, Any] = {}) -> GuidePrompts:
    """Read the prompts, of the user by the keys of `[prompts]`; raises BadInputError if a file is unusable."""
    keys = ("describer_step", "writer_guidance")
    return GuidePrompts(*(load_prompt(__package__, f"{key}-1", own.get(key)) for key in keys))


@dataclass(frozen=True, slots=True)
class ModelDescriber(PromptedModel):
    prompt: Prompt = field(default_factory=lambda: guide_prompts().describe)

    async def describe(self, episode: Episode, step: SeenStep, screens: ScreenReader) -> StepOutcome:
        """Return the outcome of a step, and whether the agent expected it.

        The step that ends an episode is described without a model, because it changes no screen.

        Raises:
            JudgeFailure: a screen of the step is not stored, or its action cannot be read.
            ModelFailure: no valid answer, or an image does not decode.
        """
        if step.action.kind in ENDINGS:
            return StepOutcome(_short(step.caption, LONGEST_OUTCOME))
        stored = next(each for each in episode.steps if each.index == step.index)
        before = stored.screen_before
        stated = " ".join(text for text in (stored.thought, stored.conclusion) if text.strip())
        with stored_evidence(episode):
            fields = {
                "instruction": untrusted(episode.query.instruction),
                "action": action_in_words(stored.action, screens.elements(before), screens.size(before)),
                "expectation": untrusted(stated, _LONGEST_EXPECTATION) if stated else "(not told)",
            }
            shown = marked_picture(stored, screens), picture(step.outcome.after.screen_id, screens)
        parts = ("The screen before the action:", shown[0], "The screen after the action:", shown[1])
        name = episode.trajectory.trajectory_id
        request = self.request("describer", fields, parts, GREEDY, on_lines, name, step.index)
        answer = await self.ask(request, OutcomeAnswer)
        reason = _short(answer.reason, _LONGEST_REASON) or answer.result
        unmet = "" if answer.result == "as expected" else reason
        return StepOutcome(_short(answer.outcome, LONGEST_OUTCOME), unmet)


@dataclass(frozen=True, slots=True)
class ModelGuidanceWriter(PromptedModel):
    prompt: Prompt = field(default_factory=lambda: guide_prompts().synthesise)

    async def synthesise(self, episode: Episode, steps: Sequence[StepDescription]) -> str:
        """Return at most `MOST_LINES` numbered lines. Raises ModelFailure if no valid answer."""
        outcomes = "\n".join(f"{number}. {quotable(step.outcome)}" for number, step in enumerate(steps, start=1))
        fields = {"instruction": untrusted(episode.query.instruction), "outcomes": outcomes}
        name = episode.trajectory.trajectory_id
        answer = await self.ask(self.request("writer", fields, (), GREEDY, on_lines, name), StepsAnswer)
        lines = (_short(_OWN_NUMBER.sub("", step.strip()), LONGEST_LINE) for step in answer.steps)
        return "\n".join(f"{number}. {line}" for number, line in enumerate(filter(None, lines), start=1))


def _short(text: str, most: int) -> str:
    return one_line(quotable(printable(text)), most)
