"""Whatever goes wrong is one clear line, loses nothing, and leaves nobody behind."""

import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.runs import assert_same, run_stages, small_config, tiny_config
from tests.stages.environments.processes import descendants, eventually, until_gone
from trajmill.flows.cli.app import run
from trajmill.flows.configuration.config import Config, QueriesSection, RunSection
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.generate import Generated, generate
from trajmill.flows.tasks.train import measure
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.tables.registry import TABLES
from trajmill.stages.environments.kinds import MiniWobSpec
from trajmill.stages.environments.miniwob.pages import pages_folder
from trajmill.stages.queries.base import NewQueries
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.read import read_table
from trajmill.warehouse.releases import release_names, verify_release

pytestmark = pytest.mark.slow

DISK_FULL = re.compile(r"\Adisk full while writing [^\n]+: nothing was lost; free some space and run the same [^\n]+\Z")
SMALL = """
[run]
root = "warehouse"
[queries]
train = 4
heldout_slots = 2
heldout_phrasings = 0
heldout_apps = 0
[rollout]
episodes_per_round = 4000
concurrency = 16
[evaluate]
episodes = 2
train_sample = 0
"""


def test_an_unknown_page_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    pytest.importorskip("miniwob")
    assert (pages_folder() / "click-test.html").is_file()
    tasks = ("click-test", "click-buton")
    config = Config(run=RunSection(root=tmp_path), environment=MiniWobSpec(tasks=tasks))
    with pytest.raises(BadInputError, match=r"environment.tasks: [^\n]*'click-buton'; did you mean click-button\?\Z"):
        generate(RoundContext.of(config))
    assert read_table(open_warehouse(tmp_path), "queries").num_rows == 0


def test_a_run_without_a_query_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trajmill.flows.tasks.generate.new_queries", lambda context: NewQueries(()))
    with pytest.raises(TrajmillError, match=r"\Ano query to learn on could be made[^\n]+\Z"):
        generate(RoundContext.of(small_config(tmp_path)))


def test_a_run_that_measures_nothing_goes_on(tmp_path: Path) -> None:
    context = RoundContext.of(small_config(tmp_path))
    generate(context)
    queries = QueriesSection(train=24, heldout_slots=0, heldout_phrasings=0, heldout_apps=0, validation=0)
    nothing = context.config.evaluate.model_copy(update={"train_sample": 0})
    unmeasured = RoundContext.of(context.config.model_copy(update={"queries": queries, "evaluate": nothing}))
    policy = Generated.of(generate(unmeasured)).first_policy
    _, measured = measure(unmeasured, unmeasured.at("evaluate"), policy, untrained=True)
    assert measured.success == ()


def test_a_disk_that_is_full_again_and_again_costs_nothing(tiny_run: Warehouse, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The processes of workers would not have this limit.
    config = tiny_config(tmp_path, workers=1)
    room, messages = 10_000, []
    while True:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            run_stages(config)
            break
        except TrajmillError as error:
            messages.append(str(error))
            room *= 4
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(messages) >= 3
    assert [line for line in messages if not DISK_FULL.match(line)] == []
    again = open_warehouse(tmp_path)
    assert_same(again, tiny_run, TABLES)
    (name,) = release_names(again)
    assert verify_release(again, name).files == verify_release(tiny_run, name).files


def test_a_newer_warehouse_is_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trajmill.toml").write_text('[run]\nroot = "newer"\n')
    Path("newer").mkdir()
    Path("newer/warehouse.json").write_text('{"schema_version": 99}')
    for command in ("evolve", "rollout", "report"):
        assert run([command]) == 1
        assert re.fullmatch(r"[^\n]+warehouse.json:1: [^\n]+ 99, [^\n]+\n", capsys.readouterr().err)
    assert [path.name for path in Path("newer").iterdir()] == ["warehouse.json"]


def test_a_killed_run_leaves_no_processes(prefect_home: Path, tmp_path: Path) -> None:
    (tmp_path / "trajmill.toml").write_text(SMALL)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    with (tmp_path / "words").open("wb") as words:
        process = subprocess.Popen(
            [sys.executable, "-c", "from trajmill.flows.cli.app import main; main()", "evolve"],
            cwd=tmp_path,
            env=environment | {"PREFECT_HOME": str(prefect_home), "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=words,
            stderr=words,
        )
    try:
        journals = (tmp_path / "warehouse" / "staging").glob
        eventually(lambda: process.poll() is not None or any(journals("*/r0001-rollout/episodes-*")))
        assert process.poll() is None, (tmp_path / "words").read_text()
        helpers = descendants(process.pid)
        assert len(helpers) >= 3, "a Prefect server, a fork server, a painter"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    until_gone(helpers)
