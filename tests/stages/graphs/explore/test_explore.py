from pathlib import Path
from typing import Any

import pytest

from tests.stages.graphs.explore.exploring import ExploredGraph, explore, simulated_app
from tests.stages.graphs.explore.widgets import Widget, WidgetFactory
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.graphs.base import GraphPage, GraphTransition, Mark, SlotKind, ValueType
from trajmill.stages.graphs.check import check_graph
from trajmill.stages.graphs.explore.base import Effect, ExploreBounds, Trial, TrialKind, WalkedScreen, unexplored
from trajmill.stages.graphs.explore.build import GraphBuilder
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.graphs.explore.explore import Findings
from trajmill.stages.graphs.explore.journal import ExploreJournal, Tried
from trajmill.stages.graphs.explore.pages import PageBook
from trajmill.stages.graphs.explore.plan import trials_on
from trajmill.stages.graphs.file import read_graph_file, write_graph
from trajmill.stages.graphs.merge import keep_annotations


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    journal = tmp_path_factory.mktemp("notes") / "notes.jsonl"
    explore(simulated_app("notes"), journal)
    return journal


@pytest.mark.slow
def test_what_may_destroy_is_marked_and_pressed_once_it_is_allowed(tmp_path: Path) -> None:
    app, journal = simulated_app("rides"), tmp_path / "rides.jsonl"
    asked = explore(app, journal)
    marked = {each.target for page in asked.graph.pages.values() for each in page.elements.values() if each.marks}
    assert "rides.car/order" in marked and "Ride ordered" not in {each.title for each in asked.graph.pages.values()}
    assert not any(trial.target in marked for trial in asked.explored.trials)
    allowed = explore(app, journal, denied=packaged_deny_list(may_destroy=True))
    assert "Ride ordered" in {page.title for page in allowed.graph.pages.values()}
    assert not [each for page in allowed.graph.pages.values() for each in page.elements.values() if each.marks]
    # The yes is kept by what was tried: the next call needs none.
    again = explore(app, journal)
    assert (again.graph, again.explored.actions) == (allowed.graph, 0)
    outdated = frozenset({Mark.IDLE, Mark.DESTRUCTIVE})
    merged = keep_annotations(allowed.graph, asked.graph, allowed.builder.screens_by_page, outdated)
    assert not [each for page in merged.pages.values() for each in page.elements.values() if each.marks]


def test_what_may_destroy_is_denied_as_whole_words_of_several_languages_until_it_is_allowed() -> None:
    usual, allowing = packaged_deny_list(), packaged_deny_list(may_destroy=True)
    for text in ("Jetzt kaufen", "Löschen", "Supprimer", "Log out", "Log  out", "Delete line", "_Delete"):
        assert usual.search(text) and not allowing.search(text)
    assert all(allowing.search(text) for text in ("Shut down", "Beenden", "Quit", "_Quit"))
    assert not any(usual.search(text) for text in ("Footprints", "Printing office", "Preferences..."))


@pytest.mark.slow
def test_all_pages_are_found_also_behind_a_long_press(notes: Path) -> None:
    found = explore(simulated_app("notes"), notes)
    titles = {page.title for page in found.graph.pages.values()}
    assert not found.explored.left
    assert titles >= {"Notes", "New note", "Shopping list", "Note options", "Move note", "Note moved", "Note saved"}
    assert found.graph.pages["move-note"].slots["folders"].kind is SlotKind.LIST


def test_inputs_and_lists_are_slots_and_items_are_pressed_and_held(notes: Path) -> None:
    graph = explore(simulated_app("notes"), notes).graph
    slots = graph.pages["new-note"].slots
    kinds = {"title": SlotKind.FIELD, "text": SlotKind.FIELD, "pin-this-note": SlotKind.SWITCH}
    assert {name: slot.kind for name, slot in slots.items()} == {**kinds, "folder": SlotKind.CHOICE}
    assert slots["folder"].values == ("Personal", "House", "School", "Travel")
    opened = {each.operation: each.to for each in graph.pages["start"].transitions if each.by == "notes"}
    shown = [each for page in opened.values() for each in graph.pages[page].recognise.shows]
    assert opened.keys() == {"hold", "tap"} and all(each.state != "title" for each in shown)


