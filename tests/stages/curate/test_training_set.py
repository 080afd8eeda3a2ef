from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from tests.stages.derive.samples import ORIGIN, query, size_of, success
from tests.stages.derive.screens import DrawnScreens
from tests.stages.models.pictures import as_png
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.registry import rows_to_arrow
from trajmill.stages.curate.history import plan_attempts, task_weight
from trajmill.stages.curate.training_set import (
    DIGESTS,
    NEGATIVE,
    POSITIVE,
    Alike,
    alike_queries,
    digests_of,
    training_set,
    with_equal_sides,
    without_alike_screens,
    without_duplicates,
)
from trajmill.stages.derive.step_data import end_to_end_examples


def examples_of(length: int, name: str, asked: str) -> tuple[Example, ...]:
    return end_to_end_examples(success(length, name, query(asked)), size_of, ORIGIN).examples


def saying(reply: str, example: Example) -> Example:
    system, user, last = example.messages
    asked = user.model_copy(update={"content": f"{example.query_id}<image>"})
    return example.model_copy(update={"messages": (system, asked, last.model_copy(update={"content": reply}))})


def table(*examples: Example) -> pa.Table:
    return digests_of(rows_to_arrow("examples", examples))


def test_examples_that_differ_anywhere_are_both_kept() -> None:
    example = examples_of(1, "x", "a")[0]
    system, user, reply = example.messages
    changes: dict[str, dict[str, object]] = {
        "screens": {"screens": ("other",)},
        "completion": {"messages": (system, user, reply.model_copy(update={"content": reply.content + " "}))},
        "prompt": {"messages": (system, user.model_copy(update={"content": "Other<image>"}), reply)},
        "role": {"messages": (system, user.model_copy(update={"role": "tool"}), reply)},
        "shift": {"messages": (user, system, reply)},
    }
    for field, change in changes.items():
        assert without_duplicates(table(example, example.model_copy(update=change))).num_rows == 2, field


def test_duplicates_are_found_across_chunks_and_slices() -> None:
    one, other = examples_of(3, "x", "a"), examples_of(2, "z", "b")
    first, second, third = (rows_to_arrow("examples", rows) for rows in ((*other, *one), one, other))
    chunked = pa.concat_tables([first.slice(1), second.slice(1), third])
    assert without_duplicates(digests_of(chunked)).num_rows == 4  # the two begin alike
    kept = without_duplicates(table(*one, *examples_of(3, "y", "a")))
    assert kept["example_id"].to_pylist() == [example.example_id for example in one]
    assert training_set(table(), {}).examples.num_rows == without_duplicates(table()).num_rows == 0


def test_a_training_set_does_not_depend_on_the_order_of_storage() -> None:
    rows = [e for i in range(5) for e in examples_of(i % 4 + 2, f"t{i}", "ab"[i % 2])]
    made = training_set(table(*rows), None, per_query=2)
    again = training_set(table(*rows[::-1]), None, per_query=2)
    assert made.examples.equals(again.examples)
    assert len(rows) == made.examples.num_rows + made.longer_success + made.duplicate
    assert made.longer_success > 0 and made.duplicate > 0


def test_weights_follow_the_success_of_the_query() -> None:
    rows = [*examples_of(2, "x", "easy"), *examples_of(4, "y", "hard")]
    made = training_set(table(*rows), {"easy": 1.0}).examples
    weights = dict(zip(made["query_id"].to_pylist(), made["loss_weight"].to_pylist(), strict=True))
    assert weights["hard"] / weights["easy"] == pytest.approx(1.15 / 0.15)
    assert sum(made["loss_weight"].to_pylist()) == pytest.approx(made.num_rows)
    assert made.schema == DIGESTS
    for of in dict[str, float](), None:
        assert set(training_set(table(*rows), of).examples["loss_weight"].to_pylist()) == {1.0}


def test_only_so_many_steps_with_the_same_reply_are_kept() -> None:
    rows = [saying(f"{e.step_index}", e) for i in range(6) for e in examples_of(3, f"t{i}", f"q{i}")]
    every, some = training_set(table(*rows), None), training_set(table(*rows), None, per_reply=2)
    replies = Counter(some.examples["reply"].to_pylist())
    assert set(replies.values()) == {2} and len(replies) == 3
    assert some.equal_reply == every.examples.num_rows - some.examples.num_rows == 12 and every.equal_reply == 0
    again = training_set(table(*rows[::-1]), None, per_reply=2)
    assert again.examples.equals(some.examples)
    assert training_set(table(*rows), None, per_reply=6).examples.equals(every.examples)


