"""Turns texts with `<image>` placeholders into the content blocks that TRL and chat templates read.

A block has only the keys `type` and `text`. All blocks of an Arrow column have the same keys, and TRL and the Qwen
templates read any block with a key `image`, even null, as an image. The text of an image block is empty, not null.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.stages.export.columns.lists import Integers, list_array, list_lengths

BLOCK = pa.struct([("type", pa.string()), ("text", pa.string())])


def image_blocks(contents: pa.ListArray) -> Integers:
    """The number of image blocks in each list of blocks."""
    is_image = pc.equal(contents.flatten().field("type"), "image").to_numpy(zero_copy_only=False)
    before = np.concatenate([[0], np.cumsum(is_image)])
    counts: Integers = np.diff(before[np.concatenate([[0], np.cumsum(list_lengths(contents))])])
    return counts


def content_blocks(texts: pa.StringArray) -> pa.ListArray:
    """Each text as a list of blocks: its placeholders become image blocks, the text between them text blocks.

    Empty text between two images gives no block; an empty text gives one empty text block.
    """
    pieces = pc.split_pattern(texts, IMAGE_PLACEHOLDER)
    per_text, flat = list_lengths(pieces), pieces.flatten()
    owner = np.repeat(np.arange(len(texts)), per_text)
    # Piece j of all, if it is in text i, comes after j - i images: each text has one image fewer than pieces.
    spots = 2 * np.arange(len(flat)) - owner
    size = 2 * len(flat) - len(texts)
    is_text = np.zeros(size, bool)
    is_text[spots] = True
    piece = np.zeros(size, np.int64)
    piece[spots] = np.arange(len(flat))
    kept = ~is_text
    kept[spots] = (pc.binary_length(flat).to_numpy(zero_copy_only=False) > 0) | (per_text[owner] == 1)
    words = pc.fill_null(flat.take(pa.array(piece, mask=~is_text).filter(pa.array(kept))), "")
    kinds = pc.if_else(pa.array(is_text[kept]), "text", "image")
    blocks = pa.StructArray.from_arrays([kinds, words], fields=list(BLOCK))
    lengths = np.bincount(np.repeat(np.arange(len(texts)), 2 * per_text - 1)[kept], minlength=len(texts))
    return list_array(lengths, blocks)
