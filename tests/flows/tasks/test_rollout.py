from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from tests.stages.derive.samples import query
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.rollout import shares
from trajmill.stages.environments.kinds import GeneratedAppsSpec, SimulatedSpec


def test_generated_apps_take_no_episodes_from_the_others() -> None:
    environment = SimulatedSpec(generated_apps=GeneratedAppsSpec(count=2, per_round=1))
    first, resting = environment.navigation_graph().generated
    apps = {**{f"own-{number}": "notes" for number in range(10)}, "a": first, "b": first, "c": resting}
    queries = {name: query(name).model_copy(update={"apps": (app,)}) for name, app in apps.items()}
    context = cast(RoundContext, SimpleNamespace(queries=queries, environment=environment, round=1))
    own, more = shares(context, 100)
    assert (len(own.queries), own.episodes) == (10, 100)
    assert ([each.apps for each in more.queries], more.episodes) == ([(first,)] * 2, 20)
    context.environment = SimulatedSpec()  # type: ignore[misc]
    own, more = shares(context, 100)
    assert (len(own.queries), own.episodes, more.episodes) == (13, 100, 0)
