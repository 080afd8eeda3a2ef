"""The JSON and the images of the viewer."""

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.flows.viewer.conftest import AT, COUNT, HOSTILE, RUN, name, write_hostile_run
from tests.warehouse.samples import commit_rows, png, stage_run, trajectory
from trajmill.flows.viewer.app import viewer_app
from trajmill.flows.viewer.attempts import Catalogue
from trajmill.flows.viewer.runs import media_type_of
from trajmill.schemas.errors import BadInputError
from trajmill.stages.export.exporter import SFT_FILE
from trajmill.stages.export.release import released_rows
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.releases import release_names

LOCAL = "http://127.0.0.1:8080"


@pytest.fixture(scope="module")
def client(hostile_warehouse: Warehouse) -> TestClient:
    return TestClient(viewer_app(hostile_warehouse), base_url=LOCAL)


def rows(client: TestClient, query: str = "") -> list[dict[str, Any]]:
    answer = client.get(f"/api/trajectories?{query}")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["rows"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", COUNT + 1),
        ("run=run-b", 0),
        ("app=mail&task=mail.send", 1),
        ("outcome=passed&outcome=void", 3),
        ("judged=unjudged", 2),
        ("disagreement=with+the+check", 3),
        ("purpose=train&round=1", COUNT),
        ("text=CRASHED", 1),
        (f"text={name(4)[:9]}", 1),
        ("text=%27+OR+true+--", 0),
        ("app=%27%5D%29+OR+true+--", 0),
        ("query=q-1", 1),
    ],
)
def test_filters(client: TestClient, query: str, count: int) -> None:
    page = client.get(f"/api/trajectories?{query}").json()
    assert (page["total"], len(page["rows"])) == (count, count)


@pytest.mark.parametrize("order", ["newest", "oldest", "longest", "shortest"])
def test_pages_go_on_where_the_one_before_ended_and_back(client: TestClient, order: str) -> None:
    whole = [row["place"] for row in rows(client, f"order={order}")]
    first = rows(client, f"order={order}&limit=3")
    second = rows(client, f"order={order}&limit=3&after={first[-1]['place']}")
    assert [row["place"] for row in first + second] == whole[:6]
    assert rows(client, f"order={order}&limit=3&before={second[0]['place']}") == first


def test_the_ends_of_the_pages_are_told(client: TestClient) -> None:
    places = [row["place"] for row in rows(client)]
    ends = {"": (1, 0), f"after={places[2]}": (0, 0), f"after={places[5]}": (0, 1), f"before={places[3]}": (1, 0)}
    for query, expected in ends.items():
        page = client.get(f"/api/trajectories?limit=3&{query}").json()
        assert (page["first"], page["last"]) == expected


@pytest.mark.parametrize("query", ["order=place", "limit=100000", "round=x", "nonsense=1", "after=-1"])
def test_a_wrong_question_is_refused(client: TestClient, query: str) -> None:
    assert client.get(f"/api/trajectories?{query}").status_code == 422


def test_facets_count_what_the_other_filters_leave(client: TestClient) -> None:
    facets = client.get("/api/facets?outcome=passed").json()
    outcomes = {entry["value"]: entry["attempts"] for entry in facets["outcome"]}
    assert outcomes == {"passed": 2, "not passed": 5, "void": 1}
    assert facets["split"] == [{"value": "train", "attempts": 2}]
    assert facets["app"] == [{"value": HOSTILE, "attempts": 2}, {"value": "mail", "attempts": 2}]


def test_success_counts_checked_attempts_only(client: TestClient) -> None:
    cells = client.get("/api/success?by=app&purpose=train").json()
    assert {cell["name"]: (cell["passed"], cell["attempts"]) for cell in cells} == {"mail": (2, 6), HOSTILE: (2, 6)}


def test_a_trajectory_has_what_every_judge_said(client: TestClient) -> None:
    page = client.get(f"/api/trajectories/{RUN}/{name(0)}").json()
    assert [(row["judge"], row["correct"]) for row in page["judgements"]] == [(None, True), ("strict", False)]
    assert [vote["channel"] for vote in page["votes"]] == ["multimodal", "text"]
    assert [step["index"] for step in page["steps"]] == [0, 1, 2]
    assert page["screens"]["screen-0"] == [32, 48]
    assert page["guidance"]["text"] == page["query"]["instruction"] == HOSTILE
    assert {row["trajectory_id"] for row in page["others"]} == {name(number) for number in range(1, COUNT)}


def test_model_calls_and_the_short_link_of_a_trajectory(client: TestClient) -> None:
    calls = client.get(f"/api/trajectories/{RUN}/{name(0)}/calls").json()
    assert [(call["role"], call["step_index"], call["response"]) for call in calls] == [("policy", 0, HOSTILE)]
    assert client.get(f"/api/trajectories/{RUN}/{name(1)}/calls").json() == []
    answer = client.get(f"/t/{name(2)[:10]}", follow_redirects=False)
    assert answer.headers["location"] == f"/trajectories/{RUN}/{name(2)}"


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
    for learned in rows(client, "round=1&judged=correct&purpose=train&limit=5"):
        training = client.get(f"/api/trajectories/{run['run_id']}/{learned['trajectory_id']}/training").json()
        for row in training["examples"]:
            assert row["releases"] == [name for name in offered if row["example"]["example_id"] in offered[name]]
            in_releases.append(row["releases"])
    assert list(offered) in in_releases


TOKEN = "a-secret"


@pytest.fixture
def guarded(hostile_warehouse: Warehouse) -> TestClient:
    return TestClient(viewer_app(hostile_warehouse, TOKEN), base_url="http://team:8080", follow_redirects=False)


@pytest.mark.parametrize("path", ["/", "/api/runs", "/static/app.js", "/?token=other", "/api/screens/screen-0?token="])
def test_without_the_token_nothing_is_sent(guarded: TestClient, path: str) -> None:
    assert guarded.get(path).status_code == 401


def test_the_link_opens_the_viewer_and_leaves_no_token_in_the_address(guarded: TestClient) -> None:
    first = guarded.get(f"/trajectories?token={TOKEN}&text=a%20b")
    assert (first.status_code, first.headers["location"]) == (303, "/trajectories?text=a+b")
    assert "HttpOnly" in first.headers["set-cookie"] and "SameSite=strict" in first.headers["set-cookie"]
    assert guarded.get("/api/runs").status_code == 200


def test_the_link_leads_nowhere_else_and_programs_send_the_token_as_a_header(guarded: TestClient) -> None:
    answer = guarded.get(f"http://team:8080//elsewhere.example/?token={TOKEN}")
    assert answer.headers["location"] == "/elsewhere.example/"
    guarded.cookies.clear()
    assert guarded.get("/api/runs", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


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
        answer = client.get(path)
        policy = answer.headers["content-security-policy"]
        assert answer.status_code == status and "default-src 'none'" in policy and "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", ["..%2Fapp.py", "app.py", "%2Fetc%2Fpasswd"])
def test_only_the_page_s_own_files_are_static(client: TestClient, name: str) -> None:
    assert client.get(f"/static/{name}").status_code == 404
