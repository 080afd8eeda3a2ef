"""Labelled sets: trajectories of others with a person's verdict, by which a judge is measured."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import NamedTuple, Protocol

from PIL import Image

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Platform, Split
from trajmill.schemas.tables.screen import ObservedScreens
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.text import storable
from trajmill.stages.agents.base import Decision
from trajmill.stages.critics.calibration.agreement import CallCost, LabelledVotes
from trajmill.stages.critics.judge import judge_each
from trajmill.stages.critics.spec import CriticModels, JudgeSpec
from trajmill.stages.critics.voting import Vote
from trajmill.stages.environments.tasks import own_query
from trajmill.stages.rollout.episode import recorded_rows

_MADE_BY = "labelled-set-1"
_LONGEST_REASON = 200


class Label(NamedTuple):
    """What people say about a trajectory; `passed` is None if they do not know, or do not agree."""

    benchmark: str
    agent: str
    task_id: str
    passed: bool | None

    @property
    def name(self) -> str:
        return f"{self.benchmark}/{self.agent}/{self.task_id}"


class UnreadableError(Exception):
    """A trajectory of the set cannot be read; the message is one line."""

    @classmethod
    def of_layout(cls, name: str, error: Exception) -> UnreadableError:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_REASON]
        return cls(f"{name} is no trajectory of this layout: {reason}")


class LabelledScreens(ObservedScreens):
    """The screens of the trajectories in progress; memory holds their trees, but no pixels."""

    def __init__(self) -> None:
        self._screens: dict[str, Observation] = {}
        super().__init__(self._screens)
        self._users: Counter[str] = Counter()

    def add(self, name: str, read: Callable[[], bytes], elements: tuple[UIElement, ...], app: str) -> Observation:
        """Add a screenshot with its tree; its id is the hash of both. Raises UnreadableError if it is none.

        `read` returns its file, now and whenever a critic looks at it; `name` is for the error.
        """
        try:
            content = read()
            with Image.open(BytesIO(content)) as image:
                size = Size(*image.size)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise UnreadableError(f"screenshot {name} cannot be read: {type(error).__name__}") from None
        screen_id = content_id("screen", content.hex(), elements)
        found = Observation(ScreenHandle(screen_id, size, read), elements, app)
        self._screens[screen_id] = found
        self._users[screen_id] += 1
        return found

    def drop(self, screen_ids: Iterable[str]) -> None:
        """Remove screens; a screen that was added several times stays until it is dropped as often."""
        self._users.subtract(screen_ids)
        for screen_id in [name for name, users in self._users.items() if users <= 0]:
            del self._users[screen_id], self._screens[screen_id]


class LabelledEpisode(NamedTuple):
    episode: Episode
    screens: tuple[str, ...]
    """Ids of the screens that were added for it, as often as they were added."""


class LabelledTrajectory(NamedTuple):
    label: Label
    read: Callable[[LabelledScreens, Origin], LabelledEpisode | None]
    """Read it, and add its screens; None if the set has no file of it. Raises UnreadableError."""


class LabelledSet(Protocol):
    """A benchmark of judges in its own layout."""

    holds: str
    """Where its trajectories belong, for a message."""

    def __iter__(self) -> Iterator[LabelledTrajectory]:
        """Yield every labelled trajectory; its file is read when it is asked for."""
        ...


def episode_of(
    label: Label,
    instruction: str,
    decisions: Sequence[Decision],
    around: Sequence[Observation],
    added: Iterable[Observation],
    origin: Origin,
    fields: Mapping[str, object],
) -> LabelledEpisode:
    """Make the episode of a labelled trajectory, without its label.

    `around` are the screens around the decisions, one more than these; `added` are those that its reader added;
    `fields` are further ones of the trajectory.
    """
    query = own_query(
        Platform.WEB,
        label.task_id,
        storable(instruction),
        "{}",
        origin,
        _MADE_BY,
        apps=(label.benchmark,),
        max_steps=1,
        split=Split.HELDOUT_APPS,
    )
    screens = tuple(each.screen.screen_id for each in added)
    known = {"query_id": query.query_id, "agent": label.agent, "purpose": Purpose.EVALUATE}
    trajectory_id = content_id("labelled", label.name, screens)
    rows = recorded_rows(trajectory_id, decisions, around, {**known, **fields, **origin.common(made_by=_MADE_BY)})
    return LabelledEpisode(Episode(query=query, trajectory=rows[0], steps=rows[1]), screens)


@dataclass
class LabelledVerdicts:
    labels: int = 0
    evidence: list[LabelledVotes] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)
    failures: list[Failure] = field(default_factory=list)
    calls: list[ModelCall] = field(default_factory=list)
    absent: int = 0
    """Labelled trajectories without a file; the whole set is large, and a part of it is enough."""
    void: int = 0
    unsure: int = 0


async def judge_labelled(
    labelled: LabelledSet, spec: JudgeSpec, critics: CriticModels, origin: Origin, stage: str
) -> LabelledVerdicts:
    """Judge the labelled trajectories that have files, `spec.concurrency` at a time; files are read when needed."""
    made, screens = LabelledVerdicts(), LabelledScreens()
    being_judged: dict[str, tuple[bool, LabelledEpisode]] = {}
    calls: dict[str | None, list[ModelCall]] = defaultdict(list)

    def account(call: ModelCall) -> None:
        made.calls.append(call)
        calls[call.trajectory_id].append(call)

    def episodes() -> Iterator[Episode]:
        for label, read_one in labelled:
            made.labels += 1
            if label.passed is None:
                made.unsure += 1
                continue
            try:
                read = read_one(screens, origin)
            except UnreadableError as error:
                failure = Failure(
                    stage=stage,
                    input_id=storable(label.name),
                    failure_class=FailureClass.TASK,
                    message=str(error),
                    **origin.common(made_by=_MADE_BY),
                )
                made.failures.append(failure)
                continue
            if read is None:
                made.absent += 1
            elif read.episode.trajectory.status != "finished":
                made.void += 1
                screens.drop(read.screens)
            else:
                being_judged[read.episode.trajectory.trajectory_id] = label.passed, read
                yield read.episode

    async with spec.open(critics, origin, account) as judge:
        async for episode, failure in judge_each(episodes(), judge, screens, origin, spec.concurrency):
            name = episode.trajectory.trajectory_id
            passed, known = being_judged.pop(name)
            screens.drop(known.screens)
            costs = [CallCost.of(vars(call)) for call in calls.pop(name, ())]
            if failure is not None:
                made.failures.append(failure.model_copy(update={"stage": stage}))
            elif episode.judgement is not None:
                found = episode.trajectory_verdicts
                votes = [Vote(v.channel, v.resolution, v.made_by, v.correct, number=v.vote) for v in found]
                made.evidence.append(LabelledVotes(passed, votes, costs))
                made.versions.add(episode.judgement.made_by)
    return made
