import base64
import io
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image
from rich.console import Console

from tests.flows.command_line import CommandLine
from tests.flows.synthetic_run import HOSTILE, RUN, STAGES, write_run
from tests.warehouse.samples import commit_rows, query, stage_run, trajectory
from trajmill.flows.new_run import IDENTITY_FILE
from trajmill.flows.progress import ConsoleWatcher
from trajmill.flows.report.figures import Bar, Figures, Series, read_figures, run_views
from trajmill.flows.report.page import (
    needs,
    pick_filmstrips,
    render_report,
    runs_to_report,
    share_chart,
    stacked_bars,
    warnings,
)
from trajmill.flows.terminal.show import round_markdown, round_table
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.policy_version import RoundSummary
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.read import read_rows

pytestmark = pytest.mark.slow


def test_the_page_shows_each_trajectory(run_warehouse: Warehouse) -> None:
    with run_views(run_warehouse, RUN) as views:
        films = pick_filmstrips(views)
    titles = ["The first try", "The same query, the last round", "Solved with guidance"]
    assert [film.title for film in films] == [*titles, "Where the judge and the check disagree"]
    image = Image.open(io.BytesIO(base64.b64decode(films[0].frames[0].image.partition(",")[2])))
    assert image.size == (216, 384)
    first, last, guided, wrong = (film.episode for film in films)
    assert [(film.trajectory.round, film.trajectory.reward) for film in (first, last)] == [(1, 0.0), (2, 1.0)]
    assert first.query.instruction == last.query.instruction
    assert guided.trajectory.reward == 1.0
    assert wrong.judgement is not None and (wrong.judgement.correct, wrong.trajectory.reward) == (True, 0.0)


def test_the_figures_are_the_warehouse_s(run_warehouse: Warehouse) -> None:
    with run_views(run_warehouse, RUN) as views:
        figures = read_figures(views)
    tables, train = figures.tables, figures.success[0]
    assert [point.round for point in train.points] == [0, 1, 2]
    assert train.points[-1].share == pytest.approx(58 / 60)
    assert train.points[-1].low < 58 / 60 < train.points[-1].high
    assert list(figures.funnel) == list(STAGES)
    made, later = figures.funnel[STAGES[0]]
    assert made is not None and (made.rows_in, made.rows_out) == (600, 560) and later is None
    first = next(iter(figures.judge.values()))[0]
    assert first is not None and (first.precision, first.recall, first.n) == (240 / 246, 240 / 249, 565)
    assert {row.channel for row in tables["critics"]} == {"text", "multimodal"}
    assert [bar.label for bar in figures.seconds] == ["round 1", "round 2"]
    total = sum(count.seconds for count in read_rows(run_warehouse, RoundSummary)[0].stages)
    assert sum(figures.seconds[0].segments.values()) == pytest.approx(total)
    assert [(row.round, row.success_without, row.success_with) for row in tables["lift"]] == [(1, 0, 1), (2, 0, 1)]
    assert (tables["totals"][0].trajectories, tables["totals"][0].steps) == (8, 40)
    unguided, guided = figures.attempts
    assert [point.share for point in unguided.points] == [0.0, pytest.approx(2 / 3)]
    assert [point.share for point in guided.points] == [1.0, 1.0]
    acted = [(row.round, row.acted, row.trained) for row in tables["earlier_versions"]]
    assert acted == [(1, "p-1", "policy-0"), (2, "p-1", "policy-1")]
    assert "Nothing was ordered." in (tables["disagreements"][0].reasons or "")


def test_success_by_app_what_still_fails_and_the_configuration(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "root")
    at = stage_run("generate", 1, "run-m")
    asked = query("q", at, Split.VALIDATION).model_copy(update={"apps": ("mail", "notes")})
    commit_rows(warehouse, at, asked)
    for number in (1, 2):
        at = stage_run("evaluate", number, "run-m")
        rewards = (0.0, float(number > 1))
        tried = [trajectory(each, at, "q", purpose=Purpose.EVALUATE, reward=rewards[each]) for each in (0, 1)]
        commit_rows(warehouse, at, *tried)
    warehouse.run("run-m").mkdir(parents=True)
    identity = {"rollout": {"group_size": 4}, "agent": {"kind": HOSTILE}}
    (warehouse.run("run-m") / IDENTITY_FILE).write_text(json.dumps(identity))
    with run_views(warehouse, "run-m") as views:
        figures = read_figures(views)
    assert figures.measured_rounds == (1, 2)
    shares = {name: [cell.share for cell in cells if cell] for name, cells in {**figures.apps, **figures.tasks}.items()}
    assert shares == {name: [0.0, 0.5] for name in ("mail", "notes", "mail.send")}
    assert figures.configuration == (("rollout.group_size", "4"), ("agent.kind", HOSTILE))
    page = render_report(warehouse, "run-m")
    assert "rollout.group_size" in page and "&lt;script&gt;" in page and "<script" not in page


def test_the_run_that_is_meant(run_warehouse: Warehouse, tmp_path: Path, command: CommandLine) -> None:
    assert "Nothing failed." in render_report(run_warehouse, "run-without-rounds")
    assert runs_to_report(run_warehouse, None, "default-0") == runs_to_report(run_warehouse, RUN, "default-0") == [RUN]
    with pytest.raises(BadInputError, match="no finished round of a run 'other'"):
        runs_to_report(run_warehouse, "other", "default-0")
    write_run(create_warehouse(tmp_path), rounds=1)
    assert command.said("report", "--root", tmp_path).split() == [str(tmp_path / "runs" / RUN / "report.html")]


