"""Programs of desktops: pathways of the simulated one and atomic operations of a real one, walked and learned from."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.flows.command_line import CommandLine
from tests.stages.models.fault_server import running_server
from trajmill.flows.cli.app import run
from trajmill.flows.configuration.file import load_config
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.generate import generate, pathways
from trajmill.flows.walk import walk_for_pathways
from trajmill.pipelines.fan_out import WrittenFiles
from trajmill.pipelines.propose import WalkPrograms
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.pathway import Pathway
from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.stages.queries.pathways.programs import PathwayProgram
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_rows, read_table

pytestmark = pytest.mark.slow

PROGRAMS = """\
- name: files
  title: the file manager
  start_state: {}
  opening: [{page: files.start, operation: double_tap, target: launcher/files}]
  presses_commands: true
- name: nothing
  title: the nothing
  start_state: {}
  opening: [{page: nothing.start, operation: double_tap, target: launcher/nothing}]
"""
CONFIG = """\
[run]
root = "warehouse"
[queries]
train = 8
validation = 0
heldout_slots = 0
heldout_phrasings = 0
heldout_apps = 0
[rollout]
concurrency = 2
[pathways]
file = "programs.yaml"
seconds = 20.0
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "programs.yaml").write_text(PROGRAMS)
    (tmp_path / "trajmill.toml").write_text(CONFIG)
    return tmp_path


def context_of(text: str) -> RoundContext:
    Path("trajmill.toml").write_text(text)
    return RoundContext.of(load_config())


def test_programs_are_walked_once_and_shown(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: CommandLine
) -> None:
    walked: list[str] = []
    work = WalkPrograms.__call__

    def noted(job: WalkPrograms, shard: str, program: PathwayProgram) -> WrittenFiles:
        walked.append(program.name)
        return work(job, shard, program)

    monkeypatch.setattr(WalkPrograms, "__call__", noted)
    first, again = (command.said("pathways") for _ in range(2))
    assert again.splitlines() == first.splitlines()[2:]
    assert Counter(walked) == {"files": 1, "nothing": 1}

    warehouse = open_warehouse(folder / "warehouse")
    found = read_rows(warehouse, Pathway)
    (run_id,) = {pathway.run_id for pathway in found}
    assert run_id.startswith("default-pathways-")
    assert {pathway.program for pathway in found} == {"files"} and len(found) >= 5
    assert any(failure.input_id == "nothing" for failure in read_rows(warehouse, Failure))

    queries = read_rows(warehouse, Query)
    assert {(row.source, row.validation, row.run_id) for row in queries} == {(Source.PATHWAY, "passed", run_id)}
    assert f"{len(found)} pathways" in first and f"queries   {len(queries)} train, 0 heldout_slots" in first
    assert "Pathways found in programs" in (warehouse.run(run_id) / "report.html").read_text()


def test_a_run_that_asks_for_them_learns_on_pathway_queries_too(folder: Path) -> None:
    context = context_of(CONFIG + "queries = 4\nprograms = ['files']\n")
    generate(context)
    sources = Counter(query.source for query in context.queries.values())
    assert sources == {Source.DAG: 8, Source.PATHWAY: 4}
    generate(context)
    assert len(context.queries) == 12 and read_rows(context.warehouse, Pathway, run_id=context.run_id)


def test_a_program_that_is_held_out_is_not_learnt_on(folder: Path) -> None:
    held_out = CONFIG.replace("train = 8", "heldout_app_names = ['files']")
    found = walk_for_pathways(context_of(held_out).config, ("files",))
    assert found.queries[Split.TRAIN] == 0 and found.queries[Split.HELDOUT_APPS] > 0


def test_where_nothing_is_found_one_line_says_why_and_it_is_tried_again(folder: Path) -> None:
    context = context_of(CONFIG + "programs = ['nothing']\n")
    with pytest.raises(TrajmillError, match=r"\Ano pathway was found: nothing: the walk ended early[^\n]+\Z"):
        pathways(context)
    assert read_rows(context.warehouse, Failure) == []
    Path("programs.yaml").write_text(PROGRAMS.replace("launcher/nothing", "launcher/files"))
    assert pathways(context).count.rows_out > 0


def test_a_model_says_what_needs_a_selection_and_its_calls_are_kept(folder: Path) -> None:
    def answer(body: dict[str, Any]) -> str:
        return json.dumps({"why": "it works on a file", "needs_selection": True})

    with running_server(writes=answer) as server:
        endpoint = f"second_opinion = 'owl'\n[endpoints.owl]\nmodel = 'tiny'\nurls = ['{server.url}']\n"
        context = context_of(f"{CONFIG}programs = ['files']\n{endpoint}")
        pathways(context)
    by = {pathway.selection_by for pathway in read_rows(context.warehouse, Pathway) if pathway.needs_selection}
    assert len(by) == 1 and "tiny" in by.pop()
    assert read_table(context.warehouse, "model_calls").num_rows == len(server.received)


ATOMIC = """\
[run]
root = "warehouse"
[environment]
kind = "desktop"
[rollout]
concurrency = 1
[atomic]
train = 1
programs = ["mousepad"]
"""


@pytest.mark.desktop
def test_operations_are_made_beside_a_runs_tasks_and_walked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("trajmill.toml").write_text(ATOMIC)
    command = ["walk", "--source", "atomic", "--queries", "1"]
    if run(command) or "1 of 1 done" not in capsys.readouterr().out:
        # A program that gets no processor misses an event; a wrong path fails each time.
        shutil.rmtree(folder / "warehouse")
        assert run(command) == 0
        assert "1 of 1 done" in (shown := capsys.readouterr().out), shown
    warehouse = open_warehouse(folder / "warehouse")
    assert read_table(warehouse, "trajectories", ["reward"])["reward"].to_pylist() == [1.0]
    assert read_rows(warehouse, Failure) == []
    queries = read_rows(warehouse, Query)
    assert {query.validation for query in queries} == {"passed"}
    made = Counter((query.source, query.apps[0], query.split) for query in queries)
    assert made.pop((Source.ATOMIC, "mousepad", Split.TRAIN)) == 2 and made.total() == 16
