from pathlib import Path

import pytest

from tests.stages.graphs.test_file import GRAPH
from trajmill.stages.graphs.check import GraphFindings, check_graph
from trajmill.stages.graphs.file import parse_graph


def _checked(tmp_path: Path, text: str) -> GraphFindings:
    file = tmp_path / "todo.yaml"
    file.write_text(text)
    reading = parse_graph(file)
    assert reading.file is not None, reading.mistakes
    return check_graph(reading.file)


def test_a_dead_end_is_a_remark(tmp_path: Path) -> None:
    found = _checked(tmp_path, GRAPH)
    assert found.mistakes == ()
    assert [(each.line, each.text) for each in found.remarks] == [(5, "nothing leads on from `list`: paths end here")]


def test_an_element_that_nobody_can_name_is_a_remark(tmp_path: Path) -> None:
    box = "    elements:\n      box: {target: 'checkbox:', role: checkbox}"
    ticks = "    transitions:\n      - {by: box, to: list}"
    text = GRAPH.replace("    elements:", box, 1).replace("    transitions:", ticks, 1)
    (_, nameless) = _checked(tmp_path, text).remarks
    assert (nameless.line, nameless.text.partition(":")[0]) == (10, "`box` has no name")


@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        ("pages:\n", "pages:\n  lost: {recognise: {shows: [{id: lost}]}}\n", 5, "no transitions lead from `list` to"),
        ("{role: heading, text: todos}", "{role: heading, text: todos}", 0, ""),
        ("    elements:", "    marks: [needs-login]\n    elements:", 0, ""),
        ("values: [Buy milk]", "values: []", 12, "`entry` has no value to ask for; add `values`"),
        ("kind: field", "kind: list", 12, "the target of `entry` has no `{value}`; add it, or name all `targets`"),
        (
            "slots: [entry], to: list",
            "slots: [entry], to: list, shows: [{text: '{entri}'}]",
            14,
            "there is no slot `entri`",
        ),
        (
            "slots: [entry], to: list",
            "slots: [entry], to: list, address: x",
            14,
            "it has an `address`, but leads to `list`",
        ),
        (
            "    elements:",
            "    answers: {code: {target: x, of: entri, known: {a: b}}}\n    elements:",
            9,
            "there is no slot `entri`; correct `of`",
        ),
        (
            "    elements:",
            "    answers: {code: {target: x, of: entry, text: Code, known: {a: b}}}\n    elements:",
            9,
            "the text of `code` has no `{answer}`; add it",
        ),
    ],
)
def test_mistakes_are_found_by_line(tmp_path: Path, old: str, new: str, line: int, text: str) -> None:
    found = _checked(tmp_path, GRAPH.replace(old, new, 1)).mistakes
    assert [(each.line, each.text.startswith(text)) for each in found] == ([(line, True)] if line else [])


def test_pages_that_are_recognised_alike_are_found(tmp_path: Path) -> None:
    twin = "  twin:\n    recognise:\n      shows:\n        - {role: heading, text: todos}\n"
    text = GRAPH.replace("by: help, to: outside", "by: help, to: twin") + twin
    assert [(each.line, each.text) for each in _checked(tmp_path, text).mistakes] == [
        (17, "`list` and `twin` are recognised alike; add what one of them shows or lacks")
    ]
    told_apart = text + "      lacks:\n        - {id: new-todo}\n"
    told_apart = told_apart.replace("shows:\n", "shows:\n        - {id: new-todo}\n", 1)
    assert _checked(tmp_path, told_apart).mistakes == ()


def test_a_page_that_nothing_recognises_is_found(tmp_path: Path) -> None:
    text = GRAPH.replace("by: help, to: outside", "by: help, to: blank") + "  blank: {title: nothing}\n"
    assert [each.text for each in _checked(tmp_path, text).mistakes] == [
        "nothing says how `blank` is recognised; add `recognise` with what it shows"
    ]
