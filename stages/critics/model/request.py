"""How critics ask a model: what is fixed on their requests, and what of its failures is a failure to judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.record import Record
from trajmill.stages.models.base import ChatMessage, ChatModel, ChatRequest, MessagePart
from trajmill.stages.models.prompts import FilledPrompt, Prompt, own_or_packaged
from trajmill.stages.models.structured import AnswerFailure, ask

A = TypeVar("A", bound=Record)


class Sampling(NamedTuple):
    """How a critic's answers are drawn."""

    temperature: float = 0.0
    """0 decodes greedily; CODA draws its votes at 1, with `top_p` 0.6 (its 4.2)."""
    top_p: float = 1.0
    seed: int = 0
    """The draw of a vote is added to it."""
    max_tokens: int = 1024
    """Longest answer."""


GREEDY: Final = Sampling()


def critic_request(
    role: str,
    filled: FilledPrompt,
    parts: tuple[MessagePart, ...],
    sampling: Sampling,
    trajectory_id: str | None,
    step_index: int | None = None,
) -> ChatRequest:
    """The request of a critic: its system text, then its user text and the parts, on lines of their own."""
    shown = on_lines((filled.user, *parts))
    return ChatRequest(
        role=role,
        messages=(ChatMessage("system", (filled.system,)), ChatMessage("user", shown)),
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=sampling.seed,
        max_tokens=sampling.max_tokens,
        trajectory_id=trajectory_id,
        step_index=step_index,
    )


def on_lines(parts: Sequence[MessagePart]) -> tuple[MessagePart, ...]:
    """The same parts with texts in a row joined and line ends between texts and pictures.

    Chat templates put the parts of a message right behind one another.
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


async def ask_critic(model: ChatModel, request: ChatRequest, answer: type[A], subject: str) -> A:
    """The answer of a model that is asked to judge.

    Raises:
        JudgeFailure: it answered, but never in a form that says something; `subject` is named.
        ModelFailure: it did not answer.
    """
    try:
        return await ask(model, request, answer)
    except AnswerFailure as error:
        raise JudgeFailure(f"{subject}: {error}") from error


def critic_prompt(own: Path | None, name: str, fields: frozenset[str]) -> Prompt:
    """The user's own prompt, or the one of that name that comes with the critics.

    Raises:
        BadInputError: the user's file cannot be read, or misses a section or a field.
    """
    return own_or_packaged(own, "trajmill.stages.critics.model", name, fields)


def version_of(prompt: Prompt, model: ChatModel) -> str:
    """What stands on the verdicts of a critic: its prompt and its model."""
    return f"{prompt.version}@{model.version}"


@contextmanager
def stored_evidence(episode: Episode) -> Iterator[None]:
    """Makes of a screen or an action that cannot be read a `JudgeFailure` that names the trajectory."""
    try:
        yield
    except KeyError as error:
        raise JudgeFailure(f"{episode.trajectory.trajectory_id}: screen {error} is not stored") from error
    except ValueError as error:
        raise JudgeFailure(f"{episode.trajectory.trajectory_id}: a stored action cannot be read") from error