def test_a_killed_exploration_goes_on_where_it_was(notes: Path, tmp_path: Path) -> None:
    lines = notes.read_text().splitlines(keepends=True)
    journal = tmp_path / "notes.jsonl"
    journal.write_text("".join(lines[:20]) + lines[20][: len(lines[20]) // 2])
    app = simulated_app("notes")
    before = len(ExploreJournal(journal, app).read())
    found = explore(app, journal)
    assert not found.explored.left
    assert 0 < before < len(found.explored.trials)
    names = [(trial.before, trial.kind, trial.target) for trial in found.explored.trials]
    assert len(names) == len(set(names))
    found_at_once = explore(app, notes).graph
    assert {each.title for each in found.graph.pages.values()} == {each.title for each in found_at_once.pages.values()}


def test_an_exploration_ends_at_its_bounds(tmp_path: Path) -> None:
    few = explore(simulated_app("clock"), tmp_path / "few.jsonl", ExploreBounds(pages=3))
    assert len(few.graph.pages) == 3 and not few.explored.left and '"idle"' not in few.graph.model_dump_json()


def test_a_journal_that_is_damaged_or_of_another_app_is_refused_in_one_line(notes: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="it belongs to another app or start state"):
        explore(simulated_app("clock"), notes)
    journal = tmp_path / "notes.jsonl"
    journal.write_text("".join(notes.read_text().splitlines(keepends=True)[:3]) + '{"trial": {}}\n')
    with pytest.raises(BadInputError, match=r"notes.jsonl:4: no entry of an exploration"):
        explore(simulated_app("notes"), journal)


def _with_home(page: GraphPage) -> GraphPage:
    ends = (each.model_copy(update={"to": "home"}) if each.to == "start" else each for each in page.transitions)
    return page.model_copy(update={"transitions": tuple(ends)})


def test_what_people_wrote_stays_when_more_is_explored(tmp_path: Path) -> None:
    app, journal = simulated_app("notes"), tmp_path / "notes.jsonl"
    first = explore(app, journal, ExploreBounds(actions=60), workers=1)
    assert first.explored.left and first.explored.actions <= 61
    start = first.graph.pages["start"]
    words = {
        "title": "all notes",
        "elements": {"write": start.elements["new-note"].model_copy(update={"does": "Begins a note."})},
        "slots": {"notes": start.slots["notes"].model_copy(update={"values": ("Poem",)})},
        "transitions": (GraphTransition(by="write", to="new-note", does="Goes there."),),
    }
    edited = start.model_copy(update=words)
    others = {name: _with_home(page) for name, page in first.graph.pages.items() if name != "start"}
    old = first.graph.model_copy(update={"start": "home", "title": "my notes", "pages": {"home": edited, **others}})
    second = explore(app, journal)
    merged = keep_annotations(second.graph, old, second.builder.screens_by_page)
    home = merged.pages["home"]
    assert (merged.title, merged.start, home.title) == ("my notes", "home", "all notes")
    assert home.elements["write"].does == "Begins a note."
    assert home.slots["notes"].values == ("Poem",)
    assert [each for each in home.transitions if each.by == "write"] == [old.pages["home"].transitions[0]]
    explored = {each.by for each in second.graph.pages["start"].transitions}
    assert {each.by for each in home.transitions} == explored - {"new-note"} | {"write"}
    assert len(merged.pages) == len(second.graph.pages)
    assert {each.to for _, each in merged.transitions()} <= merged.pages.keys() | {"outside"}


def explored(pages: list[list[Widget]], folder: Path) -> ExploredGraph:
    """Explore an app of widgets; what is found is right for `check`, and the same in a file."""
    app = unexplored("made", Platform.WEB, start_state={"url": "http://127.0.0.1:1/"})
    folder.mkdir(exist_ok=True)
    found = explore(app, folder / "made.jsonl", workers=1, factory=WidgetFactory(pages))
    write_graph(found.graph, folder / "made.yaml")
    file = read_graph_file(folder / "made.yaml")
    assert not [str(each) for each in check_graph(file).mistakes]
    assert file.graph == found.graph
    return found


def test_a_form_is_one_transition_with_all_its_fields_and_another_without_its_switches(tmp_path: Path) -> None:
    radios = [Widget("radio", each) for each in ("Beginner", "Advanced")]
    fields = [Widget("text_field", each) for each in ("Your name", "Day")]
    form = [Widget("heading", "Book a bench"), *fields, Widget("text", "Level"), *radios]
    form += [Widget("checkbox", "With tools"), Widget("button", "Book", says="Booked: {fields}")]
    form += [Widget("button", "Cancel", says="As it was"), Widget("text_field", "Motto"), *reversed(radios)]
    start = explored([[*form, Widget("button", "Save", says="Saved!")]], tmp_path).graph.pages["start"]
    kinds = {name: (slot.kind, slot.type, slot.name) for name, slot in start.slots.items()}
    assert kinds["your-name"] == (SlotKind.FIELD, ValueType.PERSON, "Your name")
    assert kinds["day"] == (SlotKind.FIELD, ValueType.DATE, "Day")
    assert kinds["level"][::2] == (SlotKind.CHOICE, "Level")
    pressed = [each for each in start.transitions if each.submits and not each.keys]
    assert {each.slots: [feature.text for feature in each.shows] for each in pressed} == {
        ("your-name", "day", "level", "with-tools"): ["Booked: {your-name}, {day}, chosen, on"],
        ("your-name", "day", "level"): ["Booked: {your-name}, {day}, chosen"],
        ("motto", "choice"): ["Saved!"],
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
    idle = [Widget("link", each) for each in ("News", "Terms")]
    graph = explored([[*idle, *page] for page in pages], tmp_path / "idle").graph
    assert len(graph.pages) == 4 and not [each for _, each in graph.transitions() if each.by in ("news", "terms")]


def test_another_item_and_another_page_of_results_are_the_same_page(tmp_path: Path) -> None:
    titles = [Widget("heading", f"Bench {letter}") for letter in "abcd"]
    cards = [each for at, title in enumerate(titles, 1) for each in (title, Widget("link", "Details", at))]
    graph = explored([cards, *([title, Widget("checkbox", "Favourite")] for title in titles)], tmp_path).graph
    [way] = graph.pages["start"].transitions
    assert [page.title for page in graph.pages.values()] == ["Bench a", "site"]
    assert (way.by, way.does) == ("details", "Show the details of {details}.")
    assert [feature.text for feature in way.shows] == ["{details}"]


def test_check_accepts_what_explore_writes_whatever_it_is_called(tmp_path: Path) -> None:
    names = ("", "{", "a}b", "Oak {name}", "{value}", "7", "Delete", "Item 1", "Item 2")
    roles = ("text_field", "button", "radio", "checkbox", "search_field")
    page = [Widget(role, name, says=f"{name}d {{fields}}") for name in names for role in roles]
    page += [Widget("link", name, 1) for name in names]
    graph = explored([page, [Widget("link", name, 0) for name in names]], tmp_path).graph
    assert len(graph.pages["start"].slots) > len(names)


Steps = tuple[PathStep, ...]
PLACE = Box(0, 0, 10, 10)
HEADING = UIElement(role="heading", text="Find", bounds=PLACE, states=("title",))
CLEAR = UIElement(role="button", text="Clear", bounds=PLACE, states=("clickable",), element_id="empty")
CLEARED = UIElement(role="text", text="All is gone.", bounds=PLACE)


def screen(name: str, typed: str, *more: UIElement, label: str = "Search") -> WalkedScreen:
    field = UIElement("text_field", label, PLACE, ("clickable", "editable"), typed, "words")
    return WalkedScreen(screen_id=name, app="find", elements=(HEADING, field, *more))


def pages_of(*tried: Tried) -> tuple[GraphPage, ...]:
    findings = Findings(ExploreBounds(), packaged_deny_list(), Platform.WEB)
    for each in tried:
        findings.add(each)
    app = unexplored("find", Platform.WEB)
    return tuple(GraphBuilder(app, findings.book, findings.trials, packaged_deny_list()).build({}).pages.values())


def tried(before: WalkedScreen, after: WalkedScreen, kind: TrialKind, steps: Steps, **more: Any) -> Tried:
    ends = {"before": before.screen_id, "after": after.screen_id, "effect": Effect.CHANGED, "way": ()}
    return Tried(Trial(**ends | {"target": steps[0].target, **more}, kind=kind, steps=steps), before, after)


def tap(target: str) -> Steps:
    return (PathStep(page="", operation="tap", target=target),)


def test_what_stands_there_only_while_a_field_is_filled_is_operated_after_it() -> None:
    fill = tuple(PathStep(page="", operation=each, target="words", text="trajmill") for each in ("tap", "replace"))
    enter = (*fill, PathStep(page="", operation="key", target="", text="enter"))
    empty, found, cleared = screen("a", ""), screen("b", "trajmill", CLEAR), screen("c", "", CLEARED)
    (made,) = pages_of(
        tried(empty, found, TrialKind.FILL, fill),
        tried(empty, found, TrialKind.ENTER, enter),
        tried(found, cleared, TrialKind.PRESS, tap("empty"), way=enter),
    )
    assert [(each.by, each.after) for each in made.transitions] == [("clear", ("search",))]  # Enter does no more.
    # A search is not sent by what says that it does something else.
    sent = tried(found, cleared, TrialKind.SUBMIT, (*fill, *tap("empty")), target="empty")
    (made,) = pages_of(tried(empty, found, TrialKind.FILL, fill), sent)
    assert not [each for each in made.transitions if each.submits]
    # A form whose effect is a message is one, though its button alone only says that something is missing.
    parts = {"d": (), "e": (), "f": (at(2, "text", "Say something."),), "g": (CLEARED,)}
    blank, full, asks, done = (screen(n, "trajmill" * (n == "e"), CLEAR, *e, label="Motto") for n, e in parts.items())
    alone = tried(blank, asks, TrialKind.PRESS, tap("empty"))
    form = tried(blank, done, TrialKind.SUBMIT, sent.trial.steps, target="empty")
    (made,) = pages_of(tried(blank, full, TrialKind.FILL, fill), alone, form)
    assert [[each.text for each in way.shows] for way in made.transitions if way.submits] == [["All is gone."]]


def at(row: int, role: str, text: str, left: int = 0) -> UIElement:
    states = ("clickable",) if role in ("link", "button") else ()
    return UIElement(role=role, text=text, bounds=Box(left, row * 20, left + 50, row * 20 + 20), states=states)


AGES, SORTED = (at(row, "text", age, 500) for row, age in enumerate(("47", "9", "33"), 2)), ("9", "33", "47")
BUTTONS = (
    *(at(0, "button", name, left) for left, name in enumerate(("More", "Menu", "Nothing", "Undo", "Redo", "Cut"))),
    at(0, "button", "Rate us", 90),
    at(1, "button", "Age", 500),
)
TABLE = (*BUTTONS, *AGES)
LINKS = tuple(at(row, "link", text, 300) for row, text in enumerate(("Profile", "Settings")))
MANY = tuple(at(row, "link", text, 300) for row, text in enumerate(("Copy", "Move", "Share", "Pin")))


def test_what_changes_nothing_and_what_only_opens_is_marked_and_a_sorted_column_is_told() -> None:
    def pressed(name: str, *after: UIElement) -> Tried:
        before = screen("a", "", *TABLE)
        last = screen(name, "", *after) if after else before
        effect = Effect.CHANGED if after else Effect.NOTHING
        return tried(before, last, TrialKind.PRESS, tap(f"button:{name}"), effect=effect)

    start, menu, dialog = pages_of(
        pressed("More", *TABLE, *LINKS),
        pressed("Menu", *TABLE, *MANY),
        pressed("Cut", *TABLE, at(5, "dialog", "Font"), at(6, "button", "Cancel")),
        pressed("Nothing"),
        pressed("Rate us", *(at(0, "button", "Thanks", 90) if each.text == "Rate us" else each for each in TABLE)),
        pressed(
            "Age",
            *BUTTONS[:-1],
            at(1, "button", "Age, sorted", 500),
            *(at(row, "text", age, 500) for row, age in enumerate(SORTED, 2)),
        ),
    )
    ways = {each.by: each for each in start.transitions}
    assert {name: way.marks for name, way in ways.items() if way.marks} == {"more": (Mark.OPENS,)}
    assert ways.keys() == {"more", "menu", "cut", "rate-us", "age"}
    assert menu.marks == (Mark.OPENS,) and Mark.AWAITS in dialog.marks
    assert (ways["age"].does, [each.text for each in ways["age"].shows]) == ("Sort by Age.", ["Age, sorted"])
    assert {name for name, each in start.elements.items() if Mark.IDLE in each.marks} == {"nothing"}


def test_a_keypad_works_out_sums_if_its_display_shows_the_first_one() -> None:
    keys = tuple(at(1, "button", each, 60 * left) for left, each in enumerate("0123456789+="))
    first = screen("a", "", *keys)
    planned = trials_on(PageBook().add(first, ()), (), (), ExploreBounds(), packaged_deny_list(), Platform.WEB)
    [entered] = [each for each in planned if each.kind is TrialKind.KEYPAD]
    assert [step.target for step in entered.steps] == [f"button:{key}" for key in "48+27="]
    for shown, works in (("75", True), ("48", False)):
        (page,) = pages_of(tried(first, screen(shown, shown, *keys), TrialKind.KEYPAD, entered.steps))
        assert ("sum" in page.slots, "7" in page.elements) == (works, not works)
        assert not works or set("".join(page.slots["sum"].values)) <= set("0123456789+ ")


def test_a_link_is_tried_again_once_its_text_changes_and_a_list_with_fewer_rows_is_the_same_page() -> None:
    def shop(in_cart: int, rows: str = "abc") -> WalkedScreen:
        cart = UIElement("link", f"Cart ({in_cart})", PLACE, ("clickable",), element_id="cart")
        parts = (
            part for row, name in enumerate(rows, 2) for part in (at(row, "link", name), at(row, "button", "Add", 60))
        )
        return screen(f"{in_cart} {rows}", "", cart, *parts)

    findings, add, again = Findings(ExploreBounds(), packaged_deny_list(), Platform.WEB), tap("button:Add"), []
    findings.add(tried(shop(0), shop(0), TrialKind.PRESS, tap("cart"), effect=Effect.NOTHING))
    for in_cart, way in enumerate(((), add)):
        findings.add(tried(shop(in_cart), shop(in_cart + 1), TrialKind.PRESS, add, way=way))
        again += [each.way for each in iter(lambda: findings.claim(None), None) if each.target == "cart"]
    assert again == [add] and findings.book.knows(shop(1, "b"))


def test_a_switch_is_called_after_its_label_or_group_and_is_a_part_of_the_field_beside_it() -> None:
    labels = ("Show marks", "Notation", "Column:", "")
    shown = [at(row, "checkbox", each, 20) for row, each in enumerate(labels, 2)]
    shown += at(1, "text", "Set", 10), at(5, "text", "Sun:", 80), at(4, "text_field", "", 90)
    first, presses = screen("a", "", *shown), (tap(f"checkbox:{each}") for each in labels)
    (page,) = pages_of(*(tried(first, first, TrialKind.PRESS, steps, undone=True) for steps in presses))
    named = {each.name: each.in_form for each in page.slots.values() if each.kind is SlotKind.SWITCH}
    assert named == {"Show marks": False, "Notation under Set": False, "Column under Set": True, "Sun under Set": False}


def test_a_box_is_called_after_its_row_unless_two_rows_begin_alike() -> None:
    shown = [
        each
        for row, name in enumerate(("Ann", "Bo", "Ann"), 2)
        for each in (at(row, "checkbox", ""), at(row, "link", name, 60))
    ]
    first, targets = screen("a", "", *shown), ("checkbox:", "checkbox:#2", "checkbox:#3")
    (page,) = pages_of(*(tried(first, first, TrialKind.PRESS, tap(each), undone=True) for each in targets))
    assert [each.name for each in page.slots.values() if each.kind is SlotKind.SWITCH] == ["box of Bo"]


def test_a_page_without_the_menu_bar_is_not_below_the_first_one_and_has_its_name() -> None:
    bars = [UIElement("heading", f"x{mode} - Editor", PLACE, ("title",)) for mode in ("", " [Viewer]")]
    first = WalkedScreen(screen_id="a", app="e", elements=(bars[0], at(1, "menu", "File"), at(2, "button", "View")))
    last = WalkedScreen(screen_id="b", app="e", elements=(bars[1], at(3, "button", "Leave")))
    book = PageBook()
    pages = [book.add(each, ()) for each in (first, last)]
    assert pages[0].key.stands_over(pages[1].key) and not book.below(pages[0])
    made = pages_of(tried(first, last, TrialKind.PRESS, tap("button:View")))
    assert [each.title for each in made] == ["x - Editor", "x - Editor"]
