"""`trajmill graph ...`: on a simulated app, and with models behind a real server on loopback."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.flows.command_line import CommandLine
from tests.stages.models.fault_server import Fault, FaultReply, FaultServer, running_server
from trajmill.schemas.geometry import Size
from trajmill.stages.graphs.file import read_graph

GRAPH = Path(__file__).with_name("todo.yaml").read_text()


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    (tmp_path / "todo.screens").mkdir()
    Image.new("RGB", (200, 100), "white").save(tmp_path / "todo.screens" / "empty.png")
    (tmp_path / "todo.yaml").write_text(GRAPH)
    return tmp_path / "todo.yaml"


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with running_server(writes=annotates) as running:
        yield running


def texts(body: dict[str, Any]) -> str:
    return json.dumps(body["messages"], ensure_ascii=False)


def annotates(body: dict[str, Any]) -> str:
    """Answers for all numbered items of a request."""
    numbers = [int(each) for each in re.findall(r"\\n(\d+)\. ", texts(body))]
    if "slots" in body["response_format"]["json_schema"]["schema"]["properties"]:
        slots = [{"slot": each, "name": f"the entry {each}", "description": "A thing to do."} for each in numbers]
        return json.dumps({"slots": slots})
    items = [{"item": each, "does": f"Adds thing {each}."} for each in numbers]
    page = "empty" if '\\"empty\\"' in texts(body).partition("The page: ")[2][:20] else "list"
    return json.dumps({"title": f"the {page} page", "description": f"Shows {page}.", "items": items})


def annotation(path: Path, server: FaultServer, roles: str = "describer writer") -> tuple[object, ...]:
    """The command that annotates a graph with the server's model in these roles."""
    config = path.parent / "models.toml"
    mapped = "\n".join(f'{role} = "tiny"' for role in roles.split())
    config.write_text(
        f'[run]\nroot = "{path.parent}/data"\n[models]\n{mapped}\n'
        f'[endpoints.tiny]\nmodel = "tiny"\nurls = ["{server.url}"]\nattempts = 1\n'
    )
    return "graph", "annotate", path, "--config", config


def test_models_fill_what_is_missing_once(graph: Path, server: FaultServer, command: CommandLine) -> None:
    out = command.said(*annotation(graph, server))
    made = read_graph(graph)
    empty, other = made.pages["empty"], made.pages["list"]
    assert (empty.title, empty.description) == ("the empty page", "Shows empty.")
    assert (other.title, other.description) == ("my own title", "Shows list.")
    assert empty.elements["help"].does == "Adds thing 1."
    assert empty.elements["about"].does == "Tells who wrote it."
    assert [each.does for each in empty.transitions] == ["Adds thing 2.", "Adds thing 3."]
    assert (empty.slots["entry"].name, empty.slots["mine"].name) == ("the entry 1", "dark mode")
    assert "written   8" in out and "left      0" in out and "3 calls, 300 + 30 tokens" in out
    (shown,) = [each for each in server.received if each.pictures]
    assert shown.pictures == [Size(200, 100)]
    assert "<|im_end|>" not in texts(shown.body) and "(10%, 20%)" in texts(shown.body)

    text = graph.read_text()
    command.said(*annotation(graph, server))
    assert len(server.received) == 3 and graph.read_text() == text


def test_what_cannot_be_used_is_named(graph: Path, server: FaultServer, command: CommandLine) -> None:
    items = [{"item": 1, "does": "x" * 5000}, {"item": 99, "does": "Nothing."}]
    wrong = {"title": "My Own Title", "description": "Fine.", "items": items}
    server.writes = lambda body: json.dumps({**json.loads(annotates(body)), **wrong})
    out = command.said(*annotation(graph, server, "describer"))
    empty = read_graph(graph).pages["empty"]
    assert (empty.title, empty.description, empty.elements["help"].does) == ("", "Fine.", "")
    assert "left      empty: title: another page has the title that the model wrote\n" in out
    assert "left      empty: element help: the model wrote more than 200 characters\n" in out
    assert "left      empty: transition 2: the model wrote nothing\n" in out
    assert "models.writer is embedded" in out and "left      4\n" in out

    server.writes = annotates
    (graph.parent / "data").rename(graph.parent / "old-data")
    command.said(*annotation(graph, server))
    empty = read_graph(graph).pages["empty"]
    assert (empty.title, empty.description, empty.slots["entry"].name) == ("the empty page", "Fine.", "the entry 1")


def test_a_failing_server_changes_nothing(graph: Path, server: FaultServer, command: CommandLine) -> None:
    server.script.extend([FaultReply(Fault.INTERNAL)] * 20)
    before = read_graph(graph)
    said = command.refused(*annotation(graph, server))
    assert said == "the models wrote nothing that can be used; the file is as it was\n"
    assert read_graph(graph) == before


def test_wrong_input_is_one_line(graph: Path, server: FaultServer, command: CommandLine) -> None:
    assert "map one of them to an [endpoints.NAME]\n" in command.refused(*annotation(graph, server, ""))
    (graph.parent / "todo.screens" / "empty.png").write_bytes(b"none")
    assert "it is no picture" in command.refused(*annotation(graph, server))
    graph.write_text(GRAPH.replace("todo.screens/empty.png", "../secret.png"))
    assert "must lie in the folder" in command.refused(*annotation(graph, server))
    assert server.received == []


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
def test_a_graph_is_explored_checked_shown_and_verified(config: Path, command: CommandLine) -> None:
    graph = config.parent / "graphs" / "clock.yaml"
    command.said("graph", "explore", config, "--app", "clock")
    assert read_graph(graph).title == "the clock"
    assert "1 graph without mistakes" in command.said("graph", "check", graph)

    graph.write_text(graph.read_text().replace("title: the clock", "title: <script>alert(1)</script>", 1))
    command.said("graph", "show", graph)
    page = graph.with_suffix(".html").read_text()
    assert page.count("data:image/webp;base64,") >= len(read_graph(graph).pages)
    assert "<script" not in page
    assert 'src="http' not in page

    assert " 0 changed, 0 lost, 0 failed" in command.said("graph", "verify", config, "--app", "clock")


def test_an_unknown_app_and_nothing_to_resume_are_one_line(config: Path, command: CommandLine) -> None:
    refused = command.refused("graph", "explore", config, "--app", "clock", "--resume")
    assert "clock.journal.jsonl: there is no such file, so nothing to resume" in refused
    assert command.refused("graph", "explore", config, "--app", "clocks") == (
        "explore.apps: there is no app 'clocks'; did you mean clock?; add a table [explore.apps.NAME]\n"
    )
