"""Steps of transitions that need something to be operated first."""

from tests.stages.queries.graph.shop import LIST
from trajmill.stages.graphs.base import GraphTransition
from trajmill.stages.graphs.operations import take


def test_a_field_is_filled_before_what_only_then_stands_there() -> None:
    page = LIST.pages["things"]
    transitions = tuple(each for each in page.transitions if each.by != "add")
    graph = LIST.model_copy(
        update={"pages": {**LIST.pages, "things": page.model_copy(update={"transitions": transitions})}}
    )
    steps = take(graph, "things", GraphTransition(by="add", to="things", after=("new",)))
    assert [(step.operation, step.target, step.text) for step in steps] == [
        ("tap", "new", ""),
        ("replace", "new", "milk"),
        ("tap", "add", ""),
    ]
