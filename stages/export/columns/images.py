"""Makes Arrow columns of stored screens' images; the encoded bytes are copied, not decoded."""

from __future__ import annotations

import pyarrow as pa

from trajmill.schemas.tables.screen import IMAGE
from trajmill.stages.export.base import ImageReader
from trajmill.stages.export.columns.lists import list_array, list_lengths

IMAGES = pa.list_(IMAGE)
"""The column `images` of every image dataset that we write."""


def image_lists(screen_ids: pa.ListArray, screens: ImageReader) -> pa.ListArray:
    """The images of each row's screens, in the order of the ids; a repeated screen is read once.

    Raises:
        KeyError: a screen is not stored.
    """
    flat = screen_ids.flatten()
    encoded = flat.dictionary_encode()
    distinct = pa.array([screens.image(screen_id) for screen_id in encoded.dictionary.to_pylist()], pa.binary())
    images = pa.StructArray.from_arrays(
        [distinct.take(encoded.indices), pa.nulls(len(flat), pa.string())], fields=list(IMAGE)
    )
    return list_array(list_lengths(screen_ids), images)
