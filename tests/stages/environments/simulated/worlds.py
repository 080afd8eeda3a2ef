import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import networkx as nx

from tests.records import record
from trajmill.schemas.actions import Action, Click, Terminate
from trajmill.schemas.observation import Observation, UIElement
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.app_files.app_spec import Scalar
from trajmill.stages.environments.simulated.app_files.loader import AppFile, ErrandFile, YamlFile, parse_yaml, read_spec
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.reference_path import (
    Walker,
    WalkPosition,
    goal_json,
    reference_path,
    start_state_json,
)
from trajmill.stages.environments.simulated.world import TaskGraph, World, shared_world

DOCS = Path(__file__).parents[4] / "docs" / "apps.md"
NO_FAULTS = FaultRates(popup=0, slow=0)

PAPER, SHELF = (Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8") for name in ("paper", "shelf"))


def garden() -> str:
    found = re.search(r"```yaml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found[1]


def app_file(text: str) -> AppFile | ErrandFile:
    source = parse_yaml("app.yaml", text)
    assert isinstance(source, YamlFile), source
    found = read_spec(source)
    assert found.file is not None, found.mistakes
    return found.file


def task_of(world: World, name: str) -> TaskGraph:
    return next(task for task in world.tasks if task.name == name)


def world_of(*texts: str) -> World:
    files = [app_file(text) for text in texts]
    apps = {file.spec.app: file.spec for file in files if isinstance(file, AppFile)}
    return World(apps, {file.spec.errand: file.spec for file in files if isinstance(file, ErrandFile)})


def everything() -> World:
    """The built-in apps and errands, and small ones that do what those do not."""
    built, own = shared_world(()), world_of(garden(), PAPER, SHELF)
    return World({**built.apps, **own.apps}, built.errands)


def query_of(
    platform: Platform = Platform.PHONE, start_state: str = "{}", goal: str = "{}", task: str = "", **others: object
) -> Query:
    asked = {"platform": platform, "start_state": start_state, "goal": goal, "task": task, "validation": "passed"}
    return record(Query, query_id="q", difficulty=1, max_steps=50, **asked, **others)


def task_query(task: TaskGraph, pages: tuple[str, ...], values: Mapping[str, Scalar]) -> Query:
    return query_of(
        task.platform,
        start_state_json(task, values),
        goal_json(task, values),
        task.name,
        pages=pages,
        path=reference_path(task, pages, values),
    )


def some_values(task: TaskGraph, rng: random.Random) -> dict[str, Scalar]:
    return {
        slot.spec.name: rng.choice(slot.values)
        for slot in task.slots
        if slot.values and (not slot.spec.optional or rng.random() < 0.5)
    }


def paths_of(task: TaskGraph) -> Iterator[tuple[str, ...]]:
    for end in task.graph:
        if task.graph.out_degree(end) == 0:
            found = nx.all_simple_paths(task.graph, task.start, end)
            yield from [(end,)] if end == task.start else (tuple(path) for path in found)


class Walked(NamedTuple):
    """The actions of a walk, of which the last is the `Terminate`, and what was seen before each."""

    actions: list[Action]
    seen: list[Observation]


def walk(env: SimulatedEnvironment, query: Query, seed: int) -> Walked:
    walker, position = Walker(query.path, query.platform), WalkPosition()
    walked = Walked([], [env.reset_now(query, seed)])
    while len(walked.actions) < 80:
        action, position = walker.next_action(walked.seen[-1], position)
        walked.actions.append(action)
        if isinstance(action, Terminate):
            return walked
        walked.seen.append(env.step_now(action))
    raise AssertionError(f"the walk of {query.task} does not end: {walked.actions[-3:]}")


class ScreenOperator:
    """Operates an environment by the texts on its screen."""

    def __init__(self, world: World, platform: Platform = Platform.PHONE, seed: int = 0, goal: str = "{}") -> None:
        self.env = SimulatedEnvironment(world, platform, NO_FAULTS)
        self.seen = self.env.reset_now(query_of(platform, goal=goal), seed)

    def do(self, action: Action) -> Observation:
        self.seen = self.env.step_now(action)
        return self.seen

    def find(self, text: str) -> UIElement | None:
        found = [element for element in self.seen.elements or () if element.text == text]
        return next((element for element in found if element.clickable), found[0] if found else None)

    def value(self, text: str) -> str:
        found = self.find(text)
        assert found is not None, f"no {text!r} among {self.texts()}"
        return found.value

    def press(self, *texts: str, count: int = 1) -> Observation:
        for text in texts:
            element = self.find(text)
            assert element is not None, f"no {text!r} among {self.texts()}"
            self.do(Click(x=element.bounds.center.x, y=element.bounds.center.y, count=count))
        return self.seen

    def texts(self) -> list[str]:
        return [element.text for element in self.seen.elements or ()]

    def roles(self) -> list[str]:
        return [element.role for element in self.seen.elements or ()]

    @property
    def title(self) -> str:
        assert self.seen.elements and self.seen.elements[0].states == ("title",)
        return self.seen.elements[0].text
