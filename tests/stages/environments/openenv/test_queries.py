"""The queries of a server become those of a run."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.stages.online.toy_server import toy_queries, toy_server
from trajmill.schemas.errors import BadInputError, EnvironmentFailure
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query, Split
from trajmill.stages.environments.kinds import OpenEnvSpec

pytestmark = pytest.mark.slow

ORIGIN = Origin(round=1, run_id="far", code_version="test")


def queries_of(*servers: str, token_file: Path | None = None) -> list[Query]:
    spec = OpenEnvSpec(servers=servers, token_file=token_file)
    return asyncio.run(spec.own_queries(0, ORIGIN)).queries


@contextmanager
def foreign_server(tasks: list[object]) -> Iterator[str]:
    """A server of somebody else, as far as its task list goes."""
    answers = {
        "/list_environments": ["theirs"],
        "/theirs/splits": [{"name": "train"}],
        "/theirs/tasks": {"tasks": tasks},
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.dumps(answers[self.path]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_served_queries_have_what_clients_may_know_and_are_of_the_served_splits(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    with toy_server(token="secret", splits=(Split.TRAIN, Split.HELDOUT_SLOTS)) as server:
        found = queries_of("http://127.0.0.1:9", server.url, token_file=tmp_path / "token")
        with pytest.raises(EnvironmentFailure, match="/list_environments answered 401"):
            queries_of(server.url)
    known = ("query_id", "platform", "apps", "task", "instruction", "difficulty", "max_steps", "split")
    expected = {query.query_id: [getattr(query, name) for name in known] for query in toy_queries()}
    assert {query.query_id: [getattr(query, name) for name in known] for query in found} == expected
    assert {(query.goal, query.path, query.slots, query.pages) for query in found} == {("{}", (), (), ())}
    assert len({query.goal_key() for query in found}) == len({query.goal_key() for query in toy_queries()})


def test_tasks_of_another_server_need_an_id_and_an_instruction() -> None:
    with foreign_server([{"query_id": "7", "instruction": "Buy milk", "platform": "phone", "reward": 3}]) as url:
        (query,) = queries_of(url)
    assert (query.query_id, query.instruction, query.platform) == ("7", "Buy milk", Platform.PHONE)
    assert (query.split, query.goal, query.max_steps) == (Split.TRAIN, "{}", 20)


@pytest.mark.parametrize(
    ("task", "line"),
    [
        ("7", "a task that cannot be used"),
        ({"query_id": "7"}, "instruction: Field required"),
        ({"query_id": "7", "instruction": "Buy", "platform": "fridge"}, "'fridge' is not a valid Platform"),
    ],
)
def test_a_task_that_cannot_be_used_gives_one_error_line(task: object, line: str) -> None:
    with foreign_server([task]) as url, pytest.raises(EnvironmentFailure, match=line) as error:
        queries_of(url)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "two words", "x" * 1001, "tab\there"])
def test_a_file_without_a_token_gives_one_error_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(BadInputError, match="no token"):
        queries_of("http://127.0.0.1:9", token_file=tmp_path / "token")


def test_addresses_are_asked_for() -> None:
    (missing,) = OpenEnvSpec().missing(False)
    assert missing.key == "servers"
