from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from tests.stages.graphs.explore.exploring import explore, simulated_app
from tests.stages.models.pictures import as_png
from tests.stages.queries.graph.shop import LIST
from trajmill.schemas.actions import Action, Click, Wait
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.pool.pool import EnvironmentPool
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment, SimulatedFactory
from trajmill.stages.environments.simulated.world import shared_world
from trajmill.stages.graphs.base import AppGraph, Feature, GraphPage, GraphTransition, Mark, Recogniser, ValueType
from trajmill.stages.graphs.check import GraphFindings, check_graph
from trajmill.stages.graphs.explore.walker import Budget
from trajmill.stages.graphs.file import GraphFile, graph_text, parse_graph, read_graph
from trajmill.stages.graphs.operations import take
from trajmill.stages.graphs.recognise import filled, looks_alike, page_on, screen_hash
from trajmill.stages.graphs.values import examples, examples_for, notes_of_people, type_of, type_of_label
from trajmill.stages.graphs.verify import EdgeState, VerifiedEdge, verify_graph

_BOX = Box(0, 0, 10, 10)


def _seen(*elements: UIElement) -> Observation:
    return Observation(ScreenHandle("s", Size(100, 100), bytes), elements, "todo")


def _graph(**recognisers: Recogniser) -> AppGraph:
    pages = {name: GraphPage(recognise=recogniser) for name, recogniser in recognisers.items()}
    return AppGraph(app="todo", platform=Platform.WEB, start=next(iter(pages)), pages=pages)


def test_a_page_is_recognised_by_what_it_shows_and_lacks() -> None:
    heading, done = Feature(role="heading", text="todos"), Feature(id="clear", role="button")
    graph = _graph(
        empty=Recogniser(shows=(heading,), lacks=(done,)), full=Recogniser(shows=(heading, done)), unknown=Recogniser()
    )
    title = UIElement("heading", "todos", _BOX)
    assert page_on(graph, _seen(title)) == "empty"
    assert page_on(graph, _seen(title, UIElement("button", "Clear 3 entries", _BOX, element_id="clear"))) == "full"
    assert page_on(graph, _seen(UIElement("heading", "Todos", _BOX))) is None
    heading, dialog = Feature(role="heading", text="todos"), Feature(role="dialog")
    graph = _graph(page=Recogniser(shows=(heading,)), dialog=Recogniser(shows=(heading, dialog)))
    seen = _seen(UIElement("heading", "todos", _BOX), UIElement("dialog", "Sure?", _BOX))
    assert page_on(graph, seen) == "dialog"
    graph.pages["menu"] = GraphPage(recognise=Recogniser(shows=(dialog,)), marks=(Mark.OPENS,))
    assert page_on(graph, seen) == "menu", "what opens over a page lies on top of it"
    graph = _graph(on=Recogniser(shows=(Feature(role="switch", text="Wi-Fi", state="checked"),)))
    assert page_on(graph, _seen(UIElement("switch", "Wi-Fi", _BOX))) is None
    assert page_on(graph, _seen(UIElement("switch", "Wi-Fi", _BOX, ("checked",)))) == "on"


def _png(left: int, clock: str) -> bytes:
    image = Image.new("RGB", (320, 240), "white")
    draw = ImageDraw.Draw(image)
    draw.rectangle((left, 40, left + 120, 200), "navy")
    draw.text((290, 2), clock, "black")
    return as_png(image)


def test_a_page_without_a_tree_is_recognised_by_its_picture() -> None:
    known = screen_hash(_png(20, "9:41"))
    graph = _graph(home=Recogniser(screen=known))

    def seen(png: bytes) -> Observation:
        return Observation(ScreenHandle("s", Size(320, 240), lambda: png), None, "")

    assert page_on(graph, seen(_png(20, "9:42"))) == "home"
    assert page_on(graph, seen(_png(180, "9:41"))) is None
    assert not looks_alike("no hash", known)


def test_a_field_is_filled_before_what_only_then_stands_there() -> None:
    feature = filled(Feature(role="text", text="{entry} ({size})", value="{entry}"), {"entry": "Milk", "size": "big"})
    assert (feature.text, feature.value) == ("Milk (big)", "Milk")
    page = LIST.pages["things"]
    others = {"transitions": tuple(each for each in page.transitions if each.by != "add")}
    graph = LIST.model_copy(update={"pages": {**LIST.pages, "things": page.model_copy(update=others)}})
    steps = take(graph, "things", GraphTransition(by="add", to="things", after=("new",)))
    done = [(step.operation, step.target, step.text) for step in steps]
    assert done == [("tap", "new", ""), ("replace", "new", "milk"), ("tap", "add", "")]


