"""The guide stage: filters and describes the steps of a trajectory, then writes guidance from them (paper 6.4).

The embedded describer compares trees, and the embedded writer numbers the presses and inputs; neither needs a model.
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
from trajmill.stages.guidance.filter import ENDINGS, useless_steps

STAGE = "guide"
"""Name of the stage on failures."""
_LONGEST = 80
"""Most characters of an element's name in a line."""


class TreeDescriber:
    """Describes outcomes by comparing trees; needs no model."""

    version = "tree-describer-1"

    async def describe(self, episode: Episode, step: SeenStep, screens: ScreenReader) -> StepOutcome:
        """Return the outcome of a step, e.g. `Tapped button "Add to cart": opened "Cart" of "shop.cart".`."""
        return StepOutcome(step.caption)


class LineWriter:
    """Writes one line per step that names its target as the screen shows it; needs no model.

    Scrolling, going back, and opening and closing the keyboard are left out: an agent sees whether the next target is
    visible.
    """

    version = "line-writer-1"

    async def synthesise(self, episode: Episode, steps: Sequence[StepDescription]) -> str:
        """Return numbered lines, e.g. `2. Tap "Large" in Size.`; empty if no step has a target."""
        lines = [line for description in steps if (line := instruction_for(description.step.action))]
        return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, start=1))


def instruction_for(action: ElementAction) -> str:
    """Return the instruction for one action, as a sentence; empty for actions that need no hint."""
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
    line = " ".join(text.split()).replace('"', "'")
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


class Guide(NamedTuple):
    """A describer and a writer; by default the embedded ones."""

    describer: StepDescriber = TreeDescriber()
    writer: GuidanceWriter = LineWriter()

    @property
    def version(self) -> str:
        """Stored with every guidance: the writer's version, then the describer's unless it is the embedded one."""
        if isinstance(self.describer, TreeDescriber):
            return self.writer.version
        return f"{self.writer.version} {self.describer.version}"


async def guide_episodes(
    episodes: Iterable[Episode],
    screens: ScreenReader,
    origin: Origin,
    source_of: Callable[[Episode], str],
    guide: Guide | None = None,
    at_once: int = 1,
) -> list[Guidance | Failure]:
    """Return guidance or a failure for each episode, in their order.

    Args:
        episodes: successes or reference walks.
        screens: where their screens are.
        origin: common columns of the rows.
        source_of: `own_success` or `reference_path`.
        guide: by default the embedded one.
        at_once: number of concurrent episodes. The steps of one episode are described one by one.
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
    """Return guidance for the query of a successful or reference episode; a failure if no step is useful.

    A query is hard, so even a success has errors and useless steps (paper 6.4). Of a policy's own success, steps with
    another outcome than the policy expected are dropped too. An annotated path is correct by definition, and states no
    expectation.
    """
    guide = guide or Guide()
    common = origin.common(made_by=guide.version)

    def failure(message: str, kind: FailureClass) -> Failure:
        trajectory_id = episode.trajectory.trajectory_id
        return Failure(stage=STAGE, input_id=trajectory_id, failure_class=kind, message=message, attempts=1, **common)

    described = []
    try:
        steps = replay(episode, screens)
        reasons = useless_steps(steps, episode.step_verdicts, episode.query.pages)
        for step in (step for step in steps if step.index not in reasons):
            outcome = await guide.describer.describe(episode, step, screens)
            if source == OWN_SUCCESS and outcome.unmet and step.action.kind not in ENDINGS:
                reasons[step.index] = f"not as expected: {outcome.unmet}"
            else:
                described.append(StepDescription(step, outcome.text))
        text = await guide.writer.synthesise(episode, described) if described else ""
    except StageError as error:
        return failure(str(error), error.failure_class)
    if not text:
        return failure("no step is worth telling", FailureClass.TASK)
    return Guidance(
        guidance_id=Guidance.make_id(episode.query.query_id, text),
        query_id=episode.query.query_id,
        source_trajectory=episode.trajectory.trajectory_id,
        source=source,
        step_descriptions=tuple(description.outcome for description in described),
        dropped_steps=tuple(DroppedStep(index=index, reason=reason) for index, reason in sorted(reasons.items())),
        text=text,
        **common,
    )
