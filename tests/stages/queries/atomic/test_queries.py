"""Atomic operations: what is made, and that nothing of it leaks; the tests of real programs do them."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from tests.stages.queries.samples import making, passes
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.stages.environments.desktop.task import DesktopTask, parse_task
from trajmill.stages.queries.atomic.source import OPERATIONS, AtomicSource
from trajmill.stages.queries.base import UnseenApps
from trajmill.stages.queries.leaks import leaks_in_queries
from trajmill.stages.queries.spec import AtomicApp

APPS = get_args(AtomicApp)
COUNTS = {**dict.fromkeys(Split, 2), Split.TRAIN: 5}


async def made(origin: Origin, seed: int = 1, heldout: tuple[str, ...] = ()) -> tuple[Query, ...]:
    return (await making(AtomicSource(COUNTS, APPS), passes, origin, UnseenApps(heldout), seed)).queries


@pytest.fixture(scope="module")
def queries(origin: Origin) -> tuple[Query, ...]:
    return asyncio.run(made(origin))


def test_every_operation_has_queries_in_every_split_and_none_leaks(queries: tuple[Query, ...]) -> None:
    for split in (Split.TRAIN, Split.HELDOUT_SLOTS, Split.HELDOUT_PHRASINGS):
        tasks = [query.task.partition(".")[2] for query in queries if query.split is split]
        assert set(tasks) == set(OPERATIONS)
    assert {query.source for query in queries} == {Source.ATOMIC}
    assert leaks_in_queries(queries, ()) == ()


def desktop_task(query: Query, start_state: str) -> DesktopTask:
    return parse_task({"id": query.task, "instruction": "", **json.loads(start_state)}, query.task)


def test_a_desktop_reads_every_step_of_every_start_state(queries: tuple[Query, ...]) -> None:
    for query in queries:
        steps = desktop_task(query, query.start_state).config
        assert {step.type for step in steps} <= {"execute", "launch"} and steps[-1].type == "launch"
        assert [step.model_dump() for step in steps] == json.loads(query.start_state)["config"]
        with pytest.raises(BadInputError):
            desktop_task(query, query.start_state.replace('"launch"', '"lunch"'))


async def test_instructions_say_every_slot_and_seeds_repeat(queries: tuple[Query, ...], origin: Origin) -> None:
    assert all(slot.said in query.instruction for query in queries for slot in query.slots)
    assert queries == await made(origin) != await made(origin, seed=2)


async def test_programs_that_are_held_out_are_only_evaluated_on(origin: Origin) -> None:
    queries = await made(origin, heldout=("mousepad", "gimp"))
    apps_of = {split: {query.apps[0] for query in queries if query.split is split} for split in Split}
    assert apps_of.pop(Split.HELDOUT_APPS) == {"mousepad"}
    assert all(apps == set(APPS) - {"mousepad"} for apps in apps_of.values())
    assert leaks_in_queries(queries, ("mousepad", "gimp")) == ()


def test_a_file_gets_its_content_whatever_that_says(queries: tuple[Query, ...], tmp_path: Path) -> None:
    query = next(query for query in queries if query.task == "mousepad.input_text")
    command = json.loads(query.start_state)["config"][0]["parameters"]["command"]
    nasty = "%s $(touch hit) `touch hit` '\"; \\n\n"
    subprocess.run([*command[:-2], str(tmp_path / "a file"), nasty], check=True, cwd=tmp_path)
    assert (tmp_path / "a file").read_text() == nasty
    assert [path.name for path in tmp_path.iterdir()] == ["a file"]
