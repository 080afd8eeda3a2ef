"""Queries of the simulated phone as tasks for a device: start state, check and reference path included."""

import asyncio
import json

from tests.stages.environments.android.stand_in.phone import REACHED_FILE, START_FILE
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query, Split
from trajmill.stages.environments.android.task import PhoneGoal, PhoneStart, PhoneTask
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.source import generate_queries

ORIGIN = Origin(round=0, run_id="stand-in", code_version="stand-in")


def verified_queries(world: World, count: int, seed: int) -> list[Query]:
    """Queries of the simulated phone that its validator has walked."""
    others = ("heldout_slots", "heldout_phrasings", "heldout_apps", "validation", "infeasible", "answers")
    settings = GraphQueriesSpec(train=4 * count, heldout_app_names=(), **dict.fromkeys(others, 0))
    made = asyncio.run(generate_queries(world, settings, seed, ORIGIN))
    train = [each for each in made.queries if each.split is Split.TRAIN and each.platform is Platform.PHONE]
    # The sliders of Android name no values that a path could drag to.
    sliders = ("/brightness/", "/volume/", "/stars/", "/guests/")
    return [each for each in train if not any(name in step.target for step in each.path for name in sliders)][:count]


def task_line(world: World, query: Query, seed: int) -> PhoneTask:
    """The task for a device whose start file makes the query's start state at a seed."""
    names = {app.app: app.name for app in world.apps_on(Platform.PHONE)}
    start = json.dumps({"start_state": query.start_state, "goal": query.goal, "seed": seed})
    return PhoneTask(
        instruction=query.instruction,
        apps=tuple(names[app] for app in query.apps),
        task=query.task,
        start_state=PhoneStart(files={START_FILE: start}),
        goal=PhoneGoal(files={REACHED_FILE: "1.0"}),
        path=query.path,
        source=query.source,
        max_steps=query.max_steps,
        difficulty=query.difficulty,
        split=query.split,
    )
