from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from trajmill.stages.export.columns import BLOCK, content_blocks, cut_last, list_array

pieces = st.lists(st.sampled_from(["<image>", "a", "<", "image>", "ü ", "\n"]), max_size=8).map("".join)


def by_hand(text: str) -> list[dict[str, str]]:
    parts = text.split("<image>")
    blocks = [{"type": "text", "text": parts[0]}]
    for part in parts[1:]:
        blocks += [{"type": "image", "text": ""}, {"type": "text", "text": part}]
    if len(blocks) == 1:
        return blocks
    return [block for block in blocks if block["type"] == "image" or block["text"]]


@given(st.lists(pieces, max_size=6), st.integers(0, 3))
def test_blocks_are_the_pieces_between_placeholders(texts: list[str], start: int) -> None:
    blocks = content_blocks(pa.array(texts, pa.string())[start:])
    assert blocks.type.value_type == BLOCK
    assert blocks.to_pylist() == [by_hand(text) for text in texts[start:]]


def test_the_last_element_is_cut_off_each_row() -> None:
    rows = [[1, 2, 3], [4], [5, 6]]
    lists = pa.array([[0], *rows], pa.list_(pa.int64())).slice(1)
    parts = cut_last(lists)
    assert parts.head.to_pylist() == [[1, 2], [], [5]]
    assert parts.last.to_pylist() == [[3], [4], [6]]


def test_lists_are_built_from_lengths() -> None:
    assert list_array(np.array([2, 0, 1]), pa.array(list("abc"))).to_pylist() == [["a", "b"], [], ["c"]]
