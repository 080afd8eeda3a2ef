"""Collects the rows that one episode gives: examples with their provenance, refusals with their counts, failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

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
from trajmill.stages.derive.base import DerivedRows

TEMPLATE = "template"
"""The author of texts that code has written."""
_WALKS = frozenset({"reference", "element_walk"})
RULE_AGENTS = _WALKS | {"explorer"}
"""Agents without a model; the version of their policy is their name."""
WALK_WORDS = "template_conclusions"
"""The reason of a trajectory whose words are those of a walk."""
_BUILT_IN_POLICY = "embedded-"


def writes_templates(author: str) -> bool:
    """Whether the thoughts of a policy version are filled into templates."""
    return author.startswith(_BUILT_IN_POLICY) or author in RULE_AGENTS


def is_walk(episode: Episode) -> bool:
    """Whether an agent followed an annotated path, whose words name elements by ids that no user sees."""
    return episode.trajectory.model_version in _WALKS


class Maker(NamedTuple):
    """What makes the rows of one kind."""

    kind: str
    made_by: str
    """Version of the deriver, with a hash of its settings."""
    origin: Origin
    """Common columns of the rows."""


class Lesson(NamedTuple):
    """The content of one example."""

    messages: Sequence[Message]
    screens: Sequence[str]
    """Ids of the screens that the messages show, in the order of the placeholders."""
    variant: str
    written_by: str
    action: Action | None = None
    """What the reply does, in pixels of the last screen."""
    box: Box | None = None
    sources: Sequence[str] = ()
    """The stored screens behind those that the messages show; the same ones if empty."""
    trajectories: Sequence[str] = ()
    """All trajectories that it was made from; empty if it was the episode's alone."""


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
        self._examples: dict[str, Example] = {}
        self._refused: Counter[_Reason] = Counter()
        self._failures: list[Failure] = []

    def add(self, lesson: Lesson, step: Step | None) -> None:
        """Keep an example that a step teaches, or the whole trajectory if `step` is None."""
        maker, episode = self._maker, self._episode
        trajectory_id, index = episode.trajectory.trajectory_id, None if step is None else step.index
        contents = [message.content for message in lesson.messages]
        example = Example(
            example_id=content_id("example", maker.kind, trajectory_id, index, contents, list(lesson.screens)),
            kind=maker.kind,
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
            **maker.origin.common(maker.made_by),
        )
        self._examples.setdefault(example.example_id, example)

    def refuse(
        self,
        reason: str,
        step: Step | None = None,
        *,
        variant: str | None = None,
        screen_id: str | None = None,
        detail: str = "",
    ) -> None:
        """Record why a possible example is none; equal reasons are counted."""
        index = None if step is None else step.index
        self._refused[_Reason(variant, index, screen_id, reason, " ".join(detail.split()))] += 1

    def fail(self, error: StageError, step: Step | None = None) -> None:
        """Record that an example could not be made because of a failure."""
        place = "" if step is None else f"step {step.index}: "
        self._failures.append(
            Failure(
                stage=f"derive {self._maker.kind}",
                input_id=self._episode.trajectory.trajectory_id,
                failure_class=error.failure_class,
                message=f"{place}{error}",
                attempts=1,
                **self._maker.origin.common(self._maker.made_by),
            )
        )

    def rows(self) -> DerivedRows:
        """All rows so far."""
        common = self._maker.origin.common(self._maker.made_by)
        trajectory_id = self._episode.trajectory.trajectory_id
        refusals = (
            Refusal(kind=self._maker.kind, trajectory_id=trajectory_id, count=count, **why._asdict(), **common)
            for why, count in self._refused.items()
        )
        return DerivedRows(tuple(self._examples.values()), tuple(refusals), tuple(self._failures))
