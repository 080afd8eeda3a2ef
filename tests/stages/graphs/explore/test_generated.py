"""What holds for the graph of any app, and what a form, a list and a menu become."""

from pathlib import Path

import pytest

from tests.stages.graphs.explore.exploring import ExploredGraph, explore
from tests.stages.graphs.explore.generated_app import GeneratedFactory, Widget, generated_pages
from trajmill.schemas.tables.query import Platform
from trajmill.stages.graphs.base import SlotKind, ValueType
from trajmill.stages.graphs.check import check_graph
from trajmill.stages.graphs.explore.base import ExploreBounds, unexplored
from trajmill.stages.graphs.file import parse_graph, write_graph


def explored(pages: list[list[Widget]], folder: Path) -> ExploredGraph:
    app = unexplored("made", Platform.WEB, start_state={"url": "http://127.0.0.1:1/"})
    bounds = ExploreBounds(actions=1500, pages=8)
    return explore(app, folder / "made.jsonl", bounds, workers=1, factory=GeneratedFactory(pages))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_check_accepts_whatever_explore_writes(seed: int, tmp_path: Path) -> None:
    graph = explored(generated_pages(seed), tmp_path).graph
    write_graph(graph, tmp_path / "made.yaml")
    reading = parse_graph(tmp_path / "made.yaml")
    assert reading.file is not None, reading.mistakes
    assert not [str(each) for each in check_graph(reading.file).mistakes]
    assert reading.file.graph == graph


def test_a_form_is_one_transition_with_all_its_fields_and_another_without_its_switches(tmp_path: Path) -> None:
    radios = [Widget("radio", each) for each in ("Beginner", "Advanced")]
    fields = [Widget("text_field", each) for each in ("Your name", "Day")]
    form = [Widget("heading", "Book a bench"), *fields, Widget("text", "Level"), *radios]
    form += [Widget("checkbox", "With tools"), Widget("button", "Book", says="Booked: {fields}")]
    start = explored([form], tmp_path).graph.pages["start"]
    kinds = {name: (slot.kind, slot.type, slot.name) for name, slot in start.slots.items()}
    assert kinds["your-name"] == (SlotKind.FIELD, ValueType.PERSON, "Your name")
    assert kinds["day"] == (SlotKind.FIELD, ValueType.DATE, "Day")
    assert kinds["level"][::2] == (SlotKind.CHOICE, "Level")
    sent = {
        each.slots: [feature.text for feature in each.shows]
        for each in start.transitions
        if each.submits and not each.keys
    }
    assert sent == {
        ("your-name", "day", "level", "with-tools"): ["Booked: {your-name}, {day}, chosen, on"],
        ("your-name", "day", "level"): ["Booked: {your-name}, {day}, chosen"],
    }


def test_rows_are_one_list_by_their_titles_and_are_tried_twice(tmp_path: Path) -> None:
    news = ("Glue for sale", "Open evening", "A new saw", "A visit", "Old planes")
    rows = [each for title in news for each in (Widget("text", title), Widget("button", "Like", says=f"Liked {title}"))]
    found = explored([[Widget("heading", "News"), *rows]], tmp_path)
    slot = found.graph.pages["start"].slots["like"]
    assert (slot.kind, slot.values) == (SlotKind.LIST, news)
    assert slot.target_of("A visit") == "button:Like#4"
    [liked] = found.graph.pages["start"].transitions
    assert (liked.does, [feature.text for feature in liked.shows]) == ("Like {like}.", ["Liked {like}"])
    assert len(found.explored.trials) == 2


def test_a_menu_on_each_page_is_tried_once_and_leads_on_from_each(tmp_path: Path) -> None:
    menu = [Widget("link", each, at) for at, each in enumerate(("Home", "Shop", "Help", "About"))]
    pages = [[*menu, Widget("heading", menu[at].text), Widget("text", f"This is {at}")] for at in range(4)]
    found = explored(pages, tmp_path)
    ends = {page: {each.to for each in spec.transitions} for page, spec in found.graph.pages.items()}
    assert {page.title for page in found.graph.pages.values()} == {each.text for each in menu}
    assert all(ends[page] == set(ends) - {page} for page in ends)
    assert len(found.explored.trials) == 4


def test_links_of_a_menu_that_do_nothing_lead_nowhere(tmp_path: Path) -> None:
    menu = [Widget("link", each, at) for at, each in enumerate(("Home", "Shop", "Help"))]
    menu += [Widget("link", each) for each in ("News", "Terms")]
    pages = [[*menu, Widget("heading", menu[at].text)] for at in range(3)]
    graph = explored(pages, tmp_path).graph
    assert len(graph.pages) == 3
    assert not [each for _, each in graph.transitions() if each.by in ("news", "terms")]


def test_another_item_and_another_page_of_results_are_the_same_page(tmp_path: Path) -> None:
    cards = [
        each
        for at in range(4)
        for each in (Widget("heading", f"Bench {'abcd'[at]}"), Widget("link", "Details", at + 1))
    ]
    items = [[Widget("heading", f"Bench {'abcd'[at]}"), Widget("checkbox", "Favourite")] for at in range(4)]
    graph = explored([cards, *items], tmp_path).graph
    assert len(graph.pages) == 2
    [way] = graph.pages["start"].transitions
    assert (way.by, way.does) == ("details", "Show the details of {details}.")
    assert [feature.text for feature in way.shows] == ["{details}"]


def test_a_text_of_a_page_is_never_the_place_of_a_value(tmp_path: Path) -> None:
    page = [Widget("heading", "About {us}"), Widget("button", "Greet {value}", says="Hello {name}")]
    page += [Widget("text_field", "Say {value}"), Widget("button", "Send to {name}", says="{fields} for {value}")]
    graph = explored([page], tmp_path).graph
    features = [each for _, way in graph.transitions() for each in (*way.shows, *way.lacks)]
    assert {each.text for each in features if "{" in f"{each.text}{each.value}"} <= {"Found {say-value}"}
