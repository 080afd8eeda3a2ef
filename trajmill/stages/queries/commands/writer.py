"""Asks a vision-language model for commands: with a screenshot, the names of its elements, and exemplars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trajmill.schemas.observation import Observation
from trajmill.schemas.record import content_id
from trajmill.stages.critics.model.action_words import untrusted
from trajmill.stages.environments.screen_goal import targets
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.prompted import PromptedModel, Sampling
from trajmill.stages.models.prompts import Prompt, own_or_packaged
from trajmill.stages.queries.commands.base import CommandAnswer, CommandPlace, WrittenCommand

ROLE = "writer"
TEMPERATURE = 0.8
_MOST_ELEMENTS = 120
_MOST_PATHWAYS = 40
_LONGEST = 120
_MAX_TOKENS = 3072
_PACKAGE = "trajmill.stages.queries.commands"
_FIELDS = frozenset({"app", "platform", "elements", "pathways", "exemplars", "known", "count"})


def command_prompt(own: Path | None = None) -> Prompt:
    """Read the prompt from the user's own file; without a file, the prompt of the package.

    Raises:
        BadInputError: the file cannot be read, or misses a section or a field.
    """
    return own_or_packaged(own, _PACKAGE, "writer_commands-1", _FIELDS)


@dataclass(frozen=True, slots=True)
class CommandWriter:
    """A model that reads images."""

    model: ChatModel
    prompt: Prompt

    @property
    def version(self) -> str:
        """Prompt and model; stored with every query that it writes."""
        return PromptedModel(self.model, self.prompt).version

    async def write(
        self, place: CommandPlace, screen: Observation, known: Sequence[str], count: int, seed: int
    ) -> tuple[WrittenCommand, ...]:
        """About `count` commands as the model wrote them, not yet checked.

        Args:
            place: the program and its object.
            screen: what it shows.
            known: commands that exist already; none may be held out.
            count: number of commands to ask for.
            seed: another seed gives other commands.

        Raises:
            ModelFailure: no valid answer.
        """
        fields = {
            "app": untrusted(place.title, _LONGEST),
            "platform": place.platform.value,
            "elements": _elements(screen),
            "pathways": _numbered([" > ".join(each.names) for each in place.pathways[:_MOST_PATHWAYS]]),
            "exemplars": _listed(place.exemplars),
            "known": _listed(known),
            "count": str(count),
        }
        request_seed = int(content_id("commands", place.id, seed), 16) % 2**31
        sampling = Sampling(TEMPERATURE, seed=request_seed, max_tokens=_MAX_TOKENS)
        prompted = PromptedModel(self.model, self.prompt)
        request = prompted.request(ROLE, fields, ("\nThe screen:\n", screen), sampling)
        return (await prompted.ask(request, CommandAnswer)).commands


def _elements(screen: Observation) -> str:
    """The names of the elements, each with its text and value where the name does not have it."""
    lines: list[str] = []
    for name, element in list(targets(screen.elements or ()).items())[:_MOST_ELEMENTS]:
        text = f", text {untrusted(element.text, _LONGEST)}" if element.text and element.text not in name else ""
        value = f", value {untrusted(element.value, _LONGEST)}" if element.value else ""
        lines.append(f"- {untrusted(name, _LONGEST)}{text}{value}")
    return "\n".join(lines) or "(none)"


def _listed(texts: Sequence[str]) -> str:
    return "\n".join(f"- {untrusted(text, _LONGEST)}" for text in texts) or "(none)"


def _numbered(texts: Sequence[str]) -> str:
    return "\n".join(f"{number}. {untrusted(text, _LONGEST)}" for number, text in enumerate(texts)) or "(none)"
