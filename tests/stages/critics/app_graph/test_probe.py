"""Probes of end states, and votes by what they saw: in the simulated clock, and in an application with a state API."""

import asyncio
import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tests.stages.critics.app_graph.test_pages import graph, query
from tests.stages.critics.little_app import ORIGIN
from tests.stages.environments.simulated.scripted import ScriptedAgent
from tests.stages.environments.state_api.apps import PHONE, serving
from tests.stages.queries.samples import drafted
from tests.stages.rollout.rolling import rolled_out
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.tables.screen import ObservedScreens
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.critics.app_graph.probe import GraphProber, ProbeChannel
from trajmill.stages.critics.voting import Vote
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import shared_world
from trajmill.stages.environments.state_api.environment import StateApiFactory
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.from_simulated import graph_of_app
from trajmill.stages.queries.graph.routes import samples_by_task
from trajmill.stages.queries.graph.source import RouteGoal
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.episode import run_episode

CLOCK = graph_of_app(shared_world(()).apps["clock"])
SNOOZE, CITY = query("options-set-snooze", "5 minutes", CLOCK), query("city-cities", "Helsinki", CLOCK)
OPENED = ["launcher/clock", "clock.home/options"]
ADDED = ["launcher/clock", "clock.home/world", "clock.world/cities/Helsinki"]


async def in_clock(asked: Query, *script: str, most: int = 4) -> FinishedAttempt:
    world, agent = SimulatedEnvironment(shared_world(()), asked.platform), ScriptedAgent(script, asked.platform)
    limits = Limits(prober=GraphProber({CLOCK.app: CLOCK}, most))
    made = await run_episode(Attempt(asked, Purpose.TRAIN, 0, 0), agent, world, limits, ORIGIN)
    added = world.device().running_app("clock").store.lists["cities_shown"].items
    assert bool(added) is (ADDED[-1] in script), "a probe adds nothing"
    return made


async def voted(made: FinishedAttempt, graph: AppGraph = CLOCK) -> Vote:
    return await ProbeChannel({graph.app: graph}).judge(made.episode, ObservedScreens(made.screens), [])


@pytest.mark.parametrize("correct", [False, True])
async def test_a_claim_is_checked_where_its_effect_must_show(correct: bool) -> None:
    script = [*OPENED, *(["clock.options/snooze/5 minutes"] if correct else []), "back"]
    made = await in_clock(SNOOZE, *script, "finish")
    vote, probed = await voted(made), made.episode.trajectory.probe_screens
    assert vote.correct is correct and vote.first_error_step == (None if correct else len(script))
    assert probed and set(probed) <= made.screens.keys()
    assert len(made.episode.steps) == made.episode.trajectory.steps == len(script) + 1, "no look is a step"
    assert not (await voted(await in_clock(SNOOZE, *script, "give up"))).correct, "it claims nothing"
    bare = made.episode.trajectory.model_copy(update={"probe_screens": None})
    with pytest.raises(JudgeFailure, match="no probe"):
        await voted(replace(made, episode=made.episode.model_copy(update={"trajectory": bare})))


@pytest.mark.parametrize(("asked", "most", "lost"), [(SNOOZE, 0, "snooze"), (SNOOZE, 1, "snooze"), (CITY, 9, "Added")])
async def test_what_cannot_be_seen_in_time_or_without_a_change_is_unjudged(asked: Query, most: int, lost: str) -> None:
    with pytest.raises(JudgeFailure, match=f"could not see .*{lost}"):
        await voted(await in_clock(asked, "finish", most=most))
    assert (await voted(await in_clock(CITY, *ADDED, "finish"))).correct, "it stands on the last screen"


SHOWN = [{"id": "quiet", "text": text} for text in ("Is quiet", "Is loud")]
QUIET = {"by": "quiet", "to": "sound", "does": "Makes the phone quiet.", "shows": SHOWN[:1], "lacks": SHOWN[1:]}
PAGES: dict[str, Any] = {
    "home": {"elements": {"sound": "go-sound"}, "ways": {"sound": "sound"}},
    "sound": {"elements": {"home": "go-home", "quiet": "quiet"}, "ways": {"home": "home"}, "transitions": [QUIET]},
}


@pytest.mark.browser
@pytest.mark.parametrize("quiet", [False, True])
def test_an_application_with_a_state_api_is_looked_at_on_its_pages(quiet: bool) -> None:
    agent = ScriptedAgent(["go-sound", *(["quiet"] if quiet else []), "go-home", "finish"], Platform.WEB)
    with serving(PHONE) as served:
        start = {"url": f"{served.url}/", "viewport": [640, 480]}
        app = graph("phone", "home", **deepcopy(PAGES)).model_copy(update={"start_state": start})
        (sample,) = samples_by_task(app, 0)["phone.sound-quiet"]
        goal = json.dumps({"changes": [{"path": "quiet", "to": True}]})
        asked, limits = drafted(RouteGoal(sample), ORIGIN), Limits(prober=GraphProber({app.app: app}, 4))
        wanted = asked.model_copy(update={"goal": goal})
        (made,) = asyncio.run(rolled_out([wanted], lambda query: agent, StateApiFactory(), limits))
        assert made.episode.trajectory.reward == float(quiet) and asyncio.run(voted(made, app)).correct is quiet
        states = [each["current"] for each in served.sessions.values() if "quiet" in each["current"]]
        assert states == [{"quiet": quiet}], "a probe changes nothing"
