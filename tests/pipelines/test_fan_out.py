import pickle
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.job_server import JobServer
from apache_beam.runners.portability.local_job_service import LocalJobServicer
from apache_beam.runners.portability.portable_runner import PortableRunner

from trajmill.pipelines.executors.beam import packed
from trajmill.pipelines.fan_out import BeamSettings, StageWork, WrittenFiles, divide, fan_out
from trajmill.schemas.errors import BadInputError, FailureClass
from trajmill.schemas.record import Origin
from trajmill.schemas.spec import OPERATIONAL, Spec
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
    def identity(self, names: Sequence[str]) -> object:
        return list(names)

    def __call__(self, shard: str, names: Sequence[str]) -> WrittenFiles:
        with (self.warehouse.root / "calls").open("a") as calls:
            calls.write("".join(names) + "\n")
        if "bad" in names and not (self.warehouse.root / "mended").exists():
            raise BadInputError("one line")
        common = {"stage": "stage", "failure_class": FailureClass.TASK, "attempts": 1, **ORIGIN.common("test")}
        rows = [Failure(input_id=name, message="", **common) for name in names]
        return self.written(shard, {"failures": rows}, {"dull": len(names), "odd": 1})


@pytest.fixture
def work(tmp_path: Path) -> WriteNames:
    return WriteNames(create_warehouse(tmp_path / "warehouse"), AT, ORIGIN)


def test_after_a_failed_shard_only_what_is_missing_is_done(work: WriteNames) -> None:
    payloads = [["a", "b"], ["bad"], ["c"]]
    with pytest.raises(BadInputError, match=r"\Aone line\Z"):
        fan_out(work, payloads, BeamSettings())
    assert progress_of(AT.staging(work.warehouse)) == Progress(2, 4)
    (work.warehouse.root / "mended").touch()
    made = fan_out(work, payloads, BeamSettings())
    assert fan_out(work, payloads, BeamSettings()) == made
    assert (made.rows("failures"), made.dropped) == (4, {"dull": 4, "odd": 3})
    assert sorted((work.warehouse.root / "calls").read_text().split()) == ["ab", "bad", "bad", "c"]


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


class Files(Spec):
    apps: tuple[Path, ...]
    token: Annotated[Path, OPERATIONAL]
    missing: Path = Path("nowhere.yaml")


class Work(NamedTuple):
    files: Files
    weights: Path
    cache: Path


def test_files_come_from_the_common_bucket(bucket_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse = create_warehouse(bucket_url)
    weights = warehouse.model("v1")
    weights.mkdir()
    (weights / "weights.bin").write_bytes(b"weights")
    warehouse.store.publish("models/v1/weights.bin")
    user = tmp_path / "user"
    (user / "folder" / "pictures").mkdir(parents=True)
    (user / "app.yaml").write_text("an app")
    (user / "folder" / "pictures" / "one.png").write_bytes(b"a picture")
    (user / "token").write_text("secret")
    files = Files(apps=(user / "app.yaml", user / "folder"), token=user / "token")

    sent = packed(Work(files, weights, warehouse.root / "request-cache"), warehouse.store, "staging/work")
    shutil.rmtree(warehouse.root)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    (user / "app.yaml").write_text("edited since")
    opened = sent.open()

    app, folder = opened.files.apps
    assert (app.name, app.read_text()) == ("app.yaml", "an app")
    assert (folder.name, (folder / "pictures" / "one.png").read_bytes()) == ("folder", b"a picture")
    assert (opened.weights / "weights.bin").read_bytes() == b"weights"
    assert all(path.is_relative_to(tmp_path / "elsewhere") for path in (app, folder, opened.weights, opened.cache))
    assert opened.files.token == user / "token"
    assert opened.files.missing == Path("nowhere.yaml")
    assert opened.files.model_fields_set == {"apps", "token"}
    assert not any("token" in file.name for file in warehouse.store.files(""))


def test_a_folder_that_all_machines_see_keeps_its_paths_and_a_large_value_is_stored(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "data")
    work = Work(Files(apps=(tmp_path / "app.yaml",), token=tmp_path), warehouse.model("v1"), tmp_path)
    assert packed(work, warehouse.store, "staging/work").open() == work
    ids = [f"{number:024d}" for number in range(10_000)]
    small, large = (packed(value, warehouse.store, "staging/payload") for value in (ids[:1000], ids))
    assert len(pickle.dumps(large)) < 1000 < len(pickle.dumps(small)) < 100_000
    assert (small.open(), large.open()) == (ids[:1000], ids)


STARTED = list[str]()


class OwnServer(JobServer):
    def start(self) -> str:
        STARTED.append(f"localhost:{LocalJobServicer().start_grpc_server()}")
        return STARTED[-1]


class OwnEngine(PortableRunner):
    """An engine that starts a job service of its own, as Flink's and Spark's runners do."""

    def default_job_server(self, options: PipelineOptions) -> JobServer:
        return OwnServer()


def test_the_stages_of_a_process_share_one_job_service(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "data")
    settings = BeamSettings(runner=f"{__name__}.OwnEngine", options=("--environment_type=LOOPBACK",))
    for stage in ("judge", "guide"):
        work = WriteNames(warehouse, StageRun("run", 1, stage), ORIGIN)
        assert fan_out(work, [["a"], ["b"]], settings).rows("failures") == 2
    assert len(STARTED) == 1
