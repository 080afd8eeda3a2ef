import json
from typing import Any

import pytest

from tests.stages.environments.state_api.apps import StateApi, serving
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Origin
from trajmill.stages.environments.kinds import StateApiSpec
from trajmill.stages.environments.state_api.server import address_of, check_servers


class OtherSession(StateApi):
    def api(self, path: str, sid: str) -> bytes:
        answer = super().api(path, sid)
        return answer if path == "/post" else json.dumps({**json.loads(answer), "sid": "mine"}).encode()


class OtherState(StateApi):
    def change(self, sid: str, order: dict[str, Any]) -> None:
        super().change(sid, {**order, "state": {**order["state"], "check": "changed"}})


class OneForAll(StateApi):
    def api(self, path: str, sid: str) -> bytes:
        return super().api(path, "all")


class NoJson(StateApi):
    def api(self, path: str, sid: str) -> bytes:
        return b"<html>Not found"


class Deep(StateApi):
    def api(self, path: str, sid: str) -> bytes:
        return b"[" * 100_000


class Huge(StateApi):
    def api(self, path: str, sid: str) -> bytes:
        return b" " * 100_000_000 if path == "/go" else super().api(path, sid)


class Refusing(StateApi):
    def api(self, path: str, sid: str) -> bytes:
        return b'{"success": false, "error": "no room"}'


class NoStates(StateApi):
    def api(self, path: str, sid: str) -> bytes:
        return b"{}"


class Elsewhere(StateApi):
    def reply(self) -> None:
        self.answer(status=302, Location="http://elsewhere.invalid/go")


class NoApi(StateApi):
    def reply(self) -> None:
        self.answer(status=404)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (OtherSession, "GET /go answers the session 'mine', asked for "),
        (OtherState, "answers a state that was not set: initial_state.check is 'changed', not '"),
        (OneForAll, "answers a state that was not set: initial_state.check is 'another session', not '"),
        (NoJson, "POST /post answers no JSON: '<html>Not found'"),
        (Deep, "POST /post answers no JSON: '[[["),
        (Huge, "GET /go answers more than 16,000,000 bytes"),
        (Refusing, "POST /post refuses to set the state: 'no room'"),
        (NoStates, "GET /go answers no object with initial_state and current_state"),
        (Elsewhere, "POST /post redirects to 'http://elsewhere.invalid/go'; name that address instead"),
        (NoApi, "POST /post answers HTTP 404; it has no state API there"),
    ],
)
async def test_a_server_that_is_wrong_about_sessions_is_refused_in_one_line(kind: type[StateApi], told: str) -> None:
    with serving(kind=kind) as wrong, serving() as right, pytest.raises(BadInputError) as refused:
        await check_servers([f"{wrong.url}/a", f"{right.url}/", f"{wrong.url}/b"])
    assert str(refused.value).startswith(f"{wrong.url} {told}") and "\n" not in str(refused.value)


async def test_tasks_of_a_wrong_server_are_refused_before_anything_runs(tmp_path: Any) -> None:
    with serving(kind=NoApi) as wrong:
        line = {"instruction": "Do it.", "start_state": {"url": wrong.url}, "goal": {}}
        (tmp_path / "tasks.jsonl").write_text(json.dumps(line))
        with pytest.raises(BadInputError, match="it has no state API there"):
            await StateApiSpec(tasks=tmp_path / "tasks.jsonl").own_queries(
                0, Origin(round=1, run_id="r", code_version="t")
            )


def test_the_session_replaces_another_one_in_an_address() -> None:
    assert address_of("http://h/p?sid=old&q=a%20b&e=#top", "new") == "http://h/p?q=a+b&e=&sid=new#top"
