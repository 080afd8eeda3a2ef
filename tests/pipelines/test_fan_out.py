from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from trajmill.pipelines.fan_out import BeamSettings, ShardOutput, fan_out, split_evenly
from trajmill.schemas.errors import BadInputError, FailureClass
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.registry import rows_to_arrow
from trajmill.warehouse.layout import StageRun, Warehouse, create_warehouse
from trajmill.warehouse.shards import write_shard

AT = StageRun("run", 1, "stage")


@dataclass(frozen=True)
class WriteNames:
    """Writes a failure row per name; counts its calls in a file, and breaks on the name `bad`."""

    warehouse: Warehouse
    calls: Path

    def __call__(self, shard: int, names: Sequence[str]) -> ShardOutput:
        with self.calls.open("a") as calls:
            calls.write(f"{shard}\n")
        if "bad" in names and not (self.calls.parent / "mended").exists():
            raise ValueError("bad")
        rows = [
            Failure(
                stage="stage",
                input_id=name,
                failure_class=FailureClass.TASK,
                message="",
                attempts=1,
                round=1,
                run_id="run",
                made_by="test",
                code_version="test",
            )
            for name in names
        ]
        data = rows_to_arrow("failures", rows)
        return ShardOutput({"failures": write_shard(self.warehouse, "failures", AT, shard, data)})


def test_every_shard_is_done_once_and_all_files_are_named(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    work = WriteNames(warehouse, tmp_path / "calls")
    payloads = split_evenly(["a", "b", "c", "d", "e"], 2)
    made = fan_out(warehouse, AT, "key", payloads, work, BeamSettings())
    again = fan_out(warehouse, AT, "key", payloads, work, BeamSettings())
    assert made == again
    assert made.rows("failures") == 5
    assert sorted((tmp_path / "calls").read_text().split()) == ["0", "1"]


def test_after_a_failed_shard_only_what_is_missing_is_done(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    work = WriteNames(warehouse, tmp_path / "calls")
    payloads = [["a"], ["bad"], ["c"]]
    with pytest.raises(ValueError, match="bad"):
        fan_out(warehouse, AT, "key", payloads, work, BeamSettings())
    done_before = set((tmp_path / "calls").read_text().split()) - {"1"}
    (tmp_path / "calls").write_text("")
    (tmp_path / "mended").touch()
    made = fan_out(warehouse, AT, "key", payloads, work, BeamSettings())
    assert made.rows("failures") == 3
    assert not done_before & set((tmp_path / "calls").read_text().split())


def test_another_key_does_the_work_anew(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    work = WriteNames(warehouse, tmp_path / "calls")
    fan_out(warehouse, AT, "one", [["a"]], work, BeamSettings())
    fan_out(warehouse, AT, "two", [["a"]], work, BeamSettings())
    assert (tmp_path / "calls").read_text().split() == ["0", "0"]


def test_without_payloads_there_is_nothing(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    assert fan_out(warehouse, AT, "key", [], WriteNames(warehouse, tmp_path / "calls"), BeamSettings()).files == {}


@pytest.mark.parametrize(("items", "shards", "lengths"), [(5, 2, [3, 2]), (1, 4, [1]), (0, 3, [])])
def test_items_are_dealt_out_evenly(items: int, shards: int, lengths: list[int]) -> None:
    assert [len(part) for part in split_evenly(list(range(items)), shards)] == lengths


def test_worker_processes_do_the_same(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    work = WriteNames(warehouse, tmp_path / "calls")
    settings = BeamSettings(options=("--direct_running_mode=multi_processing", "--direct_num_workers=2"))
    made = fan_out(warehouse, AT, "key", [["a"], ["b"], ["c"]], work, settings)
    assert made.rows("failures") == 3


@dataclass(frozen=True)
class DropSome:
    """Drops as many rows as a shard's payload says, or refuses."""

    def __call__(self, shard: int, amount: int) -> ShardOutput:
        if amount < 0:
            raise BadInputError("one line")
        return ShardOutput({}, {"dull": amount, "odd": 1})


def test_reasons_are_counted_over_all_shards_and_remembered(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    for _ in range(2):
        assert fan_out(warehouse, AT, "key", [2, 3], DropSome(), BeamSettings()).dropped == {"dull": 5, "odd": 2}


def test_an_error_for_the_user_arrives_as_it_was_raised(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    with pytest.raises(BadInputError, match=r"\Aone line\Z"):
        fan_out(warehouse, AT, "key", [-1], DropSome(), BeamSettings())
