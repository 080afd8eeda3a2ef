from pathlib import Path

import pytest

from trajmill.schemas.errors import BadInputError
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


def test_what_a_person_wrote_is_read_and_written_alike(tmp_path: Path) -> None:
    file = tmp_path / "todo.yaml"
    file.write_text(GRAPH)
    assert graph_text(read_graph(file)) == GRAPH


@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        ("start: list", "start: lists", 3, "there is no page `lists`; did you mean list?"),
        ("to: outside", "to: outsid", 15, "there is no page `outsid`; did you mean outside?"),
        ("slots: [entry]", "slots: [entri]", 14, "there is no slot of this page `entri`; did you mean entry?"),
        ("by: help", "by: hepl", 15, "there is no element or slot of this page `hepl`; did you mean help?"),
        ("keys: enter, ", "", 14, "`operation: key` and `keys` belong together, e.g. `keys: enter`"),
        (
            "kind: field",
            "kind: feild",
            12,
            "`feild` is not allowed here; use 'field', 'switch', 'choice', 'list' or 'slider'",
        ),
        ("recognise:", "recognize:", 6, "unknown key `recognize`; did you mean recognise?"),
        (
            "{role: heading, text: todos}",
            "{state: checked}",
            8,
            "expected a feature with one of the keys id, role and text",
        ),
        ("      help:", "      entry:", 12, "`entry` is the name of an element and of a slot; rename one of them"),
        ("app: todo", "[]", 1, "this is no app graph; start it with `app: NAME`"),
    ],
)
def test_mistakes_are_told_by_line(tmp_path: Path, old: str, new: str, line: int, text: str) -> None:
    file = tmp_path / "todo.yaml"
    file.write_text("[]" if new == "[]" else GRAPH.replace(old, new, 1))
    mistakes = [str(mistake) for mistake in parse_graph(file).mistakes]
    assert any(mistake.startswith(f"{file}:{line}: {text}") for mistake in mistakes), mistakes


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "todo.yaml"
    file.write_text(GRAPH.replace("start: list", "start: home").replace("to: outside", "to: away"))
    with pytest.raises(BadInputError) as raised:
        read_graph(file)
    assert str(raised.value).count("\n") == 1


def test_the_example_of_the_documentation_is_a_graph(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "graphs.md").read_text().split("```yaml\n")[1].split("```")[0]
    (tmp_path / "graph.yaml").write_text(text)
    assert set(read_graph(tmp_path / "graph.yaml").pages) == {"empty", "list"}
