"""What a release can take is read round by round, and is then what a reader of all rounds finds."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from tests.stages.curate.test_training_set import examples_of
from tests.stages.derive.samples import query
from tests.warehouse.samples import commit_rows, stage_run, trajectory
from trajmill.pipelines.reading.candidates import CANDIDATES, Candidates, Sort, derived, read_candidates, supervised
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.curate.leaks import LeakCheck
from trajmill.stages.curate.spec import CurateSpec
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.upkeep.compact import compact_table

ASKED = ("a", "b", "c")
HELDOUT = query("h", split=Split.HELDOUT_SLOTS).model_copy(
    update={"instruction": "Book a quiet table for two at La Cantina on Friday at eight.", "task": "bites.book"}
)
SORTS = (supervised(2), derived("derive.step/1"))


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


def read(warehouse: Warehouse, number: int, sort: Sort, check: LeakCheck | None = None) -> Candidates:
    origin = Origin(run_id="run-a", round=number, code_version="1")
    return read_candidates(warehouse, origin, sort, check or check_of(HELDOUT))


def read_anew(warehouse: Warehouse, number: int, sort: Sort, check: LeakCheck | None = None) -> Candidates:
    for file in warehouse.store.files("runs/run-a/candidates"):
        warehouse.store.delete(file.name)
    return read(warehouse, number, sort, check)


def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that readers of tables open from now on."""
    names: list[str] = []
    whole = ds.dataset

    def counting(source: object, *args: object, **options: object) -> object:
        if isinstance(source, list):
            names.extend(Path(path).name for path in source)
        return whole(source, *args, **options)

    monkeypatch.setattr("pyarrow.dataset.dataset", counting)
    return names


@pytest.fixture(scope="module")
def four_rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four rounds, each read when it was committed."""
    warehouse = create_warehouse(tmp_path_factory.mktemp("rounds") / "root")
    for number in range(1, 5):
        commit_round(warehouse, number)
        for sort in SORTS:
            read(warehouse, number, sort)
    return warehouse.root


@pytest.fixture
def run(four_rounds: Path, tmp_path: Path) -> Warehouse:
    return open_warehouse(shutil.copytree(four_rounds, tmp_path / "root"))


@pytest.mark.parametrize("sort", SORTS)
def test_kept_rows_are_those_that_a_reader_of_all_rounds_finds(run: Warehouse, sort: Sort) -> None:
    kept = read(run, 4, sort)
    anew = read_anew(run, 4, sort)
    assert kept.rows.equals(anew.rows) and kept.rows.schema == CANDIDATES and kept.offered == anew.offered
    assert len(set(kept.rows["round"].to_pylist())) > 2
    assert (kept.offered > kept.rows.num_rows) == (sort.per_query is not None)
    assert set(kept.rows["written_by"].to_pylist()) == ({"template"} if sort.per_query is None else {"policy-1"})


def test_a_later_round_opens_the_files_of_its_own_rows_alone(run: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    names = opened(monkeypatch)
    counts = []
    for number in (5, 6):
        commit_round(run, number)
        names.clear()
        for sort in SORTS:
            read(run, number, sort)
        assert names and all(name.startswith(f"r{number:04d}-") for name in names)
        counts.append(len(names))
    assert max(counts) <= 5
    names.clear()
    read(run, 6, SORTS[0])
    assert names == []


def test_rows_of_an_earlier_round_that_come_later_are_read(run: Warehouse) -> None:
    late = [row.model_copy(update={"run_id": "run-a", "round": 2}) for row in examples_of(1, "late", "a")]
    commit_rows(run, stage_run("late", 4), *late)
    found = read(run, 4, SORTS[0])
    assert late[0].trajectory_id in found.rows["trajectory_id"].to_pylist()
    assert found.offered == read_anew(run, 4, SORTS[0]).offered


def test_what_no_longer_fits_is_read_anew(run: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    names = opened(monkeypatch)
    wanted = read(run, 4, SORTS[0])
    assert read(run, 4, supervised(1)).rows.num_rows < wanted.rows.num_rows and len(names) > 3
    names.clear()
    other = HELDOUT.model_copy(update={"instruction": "Never say a word to the old man at the door."})
    assert read(run, 4, SORTS[0], check_of(other)).rows.equals(wanted.rows) and len(names) > 3
    for file in run.store.files("runs/run-a/candidates"):
        run.store.put(file.name, b"x" + (run.store.get(file.name) or b"")[1:])
    assert read(run, 4, SORTS[0]).rows.equals(wanted.rows)
    assert compact_table(run, "examples", fewest=2).files_after < 3
    names.clear()
    assert read(run, 4, SORTS[0]).rows.equals(wanted.rows) and names
    assert read(run, 3, SORTS[0]).rows.equals(read_anew(run, 3, SORTS[0]).rows)
    commit_round(run, 5)
    assert read(run, 5, SORTS[0]).rows.equals(read_anew(run, 5, SORTS[0]).rows)


def test_leaks_are_kept_with_their_rows(run: Warehouse) -> None:
    def said(example: Example) -> Example:
        *asked, reply = example.messages
        near = reply.model_copy(update={"content": HELDOUT.instruction.replace("Book", "I want")})
        return example.model_copy(update={"messages": (*asked, near), "run_id": "run-a", "round": 5})

    leaking: Sequence[Example] = [said(row) for row in examples_of(1, "leak", "a")]
    commit_rows(run, stage_run("derive", 5), *leaking)
    first, again = read(run, 5, SORTS[0]), read(run, 5, SORTS[0])
    assert first.rows.equals(again.rows)
    assert [leak for leak in again.rows["leak"].to_pylist() if leak] == ["near_heldout"]
