from __future__ import annotations

import json

import pytest

from tests.flows.synthetic_run import HOSTILE, RUN
from tests.warehouse.samples import commit_rows, query, stage_run, trajectory
from trajmill.flows.new_run import IDENTITY_FILE
from trajmill.flows.report.details import read_details
from trajmill.flows.report.page import render_report
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.views import refresh_views

MEASURED = "run-measured"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    warehouse = create_warehouse(tmp_path_factory.mktemp("measured") / "root")
    for number in (1, 2):
        at = stage_run("evaluate", number, MEASURED)
        asked = [query("q", at, Split.VALIDATION).model_copy(update={"apps": ("mail", "notes")})] if number == 1 else []
        rewards = (0.0, float(number > 1))
        rows = [
            trajectory(place, at, "q", purpose=Purpose.EVALUATE, reward=reward) for place, reward in enumerate(rewards)
        ]
        commit_rows(warehouse, at, *asked, *rows)
    folder = warehouse.run(MEASURED)
    folder.mkdir(parents=True)
    (folder / IDENTITY_FILE).write_text(json.dumps({"rollout": {"group_size": 4}, "agent": {"kind": HOSTILE}}))
    return warehouse


@pytest.mark.slow
def test_success_by_app_and_task_over_the_rounds(measured: Warehouse) -> None:
    details = read_details(measured, MEASURED)
    assert details.apps.rounds == (1, 2)
    assert [tuple(row) for row in details.apps.rows] == [("mail", (0.0, 0.5)), ("notes", (0.0, 0.5))]
    assert [tuple(row) for row in details.tasks.rows] == [("mail.send", (0.0, 0.5))]


@pytest.mark.slow
def test_what_still_fails_and_the_configuration(measured: Warehouse) -> None:
    details = read_details(measured, MEASURED)
    assert [row.instruction for row in details.failing] == ["Send the mail q"]
    assert details.failing_in_all == 1
    assert details.configuration == (("rollout.group_size", "4"), ("agent.kind", HOSTILE))


@pytest.mark.slow
def test_the_configuration_is_text_on_the_page(measured: Warehouse) -> None:
    page = render_report(measured, MEASURED)
    assert "rollout.group_size" in page and "&lt;script&gt;" in page and "<script" not in page


@pytest.mark.slow
def test_rounds_have_dates_and_disagreements_their_reasons(run_warehouse: Warehouse) -> None:
    refresh_views(run_warehouse)
    details = read_details(run_warehouse, RUN)
    assert [row.round for row in details.rounds] == [1, 2]
    assert all(row.ended is not None and row.seconds > 0 for row in details.rounds)
    acted = [(row.round, row.acted, row.trained) for row in details.earlier_versions]
    assert acted == [(1, "p-1", "policy-0"), (2, "p-1", "policy-1")]
    assert details.disagreements_in_all == len(details.disagreements) == 2
    assert "Nothing was ordered." in (details.disagreements[0].reasons or "")
