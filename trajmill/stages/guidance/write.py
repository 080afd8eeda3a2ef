"""The guide stage: filters and describes the steps of a trajectory, then writes guidance from them (paper 6.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.guidance import DroppedStep, Guidance
from trajmill.stages.critics.trees.replay import replay, seen
from trajmill.stages.guidance.base import OWN_SUCCESS, GuidanceWriter, StepDescriber, StepDescription
from trajmill.stages.guidance.describe import TreeDescriber
from trajmill.stages.guidance.filter import as_expected, lasting_steps
from trajmill.stages.guidance.synthesise import LineWriter

STAGE = "guide"
"""Name of the stage on failures."""


class Guide(NamedTuple):
    """A describer and a writer."""

    describer: StepDescriber = TreeDescriber()
    writer: GuidanceWriter = LineWriter()

    @property
    def version(self) -> str:
        """Stored with every guidance: the writer's version, then the describer's unless it is the embedded one."""
        if isinstance(self.describer, TreeDescriber):
            return self.writer.version
        return f"{self.writer.version} {self.describer.version}"


class _DescribedSteps(NamedTuple):
    """The described steps of a trajectory, and the steps that were left out."""

    steps: tuple[StepDescription, ...]
    dropped: tuple[DroppedStep, ...]


async def guide_episodes(
    episodes: Iterable[Episode],
    screens: ScreenReader,
    origin: Origin,
    source_of: Callable[[Episode], str],
    guide: Guide | None = None,
    at_once: int = 1,
) -> list[Guidance | Failure]:
    """Write guidance from each episode; the result is guidance or a failure, in the order of the episodes.

    Args:
        episodes: successes or reference walks.
        screens: where their screens are.
        origin: common columns of the rows.
        source_of: `own_success` or `reference_path`.
        guide: by default the embedded one.
        at_once: episodes that are worked on at the same time. The steps of one episode are described one by one.
    """
    reader = seen(screens)
    free = asyncio.Semaphore(at_once)

    async def write(episode: Episode) -> Guidance | Failure:
        async with free:
            return await write_guidance(episode, reader, origin, source_of(episode), guide)

    return list(await asyncio.gather(*(write(episode) for episode in episodes)))


async def write_guidance(
    episode: Episode, screens: ScreenReader, origin: Origin, source: str, guide: Guide | None = None
) -> Guidance | Failure:
    """Write guidance for the query of a successful or reference episode; returns a failure if no step is useful.

    `source` is `own_success` or `reference_path`. The default is the embedded guide.
    """
    guide = guide or Guide()
    try:
        described = await _describe_steps(episode, screens, source, guide.describer)
        text = await guide.writer.synthesise(episode, described.steps) if described.steps else ""
    except StageError as error:
        return _failure(episode, str(error), error.failure_class, guide, origin)
    if not text:
        return _failure(episode, "no step is worth telling", FailureClass.TASK, guide, origin)
    return Guidance(
        guidance_id=Guidance.make_id(episode.query.query_id, text),
        query_id=episode.query.query_id,
        source_trajectory=episode.trajectory.trajectory_id,
        source=source,
        step_descriptions=tuple(description.outcome for description in described.steps),
        dropped_steps=described.dropped,
        text=text,
        **origin.common(made_by=guide.version),
    )


async def _describe_steps(
    episode: Episode, screens: ScreenReader, source: str, describer: StepDescriber
) -> _DescribedSteps:
    kept = lasting_steps(replay(episode, screens), episode.step_verdicts, episode.query.pages)
    outcomes = [await describer.describe(episode, step, screens) for step in kept.steps]
    if source != OWN_SUCCESS:
        # An annotated path is correct by definition, and it states no expectation.
        steps = (StepDescription(step, outcome.text) for step, outcome in zip(kept.steps, outcomes, strict=True))
        return _DescribedSteps(tuple(steps), kept.dropped)
    expected = as_expected(kept.steps, outcomes)
    return _DescribedSteps(
        expected.steps, tuple(sorted((*kept.dropped, *expected.dropped), key=lambda dropped: dropped.index))
    )


def _failure(episode: Episode, message: str, kind: FailureClass, guide: Guide, origin: Origin) -> Failure:
    return Failure(
        stage=STAGE,
        input_id=episode.trajectory.trajectory_id,
        failure_class=kind,
        message=message,
        attempts=1,
        **origin.common(made_by=guide.version),
    )
