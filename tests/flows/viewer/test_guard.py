"""Who may read the viewer, and the headers of what it sends."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from trajmill.flows.viewer.app import viewer_app
from trajmill.warehouse.layout import Warehouse

TOKEN = "a-secret"


@pytest.fixture(scope="module")
def guarded(hostile_warehouse: Warehouse) -> TestClient:
    return TestClient(viewer_app(hostile_warehouse, TOKEN), base_url="http://team:8080", follow_redirects=False)


@pytest.mark.parametrize("path", ["/", "/api/runs", "/static/app.js", "/?token=other", "/api/screens/screen-0?token="])
def test_without_the_token_nothing_is_sent(guarded: TestClient, path: str) -> None:
    guarded.cookies.clear()
    assert guarded.get(path).status_code == 401


def test_the_link_opens_the_viewer_and_leaves_no_token_in_the_address(guarded: TestClient) -> None:
    guarded.cookies.clear()
    first = guarded.get(f"/trajectories?token={TOKEN}&text=a%20b")
    assert (first.status_code, first.headers["location"]) == (303, "/trajectories?text=a+b")
    assert "HttpOnly" in first.headers["set-cookie"] and "SameSite=strict" in first.headers["set-cookie"]
    assert guarded.get("/api/runs").status_code == 200


def test_the_link_leads_nowhere_else_and_programs_send_the_token_as_a_header(guarded: TestClient) -> None:
    guarded.cookies.clear()
    answer = guarded.get(f"http://team:8080//elsewhere.example/?token={TOKEN}")
    assert answer.headers["location"] == "/elsewhere.example/"
    guarded.cookies.clear()
    assert guarded.get("/api/runs", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:8080", 200), ("127.0.0.1", 200), ("[::1]:8080", 200), ("rebound.example:8080", 421), ("", 421)],
)
def test_without_a_token_only_names_of_this_machine_are_answered(
    hostile_warehouse: Warehouse, host: str, status: int
) -> None:
    client = TestClient(viewer_app(hostile_warehouse))
    assert client.get("/api/runs", headers={"host": host}).status_code == status


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/api/runs", "/api/screens/screen-0", "/api/screens/none"])
def test_every_answer_has_the_headers(hostile_warehouse: Warehouse, path: str) -> None:
    headers = TestClient(viewer_app(hostile_warehouse), base_url="http://localhost").get(path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", ["..%2Fapp.py", "app.py", "%2Fetc%2Fpasswd"])
def test_only_the_page_s_own_files_are_static(hostile_warehouse: Warehouse, name: str) -> None:
    client = TestClient(viewer_app(hostile_warehouse), base_url="http://localhost")
    assert client.get(f"/static/{name}").status_code == 404
