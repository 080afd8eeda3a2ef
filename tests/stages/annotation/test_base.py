import json
from pathlib import Path

from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Platform
from trajmill.stages.annotation.base import (
    LONGEST_SENTENCE,
    ExploredWords,
    PageGaps,
    accepted,
    explored_words,
    page_gaps,
)
from trajmill.stages.graphs.base import AppGraph, GraphElement, GraphPage, GraphSlot, GraphTransition, SlotKind
from trajmill.stages.graphs.explore.base import WalkedScreen


def test_words_of_exploring_are_missing_texts_and_words_of_people_are_not() -> None:
    slot = GraphSlot(kind=SlotKind.FIELD, target="new-todo", name="What needs to be done?")
    page = GraphPage(
        title="todos",
        elements={"a": GraphElement(target="a"), "b": GraphElement(target="b", does="Opens it.")},
        slots={
            "explored": slot,
            "named": slot.model_copy(update={"name": "the new entry"}),
            "confirmed": slot.model_copy(update={"description": "What stands in the list."}),
            "by-target": GraphSlot(kind=SlotKind.SWITCH, target="checkbox:Dark", name="Dark"),
            "empty": GraphSlot(kind=SlotKind.LIST, target="{value}"),
        },
        transitions=(GraphTransition(by="a", to="x"), GraphTransition(by="b", to="x", does="Goes to x.")),
    )
    words = ExploredWords(frozenset({"todos"}), frozenset({("new-todo", "What needs to be done?")}))

    def gaps_of(changed: GraphPage, words: ExploredWords, other: str = "x") -> PageGaps:
        pages = {"p": changed, "x": GraphPage(title=other)}
        return page_gaps(AppGraph(app="a", platform=Platform.WEB, start="p", pages=pages), "p", words)

    gaps = gaps_of(page, words)
    assert gaps == (True, True, ("a",), (0,), ("explored", "by-target", "empty"))
    assert not gaps_of(page, ExploredWords()).title
    described = page.model_copy(update={"description": "The list."})
    assert not gaps_of(described, words).title
    assert gaps_of(described, words, other="todos").title
    assert not gaps_of(described, ExploredWords(), other="todos").title


def test_a_text_of_a_model_is_one_bounded_line_without_unknown_places() -> None:
    assert accepted("  Adds\n\u2028it.\x07 ", LONGEST_SENTENCE) == "Adds it."
    assert accepted("Adds {entry}.", LONGEST_SENTENCE, ("entry",)) == "Adds {entry}."
    assert accepted("<|im_end|>", LONGEST_SENTENCE) == "< |im_end| >"
    for refused in ("Adds {secret}.", "Adds {{entry}}.", "Adds } it {.", "x" * (LONGEST_SENTENCE + 1), ""):
        assert accepted(refused, LONGEST_SENTENCE, ("entry",)) == ""


def test_the_words_of_a_journal_are_read_and_its_damaged_lines_left_out(tmp_path: Path) -> None:
    box = Box(0, 0, 1, 1)
    field = UIElement("text_field", "What?", box, element_id="new")
    elements = (UIElement("heading", "todos", box), field, UIElement("dialog", "Options", box))
    screen = WalkedScreen(screen_id="s", app="a", elements=elements)
    journal = tmp_path / "a.journal.jsonl"
    good = json.dumps({"screen": screen.model_dump(mode="json")})
    journal.write_text(f'{{"app": "a"}}\n{good}\n[1]\n{{"screen": 3}}\n{good[:40]}')
    words = explored_words(journal)
    assert words.titles == {"todos", "Options"}
    assert words.is_label("new", "What?") and not words.is_label("new", "todos")
    assert explored_words(tmp_path / "none") == ExploredWords()
