"""Reads trajectories in AgentRewardBench's layout as episodes.

    FOLDER/annotations.csv (or data/annotations.csv)
    FOLDER/cleaned/BENCHMARK/AGENT/EXPERIMENT/TASK.json
    FOLDER/screenshots/BENCHMARK/AGENT/TASK/screenshot_step_N.png

Every step of a file has the screen before its action; the last step may have no action and only show the last screen.
Of a path in a file, the part from `screenshots` on is used; it never leads out of the folder.
"""

from __future__ import annotations

import csv
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError, FailureClass
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
from trajmill.stages.critics.base import Vote
from trajmill.stages.critics.calibration.agreement import CallCost, LabelledVotes
from trajmill.stages.critics.calibration.labelled.browsergym import read_boxes, read_browser_action, read_tree
from trajmill.stages.critics.judge import judge_each
from trajmill.stages.critics.spec import CriticModels, JudgeSpec
from trajmill.stages.environments.tasks import own_query
from trajmill.stages.rollout.episode import recorded_rows

ENVIRONMENT = "agent-reward-bench"
_MADE_BY = "labelled-set-1"
_LONGEST_REASON = 200
_PLACES = ("annotations.csv", "data/annotations.csv")
_COLUMNS = ("benchmark", "model_name", "task_id", "trajectory_success")
_MEANINGS = {"Successful": True, "Unsuccessful": False, "Unsure": None}


class Label(NamedTuple):
    """The label of a trajectory's first annotator, which counts in the benchmark's own scores."""

    benchmark: str
    agent: str
    task_id: str
    passed: bool | None

    @property
    def name(self) -> str:
        """Name of the trajectory, in one line."""
        return f"{self.benchmark}/{self.agent}/{self.task_id}"


def read_labels(folder: Path) -> list[Label]:
    """Read the labels in order, without second opinions. Raises BadInputError for none, or a bad row."""
    path = next((folder / place for place in _PLACES if (folder / place).is_file()), None)
    if path is None:
        raise BadInputError(
            f"{folder}: no labelled set: {' and '.join(_PLACES)} are missing; name the folder that AgentRewardBench's "
            "dataset was downloaded to"
        )
    labels: dict[tuple[str, str, str], Label] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            columns = rows.fieldnames or ()
            missing = [column for column in _COLUMNS if column not in columns]
            if missing:
                raise BadInputError(f"{path}:1: column {missing[0]} is missing; there are {', '.join(columns)}")
            for row in rows:
                values, place = [row[column] or "" for column in _COLUMNS], f"{path}:{rows.line_num}"
                if not all(values):
                    raise BadInputError(f"{place}: {_COLUMNS[values.index('')]} is empty")
                benchmark, agent, task_id, success = values
                if success not in _MEANINGS:
                    *most, last = _MEANINGS
                    should = f"{', '.join(most)} or {last}"
                    raise BadInputError(f"{place}: trajectory_success is {success[:40]!r}; it should be {should}")
                label = Label(benchmark, agent, task_id, _MEANINGS[success])
                labels.setdefault(label[:3], label)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInputError(f"{path}: the labels cannot be read: {error}") from None
    if not labels:
        raise BadInputError(f"{path}:1: there is no label in it")
    return list(labels.values())


class UnreadableError(Exception):
    """A trajectory of the set cannot be read; the message is one line."""


class FolderScreens(ObservedScreens):
    """The screens of the trajectories in progress; memory holds their trees, but no pixels."""

    def __init__(self) -> None:
        self._screens: dict[str, Observation] = {}
        super().__init__(self._screens)
        self._users: Counter[str] = Counter()

    def add(self, path: Path, elements: tuple[UIElement, ...], app: str) -> Observation:
        """Add a screenshot with its tree; its id is the hash of both. Raises UnreadableError if it is none."""
        try:
            with Image.open(path) as image:
                size = Size(*image.size)
            screen_id = content_id("screen", path.read_bytes().hex(), elements)
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise UnreadableError(f"screenshot {path.name} cannot be read: {type(error).__name__}") from None
        found = Observation(ScreenHandle(screen_id, size, path.read_bytes), elements, app)
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
    """Ids of the screens that were added for it; a screen that was added twice is listed twice."""


def find_trajectory(folder: Path, label: Label) -> Path | None:
    """Return the file of a trajectory; None if it is not there. Raises UnreadableError for a name of no file."""
    if "\0" in label.name:
        raise UnreadableError("its name has the character NUL, so it has no file")
    home = folder / "cleaned" / label.benchmark / label.agent
    if not (home / label.task_id).resolve().is_relative_to((folder / "cleaned").resolve()):
        return None
    names = (f"{label.task_id}.json", f"*/{label.task_id}.json")
    return next((path for name in names for path in sorted(home.glob(name))), None)


