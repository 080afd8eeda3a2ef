from pathlib import Path

from tests.stages.graphs.explore.exploring import explore, simulated_app
from trajmill.stages.graphs.base import GraphPage, GraphTransition
from trajmill.stages.graphs.explore.base import ExploreBounds
from trajmill.stages.graphs.merge import keep_annotations


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
