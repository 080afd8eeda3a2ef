"""Collects the rows of one episode: examples with their provenance, counted refusals, failures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from trajmill.schemas.actions import Action, action_to_json
from trajmill.schemas.coordinates import CoordinateSpace
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import StageError
from trajmill.schemas.geometry import Box
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.example import Example, Message
from trajmill.schemas.tables.failure import Failure, Refusal
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.derive.base import DerivedRows, unfit
from trajmill.stages.derive.kind_spec import KindSpec, Tools

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


class Maker(NamedTuple):
    """The provenance of the rows of one kind."""

    kind: str
    made_by: str
    """Version of the deriver, with a hash of its settings."""
    origin: Origin
    """Common columns of the rows."""


class Lesson(NamedTuple):
    """The content of one example."""

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


class _Reason(NamedTuple):
    variant: str | None
    step_index: int | None
    screen_id: str | None
    reason: str
    detail: str


class Collected:
    """The rows of one kind that an episode has given so far."""

    def __init__(self, maker: Maker, episode: Episode) -> None:
        self._maker = maker
        self._episode = episode
        self._common = maker.origin.common(maker.made_by)
        self._examples: dict[str, Example] = {}
        self._refused: Counter[_Reason] = Counter()
        self._failures: list[Failure] = []

    def add(self, lesson: Lesson, step: Step | None) -> None:
        """Add an example of a step, or of the whole trajectory if `step` is None; duplicates are dropped."""
        episode, kind = self._episode, self._maker.kind
        trajectory_id, index = episode.trajectory.trajectory_id, None if step is None else step.index
        contents = [message.content for message in lesson.messages]
        example = Example(
            example_id=content_id("example", kind, trajectory_id, index, contents, list(lesson.screens)),
            kind=kind,
            messages=tuple(lesson.messages),
            screens=tuple(lesson.screens),
            action=None if lesson.action is None else action_to_json(lesson.action),
            coordinate_space=CoordinateSpace.RESIZED_PIXELS,
            loss_weight=1.0,
            query_id=episode.query.query_id,
            trajectory_id=trajectory_id,
            step_index=index,
            split=episode.query.split,
            guided=episode.trajectory.purpose is Purpose.GUIDED,
            variant=lesson.variant,
            written_by=lesson.written_by,
            source_screens=tuple(lesson.sources or lesson.screens),
            box=lesson.box,
            source_trajectories=tuple(lesson.trajectories) or None,
            **self._common,
        )
        self._examples.setdefault(example.example_id, example)

    def add_or_refuse(self, made: Lesson | str, step: Step | None, variant: str | None = None) -> None:
        """Add an example, or record the reason that stands in its place."""
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
        index = None if step is None else step.index
        self._refused[_Reason(variant, index, screen_id, reason, " ".join(detail.split()))] += 1

    def fail(self, error: StageError, step: Step | None = None) -> None:
        place = "" if step is None else f"step {step.index}: "
        failure = Failure(
            stage=f"derive {self._maker.kind}",
            input_id=self._episode.trajectory.trajectory_id,
            failure_class=error.failure_class,
            message=f"{place}{error}",
            attempts=1,
            **self._common,
        )
        self._failures.append(failure)

    def rows(self) -> DerivedRows:
        kind, trajectory_id = self._maker.kind, self._episode.trajectory.trajectory_id
        refusals: Iterable[Refusal] = (
            Refusal(kind=kind, trajectory_id=trajectory_id, count=count, **why._asdict(), **self._common)
            for why, count in self._refused.items()
        )
        return DerivedRows(tuple(self._examples.values()), tuple(refusals), tuple(self._failures))


S = TypeVar("S", bound=KindSpec)


class KindDeriver(ABC, Generic[S]):
    """The base of the built-in derivers: refuses unusable episodes whole, and collects the rows of the others."""

    def __init__(self, spec: S, tools: Tools) -> None:
        self.spec = spec
        self.tools = tools

    async def derive(self, episode: Episode, only: frozenset[int] | None = None) -> DerivedRows:
        """Return the examples of an episode, its refusals and its failures."""
        collected = Collected(self.tools.maker, episode)
        reason = self.unusable(episode)
        if reason is None:
            await self.collect(episode, only, collected)
        else:
            collected.refuse(reason)
        return collected.rows()

    def unusable(self, episode: Episode) -> str | None:
        """Return why an episode gives no row; None if it may give some."""
        return unfit(episode)

    @abstractmethod
    async def collect(self, episode: Episode, only: frozenset[int] | None, collected: Collected) -> None:
        """Collect the rows of an episode; `only` are the steps whose screens are used, None for all."""
