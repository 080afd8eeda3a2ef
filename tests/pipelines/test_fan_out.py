from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from trajmill.pipelines.fan_out import BeamSettings, StageWork, WrittenFiles, divide, fan_out
from trajmill.schemas.errors import BadInputError, FailureClass
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.warehouse.commit import commit_stage
from trajmill.warehouse.layout import StageRun, create_warehouse
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.staging import Progress, progress_of

pytestmark = pytest.mark.slow

AT = StageRun("run", 1, "stage")
ORIGIN = Origin(round=1, run_id="run", code_version="test")
NAMES = [f"n{number:02d}" for number in range(11)]


@dataclass(frozen=True)
class WriteNames(StageWork[Sequence[str]]):
    message: str = ""

    def identity(self, names: Sequence[str]) -> object:
        return [list(names), self.message]

    def __call__(self, shard: str, names: Sequence[str]) -> WrittenFiles:
        with (self.warehouse.root / "calls").open("a") as calls:
            calls.write("".join(names) + "\n")
        if "bad" in names and not (self.warehouse.root / "mended").exists():
            raise BadInputError("one line")
        common = {"stage": "stage", "failure_class": FailureClass.TASK, "attempts": 1, **ORIGIN.common("test")}
        rows = [Failure(input_id=name, message=self.message, **common) for name in names]
        return self.written(shard, {"failures": rows}, {"dull": len(names), "odd": 1})

    def calls(self) -> list[str]:
        return sorted((self.warehouse.root / "calls").read_text().split())


@pytest.fixture
def work(tmp_path: Path) -> WriteNames:
    return WriteNames(create_warehouse(tmp_path / "warehouse"), AT, ORIGIN)


def test_every_shard_is_done_once_and_its_files_and_dropped_rows_are_kept(work: WriteNames) -> None:
    payloads = divide(["a", "b", "c", "d", "e"], 2)
    made = fan_out(work, payloads, BeamSettings())
    assert fan_out(work, payloads, BeamSettings()) == made
    assert (made.rows("failures"), made.dropped) == (5, {"dull": 5, "odd": 2})
    assert work.calls() == ["abc", "de"]


def test_after_a_failed_shard_only_what_is_missing_is_done(work: WriteNames) -> None:
    payloads = [["a", "b"], ["bad"], ["c"]]
    with pytest.raises(BadInputError, match=r"\Aone line\Z"):
        fan_out(work, payloads, BeamSettings())
    assert progress_of(AT.staging(work.warehouse)) == Progress(2, 4)
    (work.warehouse.root / "mended").touch()
    assert fan_out(work, payloads, BeamSettings()).rows("failures") == 4
    assert work.calls() == ["ab", "bad", "bad", "c"]


def test_work_of_another_identity_is_done_anew_and_names_other_files(work: WriteNames) -> None:
    one = fan_out(work, [["a"]], BeamSettings())
    two = fan_out(WriteNames(work.warehouse, AT, ORIGIN, "two"), [["a"]], BeamSettings())
    assert work.calls() == ["a", "a"]
    assert {file.path for file in one.files["failures"]}.isdisjoint(file.path for file in two.files["failures"])


@pytest.mark.parametrize(("before", "after"), [(1, 2), (3, 1), (4, 3)])
def test_a_stage_that_stopped_goes_on_with_another_number_of_shards(work: WriteNames, before: int, after: int) -> None:
    # The last shard stops the first try: the others are finished, and their files are there.
    with pytest.raises(BadInputError):
        fan_out(work, [*divide(NAMES, before), ["bad"]], BeamSettings())
    commit_stage(work.warehouse, AT, fan_out(work, divide(NAMES, after), BeamSettings()).files)
    assert [row.input_id for row in read_rows(work.warehouse, Failure)] == NAMES, "in the order of the payloads"


def test_items_are_divided_by_what_lies_near_and_keep_their_order() -> None:
    assert divide(["b3", "a1", "b1", "a3"], 2, near=lambda item: item[1]) == [["a1", "b1"], ["b3", "a3"]]
    assert [len(part) for part in divide(list(range(25)), 2, most=10)] == [9, 8, 8]
    assert divide([], 3) == []
