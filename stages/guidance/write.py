"""The guide stage for one trajectory: describe, filter, synthesise (paper 6.4)."""

from __future__ import annotations

from typing import NamedTuple

from schemas.episode import Episode
from schemas.errors import FailureClass, StageError
from schemas.failure import Failure
from schemas.guidance import Guidance
from schemas.observation import ScreenReader
from schemas.record import Origin
from stages.critics.replay import replay
from stages.guidance.base import GuidanceWriter, StepDescriber, StepDescription
from stages.guidance.describe import TreeDescriber
from stages.guidance.filter import worth_telling
from stages.guidance.synthesise import LineWriter

STAGE = "guide"
"""Name of the stage as it stands on failures."""


class Guide(NamedTuple):
    """Who describes and who writes."""

    describer: StepDescriber = TreeDescriber()
    writer: GuidanceWriter = LineWriter()


async def write_guidance(
    episode: Episode, screens: ScreenReader, origin: Origin, source: str, guide: Guide | None = None
) -> Guidance | Failure:
    """Guidance for the query of a successful or reference episode, or why there is none.

    `source` is `own_success` or `reference_path`. The embedded guide is used unless told otherwise.
    """
    guide = guide or Guide()
    try:
        kept = worth_telling(replay(episode, screens), episode.step_verdicts, episode.query.pages)
        described = [StepDescription(step, await guide.describer.describe(step)) for step in kept.steps]
        text = await guide.writer.synthesise(episode.query.instruction, described)
    except StageError as error:
        return _failure(episode, str(error), error.failure_class, guide, origin)
    if not text:
        return _failure(episode, "no step is worth telling", FailureClass.TASK, guide, origin)
    return Guidance(
        guidance_id=Guidance.make_id(episode.query.query_id, text),
        query_id=episode.query.query_id,
        source_trajectory=episode.trajectory.trajectory_id,
        source=source,
        step_descriptions=tuple(description.outcome for description in described),
        dropped_steps=kept.dropped,
        text=text,
        **origin.common(made_by=guide.writer.version),
    )


def _failure(episode: Episode, message: str, kind: FailureClass, guide: Guide, origin: Origin) -> Failure:
    return Failure(
        stage=STAGE,
        input_id=episode.trajectory.trajectory_id,
        failure_class=kind,
        message=message,
        attempts=1,
        **origin.common(made_by=guide.writer.version),
    )
