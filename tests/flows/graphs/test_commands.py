"""`trajmill graph explore`, `check`, `show` and `verify` on a simulated app."""

from pathlib import Path

import pytest

from trajmill.flows.cli.app import run
from trajmill.stages.graphs.file import read_graph

CONFIG = """
[environment]
kind = "simulated"
faults.popup = 0.0

[explore]
folder = "graphs"

[graphs]
files = ["graphs/clock.yaml"]

[explore.apps.clock]
title = "the clock"
platform = "phone"
opening = [{ operation = "tap", target = "launcher/clock" }]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "graphs.toml").write_text(CONFIG)
    return tmp_path / "graphs.toml"


@pytest.mark.slow
def test_a_graph_is_explored_checked_shown_and_verified(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = config.parent / "graphs" / "clock.yaml"
    assert run(["graph", "explore", str(config), "--app", "clock"]) == 0
    assert read_graph(graph).title == "the clock"
    assert run(["graph", "check", str(graph)]) == 0
    assert "1 graph without mistakes" in capsys.readouterr().out

    graph.write_text(graph.read_text().replace("title: the clock", "title: <script>alert(1)</script>", 1))
    assert run(["graph", "show", str(graph)]) == 0
    page = graph.with_suffix(".html").read_text()
    assert page.count("data:image/webp;base64,") >= len(read_graph(graph).pages)
    assert "<script" not in page
    assert 'src="http' not in page

    assert run(["graph", "verify", str(config), "--app", "clock"]) == 0
    assert " 0 changed, 0 lost, 0 failed" in capsys.readouterr().out


def test_an_unknown_app_is_one_line(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["graph", "explore", str(config), "--app", "clocks"]) == 1
    assert capsys.readouterr().err == (
        "explore.apps: there is no app 'clocks'; did you mean clock?; add a table [explore.apps.NAME]\n"
    )


def test_a_picture_outside_the_folder_is_refused(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = config.parent / "graph.yaml"
    (config.parent / "graphs").mkdir()
    inside = config.parent / "graphs" / "graph.yaml"
    (config.parent / "secret.png").write_bytes(b"secret")
    inside.write_text("app: a\nplatform: web\nstart: s\npages:\n  s: {screenshot: ../secret.png}\n")
    assert run(["graph", "show", str(inside), "--out", str(graph)]) == 1
    assert "must lie in the folder" in capsys.readouterr().err
