"""A source of queries that another package registers: its goals are worded, walked and checked like all others."""

from pathlib import Path

import pytest

from tests.other_package import installed
from trajmill.flows.configuration.file import load_config
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Split
from trajmill.stages.environments.kinds import FaultRates, SimulatedSpec
from trajmill.stages.queries.base import SourceContext, UnseenApps
from trajmill.stages.queries.generate import make_queries

PACKAGE = '''
from random import Random
from typing import Literal

from trajmill.schemas.tables.query import Split
from trajmill.stages.queries.base import Candidate, Offer, SplitCandidates
from trajmill.stages.queries.spec import QuerySourceSpec
from trajmill.stages.queries.tasks.source import draw_goals


class OneTaskSpec(QuerySourceSpec):
    """Queries of one task."""

    kind: Literal["one_task"] = "one_task"
    task: str

    def open(self):
        return OneTask(self.task)


class OneTask:
    def __init__(self, task):
        self.task = task

    async def candidates(self, context):
        task = next(each for each in context.environment.navigation_graph().tasks() if each.name == self.task)
        goals = draw_goals(task, 4, Random(context.seed))
        found = (Candidate(goal, Split.TRAIN, False, number) for number, goal in enumerate(goals))
        return Offer((SplitCandidates(Split.TRAIN, 2, [found]),))
'''


async def test_another_packages_queries_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: Origin) -> None:
    points = "[trajmill.queries]\none_task = one_task_source:OneTaskSpec"
    installed(tmp_path / "packages", monkeypatch, points, one_task_source=PACKAGE)
    (tmp_path / "trajmill.toml").write_text('[sources.orders]\nkind = "one_task"\ntask = "bites.order"\n')
    sources = load_config(tmp_path / "trajmill.toml").sources
    context = SourceContext(SimulatedSpec(faults=FaultRates(popup=0.0)), UnseenApps(), 3, origin)
    made = await make_queries([spec.open() for spec in sources.values()], context)
    assert [(query.task, query.split, query.validation) for query in made.queries] == [
        ("bites.order", Split.TRAIN, "passed")
    ] * 2
    assert made.failures == ()
