"""The rows that a release can take: those of the shortest successes, with their authors and their leaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stages.curate.test_training_set import examples_of
from tests.stages.derive.samples import query
from tests.warehouse.samples import commit_rows, stage_run, trajectory
from trajmill.pipelines.reading.examples import CANDIDATES, Candidates, ExampleSet, derived, read_candidates, supervised
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.curate.leaks import LeakCheck
from trajmill.stages.curate.spec import CurateSpec
from trajmill.warehouse.layout import Warehouse, create_warehouse

ASKED = ("a", "b", "c")
HELDOUT = query("h", split=Split.HELDOUT_SLOTS).model_copy(
    update={"instruction": "Book a quiet table for two at La Cantina on Friday at eight.", "task": "bites.book"}
)
SETS = (supervised(2), derived("derive.step/1"))


def commit_round(warehouse: Warehouse, number: int) -> None:
    """Commit attempts of lengths that change from round to round, their examples, and rows of a derived kind."""
    rollout, at = stage_run("rollout", number), stage_run("derive", number)
    made = [examples_of(2 + (number * 3 + place) % 4, f"t{number}{asked}", asked) for place, asked in enumerate(ASKED)]
    ids = [examples[0].trajectory_id for examples in made]
    attempts = zip(ids, ASKED, strict=True)
    commit_rows(
        warehouse,
        rollout,
        *(trajectory(place, rollout, asked, trajectory_id=name) for place, (name, asked) in enumerate(attempts)),
    )
    rows = [row for examples in made for row in examples]
    origin = {"run_id": at.run_id, "round": number}
    commit_rows(warehouse, at, *(row.model_copy(update=origin) for row in rows))
    steps = [
        row.model_copy(
            update={
                **origin,
                "kind": "step",
                "made_by": "derive.step/1",
                "variant": "v",
                "written_by": "template",
                "example_id": f"s{row.example_id}",
            }
        )
        for row in rows
    ]
    commit_rows(warehouse, stage_run("derive_kind", number), *steps)


def check_of(*queries: Query) -> LeakCheck:
    return LeakCheck([query("a"), query("b"), query("c"), *queries], (), CurateSpec())


def read(warehouse: Warehouse, number: int, wanted: ExampleSet, check: LeakCheck | None = None) -> Candidates:
    origin = Origin(run_id="run-a", round=number, code_version="1")
    return read_candidates(warehouse, origin, wanted, check or check_of(HELDOUT))


@pytest.fixture
def run(tmp_path: Path) -> Warehouse:
    warehouse = create_warehouse(tmp_path / "root")
    for number in range(1, 5):
        commit_round(warehouse, number)
    return warehouse


@pytest.mark.parametrize("wanted", SETS)
def test_rows_of_the_shortest_successes_are_read_with_their_authors(run: Warehouse, wanted: ExampleSet) -> None:
    found = read(run, 4, wanted)
    assert found.rows.schema == CANDIDATES and len(set(found.rows["round"].to_pylist())) > 2
    assert (found.offered > found.rows.num_rows) == (wanted.per_query is not None)
    assert set(found.rows["written_by"].to_pylist()) == ({"template"} if wanted.per_query is None else {"policy-1"})
    assert max(read(run, 3, wanted).rows["round"].to_pylist()) == 3


def test_leaks_are_found_in_the_texts(run: Warehouse) -> None:
    def said(example: Example) -> Example:
        *asked, reply = example.messages
        near = reply.model_copy(update={"content": HELDOUT.instruction.replace("Book", "I want")})
        return example.model_copy(update={"messages": (*asked, near), "run_id": "run-a", "round": 5})

    commit_rows(run, stage_run("derive", 5), *(said(row) for row in examples_of(1, "leak", "a")))
    assert [leak for leak in read(run, 5, SETS[0]).rows["leak"].to_pylist() if leak] == ["near_heldout"]
