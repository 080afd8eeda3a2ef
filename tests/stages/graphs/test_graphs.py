from io import BytesIO

from PIL import Image, ImageDraw

from tests.stages.queries.graph.shop import LIST
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.world import shared_world
from trajmill.stages.graphs.base import AppGraph, Feature, GraphPage, GraphTransition, Recogniser, ValueType
from trajmill.stages.graphs.from_simulated import graph_of_app
from trajmill.stages.graphs.network import network, walkable
from trajmill.stages.graphs.operations import take
from trajmill.stages.graphs.recognise import filled, looks_alike, page_on, screen_hash
from trajmill.stages.graphs.values import examples, fresh_example, type_of, type_of_label

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
    graph = _graph(on=Recogniser(shows=(Feature(role="switch", text="Wi-Fi", state="checked"),)))
    assert page_on(graph, _seen(UIElement("switch", "Wi-Fi", _BOX))) is None
    assert page_on(graph, _seen(UIElement("switch", "Wi-Fi", _BOX, ("checked",)))) == "on"


def _png(left: int, clock: str) -> bytes:
    image = Image.new("RGB", (320, 240), "white")
    draw = ImageDraw.Draw(image)
    draw.rectangle((left, 40, left + 120, 200), "navy")
    draw.text((290, 2), clock, "black")
    out = BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


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
    labels = {
        "Your name": ValueType.PERSON,
        "What needs to be done?": ValueType.TITLE,
        "Due date": ValueType.DATE,
        "Start time": ValueType.TIME,
        "Number of guests": ValueType.NUMBER,
        "E-mail address": ValueType.EMAIL,
        "Street and number": ValueType.ADDRESS,
        "Search the shop": ValueType.SEARCH,
        "Renamed": ValueType.TEXT,
    }
    assert {label: type_of_label(label) for label in labels} == labels

    def field(label: str, *states: str) -> UIElement:
        return UIElement("text_field", label, Box(0, 0, 1, 1), ("editable", *states))

    assert type_of(field("Name", "date")) is ValueType.DATE
    assert type_of(field("Price", "number")) is ValueType.AMOUNT
    assert type_of(field("Hours", "number")) is ValueType.NUMBER


def test_each_type_has_examples_and_none_is_used_twice() -> None:
    assert examples().keys() == set(ValueType)
    used: set[str] = set()
    for _ in range(5):
        used.add(fresh_example(ValueType.PERSON, used))
    assert len(used) == 5


def test_every_app_has_a_network() -> None:
    for app in shared_world(()).apps.values():
        graph = graph_of_app(app)
        assert set(network(graph)) == set(walkable(graph)) == set(graph.pages)
        assert network(graph).number_of_edges() == len(graph.transitions())