def test_a_label_tells_the_type_and_the_type_of_an_input_counts_more() -> None:
    labels = ("Your name", "What needs to be done?", "Due date", "Start time", "Number of guests", "E-mail address")
    more = ("Street and number", "Search the shop", "Renamed")
    types = ["person", "title", "date", "time", "number", "email", "address", "search", "text"]
    assert [type_of_label(label) for label in (*labels, *more)] == types

    def field(label: str, *states: str) -> UIElement:
        return UIElement("text_field", label, Box(0, 0, 1, 1), ("editable", *states))

    assert type_of(field("Name", "date")) is ValueType.DATE
    assert type_of(field("Price", "number")) is ValueType.AMOUNT
    assert type_of(field("Hours", "number")) is type_of(field("Tab width")._replace(value="8")) is ValueType.NUMBER


def test_each_type_has_examples_within_the_limits_of_its_field() -> None:
    assert examples().keys() == set(ValueType)
    assert all(len({*each}) == len(each) for each in (*examples().values(), notes_of_people()))
    limited = UIElement("text_field", "", _BOX, ("editable", "number", "min:2000", "max:4000", "step:5"))
    assert examples_for(limited, ValueType.NUMBER)[:2] == ("2100", "2200")


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
    found = parse_graph(file)
    return check_graph(found) if isinstance(found, GraphFile) else GraphFindings(tuple(found), ())


CODE = "    answers: {code: {target: x, of: entry, text: Code, known: {a: b}}}\n    elements:"


def test_mistakes_are_told_by_line(tmp_path: Path) -> None:
    for old, new, line, text in (
        ("start: list", "start: lists", 3, "there is no page `lists`; did you mean list?"),
        ("slots: [entry]", "slots: [entri]", 14, "there is no slot `entri` on this page; did you mean entry?"),
        ("keys: enter, ", "", 14, "`operation: key` and `keys` belong together, e.g. `keys: enter`"),
        ("kind: field", "kind: feild", 12, "`feild` is not allowed here; use 'field', 'switch', 'choice', 'list', "),
        ("recognise:", "recognize:", 6, "unknown key `recognize`; did you mean recognise?"),
        ("{role: heading, text: todos}", "{state: checked}", 8, "`{'state': 'checked'}`: needs one of the keys"),
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
    assert nothing.text == "`blank` has no `recognise`; add it with what the page shows"


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> AppGraph:
    return explore(simulated_app("notes"), tmp_path_factory.mktemp("notes") / "notes.jsonl").graph


class _MissesItsFirstPress(SimulatedEnvironment):
    """A phone that is so busy at first that a press has no effect."""

    missed = False

    async def step(self, action: Action) -> Observation:
        if isinstance(action, Click) and not self.missed:
            self.missed, action = True, Wait(seconds=0.0)
        return await super().step(action)


class _BusyPhones(SimulatedFactory):
    async def __call__(self) -> SimulatedEnvironment:
        return _MissesItsFirstPress(shared_world(()), Platform.PHONE, FaultRates(popup=0, slow=0))


async def _verified(graph: AppGraph, actions: int = 5000, busy: bool = False) -> list[VerifiedEdge]:
    made = _BusyPhones if busy else SimulatedFactory
    pool = EnvironmentPool(made(shared_world(()), graph.platform, FaultRates(popup=0, slow=0)), 2)
    try:
        return await verify_graph(graph, pool, Budget(actions, 600.0), 2, lambda edge: None)
    finally:
        await pool.close()


def _with_page(graph: AppGraph, name: str, page: GraphPage) -> AppGraph:
    return graph.model_copy(update={"pages": {**graph.pages, name: page}})


async def test_an_explored_graph_holds_also_where_presses_are_missed_and_the_bounds_end_it(notes: AppGraph) -> None:
    edges = await _verified(notes)
    assert len(edges) == len(notes.transitions()) > 10
    assert [edge for edge in edges if edge.state is not EdgeState.HOLDS] == []
    assert {edge.state for edge in await _verified(notes, busy=True)} == {EdgeState.HOLDS}
    states = [edge.state for edge in await _verified(notes, actions=10)]
    assert EdgeState.HOLDS in states
    assert states.count(EdgeState.SKIPPED) > len(states) // 2


async def test_what_has_changed_is_said(notes: AppGraph) -> None:
    start = notes.pages["start"]
    elsewhere = start.transitions[0].model_copy(update={"to": "note-options"})
    gone = start.elements["note-options"].model_copy(update={"target": "notes.home/gone"})
    elements = {**start.elements, "note-options": gone}
    changed = start.model_copy(update={"transitions": (elsewhere, *start.transitions[1:]), "elements": elements})
    edges = [edge for edge in await _verified(_with_page(notes, "start", changed)) if edge.page == "start"]
    by = {changed.transitions[edge.number].by: edge for edge in edges}
    assert by["new-note"].state is EdgeState.CHANGED
    assert by["new-note"].reason == "it leads to `new-note`"
    assert by["note-options"].state is EdgeState.LOST
    assert by["note-options"].reason == "cannot scroll to notes.home/gone"
    assert by["shopping-list"].state is EdgeState.HOLDS
