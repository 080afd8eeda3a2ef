import importlib.util
from collections.abc import Iterator, Sequence

import pytest

from tests.stages.derive.grounding.test_grounding import element, omniparser, refused, said
from tests.stages.derive.samples import DONE, TAP, episode, step
from tests.stages.derive.screens import WrittenScreens, derived, tools_of
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlMobile
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement
from trajmill.stages.derive.collected import DerivedRows
from trajmill.stages.derive.grounding.instructions import Instruction, NoInstruction
from trajmill.stages.derive.grounding.words import ReadLetter, ReadLine, TextRules, text_instructions
from trajmill.stages.derive.spec import GroundingSpec

RULES = TextRules(smallest=8, score=0.9, overlap=0.5)
ENTRIES = (
    element("Garden Friends", (24, 100, 696, 180), "list_item"),
    element("Monday: closed", (24, 200, 696, 280), "text", ()),
    element("Sunday: closed", (24, 300, 696, 380), "text", ()),
)


def line(text: str, top: int = 0, score: float = 1.0) -> ReadLine:
    letters = [ReadLetter(letter, Box(20 * at, top, 20 * at + 20, top + 30), score) for at, letter in enumerate(text)]
    return ReadLine(Box(0, top, 20 * len(text), top + 30), tuple(letters))


def made(
    lines: Sequence[ReadLine], elements: Sequence[UIElement] = (), detected: Sequence[Box] | None = None
) -> Iterator[Instruction | NoInstruction]:
    return text_instructions(lines, elements, detected, RULES)


def reasons(*lines: ReadLine, elements: Sequence[UIElement] = (), detected: Sequence[Box] | None = None) -> set[str]:
    return {one.reason for one in made(lines, elements, detected) if isinstance(one, NoInstruction)}


def test_words_and_characters_are_named_with_their_places_and_where_needed_their_line() -> None:
    one, letter, other, _ = made([line("Open house")])
    assert one == Instruction("word", 'The word "Open".', Box(0, 0, 80, 30))
    assert isinstance(other, Instruction)
    assert other.box == Box(100, 0, 200, 30)
    assert isinstance(letter, Instruction)
    assert letter.text == f'The letter "{"Open"[letter.box.left // 20]}" of the word "Open".'
    texts = [one.text for one in made([line("Monday: no"), line("Sunday: no", 50)]) if isinstance(one, Instruction)]
    assert 'The word "no" in "Sunday: no".' in texts
    assert "ambiguous" in reasons(line("no"), line("no", 50))


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (line("House", score=0.6), "unsure_text"),
        (line("***"), "no_text"),
        (line("an <image> x"), "placeholder_in_text"),
        (ReadLine(Box(0, 0, 4, 4), (ReadLetter("H", Box(0, 0, 4, 4), 1.0),)), "too_small"),
        (line("it"), "short_word"),
        (line("till"), "narrow_letters"),
        (line("moom"), "no_single_letter"),
    ],
)
def test_a_text_that_cannot_be_pointed_at_is_refused(read: ReadLine, reason: str) -> None:
    assert reason in reasons(read)


def test_a_misread_word_and_a_line_without_a_detected_box_are_refused() -> None:
    tree = [element("House", (0, 0, 100, 30))]
    assert "not_in_tree" not in reasons(line("House"), elements=tree)
    assert "not_in_tree" in reasons(line("Hause"), elements=tree)
    assert "no_detected_box" not in reasons(line("House"), detected=[Box(0, 0, 60, 30)])
    assert "no_detected_box" in reasons(line("House"), detected=[Box(0, 0, 40, 30)])


def read_by_ocr(spec: GroundingSpec) -> DerivedRows:
    screens = WrittenScreens({"s0": ENTRIES})
    return derived(spec, episode([step(0, TAP), step(1, DONE)]), tools_of(spec, screens), frozenset({0}))


@pytest.mark.slow
def test_rapidocr_reads_the_words_of_a_screen_and_a_detector_cleans_them() -> None:
    pytest.importorskip("rapidocr_onnxruntime", reason="the extra `ocr` is not installed", exc_type=ImportError)
    spec = GroundingSpec(instructions=(), ocr="rapidocr")
    top_line = [40 / 720, 120 / 1280, 350 / 720, 160 / 1280]
    with omniparser({"parsed_content_list": [{"bbox": top_line}]}) as address:
        cleaned = read_by_ocr(spec.model_copy(update={"detector": address}))
    rows = read_by_ocr(spec)
    words = said(rows, "word")
    read = ['"Garden"', '"Friends"', '"Monday:"', '"Sunday:"']
    read += [f'"closed" in "{day}: closed"' for day in ("Monday", "Sunday")]
    assert set(words) == {f"The word {word}." for word in read}
    assert len(said(rows, "character")) == 6
    for row in rows.examples:
        reply = GuiOwlMobile().parse(row.messages[-1].content, native_frame(Size(720, 1280)))
        assert isinstance(reply, Reply) and row.box is not None and reply.action is not None
    garden, closed = words['The word "Garden".'], words['The word "closed" in "Sunday: closed".']
    assert garden is not None and ENTRIES[0].bounds.contains(*garden.center)
    assert closed is not None and ENTRIES[2].bounds.contains(*closed.center)
    assert set(said(cleaned, "word")) == {'The word "Garden".', 'The word "Friends".'}
    assert ("word", "no_detected_box") in refused(cleaned)


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    GroundingSpec().refuse_without({}, "embedded")
    with pytest.raises(BadInputError, match=r"pip install 'trajmill\[ocr\]'"):
        GroundingSpec(ocr="rapidocr").refuse_without({}, "embedded")
