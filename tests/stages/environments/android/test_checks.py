import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.failures import failing
from tests.stages.environments.android.playing import environment_on, task
from tests.stages.environments.android.stand_in.phone import Phone
from tests.stages.environments.android.stand_in.server import AdbServer
from tests.stages.environments.android.stand_in.tasks import ORIGIN
from tests.stages.environments.android.stand_in.world import World, world_of
from trajmill.schemas.actions import Answer, OpenApp, Terminate
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.android.checks import ContentCheck, DatabaseCheck
from trajmill.stages.environments.android.spec import AndroidSpec

NOTES = "/data/data/org.trajmill.notes/databases/notes.db"
TITLE = "Bob's; DROP TABLE note; -- $(reboot)"


def check(query: str, parameters: tuple[Any, ...] = (), rows: tuple[Any, ...] = ()) -> dict[str, Any]:
    return {"app": "Notes", "file": "databases/notes.db", "query": query, "parameters": parameters, "rows": rows}


@pytest.fixture
def stored(phone: Phone, tmp_path: Path) -> Phone:
    """A phone with a note that is in the log of its database only."""
    file = tmp_path / "notes.db"
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE note (title TEXT, pinned INTEGER)")
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.execute("INSERT INTO note VALUES (?, 1)", (TITLE,))
        database.commit()
        phone.files |= {NOTES: file.read_bytes(), f"{NOTES}-wal": Path(f"{file}-wal").read_bytes()}
    database.close()
    phone.debuggable.add("org.trajmill.notes")
    return phone


@pytest.mark.parametrize("rooted", [False, True])
async def test_rows_of_a_database_decide(stored: Phone, server: AdbServer, rooted: bool) -> None:
    if rooted:
        stored.rooted, stored.debuggable = True, set()
    counted = "SELECT COUNT(*) FROM note WHERE title = ?"
    goals = [
        ([check("SELECT pinned, title FROM note", (), ((1, TITLE),))], 1.0),
        ([check(counted, (TITLE,), ((1,),)), check(counted, ("' OR 1 = 1",), ((0,),))], 1.0),
        ([check(counted, (TITLE,), ((2,),))], 0.0),
        ([check("SELECT pinned FROM note")], 0.0),
        ([check("SELECT pinned FROM note") | {"file": "databases/none.db"}], 1.0),
        ([check(counted, (TITLE,), ((0,),)) | {"file": "databases/none.db"}], 0.0),
    ]
    async with environment_on(stored, server) as environment:
        for databases, score in goals:
            await environment.reset(task({}, {"databases": databases}), 0)
            assert await environment.score() == score, databases
    assert "reboot" not in {words[0] for words in stored.ran}


async def test_a_wrong_query_fails_the_task(stored: Phone, server: AdbServer) -> None:
    for query, words in (
        ("SELECT colour FROM note", "notes.db: no such column: colour"),
        ("SELECT ? FROM note", "notes.db: Incorrect number of bindings"),
        ("SELECT 1; DELETE FROM note", "notes.db: You can only execute one statement"),
        ("WITH x AS (SELECT 1) DELETE FROM note", "notes.db: not authorized"),
        ("SELECT load_extension('/tmp/x')", "notes.db: not authorized"),
    ):
        async with environment_on(stored, server) as environment:
            await environment.reset(task({}, {"databases": [check(query)]}), 0)
            with failing(FailureClass.TASK, words):
                await environment.score()


async def test_data_that_cannot_be_read_is_no_verdict(stored: Phone, server: AdbServer) -> None:
    async with environment_on(stored, server) as environment:
        await environment.reset(task({}, {"databases": [check("SELECT 1 FROM note")]}), 0)
        stored.files[NOTES] = b"x" * 4096
        with failing(FailureClass.TASK, "file is not a database"):
            await environment.score()
        stored.debuggable.clear()
        with failing(FailureClass.SETUP, "the data of org.trajmill.notes cannot be read: .* no root"):
            await environment.score()


async def test_rows_of_a_content_provider_are_counted(phone: Phone, server: AdbServer) -> None:
    sms = "content://sms/sent"
    phone.content[sms] = (
        "Row: 0 address=+49 1, body=On my way, back=soon\n\nRow: 9 address=NULL\nRow: 1 address=2, body=two\nlines"
    )
    wanted = [
        ({"address": "+49 1", "body": "On my way, back=soon\n"}, 1, 1.0),
        ({"address": "+49 1", "body": "On my way"}, 1, 0.0),
        ({"address": "+49 1", "body": "On my way"}, 0, 1.0),
        ({"address": 2, "body": "two\nlines"}, 1, 1.0),
        ({"address": 2, "body": "two\nlines"}, 2, 0.0),
        ({"address": None}, 1, 1.0),
    ]
    async with environment_on(phone, server) as environment:
        for row, count, score in wanted:
            await environment.reset(task({}, {"content": [{"uri": sms, "row": row, "count": count}]}), 0)
            assert await environment.score() == score, row
        phone.content[sms] = "No result found."
        assert await environment.score() == 0.0
        await environment.reset(task({}, {"content": [{"uri": "content://none", "row": {"a": 1}}]}), 0)
        with failing(FailureClass.ENVIRONMENT, "content://none cannot be queried: Error while accessing provider"):
            await environment.score()


