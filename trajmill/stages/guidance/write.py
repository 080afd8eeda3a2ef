"""The guide stage: chooses hard queries, filters and describes the steps of a trajectory, writes hints (paper 6.4).

The embedded describer compares trees, and the embedded writer numbers the presses and inputs; neither needs a model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from trajmill.schemas.actions import is_hold
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import FailureClass, StageError
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.guidance import DroppedStep, Guidance
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.text import one_line
from trajmill.stages.critics.replay import ElementAction, SeenStep, control_kind, replay, seen
from trajmill.stages.curate.history import History
from trajmill.stages.guidance.filter import ENDINGS, useless_steps

ATTEMPTS_PER_QUERY = 2
_HARD_BELOW = 0.25
"""A query is hard while its success average is below this."""


class HardQueries(NamedTuple):
    """The queries to guide, hardest first, and the successes that hints can be written from."""

    queries: tuple[Query, ...]
    own_success: dict[str, str]


def hard_queries(
    queries: Sequence[Query], history: History, after_failures: int, enough: int, episodes: int
) -> HardQueries:
    """Return the queries with enough failures, a low recent success average, and a success or a path for hints.

    Those with `enough` successes to learn from need no more. `episodes` is the number of guided episodes of a round,
    which limits the queries.
    """
    averages = history.averages([query.query_id for query in queries])
    failures, solved = history.failures(), history.shortest_success()
    learned = {name for name, each in history.queries.items() if each.successes >= enough}
    hard = [
        query
        for query in queries
        if failures.get(query.query_id, 0) >= after_failures
        and averages[query.query_id] < _HARD_BELOW
        and query.query_id not in learned
        and (query.path or query.query_id in solved)
    ]
    ranked = sorted(hard, key=lambda query: (query.query_id in solved, averages[query.query_id], query.query_id))
    return HardQueries(tuple(ranked[: episodes // ATTEMPTS_PER_QUERY]), solved)


def queries_to_walk(hard: HardQueries, walks: Collection[str]) -> list[Query]:
    """Return the hard queries without a success whose annotated path was not walked before."""
    return [
        query
        for query in hard.queries
        if query.path and query.query_id not in hard.own_success and query.query_id not in walks
    ]


class GuidanceSources(NamedTuple):
    by_query: dict[str, str]
    unwritten: tuple[str, ...]
    """Those without guidance yet, sorted."""


def choose_sources(hard: HardQueries, walks: Mapping[str, str], written: Collection[str]) -> GuidanceSources:
    """Choose the policy's own success for each query; without one, the walk of its path from `walks`."""
    shown = {**walks, **hard.own_success}
    by_query = {query.query_id: shown[query.query_id] for query in hard.queries if query.query_id in shown}
    return GuidanceSources(by_query, tuple(sorted(set(by_query.values()) - set(written))))


OWN_SUCCESS = "own_success"
"""Guidance from a success of the policy itself."""
REFERENCE_PATH = "reference_path"
"""Guidance from the annotated path of the query."""
STAGE = "guide"
_LONGEST = 80


class StepOutcome(NamedTuple):
    text: str
    """One sentence on one line."""
    unmet: str = ""
    """Why the result differs from what the agent expected, if that is known."""


class StepDescription(NamedTuple):
    """One kept step and its result, e.g. `Tapped radio "Large": "Size" is now "Large" instead of "Medium"`."""

    step: SeenStep
    outcome: str


class StepDescriber(Protocol):
    """Describes the result of a step from its decision and the screens before and after it."""

    @property
    def version(self) -> str: ...

    async def describe(self, episode: Episode, step: SeenStep, screens: ScreenReader) -> StepOutcome:
        """Return the outcome of one step. Raises JudgeFailure for a missing screen, ModelFailure for no answer."""
        ...


class GuidanceWriter(Protocol):
    @property
    def version(self) -> str: ...

    async def synthesise(self, episode: Episode, steps: Sequence[StepDescription]) -> str:
        """Return the essential steps as numbered lines; empty if there are none. Raises ModelFailure for no answer."""
        ...


class TreeDescriber:
    """Describes outcomes by comparing trees; needs no model."""

    version = "tree-describer-1"

    async def describe(self, episode: Episode, step: SeenStep, screens: ScreenReader) -> StepOutcome:
        return StepOutcome(step.caption)


class LineWriter:
    """Writes one line per step that names its target as the screen shows it; needs no model.

    Scrolling, going back, and opening and closing the keyboard are left out: an agent sees whether the next target is
    visible.
    """

    version = "line-writer-2"

    async def synthesise(self, episode: Episode, steps: Sequence[StepDescription]) -> str:
        touch, actions = episode.query.platform is Platform.PHONE, [each.step.action for each in steps]
        lines = [line for action in actions if (line := instruction_for(action, touch))]
        return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, start=1))


def instruction_for(action: ElementAction, touch: bool) -> str:
    """Return the instruction for one action, as a sentence; empty for actions that need no hint."""
    press = "Tap" if touch else "Click"

    def plain(text: str) -> str:
        return one_line(text.replace('"', "'"), _LONGEST)

    element, words = action.element, plain(action.words)
    match action.kind:
        case "key" | "system_button" if action.confirms or (element is not None and element.role == "slider"):
            return f'Press "{words.capitalize()}".'
        case _ if action.presses and element is not None and (element.text or element.value):
            held = "Hold" if action.kind == "long_press" else "Right-click"
            verb = "Open" if action.opens else held if is_hold(action.parsed) else "Drag to" if action.slides else press
            group = f" in {plain(element.value)}" if control_kind(element) in ("choice", "stepper") else ""
            return f'{verb} "{plain(element.text or element.value)}"{group}.'
        case "type":
            into = f" into {plain(element.text)}" if element is not None and element.text else ""
            return f'Type "{words}"{into}.'
        case "open":
            return f'Open "{words}".'
        case "answer":
            return f'Answer "{words}".'
        case "terminate" if action.gives_up:
            return "Give up once you have scrolled through the whole list: it is not there."
        case _:
            return ""


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
    """Return guidance or a failure for each success or reference walk, in their order, `at_once` at a time."""
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

    Even a success has errors and useless steps (paper 6.4). Of a policy's own success, steps with another outcome than
    it expected are dropped too; an annotated path states no expectation. A path in a real program is told whole: two
    of its screens may look alike without being the same, as when a sum repeats a number.
    """
    guide = guide or Guide()
    common = origin.common(made_by=guide.version)

    def failure(message: str, kind: FailureClass) -> Failure:
        trajectory_id = episode.trajectory.trajectory_id
        return Failure(stage=STAGE, input_id=trajectory_id, failure_class=kind, message=message, **common)

    described = []
    try:
        steps = replay(episode, screens)
        if source == REFERENCE_PATH and episode.query.source.in_real_programs:
            reasons = {step.index: "only waited" for step in steps if step.action.kind == "wait"}
        else:
            reasons = useless_steps(steps, episode.harmful, episode.query.pages)
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
