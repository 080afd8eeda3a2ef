import io

import pytest
from PIL import Image, ImageDraw

from tests.stages.curate.test_training_set import examples_of, saying, table
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import UIElement
from trajmill.stages.curate.training_set import Alike, alike_queries, training_set, without_alike_screens


class Drawn:
    """Screens whose names say what is drawn: a letter for the layout, a digit for a small change."""

    def image(self, screen_id: str) -> bytes:
        layout, change = screen_id[0], screen_id[1]
        picture = Image.new("RGB", (180, 320), "white")
        draw = ImageDraw.Draw(picture)
        for row in range(6):
            left = 20 + 90 * ((ord(layout) >> row) & 1)
            draw.rectangle((left, 20 + 48 * row, left + 60, 50 + 48 * row), fill="navy")
        draw.point((90, 5 + int(change)), fill="black")
        encoded = io.BytesIO()
        picture.save(encoded, "PNG")
        return encoded.getvalue()

    def elements(self, screen_id: str) -> tuple[UIElement, ...]:
        return ()

    def size(self, screen_id: str) -> Size:
        return Size(180, 320)


@pytest.mark.slow
def test_queries_that_say_nearly_the_same_count_as_one() -> None:
    alike = alike_queries(
        {
            "a": "Order a large Diavola pizza to my office.",
            "b": "Order a large Diavola pizza to the office!",
            "c": "Turn off the alarm for Monday.",
        },
        0.7,
    )
    assert alike == {"a": "a", "b": "a", "c": "c"}
    assert alike_queries({"a": "", "b": "x"}, 0.7) == {"a": "a", "b": "b"}


def test_alike_queries_share_the_number_of_trajectories() -> None:
    rows = [e for i, asked in enumerate(("a", "b", "c")) for e in examples_of(i + 2, f"t{i}", asked)]
    kept = training_set(table(*rows), None, per_query=1, alike=Alike({"b": "a"})).examples
    assert set(kept["query_id"].to_pylist()) == {"a", "c"}


def test_rows_with_the_same_reply_on_screens_that_look_alike_are_one() -> None:
    first = examples_of(1, "x", "a")[0]
    screens = ["a1", "a2", "b1"]
    same = [first.model_copy(update={"screens": (screen,)}) for screen in screens]
    other = saying("another reply", first.model_copy(update={"screens": ("a3",)}))
    kept = without_alike_screens(table(*same, other), Drawn(), bits=4)
    assert kept["last_screen"].to_pylist() == ["a1", "b1", "a3"]
    made = training_set(
        table(*same, other),
        None,
        alike=Alike(without_alike_screens=lambda rows: without_alike_screens(rows, Drawn(), 4)),
    )
    assert (made.examples.num_rows, made.near_screen) == (3, 1)


def test_without_the_package_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Exception, match=r"curate.near_queries needs datasketch: pip install 'trajmill\[curate\]'"):
        alike_queries({}, 0.5)
