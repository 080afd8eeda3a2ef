"""Why attempts of a run failed, and two of its policies beside each other."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.flows.synthetic_run import step
from tests.warehouse import samples
from tests.warehouse.samples import SIZE, at_origin, commit_rows, judgement, observation, png, query, stage_run
from trajmill.flows.viewer.app import viewer_app
from trajmill.pipelines.reading.slots import shown_slots
from trajmill.schemas.actions import Click
from trajmill.schemas.geometry import Box
from trajmill.schemas.record import Row
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.screen import Screen
from trajmill.schemas.tables.trajectory import Purpose, TargetElement
from trajmill.stages.rollout.base import SlotBoard, SlotState
from trajmill.warehouse.layout import Warehouse, create_warehouse

LOCAL = "http://127.0.0.1:8080"
PASSED = {1: (1.0, 0.0, 0.0), 2: (0.0, 1.0, 0.0)}
"""By round, whether its policy passed each of the queries."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    warehouse = create_warehouse(tmp_path_factory.mktemp("policies") / "warehouse")
    for number, rewards in PASSED.items():
        _commit_evaluation(warehouse, number, rewards)
    return TestClient(viewer_app(warehouse), base_url=LOCAL)


def _commit_evaluation(warehouse: Warehouse, number: int, rewards: tuple[float, ...]) -> None:
    at = stage_run("evaluate", number)
    seen = observation(number)
    [heading, *others] = seen.elements or ()
    elements = tuple(others) if number == 1 else (heading._replace(text="Mail to Ann"),)
    shown, size = "ann" if number == 2 else "inbox", SIZE._asdict()
    rows: list[Row] = [Screen(screen_id=shown, image=seen.screen.encode(), elements=elements, **size, **at_origin(at))]
    for place, reward in enumerate(rewards):
        split = Split.HELDOUT_SLOTS if place else Split.VALIDATION
        values: dict[str, Any] = {"purpose": Purpose.EVALUATE, "model_version": f"policy-{number}", "steps": 2}
        row = samples.trajectory(place, at, f"q-{place}", reward=reward, **values)
        rows += [row] if number > 1 else [query(f"q-{place}", at, split), row]
        target = TargetElement(role="button", text="Write to Ann", bounds=Box(0, 0, 4, 4))
        values = {"trajectory_id": row.trajectory_id, "target": target, **at_origin(at)}
        steps = (step(index, Click(x=1, y=1), (shown, "inbox"), "", **values) for index in range(2))
        rows += [each.model_copy(update={"app_before": "mail"}) for each in steps]
        verdict = judgement(row.trajectory_id, at, correct=reward == 1)
        rows.append(verdict.model_copy(update={"first_error_step": 0 if place == 2 else None}))
    commit_rows(warehouse, at, *rows)


def _get(client: TestClient, path: str) -> Any:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_failures_are_grouped_by_task_and_by_where_they_went_wrong(client: TestClient) -> None:
    answer = _get(client, "/api/failures?run=run-a")
    assert answer["rounds"] == [2, 1]
    by_judge = {cluster["judged"]: cluster for cluster in answer["clusters"]}
    named, ended = by_judge[True], by_judge[False]
    # The value of the query is masked, so that attempts with other values are in the same group.
    where = ["mail.send", "mail", "Mail to …", "click Write to …"]
    assert [named[key] for key in ("task", "app", "screen", "did")] == where
    assert (named["attempts"], named["tried"], named["examples"][0]["step"]) == (1, 3, 1)
    assert (ended["attempts"], ended["examples"][0]["step"]) == (1, 2)
    assert named["is_new"] and ended["is_new"]  # the screen of the round before had another title


def test_the_first_measured_round_says_nothing_about_what_is_new(client: TestClient) -> None:
    clusters = _get(client, "/api/failures?run=run-a&round=1")["clusters"]
    assert {(cluster["screen"], cluster["is_new"]) for cluster in clusters} == {("", None)}


def test_two_policies_are_compared_on_the_queries_that_both_tried(client: TestClient) -> None:
    answer = _get(client, "/api/policies?run=run-a")
    assert (answer["a"], answer["b"]) == ("policy-1", "policy-2")
    sides = {row["query_id"]: row["side"] for row in answer["queries"]}
    assert sides == {"q-0": "lost", "q-1": "gained", "q-2": "neither"}
    groups = {(group.pop("kind"), group.pop("name")): group for group in answer["groups"]}
    counts = {"queries": 2, "first": 0, "second": 1, "gained": 1, "lost": 0, "difference": 0.5, "p_value": 1.0}
    assert counts.items() <= groups["split", "heldout_slots"].items()
    assert groups["held out", "all held-out queries"]["queries"] == groups["app", "mail"]["queries"] == 3
    assert groups["task", "mail.send"]["queries"] == 3


@pytest.mark.parametrize("path", ["/api/failures", "/api/policies"])
def test_a_run_that_is_not_there_has_nothing(client: TestClient, path: str) -> None:
    answer = _get(client, f"{path}?run=%27%20OR%20true")
    assert answer.get("clusters", answer.get("queries")) == []


async def test_attempts_are_shown_with_their_last_screen_while_they_run(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    folder = stage_run().staging(warehouse)
    folder.mkdir(parents=True)
    client, board, seen = TestClient(viewer_app(warehouse), base_url=LOCAL), SlotBoard(), observation(5)
    slot = board.add()
    slot.instruction, slot.did, slot.screen, slot.step = "Send <b>", 'Tapped "Öffnen".', seen.screen, 3
    screen = f"/api/live/run-a/{seen.screen.screen_id}"
    assert _get(client, "/api/live") == []
    with slot.waiting(SlotState.MODEL):
        async with shown_slots(board, folder / "episodes-00000.jsonl", with_screens=True):
            await asyncio.sleep(0.05)
            [run] = _get(client, "/api/live")
            assert (run["run_id"], run["workers"]) == ("run-a", 1)
            [shown] = run["slots"]
            assert shown.pop("seconds") < 100
            said = {"state": "model", "step": 3, "instruction": "Send <b>", "did": 'Tapped "Öffnen".'}
            assert shown == said | {"screen_id": seen.screen.screen_id}
            answer = client.get(screen)
            assert (answer.content, answer.headers["content-type"]) == (png(5), "image/png")
            assert client.get("/api/live/run-a/..%2Fepisodes-00000.slots").status_code == 404
    assert _get(client, "/api/live") == [] and client.get(screen).status_code == 404
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("path", "kind"), [("/nothing", "text/html"), ("/api/nothing", "application/json")])
def test_an_unknown_address_is_answered_in_its_own_way(client: TestClient, path: str, kind: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (404, kind)
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/api/runs"])
def test_head_is_answered_as_get_without_a_body(client: TestClient, path: str) -> None:
    got, asked = client.get(path), client.head(path)
    assert (asked.status_code, asked.headers["content-type"]) == (200, got.headers["content-type"])
