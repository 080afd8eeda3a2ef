"""What all derivations share: the episodes that are used, and their rows, counted refusals and failures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from trajmill.schemas.actions import Action, action_to_json
from trajmill.schemas.coordinates import CoordinateSpace
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import StageError
from trajmill.schemas.geometry import Box
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.example import Example, Message
from trajmill.schemas.tables.failure import Failure, Refusal
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.trajectory import Purpose, Step
from trajmill.stages.derive.kind_spec import KindSpec, Tools

LEARNED_FROM: Final = frozenset({Purpose.TRAIN, Purpose.GUIDED, Purpose.BRANCH, Purpose.IMPORTED})
"""Purposes of the attempts that give training rows."""
TEMPLATE = "template"
"""Author of texts that code has written."""
_WALKS = frozenset({"reference", "element_walk"})
RULE_AGENTS = _WALKS | {"explorer"}
"""Agents without a model; the version of their policy is their name."""
WALK_WORDS = "template_conclusions"
"""Refusal reason of a trajectory whose texts come from an annotated walk."""


def writes_templates(author: str) -> bool:
    """Return whether the thoughts of a policy version are filled into templates."""
    return author.startswith("embedded-") or author in RULE_AGENTS


def is_walk(episode: Episode) -> bool:
    """Return whether an annotated path was walked; its texts name elements by ids that no user sees."""
    return episode.trajectory.model_version in _WALKS


class LeftOut(NamedTuple):
    trajectory_id: str
    step_index: int | None
    reason: str
    """One word to count by: `judged_incorrect`, `harmful`, `no_effect`, `unparsed`, ..."""


def unfit(episode: Episode) -> str | None:
    trajectory, is_judged = episode.trajectory, episode.judgement is not None
    return unfit_attempt(
        episode.query.split, trajectory.purpose, trajectory.status, is_judged, len(episode.steps), LEARNED_FROM
    )


def unaccepted(episode: Episode) -> str | None:
    """Return why an episode is not usable or not judged correct; None if it is both."""
    return unfit(episode) or (None if episode.judged_reward else "judged_incorrect")


def unfit_attempt(
    split: str, purpose: str, status: str, is_judged: bool, steps: int, purposes: frozenset[Purpose]
) -> str | None:
    """Return why an attempt gives no row; None if it may. Failed and unjudged ones are no evidence about the agent."""
    if split != Split.TRAIN:
        return "held_out"
    if purpose not in purposes:
        return "other_purpose"
    if status != "finished":
        return "failed"
    if not is_judged:
        return "not_judged"
    return None if steps else "no_steps"


class DerivedRows(NamedTuple):
    examples: tuple[Example, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    failures: tuple[Failure, ...] = ()
    """Examples that a model did not answer for."""


class Deriver(Protocol):
    async def derive(self, episode: Episode, only: frozenset[int] | None) -> DerivedRows:
        """Return the examples of an episode, and the reasons for those that are missing.

        Args:
            episode: with its verdicts and its guidance.
            only: the indices of the steps whose screens are used; None for all.
        """
        ...


class Maker(NamedTuple):
    """The provenance of the rows of one kind."""

    kind: str
    made_by: str
    """Version of the deriver, with a hash of its settings."""
    origin: Origin


class Lesson(NamedTuple):
    messages: Sequence[Message]
    screens: Sequence[str]
    """Ids of the screens in the messages, in placeholder order."""
    variant: str
    written_by: str
    action: Action | None = None
    """The action of the reply, in pixels of the last screen."""
    box: Box | None = None
    sources: Sequence[str] = ()
    """The stored screens behind those in the messages; empty if they are the same."""
    trajectories: Sequence[str] = ()
    """All trajectories it was made from; empty if only the episode's."""
    rejected: str = ""
    """The worse reply to the same prompt; empty without one."""


def example_of(
    episode: Episode,
    step: Step | None,
    kind: str,
    messages: Sequence[Message],
    screens: Sequence[str],
    action: str | None,
    **columns: Any,
) -> Example:
    """Return an example of a step, or of the whole trajectory; `columns` has at least its `example_id`."""
    return Example(
        kind=kind,
        messages=tuple(messages),
        screens=tuple(screens),
        action=action,
        coordinate_space=CoordinateSpace.RESIZED_PIXELS,
        loss_weight=1.0,
        query_id=episode.query.query_id,
        trajectory_id=episode.trajectory.trajectory_id,
        step_index=None if step is None else step.index,
        split=episode.query.split,
        guided=episode.trajectory.guidance_id is not None,
        **columns,
    )


