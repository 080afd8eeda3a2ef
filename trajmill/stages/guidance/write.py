"""The guide stage: filters and describes the steps of a trajectory, then writes guidance from them (paper 6.4).

The embedded describer compares trees, and the embedded writer numbers the presses and inputs; neither asks a model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.guidance import DroppedStep, Guidance
from trajmill.stages.critics.trees.caption import ElementAction
from trajmill.stages.critics.trees.replay import SeenStep, replay, seen
from trajmill.stages.critics.trees.screen_state import control_kind
from trajmill.stages.guidance.base import OWN_SUCCESS, GuidanceWriter, StepDescriber, StepDescription, StepOutcome
from trajmill.stages.guidance.filter import as_expected, lasting_steps


class TreeDescriber:
    """Describes outcomes by comparing trees; needs no model."""

    version = "tree-describer-1"

    async def describe(self, episode: Episode, step: SeenStep, screens: ScreenReader) -> StepOutcome:
        """The outcome of a step, e.g. `Tapped button "Add to cart": opened "Cart" of "shop.cart".`."""
        return StepOutcome(step.caption)


_LONGEST = 80
"""Most characters of an element's name in a line."""


class LineWriter:
    """Writes one line per step that names its target as the screen shows it; needs no model.

    It leaves out scrolling, going back, and opening and closing the keyboard, because an agent sees whether the next
    target is visible.
    """

    version = "line-writer-1"

    async def synthesise(self, episode: Episode, steps: Sequence[StepDescription]) -> str:
        """Numbered lines, e.g. `2. Tap "Large" in Size.`; empty if no step has a target."""
        lines = [line for description in steps if (line := instruction_for(description.step.action))]
        return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, start=1))


def instruction_for(action: ElementAction) -> str:
    """The instruction for one action, as a sentence; empty for actions that need no hint."""
    element = action.element
    match action.kind:
        case "click" | "long_press" if element is not None and (element.text or element.value):
            verb = "Open" if action.opens else "Hold" if action.kind == "long_press" else "Tap"
            group = f" in {_plain(element.value)}" if control_kind(element) in ("choice", "stepper") else ""
            return f'{verb} "{_plain(element.text or element.value)}"{group}.'
        case "type":
            into = f" into {_plain(element.text)}" if element is not None and element.text else ""
            return f'Type "{_plain(action.words)}"{into}.'
        case "open":
            return f'Open "{_plain(action.words)}".'
        case "key" if action.words == "enter":
            return 'Press "Enter".'
        case "answer":
            return f'Answer "{_plain(action.words)}".'
        case _:
            return ""


def _plain(text: str) -> str:
    """The text on one line, without quotes, shortened."""
    line = " ".join(text.split()).replace('"', "'")
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


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
