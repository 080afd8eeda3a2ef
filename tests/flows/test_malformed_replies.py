"""Malformed replies of every kind of agent, counted in the view, by `trajmill status` and in the report."""

from pathlib import Path

import pytest

from tests.stages.agents.test_served_roles import ACTS, FIRST, ROLES, answering, rolled_out
from tests.stages.models.fault_server import running_server
from tests.warehouse.samples import commit_rows, round_summary, stage_run
from trajmill.flows.configuration.config import Config
from trajmill.flows.report.page import render_report
from trajmill.flows.stage import RoundContext
from trajmill.flows.status.page import status_lines
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.views import connect, refresh_views

pytestmark = pytest.mark.slow
BAD = {"reflector": "Perhaps.", "state_tracker": "", "planner": "<think>Hm.", "parser": "On the phone, I think."}


def test_malformed_replies_are_counted_by_role(tmp_path: Path) -> None:
    config = Config.model_validate({"run": {"root": tmp_path}})
    warehouse = create_warehouse(tmp_path)
    context, rows = RoundContext(config, warehouse, 1), []
    with running_server(writes=answering(BAD)) as server:
        for role in FIRST:
            episode = rolled_out(ROLES[role][0], server)
            rows += [episode.trajectory, *episode.steps, *episode.calls]
    with running_server(writes=lambda body: ACTS if len(server.received) % 2 else "no call") as server:
        episode = rolled_out(ROLES["planner"][0].model_copy(update={"planner": "off"}), server, seed=1)
        rows += [episode.trajectory, *episode.steps, *episode.calls]
    run = {"run_id": context.run_id}
    commit_rows(warehouse, stage_run("rollout", 1, context.run_id), *(row.model_copy(update=run) for row in rows))
    calls = [row for row in rows if isinstance(row, ModelCall)]
    assert len({call.call_id for call in calls}) == len(calls)

    refresh_views(warehouse)
    with connect(warehouse) as views:
        query = "SELECT agent, role, count(*), count(malformed) FROM role_calls GROUP BY ALL ORDER BY ALL"
        counted = views.execute(query).fetchall()
    assert counted == [
        ("ces", "coordinator", 3, 0),
        ("ces", "executor", 3, 0),
        ("ces", "state_tracker", 2, 2),
        ("coda", "executor", 3, 1),
        ("coda", "planner", 3, 3),
        ("light_manus", "parser", 3, 3),
        ("mobile_agent_v3", "manager", 3, 0),
        ("mobile_agent_v3", "reflector", 2, 2),
        ("mobile_agent_v3", "worker", 3, 0),
    ]
    told = [line for line in status_lines(config, warehouse) if "replies of the" in line]
    assert told[0] == "malformed 3 of 3 replies of the parser in the newest round"
    assert sorted(line.split()[-5] for line in told) == ["executor", "parser", "planner", "reflector", "state_tracker"]
    ended = stage_run("evaluate", 1, context.run_id)
    commit_rows(warehouse, ended, round_summary(ended))
    refresh_views(warehouse)
    page = render_report(warehouse, context.run_id)
    assert "neither SUCCESS nor FAILURE" in page and "its lines are no" not in page and "no atomic tasks" in page