class Collected:
    """The rows of one kind that an episode has given so far."""

    def __init__(self, maker: Maker, episode: Episode) -> None:
        self._maker = maker
        self._episode = episode
        self._common = maker.origin.common(maker.made_by)
        self._examples: dict[str, Example] = {}
        self._refused: Counter[tuple[tuple[str, Any], ...]] = Counter()
        self._failures: list[Failure] = []

    def add(self, lesson: Lesson, step: Step | None) -> None:
        """Add an example of a step, or of the whole trajectory if `step` is None; duplicates are dropped."""
        kind, trajectory_id = self._maker.kind, self._episode.trajectory.trajectory_id
        index, contents = None if step is None else step.index, [message.content for message in lesson.messages]
        example = example_of(
            self._episode,
            step,
            kind,
            lesson.messages,
            lesson.screens,
            None if lesson.action is None else action_to_json(lesson.action),
            example_id=content_id("example", kind, trajectory_id, index, contents, list(lesson.screens)),
            variant=lesson.variant,
            written_by=lesson.written_by,
            source_screens=tuple(lesson.sources or lesson.screens),
            box=lesson.box,
            source_trajectories=tuple(lesson.trajectories) or None,
            rejected=lesson.rejected or None,
            **self._common,
        )
        self._examples.setdefault(example.example_id, example)

    def add_or_refuse(self, made: Lesson | str, step: Step | None, variant: str | None = None) -> None:
        if isinstance(made, str):
            self.refuse(made, step, variant=variant)
        else:
            self.add(made, step)

    def refuse(
        self,
        reason: str,
        step: Step | None = None,
        *,
        variant: str | None = None,
        screen_id: str | None = None,
        detail: str = "",
    ) -> None:
        """Record why a possible example is missing; equal reasons are counted."""
        index, line = None if step is None else step.index, " ".join(detail.split())
        why = {"variant": variant, "step_index": index, "screen_id": screen_id, "reason": reason, "detail": line}
        self._refused[tuple(why.items())] += 1

    def fail(self, error: StageError, step: Step | None = None) -> None:
        place = "" if step is None else f"step {step.index}: "
        failure = Failure(
            stage=f"derive {self._maker.kind}",
            input_id=self._episode.trajectory.trajectory_id,
            failure_class=error.failure_class,
            message=f"{place}{error}",
            **self._common,
        )
        self._failures.append(failure)

    def rows(self) -> DerivedRows:
        common = {"kind": self._maker.kind, "trajectory_id": self._episode.trajectory.trajectory_id, **self._common}
        refusals = [Refusal(count=count, **dict(why), **common) for why, count in self._refused.items()]
        return DerivedRows(tuple(self._examples.values()), tuple(refusals), tuple(self._failures))


S = TypeVar("S", bound=KindSpec)


class KindDeriver(ABC, Generic[S]):
    """The base of the built-in derivers: refuses unusable episodes whole, and collects the rows of the others."""

    def __init__(self, spec: S, tools: Tools) -> None:
        self.spec = spec
        self.tools = tools

    async def derive(self, episode: Episode, only: frozenset[int] | None = None) -> DerivedRows:
        """Return the examples of an episode, its refusals and its failures; a failed model may leave some out."""
        collected = Collected(self.tools.maker, episode)
        reason = self.unusable(episode)
        if reason is None:
            try:
                await self.collect(episode, only, collected)
            except StageError as error:
                collected.fail(error)
        else:
            collected.refuse(reason)
        return collected.rows()

    def unusable(self, episode: Episode) -> str | None:
        """Return why an episode gives no row; None if it may give some."""
        return unfit(episode)

    @abstractmethod
    async def collect(self, episode: Episode, only: frozenset[int] | None, collected: Collected) -> None:
        """Collect the rows of an episode; `only` are the steps whose screens are used, None for all."""
