from pathlib import Path

import pytest

from trajmill.schemas.errors import BadInputError
from trajmill.stages.graphs.check import GraphFindings, check_graph
from trajmill.stages.graphs.file import graph_text, parse_graph, read_graph

GRAPH = """\
app: todo
platform: web
start: list
pages:
  list:
    recognise:
      shows:
        - {role: heading, text: todos}
    elements:
      help: {target: 'link:Help', marks: [leaves]}
    slots:
      entry: {kind: field, target: new-todo, values: [Buy milk]}
    transitions:
      - {by: entry, operation: key, keys: enter, slots: [entry], to: list}
      - {by: help, to: outside}
"""


def test_what_a_person_wrote_is_written_alike_and_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "todo.yaml"
    file.write_text(GRAPH)
    assert graph_text(read_graph(file)) == GRAPH
    file.write_text(GRAPH.replace("start: list", "start: home").replace("to: outside", "to: away"))
    with pytest.raises(BadInputError) as raised:
        read_graph(file)
    assert str(raised.value).count("\n") == 1


def _findings(tmp_path: Path, text: str) -> GraphFindings:
    file = tmp_path / "todo.yaml"
    file.write_text(text)
    reading = parse_graph(file)
    return GraphFindings(reading.mistakes, ()) if reading.file is None else check_graph(reading.file)


CODE = "    answers: {code: {target: x, of: entry, text: Code, known: {a: b}}}\n    elements:"


def test_mistakes_are_told_by_line(tmp_path: Path) -> None:
    for old, new, line, text in (
        ("start: list", "start: lists", 3, "there is no page `lists`; did you mean list?"),
        ("slots: [entry]", "slots: [entri]", 14, "there is no slot of this page `entri`; did you mean entry?"),
        ("keys: enter, ", "", 14, "`operation: key` and `keys` belong together, e.g. `keys: enter`"),
        ("kind: field", "kind: feild", 12, "`feild` is not allowed here; use 'field', 'switch', 'choice', 'list' or "),
        ("recognise:", "recognize:", 6, "unknown key `recognize`; did you mean recognise?"),
        ("{role: heading, text: todos}", "{state: checked}", 8, "expected a feature with one of the keys id, role"),
        ("      help:", "      entry:", 12, "`entry` is the name of an element and of a slot; rename one of them"),
        (GRAPH, "[]", 1, "this is no app graph; start it with `app: NAME`"),
        ("pages:\n", "pages:\n  lost: {recognise: {shows: [{id: lost}]}}\n", 5, "no transitions lead from `list` to"),
        ("    elements:", "    marks: [needs-login]\n    elements:", 0, ""),
        ("values: [Buy milk]", "values: []", 12, "`entry` has no value to ask for; add `values`"),
        ("kind: field", "kind: list", 12, "the target of `entry` has no `{value}`; add it, or name all `targets`"),
        ("[entry], to: list", "[entry], to: list, shows: [{text: '{entri}'}]", 14, "there is no slot `entri`"),
        ("[entry], to: list", "[entry], to: list, address: x", 14, "it has an `address`, but leads to `list`"),
        ("    elements:", CODE.replace("entry", "entri"), 9, "there is no slot `entri`; correct `of`"),
        ("    elements:", CODE, 9, "the text of `code` has no `{answer}`; add it"),
    ):
        found = _findings(tmp_path, GRAPH.replace(old, new, 1)).mistakes
        assert any(each.line == line and each.text.startswith(text) for each in found) if line else found == (), found


def test_the_example_of_the_documentation_is_a_graph(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "graphs.md").read_text().split("```yaml\n")[1].split("```")[0]
    (tmp_path / "graph.yaml").write_text(text)
    assert set(read_graph(tmp_path / "graph.yaml").pages) == {"empty", "list"}


def test_a_dead_end_and_an_element_without_a_name_are_remarks(tmp_path: Path) -> None:
    found = _findings(tmp_path, GRAPH)
    assert found.mistakes == ()
    assert [(each.line, each.text) for each in found.remarks] == [(5, "nothing leads on from `list`: paths end here")]
    box = "    elements:\n      box: {target: 'checkbox:', role: checkbox}"
    ticks = "    transitions:\n      - {by: box, to: list}"
    text = GRAPH.replace("    elements:", box, 1).replace("    transitions:", ticks, 1)
    (_, nameless) = _findings(tmp_path, text).remarks
    assert (nameless.line, nameless.text.partition(":")[0]) == (10, "`box` has no name")


def test_pages_that_are_recognised_alike_or_by_nothing_are_found(tmp_path: Path) -> None:
    twin = "  twin:\n    recognise:\n      shows:\n        - {role: heading, text: todos}\n"
    text = GRAPH.replace("by: help, to: outside", "by: help, to: twin") + twin
    assert [(each.line, each.text) for each in _findings(tmp_path, text).mistakes] == [
        (17, "`list` and `twin` are recognised alike; add what one of them shows or lacks")
    ]
    told_apart = text + "      lacks:\n        - {id: new-todo}\n"
    told_apart = told_apart.replace("shows:\n", "shows:\n        - {id: new-todo}\n", 1)
    assert _findings(tmp_path, told_apart).mistakes == ()
    text = GRAPH.replace("by: help, to: outside", "by: help, to: blank") + "  blank: {title: nothing}\n"
    (nothing,) = _findings(tmp_path, text).mistakes
    assert nothing.text == "nothing says how `blank` is recognised; add `recognise` with what it shows"