def test_a_check_cannot_hold_a_command_or_leave_the_app() -> None:
    outside = [check("SELECT 1") | {"file": file} for file in ("../../com.bank/databases/x", "/etc/hosts")]
    for database in (check("DELETE FROM note"), *outside):
        with pytest.raises(ValidationError):
            DatabaseCheck.model_validate(database)
    for uri, row in (
        ("content://sms --where 1", {"a": 1}),
        ("content://sms", {"a:b --delete": 1}),
        ("content://sms", {}),
    ):
        with pytest.raises(ValidationError):
            ContentCheck.model_validate({"uri": uri, "row": row})


@pytest.fixture
def android_world(phone: Phone) -> Iterator[tuple[World, dict[str, Any]]]:
    """AndroidWorld's server at the first phone, and the keys that name it."""
    with world_of(phone) as (world, url):
        yield world, {"servers": {phone.serial: url}}


async def queries_of(keys: dict[str, Any], *names: str) -> list[Query]:
    spec = AndroidSpec.model_validate({"android_world": {**keys, "tasks": names}})
    assert spec.missing(other_queries=False) == []
    made = await spec.own_queries(3, ORIGIN)
    assert not made.untried
    return made.queries


async def test_its_tasks_become_queries(android_world: tuple[World, dict[str, Any]]) -> None:
    made = await queries_of(android_world[1])
    assert [each.task for each in made[::4]] == ["SystemBrightness", "VolumeQuestion", "NeedsAnApp"]
    assert [each.split for each in made[:4]] == [Split.TRAIN, Split.HELDOUT_SLOTS, Split.TRAIN, Split.VALIDATION]
    assert len({each.instruction for each in made[:4]}) == 4 and made[0].max_steps == 30
    assert [each.query_id for each in await queries_of(android_world[1], "SystemBrightness")] == [
        q.query_id for q in made[:4]
    ]
    other = [each.instruction for each in await queries_of({**android_world[1], "seed": 31}, "SystemBrightness")]
    assert other != [each.instruction for each in made[:4]]


async def test_its_server_prepares_scores_and_tears_down(
    phone: Phone, server: AdbServer, android_world: tuple[World, dict[str, Any]]
) -> None:
    at_phone, keys = android_world
    brightness, question = (await queries_of(keys))[0:8:4]
    async with environment_on(phone, server, android_world=keys) as environment:
        assert (await environment.reset(brightness, 0)).app == ""
        assert phone.settings["system.screen_brightness"] == "1" and await environment.snapshot() is None
        await environment.step(OpenApp(app="Clock"))
        phone.settings["system.screen_brightness"] = brightness.instruction.rstrip(".").split()[-1]
        assert await environment.score() == 0.0  # the agent has not ended it
        await environment.step(Terminate(status="success"))
        assert await environment.score() == 1.0
        phone.settings["system.screen_brightness"] = "2"
        assert await environment.score() == 0.0
        for text, score in (("8", 0.0), ("7", 1.0)):
            await environment.reset(question, 0)
            await environment.step(Answer(text=text))
            assert await environment.score() == score
        assert at_phone.torn_down == ["SystemBrightness", "VolumeQuestion"]
    assert at_phone.torn_down == ["SystemBrightness", "VolumeQuestion", "VolumeQuestion"]


async def test_what_is_wrong_gives_one_line(
    phones: list[Phone], server: AdbServer, android_world: tuple[World, dict[str, Any]]
) -> None:
    keys = android_world[1]
    query = (await queries_of(keys, "NeedsAnApp"))[0]
    wrong: list[tuple[Phone, dict[str, Any] | None, str]] = [
        (phones[0], keys, "AndroidWorld at http.*/task/initialize: 500: Internal Server Error"),
        (phones[0], {"servers": {phones[0].serial: "http://127.0.0.1:1"}}, "/suite/reinitialize: .*refused"),
        (phones[1], keys, "emulator-5556 has no server of AndroidWorld; name it in"),
        (phones[0], None, "emulator-5554 has no server of AndroidWorld"),
    ]
    for phone, named, words in wrong:
        async with environment_on(phone, server, android_world=named) as environment:
            with failing(FailureClass.SETUP, words):
                await environment.reset(query, 0)
    with failing(FailureClass.TASK, "AndroidWorld has no task Nothing"):
        await queries_of(keys, "Nothing")
