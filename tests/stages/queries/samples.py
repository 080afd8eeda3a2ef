"""Samples that tests choose by hand, a small query set, and the answer of an honest writer."""

import asyncio
import json
import re
from collections.abc import Sequence

from tests.records import record
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query, Slot, Source, Split
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.environments.kinds import SimulatedSpec
from trajmill.stages.environments.simulated.app_files.app_spec import Scalar
from trajmill.stages.environments.simulated.world import TaskGraph
from trajmill.stages.queries.base import (
    Candidate,
    Goal,
    GrammarWriter,
    NewQueries,
    QuerySource,
    SourceContext,
    UnseenApps,
    WalkQueries,
    draft,
)
from trajmill.stages.queries.generate import QuerySet
from trajmill.stages.queries.tasks.source import TaskGoal, paths
from trajmill.stages.queries.walk import QueryWalker


def chosen(task: TaskGraph, **values: Scalar) -> TaskGoal:
    """The sample with these slot values, on the first path of the task."""
    return chosen_through(task, task.start, **values)


def chosen_through(task: TaskGraph, page: str, **values: Scalar) -> TaskGoal:
    """The sample with these slot values, on the first path that passes a page."""
    path = next(path for path in paths(task) if page in path)
    names = (slot.spec.name for slot in task.slots)
    return TaskGoal(task, path, {name: values[name] for name in names if name in values})


def drafted(goal: Goal, origin: Origin, seed: int = 0, heldout: bool = False) -> Query:
    """The query of a goal in the words of its grammar, not walked."""
    return asyncio.run(draft(Candidate(goal, Split.TRAIN, heldout, seed), GrammarWriter(), origin))


async def making(
    source: QuerySource, walk: WalkQueries, origin: Origin, unseen: UnseenApps = UnseenApps(), seed: int = 0
) -> NewQueries:
    """The queries of one source, walked by a function."""
    queries = QuerySet([GrammarWriter()], origin)
    await queries.take(await source.candidates(SourceContext(SimulatedSpec(), unseen, seed, origin)), walk)
    return queries.without_leaks(unseen.heldout)


async def walk_all(
    factory: EnvironmentFactory, queries: Sequence[Query], origin: Origin, instances: int = 1
) -> NewQueries:
    return await QueryWalker(lambda platform: factory, instances, origin).walk(queries)


async def passes(queries: Sequence[Query]) -> NewQueries:
    """A walk that every query passes."""
    return NewQueries(tuple(queries))


def order_query(
    instruction: str,
    dish: str,
    split: Split = Split.TRAIN,
    phrasing: str = "bites.order/0",
    app: str = "bites",
    source: Source = Source.DAG,
    start_state: str = "{}",
) -> Query:
    slots = (Slot(name="dish", value=dish, said=dish, page=f"{app}.menu"),) if dish else ()
    task, origin = f"{app}.order", Origin(round=1, run_id="r", code_version="c")
    query_id = Query.make_id(Platform.PHONE, task, slots, start_state, instruction)
    said = {"task": task, "apps": (app,), "phrasing": phrasing, "instruction": instruction, "source": source}
    states = {"slots": slots, "start_state": start_state, "goal": "{}", "split": split, "difficulty": 1}
    return record(Query, query_id=query_id, platform=Platform.PHONE, **said, **states, **origin.common("test"))


TRAIN = order_query("Order Pad Thai.", "Pad Thai")
SLOTS = order_query("Order Diavola.", "Diavola", Split.HELDOUT_SLOTS)
PHRASINGS = order_query("I feel like eating Caesar Salad.", "Caesar Salad", Split.HELDOUT_PHRASINGS, "bites.order/h0")
CLEAN = [TRAIN, SLOTS, PHRASINGS]

_BEGINNINGS = {"a plain": "please", "the person": "I want this:", "as short": "now:"}


def honest_draft(prompt: str) -> str:
    """The task and every wording that the prompt lists, in the manner that it wants, as the JSON it asks for."""
    task = re.findall(r"^Task: (.*)$", prompt, re.MULTILINE)[0]
    values = prompt.partition("Required values:")[2]
    words = re.findall(r'^- [^:]*: (?:on; )?(say|type) "([^"]*)"', values, re.MULTILINE)
    said = [f'"{word}"' if kind == "type" else word for kind, word in words]
    said += [f"see {app}" for app in re.findall(r"it stands in (\w+)", values)]
    manner = re.findall(r"^Manner: (\w+ \w+)", prompt, re.MULTILINE)
    begin = _BEGINNINGS.get(manner[0], "") if manner else ""
    end = "?" if "ends with a question mark" in prompt else "."
    return json.dumps({"instruction": f"{begin} {task}: {', '.join(said)}{end}"})
