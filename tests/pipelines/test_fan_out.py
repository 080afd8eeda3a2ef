from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from trajmill.pipelines.fan_out import BeamSettings, WrittenFiles, divide, fan_out, split_evenly
from trajmill.schemas.errors import BadInputError, FailureClass
from trajmill.schemas.tables.failure import Failure
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, Warehouse, create_warehouse
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.staging import Progress, progress_of

pytestmark = pytest.mark.slow

AT = StageRun("run", 1, "stage")


@dataclass(frozen=True)
class WriteNames:
    """Writes a failure row per name; counts its calls in a file, and breaks on the name `bad`."""

    warehouse: Warehouse
    calls: Path
    message: str = ""

    def identity(self, names: Sequence[str]) -> object:
        return [list(names), self.message]

    def __call__(self, shard: str, names: Sequence[str]) -> WrittenFiles:
        with self.calls.open("a") as calls:
            calls.write("".join(names) + "\n")
        if "bad" in names and not (self.calls.parent / "mended").exists():
            raise ValueError("bad")
        rows = [
            Failure(
                stage="stage",
                input_id=name,
                failure_class=FailureClass.TASK,
                message=self.message,
                attempts=1,
                round=1,
                run_id="run",
                made_by="test",
                code_version="test",
            )
            for name in names
        ]
        return WrittenFiles(write_tables(self.warehouse, AT, {"failures": rows}, shard))


def test_every_shard_is_done_once_and_all_files_are_named(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    work = WriteNames(warehouse, tmp_path / "calls")
    payloads = split_evenly(["a", "b", "c", "d", "e"], 2)
    made = fan_out(warehouse, AT, payloads, work, BeamSettings())
    again = fan_out(warehouse, AT, payloads, work, BeamSettings())
    assert made == again
    assert made.rows("failures") == 5
    assert sorted((tmp_path / "calls").read_text().split()) == ["abc", "de"]


def test_after_a_failed_shard_only_what_is_missing_is_done(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    work = WriteNames(warehouse, tmp_path / "calls")
    payloads = [["a"], ["bad"], ["c"]]
    with pytest.raises(ValueError, match="bad"):
        fan_out(warehouse, AT, payloads, work, BeamSettings())
    done_before = set((tmp_path / "calls").read_text().split()) - {"bad"}
    (tmp_path / "calls").write_text("")
    (tmp_path / "mended").touch()
    made = fan_out(warehouse, AT, payloads, work, BeamSettings())
    assert made.rows("failures") == 3
    assert not done_before & set((tmp_path / "calls").read_text().split())


def test_work_of_another_identity_is_done_anew_and_names_other_files(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    first, other = (WriteNames(warehouse, tmp_path / "calls", message) for message in ("one", "two"))
    one = fan_out(warehouse, AT, [["a"]], first, BeamSettings())
    two = fan_out(warehouse, AT, [["a"]], other, BeamSettings())
    assert (tmp_path / "calls").read_text().split() == ["a", "a"]
    assert {file.path for file in one.files["failures"]}.isdisjoint(file.path for file in two.files["failures"])


NAMES = [f"n{number:02d}" for number in range(11)]


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (3, 1), (1, 3), (4, 3)])
def test_a_stage_that_stopped_goes_on_with_another_number_of_shards(tmp_path: Path, before: int, after: int) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    work = WriteNames(warehouse, tmp_path / "calls")
    # The last shard stops the first try: the others are finished, and their files are there.
    with pytest.raises(ValueError, match="bad"):
        fan_out(warehouse, AT, [*split_evenly(NAMES, before), ["bad"]], work, BeamSettings())
    made = fan_out(warehouse, AT, split_evenly(NAMES, after), work, BeamSettings())
    commit_stage(warehouse, AT, made.files)
    assert sorted(row.input_id for row in read_rows(warehouse, Failure)) == NAMES


def test_files_of_a_stage_are_committed_in_the_order_of_its_payloads(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    made = fan_out(warehouse, AT, [[name] for name in NAMES], WriteNames(warehouse, tmp_path / "calls"), BeamSettings())
    commit_stage(warehouse, AT, made.files)
    assert [row.input_id for row in read_rows(warehouse, Failure)] == NAMES


def test_progress_counts_the_items_of_the_shards(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    work = WriteNames(warehouse, tmp_path / "calls")
    with pytest.raises(ValueError, match="bad"):
        fan_out(warehouse, AT, [["a", "b"], ["bad"]], work, BeamSettings())
    assert progress_of(AT.staging(warehouse)) == Progress(2, 3)


def test_worker_processes_do_the_same(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    work = WriteNames(warehouse, tmp_path / "calls")
    made = fan_out(warehouse, AT, [["a"], ["b"], ["c"]], work, BeamSettings(), workers=2)
    assert made.rows("failures") == 3


@dataclass(frozen=True)
class DropSome:
    """Drops as many rows as a shard's payload says, or refuses."""

    def identity(self, amount: int) -> object:
        return amount

    def __call__(self, shard: str, amount: int) -> WrittenFiles:
        if amount < 0:
            raise BadInputError("one line")
        return WrittenFiles({}, {"dull": amount, "odd": 1})


def test_reasons_are_counted_over_all_shards_and_stored(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    for _ in range(2):
        assert fan_out(warehouse, AT, [2, 3], DropSome(), BeamSettings()).dropped == {"dull": 5, "odd": 2}


def test_an_error_for_the_user_arrives_as_it_was_raised(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    with pytest.raises(BadInputError, match=r"\Aone line\Z"):
        fan_out(warehouse, AT, [-1], DropSome(), BeamSettings())


def test_items_are_divided_by_what_lies_near_and_keep_their_order() -> None:
    assert divide(["b3", "a1", "b1", "a3"], 2, near=lambda item: item[1]) == [["a1", "b1"], ["b3", "a3"]]
    assert [len(part) for part in divide(list(range(25)), 2, most=10)] == [9, 8, 8]
    assert divide([], 3) == []
