"""Proposed tasks are tried in a real browser and on a real desktop; a model behind a server judges the attempts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.flows.small_run import do, small_config, up_to
from tests.flows.tasks.test_try_proposals import WriterAndCritic
from tests.stages.environments.browser.site import serving
from tests.stages.models.fault_server import running_server
from trajmill.flows.configuration.config import EvaluateSection, JudgeSection, QueriesSection
from trajmill.flows.configuration.sections import CriticRoles, ModelsSection
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.generate import PROPOSE, TRY_PROPOSALS
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.tables.query import FEASIBLE, INFEASIBLE, Query
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.stages.environments.kinds import BrowserSpec, DesktopSpec
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.queries.proposals.source import PROPOSED
from trajmill.warehouse.read import read_rows

pytestmark = pytest.mark.slow


@pytest.mark.browser
def test_a_browser_is_where_proposals_are_tried(tmp_path: Path) -> None:
    with serving() as site:
        start = {"url": f"{site}/drawn-by-others"}
        tasks = tmp_path / "own.jsonl"
        own = {"instruction": "Open the form.", "apps": ["form"], "start_state": start}
        tasks.write_text(json.dumps(own))
        tried_in(tmp_path, BrowserSpec(tasks=tasks), {"platform": "web", "apps": ["form"], "start_state": start})


@pytest.mark.desktop
def test_a_desktop_is_where_proposals_are_tried(tmp_path: Path) -> None:
    start = {"config": [{"type": "launch", "parameters": {"command": ["galculator"]}}]}
    (tmp_path / "own").mkdir()
    own = {"id": "look", "instruction": "Look at the calculator.", "related_apps": ["galculator"], **start}
    (tmp_path / "own" / "look.json").write_text(json.dumps(own))
    environment = DesktopSpec(tasks=tmp_path / "own", held_out=0.0, validation=0.0)
    tried_in(tmp_path, environment, {"platform": "desktop", "apps": ["galculator"], "start_state": start})


def tried_in(root: Path, environment: EnvironmentSpec, example: dict[str, Any]) -> None:
    """Of two proposals, the model finds the attempt at one correct and at the other incorrect."""
    examples = root / "examples.jsonl"
    examples.write_text(json.dumps({"instruction": "Have a look around", **example}))
    critic = WriterAndCritic()
    critic.speechless = ""
    with running_server(writes=critic) as server:
        config = small_config(root).model_copy(
            update={
                "environment": environment,
                "queries": QueriesSection(example_tasks=examples, curriculum=2, try_proposals=True),
                "evaluate": EvaluateSection(episodes=1, train_sample=1),
                "judge": JudgeSection(channels=("text",), votes=1, quorum=1, tries=1),
                "endpoints": {"tiny": OpenAiSpec(model="tiny", urls=(server.url,), attempts=1, cache=False)},
                "models": ModelsSection(writer="tiny", critic=CriticRoles(step="tiny", text=("tiny",))),
            }
        )
        context = RoundContext.of(config)
        up_to(PROPOSE, context)
        do(TRY_PROPOSALS, context)
    decided = {row.instruction.split()[0]: row.validation for row in read_rows(context.warehouse, Query)}
    assert decided.items() >= {"Alpha1": INFEASIBLE, "Bravo1": FEASIBLE}.items()
    proposals = {row.query_id for row in read_rows(context.warehouse, Query) if row.source in PROPOSED}
    trials = [row for row in read_rows(context.warehouse, Trajectory) if row.purpose is Purpose.TRIAL]
    assert {row.query_id for row in trials} == proposals and len(trials) == 2
    assert {row.failure_class for row in trials} <= {None, FailureClass.LIMIT}
