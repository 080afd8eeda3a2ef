import shutil
from pathlib import Path

import duckdb
import pytest

from tests.flows.synthetic_run import RUN, write_run
from tests.records import record
from tests.warehouse.samples import (
    ask,
    at_origin,
    commit_rows,
    judgement,
    query,
    round_summary,
    stage_run,
    step_verdicts,
    trajectory,
)
from trajmill.schemas.actions import Action, Click, Terminate, action_to_json
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.geometry import Box
from trajmill.schemas.tables.example import Example, Message
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.pathway import EndKind, Evidence, Pathway, PathwayStep
from trajmill.schemas.tables.policy_version import PolicyVersion, SplitSuccess
from trajmill.schemas.tables.query import Platform, Split
from trajmill.schemas.tables.registry import TABLES
from trajmill.schemas.tables.screen import Screen
from trajmill.schemas.tables.trajectory import Purpose, Step, TargetElement
from trajmill.schemas.tables.verdict import TrajectoryVerdict
from trajmill.stages.curate.diversity import diversity_of
from trajmill.stages.export.card import IMPORTED, MODELS, TEMPLATES, words_of
from trajmill.stages.metrics.intervals import wilson
from trajmill.warehouse.layout import StageRun, Warehouse, create_warehouse, open_warehouse
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.shards import stored_schema
from trajmill.warehouse.sql import run_sql
from trajmill.warehouse.views import connect, quoted, ready_made, refresh_views

pytestmark = pytest.mark.slow

COUNT = "SELECT count(*) AS n FROM step_verdicts"


def test_an_empty_warehouse_has_every_view_with_the_right_columns_and_types(warehouse: Warehouse) -> None:
    with connect(warehouse) as connection:
        for table in TABLES:
            schema, described = stored_schema(table), connection.execute(f"DESCRIBE {table}").fetchall()
            types = connection.from_arrow(schema.empty_table()).types
            assert [row[:2] for row in described] == list(zip(schema.names, map(str, types), strict=True))
        for view in ready_made():
            assert connection.execute(f"SELECT * FROM {view}").fetchall() == []


def test_every_view_and_column_has_a_comment_even_after_a_commit(warehouse: Warehouse) -> None:
    write_run(warehouse, rounds=1)
    refresh_views(warehouse)
    known = [*TABLES, *ready_made()]
    silent = (
        "SELECT view_name FROM duckdb_views() WHERE comment IS NULL AND view_name IN (SELECT unnest($1))",
        "SELECT column_name FROM duckdb_columns() WHERE comment IS NULL AND table_name IN (SELECT unnest($1))",
    )
    with connect(warehouse) as views:
        assert [views.execute(query, [known]).fetchall() for query in silent] == [[], []]
        meaning = "SELECT comment FROM duckdb_columns() WHERE table_name = 'queries' AND column_name = 'max_steps'"
        assert views.execute(meaning).fetchall() == [("Step limit of an episode.",)]


def test_views_show_committed_files_only_and_no_reader_or_view_of_a_user_disturbs(warehouse: Warehouse) -> None:
    with duckdb.connect(str(warehouse.database)) as connection:
        connection.execute("CREATE VIEW mine AS SELECT 1 AS one")
    commit_rows(warehouse, stage_run("judge", 1), *step_verdicts(5, stage_run("judge", 1)))
    refresh_views(warehouse)
    with connect(warehouse) as reader:
        commit_rows(warehouse, stage_run("judge", 2), *step_verdicts(3, stage_run("judge", 2)))
        refresh_views(warehouse)
        folder = warehouse.table("step_verdicts")
        shutil.copy(next(folder.glob("*.parquet")), folder / "x.parquet")
        assert reader.execute("SELECT count(*) FROM step_verdicts").fetchone() == (5,)
    assert (ask(warehouse, COUNT), ask(warehouse, "FROM mine")) == ([{"n": 8}], [{"one": 1}])