def read_trajectory(path: Path, folder: Path, label: Label, screens: FolderScreens, origin: Origin) -> LabelledEpisode:
    """Read a trajectory as an episode without its label, and add its screens to `screens`.

    The reward is that of the benchmark's own check. Raises UnreadableError if the file or a screenshot is unreadable.
    """
    seen: list[Observation] = []
    try:
        found = json.loads(path.read_bytes(), parse_constant=_refused)
        decisions = [_decision(entry, folder, label, screens, seen) for entry in found["steps"]]
        if not decisions:
            raise ValueError("it has no steps")
        episode = _episode(found, decisions, seen, label, origin)
        return LabelledEpisode(episode, tuple(each.screen.screen_id for each in seen))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_REASON]
        raise UnreadableError(f"{path.name} is no trajectory of this layout: {reason}") from None


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


def _decision(
    entry: Mapping[str, Any], folder: Path, label: Label, screens: FolderScreens, seen: list[Observation]
) -> Decision:
    boxes = read_boxes(entry.get("extra_element_properties") or {})
    tree = read_tree(entry.get("axtree_pruned") or entry.get("axtree") or "", boxes)
    stored = entry["screenshot_path"]
    _, inside, rest = stored.partition("screenshots/")
    path = folder / "screenshots" / rest
    if not inside or not path.resolve().is_relative_to((folder / "screenshots").resolve()):
        raise UnreadableError(f"screenshot path {stored[:80]!r} is not under screenshots/")
    raw = entry["action"] or ""
    seen.append(screens.add(path, tree, label.benchmark))
    action = read_browser_action(raw, boxes)
    return Decision(storable(entry.get("reasoning") or ""), action, "", raw_response=storable(raw))


def _episode(
    found: Mapping[str, Any], decisions: Sequence[Decision], seen: Sequence[Observation], label: Label, origin: Origin
) -> Episode:
    shows_end = len(decisions) > 1 and not decisions[-1].raw_response
    acting, around = (decisions[:-1], seen) if shows_end else (decisions, [*seen, seen[-1]])
    reward = (found.get("summary_info") or {}).get("cum_reward")
    if reward is not None and not math.isfinite(float(reward)):
        raise ValueError(f"reward {float(reward)} is no number")
    query = own_query(
        Platform.WEB,
        label.task_id,
        storable(str(found["goal"])),
        "{}",
        origin,
        _MADE_BY,
        apps=(label.benchmark,),
        max_steps=1,
        split=Split.HELDOUT_APPS,
    )
    fields = {
        "query_id": query.query_id,
        "agent": label.agent,
        "model_version": storable(str(found.get("model") or label.agent)),
        "environment": ENVIRONMENT,
        "purpose": Purpose.EVALUATE,
        "status": "finished" if found.get("valid", True) else "failed",
        "reward": None if reward is None else min(1.0, max(0.0, float(reward))),
    }
    trajectory_id = content_id("labelled", label.name, [each.screen.screen_id for each in seen])
    trajectory, steps = recorded_rows(trajectory_id, acting, around, fields | origin.common(made_by=_MADE_BY))
    return Episode(query=query, trajectory=trajectory, steps=steps)


@dataclass
class LabelledVerdicts:
    evidence: list[LabelledVotes] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)
    failures: list[Failure] = field(default_factory=list)
    """One for each trajectory that could not be read or judged."""
    calls: list[ModelCall] = field(default_factory=list)
    absent: int = 0
    """Labelled trajectories without a file; the whole set is large, and a part of it is enough."""
    void: int = 0
    unsure: int = 0


async def judge_labelled(
    folder: Path, labels: Sequence[Label], spec: JudgeSpec, critics: CriticModels, origin: Origin, stage: str
) -> LabelledVerdicts:
    """Judge the labelled trajectories that have files, `spec.concurrency` at a time; files are read when needed."""
    made, screens = LabelledVerdicts(), FolderScreens()
    being_judged: dict[str, tuple[bool, LabelledEpisode]] = {}
    calls: dict[str | None, list[ModelCall]] = defaultdict(list)

    def account(call: ModelCall) -> None:
        made.calls.append(call)
        calls[call.trajectory_id].append(call)

    def episodes() -> Iterator[Episode]:
        for label in labels:
            if label.passed is None:
                made.unsure += 1
                continue
            try:
                path = find_trajectory(folder, label)
                read = read_trajectory(path, folder, label, screens, origin) if path is not None else None
            except UnreadableError as error:
                failure = Failure(
                    stage=stage,
                    input_id=storable(label.name),
                    failure_class=FailureClass.TASK,
                    message=str(error),
                    attempts=1,
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
                votes = [
                    Vote(each.channel, each.resolution, each.made_by, each.correct, number=each.vote)
                    for each in episode.trajectory_verdicts
                ]
                made.evidence.append(LabelledVotes(passed, votes, costs))
                made.versions.add(episode.judgement.made_by)
    return made