def test_a_flipped_bit_is_named_instead_of_shown(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path)
    write_run(warehouse, rounds=1)
    path = committed_files(warehouse, "trajectories")[0]
    content = path.read_bytes()
    path.write_bytes(content[:40] + bytes([content[40] ^ 1]) + content[41:])
    with pytest.raises(BadInputError, match=rf"{path.name}: changed since it was committed"):
        render_report(warehouse, RUN)


def test_the_round_table_and_its_markdown_say_the_same(run_warehouse: Warehouse) -> None:
    [summary] = read_rows(run_warehouse, RoundSummary, rounds=[2])
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(round_table(summary))
    shown, markdown = console.export_text(), round_markdown(summary)
    for figure in ("training queries", "97%", "0.976", "rollout_guided", "promoted policy-2"):
        assert figure in shown and figure in markdown
    kept = {"policy_after": "policy-1", "reason": "worse by <3"}
    assert "trained, not promoted: worse by &lt;3" in round_markdown(summary.model_copy(update=kept))
    reason, file = "training failed: " + "a long line " * 20 + "end", io.StringIO()
    failed = summary.model_copy(update={"trained": False, "reason": reason})
    ConsoleWatcher(Console(width=80, file=file)).show(round_table(failed))
    assert f"Round 2: not trained, the policy stays: {reason}" in file.getvalue().splitlines(), "in one line"


def share(number: int, share: float, low: float, high: float) -> SimpleNamespace:
    return SimpleNamespace(round=number, share=share, low=low, high=high, successes=round(share * 20), n=20)


def numbers(pattern: str, svg: str) -> list[float]:
    return [float(found) for found in re.findall(pattern, svg)]


def test_a_chart_draws_each_share_at_its_height() -> None:
    line = Series("a & b", [share(1, 0.0, 0.0, 0.5), share(2, 1.0, 0.5, 1.0)])
    svg = str(share_chart([line], "t"))
    bottom, top = numbers(r'cy="([\d.]+)"', svg)
    rules = numbers(r'class="grid" x1="\d+" x2="\d+" y1="([\d.]+)"', svg)
    assert (bottom, top) == (max(rules), min(rules))
    assert "a &amp; b" in svg


def test_bars_are_drawn_at_the_length_of_their_value() -> None:
    bars = [Bar("one", {"a": 3.0, "b": 1.0}, "4"), Bar("two", {"b": 2.0}, "2")]
    svg = str(stacked_bars(bars, "t"))
    wide = numbers(r'<rect [^>]*width="([\d.]+)"', svg)
    assert wide[0] + wide[1] == pytest.approx(2 * wide[2], abs=2)
    assert svg.count('class="series-1"') == 2


_NO_ROWS: dict[str, list[SimpleNamespace]] = {name: [] for name in ("models", "unrewarded", "malformed", "failures")}
_NO_ROWS["rounds"] = [SimpleNamespace(trained=True)]
QUIET = Figures("run-a", _NO_ROWS, rounds=(1, 2))


@pytest.mark.parametrize(
    ("shares", "promoted", "fell"),
    [
        (((0.1, 0.0, 0.2), (0.6, 0.5, 0.7), (0.3, 0.2, 0.4)), True, True),
        (((0.6, 0.5, 0.7), (0.3, 0.2, 0.4)), False, False),
        (((0.6, 0.5, 0.7), (0.4, 0.3, 0.5)), True, False),
        (((0.3, 0.2, 0.4), (0.6, 0.5, 0.7)), True, False),
    ],
)
def test_what_fell_with_promotions(shares: tuple[tuple[float, float, float], ...], promoted: bool, fell: bool) -> None:
    points = [share(number, *each) for number, each in enumerate(shares)]
    models = [SimpleNamespace(round=number, promoted=promoted) for number in (1, 2)]
    cells = {"mail": (None, *points)}
    success, tables = (Series("apps never seen", points),), _NO_ROWS | {"models": models}
    measured = QUIET._replace(success=success, apps=cells, tasks=cells, tables=tables)
    assert list(warnings(measured)) == [
        f"Success {what} fell from 12 of 20 (60%) after round 1 to 6 of 20 (30%) after round 2, while 1 version was "
        "promoted"
        for what in ("on apps never seen", "in app mail", "at task mail")
        if fell
    ]


def test_what_somebody_should_look_into() -> None:
    assert list(needs(QUIET)) == []
    tables = {
        "rounds": [SimpleNamespace(round=2, trained=False, reason="judge precision 0.50 is under 0.80")],
        "unrewarded": [SimpleNamespace(reason="environment", attempts=1200)],
        "malformed": [SimpleNamespace(agent="ces", role="planner", malformed=3, replies=40)],
        "failures": [SimpleNamespace(stage="derive", failures=5), SimpleNamespace(stage="judge", failures=1)],
    }
    assert list(needs(QUIET._replace(tables=_NO_ROWS | tables))) == [
        "Round 2 did not train: judge precision 0.50 is under 0.80.",
        "1,200 attempts have no reward (environment): see `trajmill view`.",
        "3 of 40 replies of ces's planner are malformed.",
        "6 inputs became no row, most of them in derive.",
    ]


def test_a_kappa_that_fell() -> None:
    def lines(*levels: tuple[float | None, float | None]) -> list[str]:
        cells = [tuple(SimpleNamespace(round=at + 1, kappa=each) for at, each in enumerate(level)) for level in levels]
        return list(warnings(QUIET._replace(judge={f"step{number}": each for number, each in enumerate(cells)})))

    [line] = lines((0.9, 0.7))
    assert line.startswith("Kappa of the judge's level 'step0' fell from 0.90 in round 1 to 0.70 in round 2")
    assert lines((0.9, 0.85), (None, None), (0.5, 0.9)) == []