def test_a_damaged_file_is_made_anew(warehouse: Warehouse) -> None:
    first, second = stage_run("judge"), stage_run("judge", 2)
    commit_rows(warehouse, first, *step_verdicts(5, first))
    warehouse.database.write_bytes(b"x" * 20_000)
    assert ask(warehouse, COUNT) == [{"n": 5}]
    with duckdb.connect(str(warehouse.database)) as connection:
        connection.execute("DROP VIEW step_verdicts; CREATE TABLE step_verdicts (i INTEGER)")
    commit_rows(warehouse, second, *step_verdicts(3, second))
    assert ask(warehouse, COUNT) == [{"n": 8}]


def test_a_warehouse_that_was_made_anew_at_one_address_shows_its_own_rows(warehouse: Warehouse, tmp_path: Path) -> None:
    commit_rows(warehouse, stage_run("judge"), *step_verdicts(5, stage_run("judge")))
    views = shutil.copy(refresh_views(warehouse), tmp_path / "views")
    shutil.rmtree(warehouse.root)
    anew = create_warehouse(warehouse.root)
    commit_rows(anew, stage_run("again"), *step_verdicts(3, stage_run("again")))
    shutil.copy(views, anew.database)
    assert ask(anew, COUNT) == [{"n": 3}]


def test_a_copy_shows_its_own_rows(warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_rows(warehouse, stage_run("judge"), *step_verdicts(5, stage_run("judge")))
    refresh_views(warehouse)
    name = "it's a=b, ünï {x} #1"
    copy = open_warehouse(Path(shutil.copytree(warehouse.root, tmp_path / name)))
    for path in warehouse.table("step_verdicts").glob("*.parquet"):
        path.write_bytes(b"")
    assert ask(copy, COUNT) == [{"n": 5}]
    with connect(copy) as views:
        assert views.execute(COUNT).fetchall() == [(5,)]
    monkeypatch.chdir(copy.root)
    with duckdb.connect("trajmill.duckdb", read_only=True) as views:
        assert views.execute(COUNT).fetchall() == [(5,)]
    monkeypatch.chdir(tmp_path)
    with duckdb.connect(str(copy.database), read_only=True) as views:
        with pytest.raises(duckdb.IOException, match="No files found"):
            views.execute(COUNT)
        views.execute(f"SET VARIABLE warehouse = {quoted(name)}")
        assert views.execute(COUNT).fetchall() == [(5,)]


def test_success_by_round(warehouse: Warehouse) -> None:
    for at in (stage_run(), stage_run(run_id="run-b")):
        evaluated = {"purpose": Purpose.EVALUATE}
        commit_rows(
            warehouse,
            at,
            *(query(f"q{number}", at, Split.HELDOUT_SLOTS) for number in range(5)),
            *(trajectory(number, at, f"q{number}", reward=float(number < 3), **evaluated) for number in range(4)),
            trajectory(4, at, "q4", reward=None, status="failed", failure_class=FailureClass.ENVIRONMENT, **evaluated),
            trajectory(5, at, "q0", reward=0.0),
        )
    bounds = wilson(3, 4)
    assert run_sql(warehouse, "FROM success_by_round").column_names[:7] == (
        ["round", "policy_version", "split", "queries", "success_rate", "low", "high"]
    )
    low, high = (pytest.approx(bound, abs=1e-9) for bound in bounds)
    for found, run_id in zip(ask(warehouse, "FROM success_by_round"), ("run-a", "run-b"), strict=True):
        assert tuple(found.values()) == (1, "policy-1", "heldout_slots", 4, 0.75, low, high, run_id)


def test_small_views_say_what_is_stored(warehouse: Warehouse) -> None:
    at = stage_run()
    kinds = [FailureClass.MODEL, FailureClass.MODEL, FailureClass.SETUP]
    versions = (("policy-0", ()), ("policy-1", (SplitSuccess(split="train", queries=4, successes=3),)))
    attempts = [(3, 1.0), (5, 1.0), (10, 0.0)]
    commit_rows(
        warehouse,
        at,
        round_summary(at),
        *(record(PolicyVersion, model_version=name, success=success, **at_origin(at)) for name, success in versions),
        *(trajectory(number, at, "q", steps=steps, reward=reward) for number, (steps, reward) in enumerate(attempts)),
        *(
            record(Failure, failure_class=kind, message=f"{kind} {place}", attempts=2, **at_origin(at))
            for place, kind in enumerate(kinds)
        ),
    )
    told: dict[str, list[tuple[object, ...]]] = {
        "SELECT round, stage, rows_in, rows_out, dropped, run_id FROM funnel": [
            (1, "rollout", 100, 90, 10, "run-a"),
            (1, "judge", 90, 60, 30, "run-a"),
        ],
        "SELECT stage, seconds, share, cost FROM cost_by_stage": [
            ("rollout", 3.0, 0.75, 0.5),
            ("judge", 1.0, 0.25, 0.25),
        ],
        # Agreement 0.70; by chance 0.5 * 0.6 + 0.5 * 0.4 = 0.50.
        "SELECT level, precision, recall, kappa, n FROM judge_by_round": [
            ("trajectory", 0.8, pytest.approx(40 / 60), pytest.approx((0.70 - 0.50) / (1 - 0.50)), 100),
            ("step", None, None, None, 5),
        ],
        "SELECT failure_class, failures, attempts, example FROM failures_by_class": [
            ("model", 2, 4, "model 0"),
            ("setup", 1, 2, "setup 2"),
        ],
        "SELECT attempts, successes, steps_per_success, median_steps FROM steps_per_success": [(3, 2, 9.0, 4.0)],
        "SELECT model_version, train, heldout_apps FROM model_versions": [
            ("policy-0", None, None),
            ("policy-1", 0.75, None),
        ],
    }
    for text, rows in told.items():
        assert [tuple(row.values()) for row in ask(warehouse, text)] == rows, text


def test_guidance_lift_compares_guided_queries_with_themselves_in_the_same_round(warehouse: Warehouse) -> None:
    first, second = stage_run(number=1), stage_run(number=2)
    tried = [trajectory(number, first, f"q{number}", reward=float(number == 2)) for number in range(3)]
    commit_rows(warehouse, first, *(query(f"q{number}", first) for number in range(3)), *tried)
    guided = [("q0", 1.0), ("q1", 1.0), ("q1", 0.0)]
    commit_rows(
        warehouse,
        second,
        trajectory(0, second, "q0", reward=1.0),
        *(trajectory(n, second, q, reward=r, purpose=Purpose.GUIDED) for n, (q, r) in enumerate(guided, 1)),
    )
    [found] = ask(warehouse, "FROM guidance_lift")
    assert (found.pop("round"), found.pop("run_id"), found.pop("queries")) == (2, "run-a", 2)
    assert found == {
        "compared": 1, "success_without": 1.0, "success_with": 1.0, "success_guided": 0.75, "success_so_far": 0.25
    }  # fmt: skip


def test_the_latest_judgement_counts_and_disagreements_say_why(warehouse: Warehouse) -> None:
    at, again = stage_run("judge"), stage_run("judge", attempt=1)
    right, wrong = trajectory(1, at, "q", reward=1.0), trajectory(2, at, "q", reward=0.0)
    said = {"trajectory_id": wrong.trajectory_id, "correct": True, "reason": "a mail was sent"}
    commit_rows(
        warehouse,
        at,
        query("q", at),
        right,
        wrong,
        judgement(right.trajectory_id, at, False, "judge-v1"),
        judgement(wrong.trajectory_id, at, True, "judge-v1"),
        record(TrajectoryVerdict, **said | at_origin(at)),
    )
    commit_rows(warehouse, again, judgement(right.trajectory_id, again, True, "judge-v2"))
    assert len(ask(warehouse, "FROM judgements")) == 3
    latest = {row["made_by"]: row["correct"] for row in ask(warehouse, "FROM latest_judgements")}
    assert latest == {"judge-v1": True, "judge-v2": True}
    [found] = ask(warehouse, "FROM disagreements")
    assert (found["trajectory_id"], found["judged_correct"], found["reward"]) == (wrong.trajectory_id, True, 0.0)
    assert (found["instruction"], found["reasons"]) == ("Send the mail q", "text: a mail was sent")


def pathway(at: StageRun, program: str, name: str, kind: EndKind, after: float, needs: bool | None) -> Pathway:
    step = PathwayStep(role="menu", name=name, target=f"menu:{name}", bounds=Box(1, 2, 3, 4), screen_id="screen")
    shows = (Evidence(role="menu_item", text="New", state=""),)
    made = {"pathway_id": Pathway.make_id(program, "{}", (step.target,)), "steps": (step,), "shows": shows}
    found = {"platform": Platform.DESKTOP, "program": program, "end_kind": kind, "found_after": after}
    return record(Pathway, needs_selection=needs, **made | found | at_origin(at))


def test_pathways_by_program_and_rows_come_back_as_they_were(warehouse: Warehouse) -> None:
    at = stage_run()
    rows = [
        pathway(at, "editor", "File", EndKind.MENU, 0.5, False),
        pathway(at, "editor", "Fonts", EndKind.DIALOG, 2.0, True),
        pathway(at, "editor", "Sizes", EndKind.TAB, 1.0, None),
        pathway(at, "files", "File", EndKind.MENU, 0.0, None),
    ]
    commit_rows(warehouse, at, *rows)
    columns = "program, pathways, dialogs, tabs, need_selection, seconds, pathways_per_second"
    assert run_sql(warehouse, f"SELECT {columns} FROM pathways_by_program").to_pylist() == [
        dict(zip(columns.split(", "), ("editor", 3, 1, 1, 1, 2.0, 1.5), strict=True)),
        dict(zip(columns.split(", "), ("files", 1, 0, 0, 0, 0.0, None), strict=True)),
    ]
    read = read_rows(warehouse, Pathway, run_id=at.run_id)
    assert {row.pathway_id: row for row in read} == {row.pathway_id: row for row in rows} and len(read) == len(rows)


def test_the_views_of_nights_speak_of_a_run_and_its_rounds(warehouse: Warehouse) -> None:
    write_run(warehouse)
    assert ask(warehouse, "SELECT round, stage FROM slowest_stages") == [
        {"round": 1, "stage": "evaluate"},
        {"round": 2, "stage": "evaluate"},
    ]
    drift = ask(warehouse, "SELECT round, precision_change, n FROM judge_drift")
    assert drift == [{"round": 1, "precision_change": None, "n": 565}, {"round": 2, "precision_change": 0.0, "n": 565}]
    assert ask(warehouse, "SELECT round, accepted, cost_per_accepted FROM cost_per_accepted") == [
        {"round": 1, "accepted": 2, "cost_per_accepted": 0.0},
        {"round": 2, "accepted": 4, "cost_per_accepted": 0.0},
    ]
    landed = ask(warehouse, "SELECT round, trajectories, finished, accepted, guided, run_id FROM landed_by_day")
    assert [(row["round"], row["trajectories"], row["accepted"], row["guided"]) for row in landed] == [
        (1, 4, 2, 1),
        (2, 4, 4, 1),
    ]
    assert {row["run_id"] for row in landed} == {RUN}


def example(name: str, at: StageRun, trajectory_id: str) -> Example:
    said = (Message(role="user", content="Send it"), Message(role="assistant", content="Tap"))
    ids = {"example_id": name, "query_id": "q", "trajectory_id": trajectory_id}
    return record(Example, **ids, kind="end_to_end", messages=said, **at_origin(at))


def test_examples_are_followed_to_where_they_come_from_and_duplicates_are_found(warehouse: Warehouse) -> None:
    at = stage_run("derive")
    attempt = trajectory(1, at, "q")
    two = [example(name, at, attempt.trajectory_id) for name in ("e1", "e2")]
    commit_rows(warehouse, at, query("q", at), attempt, round_summary(at), *two)
    lineage = ask(warehouse, "SELECT example_id, instruction, policy_version, release FROM example_lineage")
    release = round_summary(at).release
    assert [(row["example_id"], row["policy_version"], row["release"]) for row in lineage] == [
        ("e1", "policy-1", release),
        ("e2", "policy-1", release),
    ]
    duplicates = ask(warehouse, "SELECT examples, queries, example_id FROM duplicate_examples")
    assert duplicates == [{"examples": 2, "queries": 1, "example_id": "e1"}]


def pressing(number: int, at: StageRun, thought: str, action: Action, app: str = "mail") -> Step:
    named = {"trajectory_id": trajectory(1, at, "q").trajectory_id, "index": number}
    seen = {"screen_before": "s", "app_before": app, "thought": thought}
    done = {"action": action_to_json(action), "action_kind": action.kind}
    target = TargetElement(role="button", text="Send", bounds=Box(0, 0, 9, 9))
    return record(Step, target=target, **named | seen | done | at_origin(at))


def test_the_diversity_of_a_round_is_that_of_the_stage(warehouse: Warehouse) -> None:
    at = stage_run("derive")
    attempt = trajectory(1, at, "q", model_version="embedded-1")
    steps = [
        pressing(0, at, 'I see "Inbox". I tap Send to write to Ann.', Click(x=31, y=0)),
        pressing(1, at, 'I see "Letter 7". I tap Send to write to Ann.', Click(x=16, y=47)),
        pressing(2, at, "Sent 2 mails at 10:45.", Terminate(status="success"), ""),
    ]
    learned = [
        example(f"e{step.index}", at, attempt.trajectory_id).model_copy(update={"step_index": step.index})
        for step in steps
    ]
    screen = record(Screen, screen_id="s", width=32, height=48, **at_origin(at))
    commit_rows(warehouse, at, query("q", at), attempt, screen, *steps, *learned)
    facets = run_sql(warehouse, "SELECT * FROM example_facets ORDER BY example_id")
    assert facets["thought"].to_pylist() == ["I see …. I tap … to write to …."] * 2 + ["Sent … mails at …."]
    assert facets["x"].to_pylist() == ["9", "5", None] and facets["y"].to_pylist() == ["0", "9", None]
    assert facets["app"].to_pylist() == ["mail", "mail", "launcher"]
    assert facets["steps"].to_pylist() == [None, None, "4"] and facets["ending"].to_pylist()[2] == "success"
    shown = ask(warehouse, "SELECT * EXCLUDE (round, run_id) FROM diversity ORDER BY aspect")
    measured = sorted(diversity_of(facets), key=lambda each: each.aspect)
    assert shown == [pytest.approx(each.model_dump()) for each in measured]


def test_the_words_of_a_row_are_those_that_a_card_names(warehouse: Warehouse) -> None:
    at, authors = stage_run("derive"), ("embedded-1", "reference", "element_walk", "explorer", "import.aitz", "owl-7b")
    attempts = [trajectory(number, at, "q", model_version=author) for number, author in enumerate(authors)]
    made = [example(each.model_version, at, each.trajectory_id) for each in attempts]
    rows = [row.model_copy(update={"step_index": 0}) for row in made]
    step = pressing(0, at, "", Click(x=1, y=1))
    steps = [step.model_copy(update={"trajectory_id": row.trajectory_id}) for row in rows]
    commit_rows(warehouse, at, query("q", at), *attempts, *rows, *steps)
    found = ask(warehouse, "SELECT example_id, words FROM example_facets")
    names = {"template": TEMPLATES, "model": MODELS, "import": IMPORTED}
    assert {row["example_id"]: names[row["words"]] for row in found} == {by: words_of("sft", "", by) for by in authors}
