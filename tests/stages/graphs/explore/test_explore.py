from pathlib import Path

import pytest

from tests.stages.graphs.explore.exploring import explore, simulated_app
from trajmill.schemas.errors import BadInputError
from trajmill.stages.graphs.base import OUTSIDE, GraphPage, GraphTransition, Mark, SlotKind
from trajmill.stages.graphs.explore.base import ExploreBounds
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.graphs.explore.journal import ExploreJournal
from trajmill.stages.graphs.merge import keep_annotations


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    journal = tmp_path_factory.mktemp("notes") / "notes.jsonl"
    explore(simulated_app("notes"), journal)
    return journal


@pytest.mark.slow
def test_what_may_destroy_is_pressed_once_it_is_allowed(notes: Path, tmp_path: Path) -> None:
    app, journal = simulated_app("notes"), tmp_path / "notes.jsonl"
    journal.write_text(notes.read_text())
    asked = explore(app, journal)
    allowed = explore(app, journal, denied=packaged_deny_list(may_destroy=True))
    assert "Note deleted" in {page.title for page in allowed.graph.pages.values()}
    assert not [each for page in allowed.graph.pages.values() for each in page.elements.values() if each.marks]
    # The yes is kept by what was tried: the next call needs none.
    again = explore(app, journal)
    assert (again.graph, again.explored.actions) == (allowed.graph, 0)
    outdated = frozenset({Mark.IDLE, Mark.DESTRUCTIVE})
    merged = keep_annotations(allowed.graph, asked.graph, allowed.builder.screens_by_page, outdated)
    assert not [each for page in merged.pages.values() for each in page.elements.values() if each.marks]


@pytest.mark.parametrize("text", ["Jetzt kaufen", "Löschen", "Supprimer", "Log out", "Delete all"])
def test_what_may_destroy_is_denied_in_several_languages_until_it_is_allowed(text: str) -> None:
    assert packaged_deny_list().denies(text) and not packaged_deny_list(may_destroy=True).denies(text)
    assert all(packaged_deny_list(may_destroy=True).denies(each) for each in ("Shut down", "Beenden"))


@pytest.mark.slow
def test_all_pages_are_found_but_behind_what_destroys_which_is_marked_and_never_pressed(notes: Path) -> None:
    found = explore(simulated_app("notes"), notes)
    titles = {page.title for page in found.graph.pages.values()}
    assert not found.explored.left
    assert titles >= {"Notes", "New note", "Shopping list", "Note options", "Move note", "Note moved", "Note saved"}
    assert not titles & {"Delete this note?", "Note deleted"}
    marked = {each.target for page in found.graph.pages.values() for each in page.elements.values() if each.marks}
    assert "notes.note/delete" in marked
    assert not any(trial.target in marked for trial in found.explored.trials)


def test_inputs_and_lists_are_slots_and_what_a_form_leaves_on_the_next_page_is_said_by_them(notes: Path) -> None:
    graph = explore(simulated_app("notes"), notes).graph
    slots = graph.pages["new-note"].slots
    kinds = {"title": SlotKind.FIELD, "text": SlotKind.FIELD, "pin-this-note": SlotKind.SWITCH}
    assert {name: slot.kind for name, slot in slots.items()} == {**kinds, "folder": SlotKind.CHOICE}
    assert slots["folder"].values == ("Personal", "House", "School", "Travel")
    assert slots["folder"].default == "Personal"
    sent = {each.slots: each for each in graph.pages["new-note"].transitions if each.submits}
    assert list(sent) == [("title", "text", "folder", "pin-this-note"), ("title", "text", "folder")]
    for save in sent.values():
        assert save.by == "save-note"
        assert {feature.text for feature in save.shows} >= {"Title: {title}", "Text: {text}"}
    assert graph.pages["start"].slots["notes"].kind is SlotKind.LIST
    [opened] = [each.to for each in graph.pages["start"].transitions if each.by == "notes"]
    # Its title is the item's, so that it is no feature.
    assert all(feature.state != "title" for feature in graph.pages[opened].recognise.shows)


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
    assert {page.title for page in found.graph.pages.values()} == {
        page.title for page in explore(app, notes).graph.pages.values()
    }


def test_a_call_ends_at_its_bounds_and_the_next_goes_on(tmp_path: Path) -> None:
    app, journal = simulated_app("clock"), tmp_path / "clock.jsonl"
    first = explore(app, journal, ExploreBounds(actions=40), workers=1)
    assert first.explored.left
    assert first.explored.actions <= 41
    assert sum(first.explored.left.values()) > 0 and first.explored.left.keys() <= {
        *range(len(first.explored.book.pages))
    }
    second = explore(app, journal)
    assert not second.explored.left
    assert second.explored.trials[: len(first.explored.trials)] == first.explored.trials
    few = explore(app, tmp_path / "few.jsonl", ExploreBounds(pages=3))
    assert len(few.graph.pages) == 3 and not few.explored.left


def test_a_button_that_closes_the_program_leaves_and_menus_are_pages(tmp_path: Path) -> None:
    found = explore(simulated_app("writer"), tmp_path / "writer.jsonl")
    start = found.graph.pages["start"]
    assert {each.to for each in start.transitions} >= {"tools-menu", "help-menu"}
    assert any(each.to == OUTSIDE and Mark.LEAVES in each.marks for _, each in found.graph.transitions())
    assert "writer-options" in found.graph.pages
    assert not any("desktop" in page.title for page in found.graph.pages.values())


def test_a_journal_that_is_damaged_or_of_another_app_is_refused_in_one_line(notes: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="it explores another app or start state"):
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
    start = first.graph.pages["start"]
    edited = start.model_copy(
        update={
            "title": "all notes",
            "elements": {"write": start.elements["new-note"].model_copy(update={"does": "Begins a note."})},
            "slots": {"notes": start.slots["notes"].model_copy(update={"values": ("Poem",)})},
            "transitions": (GraphTransition(by="write", to="new-note", does="Goes there."),),
        }
    )
    others = {name: _with_home(page) for name, page in first.graph.pages.items() if name != "start"}
    old = first.graph.model_copy(update={"start": "home", "title": "my notes", "pages": {"home": edited, **others}})
    second = explore(app, journal)
    merged = keep_annotations(second.graph, old, second.builder.screens_by_page)
    home = merged.pages["home"]
    assert (merged.title, merged.start, home.title) == ("my notes", "home", "all notes")
    assert home.elements["write"].does == "Begins a note."
    assert home.slots["notes"].values == ("Poem",)
    assert [each for each in home.transitions if each.by == "write"] == [old.pages["home"].transitions[0]]
    assert {each.by for each in home.transitions} == {each.by for each in second.graph.pages["start"].transitions} - {
        "new-note"
    } | {"write"}
    assert len(merged.pages) == len(second.graph.pages)
    assert {each.to for _, each in merged.transitions()} <= merged.pages.keys() | {"outside"}