class Drawn(DrawnScreens):
    """Screens whose names say what is drawn: a letter for the layout, a digit for a small change."""

    def image(self, screen_id: str) -> bytes:
        layout, change = screen_id[0], screen_id[1]
        picture = Image.new("RGB", (180, 320), "white")
        draw = ImageDraw.Draw(picture)
        for row in range(6):
            left = 20 + 90 * ((ord(layout) >> row) & 1)
            draw.rectangle((left, 20 + 48 * row, left + 60, 50 + 48 * row), fill="navy")
        draw.point((90, 5 + int(change)), fill="black")
        return as_png(picture)


@pytest.mark.slow
def test_queries_that_say_nearly_the_same_count_as_one_and_share_the_number_of_trajectories() -> None:
    said = {
        "a": "Order a large Diavola pizza to my office.",
        "b": "Order a large Diavola pizza to the office!",
        "c": "Turn off the alarm for Monday.",
    }
    assert alike_queries(said, 0.7) == {"a": "a", "b": "a", "c": "c"}
    assert alike_queries({"a": "", "b": "x"}, 0.7) == {"a": "a", "b": "b"}
    rows = [e for i, asked in enumerate(("a", "b", "c")) for e in examples_of(i + 2, f"t{i}", asked)]
    kept = training_set(table(*rows), None, per_query=1, alike=Alike({"b": "a"})).examples
    assert set(kept["query_id"].to_pylist()) == {"a", "c"}


def test_rows_with_the_same_reply_on_screens_that_look_alike_are_one() -> None:
    first = examples_of(1, "x", "a")[0]
    screens = ["a1", "a2", "b1"]
    same = [first.model_copy(update={"screens": (screen,)}) for screen in screens]
    other = saying("another reply", first.model_copy(update={"screens": ("a3",)}))
    kept = without_alike_screens(table(*same, other), Drawn({}), bits=4)
    assert kept["last_screen"].to_pylist() == ["a1", "b1", "a3"]
    alike = Alike(without_alike_screens=lambda rows: without_alike_screens(rows, Drawn({}), 4))
    made = training_set(table(*same, other), None, alike=alike)
    assert (made.examples.num_rows, made.near_screen) == (3, 1)


def test_without_the_package_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Exception, match=r"curate.near_queries needs datasketch: pip install 'trajmill\[curate\]'"):
        alike_queries({}, 0.5)


def test_both_sides_are_made_equally_many_and_other_roles_stay() -> None:
    made = [example for number in range(4) for example in examples_of(3, f"t{number}", "q")]
    variants = [POSITIVE] * 7 + [NEGATIVE] * 3 + ["manager"] * 2
    rows = [row.model_copy(update={"variant": variant}) for row, variant in zip(made, variants, strict=True)]
    balanced = with_equal_sides(table(*rows))
    assert Counter(balanced["variant"].to_pylist()) == {POSITIVE: 3, NEGATIVE: 3, "manager": 2}
    assert {*with_equal_sides(table(*rows[::-1]))["example_id"].to_pylist()} == {*balanced["example_id"].to_pylist()}
    assert with_equal_sides(table(*rows[:7], rows[-1]))["variant"].to_pylist() == ["manager"]
    assert with_equal_sides(table(*made[:2])).num_rows == 2, "rows of other kinds have no variant"


averages = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.floats(0, 1), min_size=1, max_size=12)


@given(averages, st.integers(0, 200), st.integers(0, 5), st.integers(1, 8))
def test_every_query_gets_its_share_of_the_groups(given_: dict[str, float], total: int, seed: int, size: int) -> None:
    plan = plan_attempts(given_, total, seed, size)
    assert plan_attempts({}, total, seed) == []
    groups = total // size
    assert sum(p.attempts for p in plan) == groups * size
    assert plan == plan_attempts(dict(reversed(given_.items())), total, seed, size)
    summed = sum(task_weight(a) for a in given_.values())
    counts = {p.query_id: p.attempts for p in plan}
    assert not any(attempts % size for attempts in counts.values())
    for query_id, average in given_.items():
        assert abs(counts.get(query_id, 0) / size - groups * task_weight(average) / summed) < 1 + 1e-6
