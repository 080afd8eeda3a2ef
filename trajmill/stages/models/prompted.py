"""Asks a model with a prompt file: fills the prompt, makes messages of it, and gives the version for the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from trajmill.schemas.record import Record
from trajmill.stages.models.base import ChatMessage, ChatModel, ChatRequest, MessagePart
from trajmill.stages.models.prompts import FilledPrompt, Prompt
from trajmill.stages.models.structured import ask

A = TypeVar("A", bound=Record)
Layout = Callable[[Sequence[MessagePart]], tuple[MessagePart, ...]]
"""Arranges the parts of the user's message."""


class Sampling(NamedTuple):
    """How an answer is sampled."""

    temperature: float = 0.0
    """0 decodes greedily; CODA samples votes at 1, with `top_p` 0.6 (its 4.2)."""
    top_p: float = 1.0
    seed: int = 0
    """The number of a vote is added to it."""
    max_tokens: int = 1024
    """Longest answer."""


GREEDY: Final = Sampling()


@dataclass(frozen=True, slots=True)
class PromptedModel:
    """A model and its prompt."""

    model: ChatModel
    prompt: Prompt

    @property
    def version(self) -> str:
        """Prompt and model, e.g. `critic_step-1@qwen-7b`; stored on every row that is made from an answer."""
        return f"{self.prompt.version}@{self.model.version}"

    def request(
        self,
        role: str,
        fields: Mapping[str, str],
        parts: Sequence[MessagePart] = (),
        sampling: Sampling = GREEDY,
        layout: Layout = tuple,
    ) -> ChatRequest:
        """A request with the filled prompt.

        Args:
            role: the model's role.
            fields: values of the prompt's placeholders.
            parts: texts and images that follow the prompt in the user's message.
            sampling: how the answer is sampled.
            layout: arranges the prompt and the parts; the default does not change them.

        Raises:
            KeyError: a field of the prompt is not given.
        """
        return prompt_request(role, self.prompt.fill(**fields), parts, sampling, layout)

    async def ask(self, request: ChatRequest, answer: type[A]) -> A:
        """Send a request and return the answer as a record.

        Raises:
            AnswerFailure: the model gave no valid answer.
            ModelFailure: the model did not answer.
        """
        return await ask(self.model, request, answer)


def prompt_request(
    role: str,
    filled: FilledPrompt,
    parts: Sequence[MessagePart] = (),
    sampling: Sampling = GREEDY,
    layout: Layout = tuple,
) -> ChatRequest:
    """A request with a system message, and a user message of the prompt's text and further parts."""
    return ChatRequest(
        role=role,
        messages=(ChatMessage("system", (filled.system,)), ChatMessage("user", layout((filled.user, *parts)))),
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=sampling.seed,
        max_tokens=sampling.max_tokens,
    )


def on_lines(parts: Sequence[MessagePart]) -> tuple[MessagePart, ...]:
    """The same parts with neighbouring texts joined, and line ends between texts and images.

    Chat templates put nothing between the parts of a message.
    """
    joined: list[MessagePart] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += f"{part}\n"
        elif isinstance(part, str):
            joined.append(f"\n{part}\n" if joined else f"{part}\n")
        else:
            joined.append(part)
    return tuple(joined)
