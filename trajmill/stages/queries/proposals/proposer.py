"""Asks a model for new tasks: with the curriculum so far (CODA 3.4), or with the screen to start from (paper 6.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from trajmill.schemas.record import Record, content_id
from trajmill.stages.critics.model.action_words import untrusted
from trajmill.stages.models.base import ChatModel, MessagePart
from trajmill.stages.models.prompts import Prompt, PromptedModel, Sampling, load_prompt
from trajmill.stages.queries.proposals.known import BATCH
from trajmill.stages.queries.proposals.starts import StartingPoint

ROLE = "writer"
RELIABLE = 0.7
"""Lowest success of a task that the policy does reliably."""
FAILING = 0.25
"""Below this success, it fails at a task."""
TEMPERATURE = 0.8
_MOST_LISTED = 30
"""Most tasks of a kind in a prompt; the newest are listed."""
_LONGEST_LISTED = 300
_MAX_TOKENS = 2048
_PACKAGE = "trajmill.stages.queries.proposals"


class ProposedTask(Record):
    """One task that the model proposes."""

    instruction: str
    difficulty: Annotated[int, Field(ge=1, le=3)]


class ProposalAnswer(Record):
    """The answer of a proposer."""

    tasks: Annotated[tuple[ProposedTask, ...], Field(min_length=1, max_length=2 * BATCH)]


class ProposalPrompts(NamedTuple):
    """The prompts for both kinds of starting points."""

    curriculum: Prompt
    screen: Prompt


def proposal_prompts(curriculum: Path | None = None, screen: Path | None = None) -> ProposalPrompts:
    """Read the prompts from the user's files; without a file, the prompt of the package.

    Raises:
        BadInputError: a file cannot be read, or misses a section or a field.
    """
    own = load_prompt(_PACKAGE, "writer_curriculum-1", curriculum)
    return ProposalPrompts(own, load_prompt(_PACKAGE, "writer_screen-1", screen))


@dataclass(frozen=True, slots=True)
class TaskProposer:
    """A model that proposes tasks; for a starting point with a screen it must read images."""

    model: ChatModel
    prompts: ProposalPrompts = field(default_factory=proposal_prompts)

    def version(self, start: StartingPoint) -> str:
        """Return prompt and model, as stored with every task of a starting point."""
        return self._prompted(start).version

    async def propose(
        self, start: StartingPoint, known: Sequence[str], count: int, seed: int
    ) -> tuple[ProposedTask, ...]:
        """Return about `count` tasks as the model wrote them, not yet checked.

        Args:
            start: the starting point of the tasks.
            known: existing instructions, which are shown to the model; none may be held out.
            count: number of tasks to ask for.
            seed: decides on the proposals.

        Raises:
            ModelFailure: no valid answer.
        """
        fields = {
            "apps": ", ".join(start.apps) or "(the whole device)",
            "platform": start.platform.value,
            "examples": _listed(start.examples),
            "known": _listed(known),
            "count": str(count),
        }
        screen: tuple[MessagePart, ...] = ()
        if start.screen is not None:
            screen = ("\nThe screen:\n", start.screen)
        else:
            ranges = {"reliable": (RELIABLE, 2.0), "sometimes": (FAILING, RELIABLE), "failing": (-1.0, FAILING)}
            for name, (low, high) in ranges.items():
                fields[name] = _listed([task.instruction for task in start.successes if low <= task.success < high])
        request_seed = int(content_id("propose", start.id, seed), 16) % 2**31
        sampling = Sampling(TEMPERATURE, seed=request_seed, max_tokens=_MAX_TOKENS)
        prompted = self._prompted(start)
        return (await prompted.ask(prompted.request(ROLE, fields, screen, sampling), ProposalAnswer)).tasks

    def _prompted(self, start: StartingPoint) -> PromptedModel:
        return PromptedModel(self.model, self.prompts.curriculum if start.screen is None else self.prompts.screen)


def _listed(instructions: Sequence[str]) -> str:
    return "\n".join(f"- {untrusted(text, _LONGEST_LISTED)}" for text in instructions[-_MOST_LISTED:]) or "(none)"
