"""The JSON and the images of the viewer."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.flows.synthetic_run import step
from tests.flows.viewer.conftest import AT, COUNT, HOSTILE, RUN, name, write_hostile_run
from tests.warehouse import samples
from tests.warehouse.samples import (
    SIZE,
    at_origin,
    commit_rows,
    judgement,
    observation,
    png,
    query,
    stage_run,
    trajectory,
)
from trajmill.flows.viewer.app import viewer_app
from trajmill.flows.viewer.attempts import Catalogue
from trajmill.flows.viewer.runs import media_type_of
from trajmill.pipelines.reading.slots import shown_slots
from trajmill.schemas.actions import Click
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Box
from trajmill.schemas.record import Row
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.screen import Screen
from trajmill.schemas.tables.trajectory import Purpose, TargetElement
from trajmill.stages.export.exporter import SFT_FILE
from trajmill.stages.export.release import released_rows
from trajmill.stages.rollout.base import SlotBoard, SlotState
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.releases import release_names

LOCAL = "http://127.0.0.1:8080"


@pytest.fixture(scope="module")
def client(hostile_warehouse: Warehouse) -> TestClient:
    return TestClient(viewer_app(hostile_warehouse), base_url=LOCAL)


def get(client: TestClient, path: str) -> Any:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def rows(client: TestClient, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = get(client, f"/api/trajectories?{query}")["rows"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", COUNT + 1),
        *((each, 0) for each in ("run=run-b", "text=%27+OR+true+--", "app=%27%5D%29+OR+true+--")),
        *((each, 1) for each in ("app=mail&task=mail.send", "text=CRASHED", f"text={name(4)[:9]}", "query=q-1")),
        ("judged=unjudged", 2),
        *((each, 3) for each in ("outcome=passed&outcome=void", "disagreement=with+the+check")),
        ("purpose=train&round=1", COUNT),
    ],
)
def test_filters(client: TestClient, query: str, count: int) -> None:
    page = client.get(f"/api/trajectories?{query}").json()
    assert (page["total"], len(page["rows"])) == (count, count)


@pytest.mark.parametrize("order", ["newest", "oldest", "longest", "shortest"])
def test_pages_go_on_where_the_one_before_ended_and_back(client: TestClient, order: str) -> None:
    places = [row["place"] for row in rows(client, f"order={order}")]
    pages = {"": (0, (1, 0)), f"after={places[2]}": (3, (0, 0)), f"after={places[5]}": (6, (0, 1))}
    pages[f"before={places[3]}"] = pages[""]
    for asked, (first, ends) in pages.items():
        page = client.get(f"/api/trajectories?order={order}&limit=3&{asked}").json()
        assert [row["place"] for row in page["rows"]] == places[first : first + 3]
        assert (page["first"], page["last"]) == ends


@pytest.mark.parametrize("query", ["order=place", "limit=100000", "round=x", "nonsense=1", "after=-1"])
def test_a_wrong_question_is_refused(client: TestClient, query: str) -> None:
    assert client.get(f"/api/trajectories?{query}").status_code == 422


@pytest.mark.parametrize("file", ["..%2Fapp.py", "app.py", "%2Fetc%2Fpasswd"])
def test_only_the_page_s_own_files_are_static(client: TestClient, file: str) -> None:
    assert client.get(f"/static/{file}").status_code == 404


def test_facets_count_what_the_other_filters_leave(client: TestClient) -> None:
    facets = client.get("/api/facets?outcome=passed").json()
    outcomes = {entry["value"]: entry["attempts"] for entry in facets["outcome"]}
    assert outcomes == {"passed": 2, "not passed": 5, "void": 1}
    assert facets["split"] == [{"value": "train", "attempts": 2}]
    assert facets["app"] == [{"value": HOSTILE, "attempts": 2}, {"value": "mail", "attempts": 2}]
    cells = client.get("/api/success?by=app&purpose=train").json()
    checked = {cell["name"]: (cell["passed"], cell["attempts"]) for cell in cells}
    assert checked == {"mail": (2, 6), HOSTILE: (2, 6)}, "one attempt was not checked"


def test_a_trajectory_has_what_every_judge_said(client: TestClient) -> None:
    page = client.get(f"/api/trajectories/{RUN}/{name(0)}").json()
    assert [(row["judge"], row["correct"]) for row in page["judgements"]] == [(None, True), ("strict", False)]
    assert [vote["channel"] for vote in page["votes"]] == ["multimodal", "text"]
    assert [step["index"] for step in page["steps"]] == [0, 1, 2]
    assert page["screens"]["screen-0"] == [32, 48]
    assert page["guidance"]["text"] == page["query"]["instruction"] == HOSTILE
    assert {row["trajectory_id"] for row in page["others"]} == {name(number) for number in range(1, COUNT)}
    calls = client.get(f"/api/trajectories/{RUN}/{name(0)}/calls").json()
    assert [(call["role"], call["step_index"], call["response"]) for call in calls] == [("policy", 0, HOSTILE)]
    assert client.get(f"/api/trajectories/{RUN}/{name(1)}/calls").json() == []
    for start, place in ((name(2)[:10], f"/trajectories/{RUN}/{name(2)}"), ("no id", "/trajectories?text=no+id")):
        assert client.get(f"/t/{start}", follow_redirects=False).headers["location"] == place


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (f"trajectories/{RUN}/nothing", "has no trajectory 'nothing'"),
        ("screens/nothing", "no screen 'nothing'"),
        ("screens/screen-3", "no PNG, JPEG or WebP image"),
    ],
)
def test_what_is_not_there_is_one_line(client: TestClient, path: str, says: str) -> None:
    answer = client.get(f"/api/{path}")
    assert answer.status_code == 404
    assert says in answer.json()["detail"]


@pytest.mark.slow
def test_a_viewer_opens_though_a_file_of_the_newest_attempt_is_damaged(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "root")
    write_hostile_run(warehouse)
    [damaged] = committed_files(warehouse, "steps")
    damaged.write_bytes(damaged.read_bytes()[:-20])
    client = TestClient(viewer_app(warehouse), base_url=LOCAL)
    newest = rows(client)[0]
    answer = client.get(f"/api/trajectories/{newest['run_id']}/{newest['trajectory_id']}")
    assert answer.status_code == 404 and damaged.name in answer.json()["detail"]


def test_a_screenshot_is_sent_as_it_is_stored(client: TestClient) -> None:
    answer = client.get("/api/screens/screen-1")
    assert (answer.content, answer.headers["content-type"]) == (png(1), "image/png")
    # A small file that decodes to gigabytes.
    huge = png(0)[:16] + (60_000).to_bytes(4, "big") + (2_000).to_bytes(4, "big") + png(0)[24:]
    with pytest.raises(BadInputError):
        media_type_of(huge)


@pytest.mark.slow
def test_what_lands_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trajmill.flows.viewer.attempts._SECONDS_BETWEEN_LOOKS", 0.0)
    warehouse = create_warehouse(tmp_path / "root")
    catalogue = Catalogue(warehouse)
    count = "SELECT count(*) AS n FROM attempts"
    assert catalogue.ask(count) == [{"n": 0}]
    commit_rows(warehouse, stage_run(), trajectory(0, AT, "q-0"))
    assert catalogue.ask(count) == [{"n": 1}]


@pytest.mark.slow
def test_training_rows_name_the_releases_that_offer_them(small_run: Warehouse) -> None:
    client = TestClient(viewer_app(small_run), base_url=LOCAL)
    [run] = client.get("/api/runs").json()
    assert [round_["round"] for round_ in run["rounds"]] == [1, 2]
    offered = {
        name: set(released_rows(small_run.release(name), SFT_FILE, ["example_id"])["example_id"].to_pylist())
        for name in release_names(small_run)
    }
    in_releases: list[list[str]] = []
    for learned in rows(client, "judged=correct&limit=50"):
        training = client.get(f"/api/trajectories/{run['run_id']}/{learned['trajectory_id']}/training").json()
        for row in training["examples"]:
            assert row["releases"] == [name for name in offered if row["example"]["example_id"] in offered[name]]
            in_releases.append(row["releases"])
    assert {name for names in in_releases for name in names} == set(offered)


TOKEN = "a-secret"


@pytest.fixture
def guarded(hostile_warehouse: Warehouse) -> TestClient:
    return TestClient(viewer_app(hostile_warehouse, TOKEN), base_url="http://team:8080", follow_redirects=False)


def test_without_the_token_nothing_is_sent(guarded: TestClient) -> None:
    for path in ("/", "/api/runs", "/static/app.js", "/?token=other", "/api/screens/screen-0?token="):
        assert guarded.get(path).status_code == 401
    assert guarded.get("/api/runs", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_the_link_opens_the_viewer_and_leads_nowhere_else(guarded: TestClient) -> None:
    first = guarded.get(f"/trajectories?token={TOKEN}&text=a%20b")
    assert (first.status_code, first.headers["location"]) == (303, "/trajectories?text=a+b"), "without the token"
    assert "HttpOnly" in first.headers["set-cookie"] and "SameSite=strict" in first.headers["set-cookie"]
    assert guarded.get("/api/runs").status_code == 200
    answer = guarded.get(f"http://team:8080//elsewhere.example/?token={TOKEN}")
    assert answer.headers["location"] == "/elsewhere.example/"


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:8080", 200), ("127.0.0.1", 200), ("[::1]:8080", 200), ("rebound.example:8080", 421), ("", 421)],
)
def test_without_a_token_only_this_machine_is_answered(hostile_warehouse: Warehouse, host: str, status: int) -> None:
    client = TestClient(viewer_app(hostile_warehouse))
    assert client.get("/api/runs", headers={"host": host}).status_code == status


def test_every_answer_has_the_headers(hostile_warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    client = TestClient(viewer_app(hostile_warehouse), base_url=LOCAL, raise_server_exceptions=False)
    monkeypatch.setattr("trajmill.flows.viewer.runs.read_trajectory", lambda *arguments: 1 / 0)
    broken = f"/api/trajectories/{RUN}/{name(0)}"
    answers = {"/": 200, "/static/app.js": 200, "/api/runs": 200, "/api/screens/none": 404, "/no": 404, broken: 500}
    for path, status in answers.items():
        answer, asked = client.get(path), client.head(path)
        policy = answer.headers["content-security-policy"]
        assert answer.status_code == status and "default-src 'none'" in policy and "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert (asked.status_code, asked.headers["content-type"]) == (status, answer.headers["content-type"])
        kind = "application/json" if path.startswith("/api") else "text/"
        assert answer.headers["content-type"].startswith(kind) or status == 500


PASSED = {1: (1.0, 0.0, 0.0), 2: (0.0, 1.0, 0.0)}
"""By round, whether its policy passed each of the queries."""


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
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


def test_failures_are_grouped_by_task_and_by_where_they_went_wrong(compared: TestClient) -> None:
    answer = get(compared, "/api/failures?run=run-a")
    assert answer["rounds"] == [2, 1]
    by_judge = {cluster["judged"]: cluster for cluster in answer["clusters"]}
    named, ended = by_judge[True], by_judge[False]
    # The value of the query is masked, so that attempts with other values are in the same group.
    where = ["mail.send", "mail", "Mail to …", "click Write to …"]
    assert [named[key] for key in ("task", "app", "screen", "did")] == where
    assert (named["attempts"], named["tried"], named["examples"][0]["step"]) == (1, 3, 1)
    assert (ended["attempts"], ended["examples"][0]["step"]) == (1, 2)
    assert named["is_new"] and ended["is_new"]  # the screen of the round before had another title
    clusters = get(compared, "/api/failures?run=run-a&round=1")["clusters"]
    assert {(cluster["screen"], cluster["is_new"]) for cluster in clusters} == {("", None)}, "nothing before is known"


def test_two_policies_are_compared_on_the_queries_that_both_tried(compared: TestClient) -> None:
    answer = get(compared, "/api/policies?run=run-a")
    assert (answer["a"], answer["b"]) == ("policy-1", "policy-2")
    sides = {row["query_id"]: row["side"] for row in answer["queries"]}
    assert sides == {"q-0": "lost", "q-1": "gained", "q-2": "neither"}
    groups = {(group.pop("kind"), group.pop("name")): group for group in answer["groups"]}
    counts = {"queries": 2, "first": 0, "second": 1, "gained": 1, "lost": 0, "difference": 0.5, "p_value": 1.0}
    assert counts.items() <= groups["split", "heldout_slots"].items()
    assert groups["held out", "all held-out queries"]["queries"] == groups["app", "mail"]["queries"] == 3
    assert groups["task", "mail.send"]["queries"] == 3


def test_a_run_that_is_not_there_has_nothing(compared: TestClient) -> None:
    for path, rows in (("failures", "clusters"), ("policies", "queries")):
        assert get(compared, f"/api/{path}?run=%27%20OR%20true")[rows] == []


async def test_attempts_are_shown_with_their_last_screen_while_they_run(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    folder = stage_run().staging(warehouse)
    folder.mkdir(parents=True)
    compared, board, seen = TestClient(viewer_app(warehouse), base_url=LOCAL), SlotBoard(), observation(5)
    slot = board.add()
    slot.instruction, slot.did, slot.screen, slot.step = "Send <b>", 'Tapped "Öffnen".', seen.screen, 3
    screen = f"/api/live/run-a/{seen.screen.screen_id}"
    assert get(compared, "/api/live") == []
    with slot.waiting(SlotState.MODEL):
        async with shown_slots(board, folder / "episodes-00000.jsonl", with_screens=True):
            await asyncio.sleep(0.05)
            [run] = get(compared, "/api/live")
            assert (run["run_id"], run["workers"]) == ("run-a", 1)
            [shown] = run["slots"]
            assert shown.pop("seconds") < 100
            said = {"state": "model", "step": 3, "instruction": "Send <b>", "did": 'Tapped "Öffnen".'}
            assert shown == said | {"screen_id": seen.screen.screen_id}
            answer = compared.get(screen)
            assert (answer.content, answer.headers["content-type"]) == (png(5), "image/png")
            assert compared.get("/api/live/run-a/..%2Fepisodes-00000.slots").status_code == 404
    assert get(compared, "/api/live") == [] and compared.get(screen).status_code == 404
    assert list(folder.iterdir()) == []
