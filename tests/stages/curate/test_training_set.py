from collections import Counter

import pyarrow as pa
import pytest

from tests.stages.derive.samples import ORIGIN, query, size_of, success
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.registry import rows_to_arrow
from trajmill.stages.curate.training_set import DIGESTS, digests_of, training_set, without_duplicates
from trajmill.stages.derive.end_to_end import end_to_end_examples


def examples_of(length: int, name: str, asked: str) -> tuple[Example, ...]:
    return end_to_end_examples(success(length, name, query(asked)), size_of, ORIGIN).examples


def saying(reply: str, example: Example) -> Example:
    system, user, last = example.messages
    asked = user.model_copy(update={"content": f"{example.query_id}<image>"})
    return example.model_copy(update={"messages": (system, asked, last.model_copy(update={"content": reply}))})


def table(*examples: Example) -> pa.Table:
    return digests_of(rows_to_arrow("examples", examples))


@pytest.mark.parametrize("field", ["screens", "completion", "prompt", "role", "shift"])
def test_examples_that_differ_anywhere_are_both_kept(field: str) -> None:
    example = examples_of(1, "x", "a")[0]
    system, user, reply = example.messages
    changes: dict[str, dict[str, object]] = {
        "screens": {"screens": ("other",)},
        "completion": {"messages": (system, user, reply.model_copy(update={"content": reply.content + " "}))},
        "prompt": {"messages": (system, user.model_copy(update={"content": "Other<image>"}), reply)},
        "role": {"messages": (system, user.model_copy(update={"role": "tool"}), reply)},
        "shift": {"messages": (user, system, reply)},
    }
    both = table(example, example.model_copy(update=changes[field]))
    assert without_duplicates(both).num_rows == 2


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
    rows = [*examples_of(2, "x", "easy"), *examples_of(3, "y", "hard")]
    made = training_set(table(*rows), {"easy": 1.0}).examples
    weights = dict(zip(made["query_id"].to_pylist(), made["loss_weight"].to_pylist(), strict=True))
    assert weights["hard"] / weights["easy"] == pytest.approx(1.15 / 0.15)
    assert sum(made["loss_weight"].to_pylist()) == pytest.approx(made.num_rows)
    assert made.schema == DIGESTS
    assert set(training_set(table(*rows), None).examples["loss_weight"].to_pylist()) == {1.0}


def test_only_so_many_steps_with_the_same_reply_are_kept() -> None:
    rows = [saying(f"{e.step_index}", e) for i in range(6) for e in examples_of(3, f"t{i}", f"q{i}")]
    every, some = training_set(table(*rows), None), training_set(table(*rows), None, per_reply=2)
    replies = Counter(some.examples["reply"].to_pylist())
    assert set(replies.values()) == {2} and len(replies) == 3
    assert some.equal_reply == every.examples.num_rows - some.examples.num_rows == 12 and every.equal_reply == 0
    again = training_set(table(*rows[::-1]), None, per_reply=2)
    assert again.examples.equals(some.examples)
    assert training_set(table(*rows), None, per_reply=6).examples.equals(every.examples)
