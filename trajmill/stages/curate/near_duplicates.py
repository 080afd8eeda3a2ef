"""Finds near-duplicate queries (MinHash) and rows with near-duplicate screens (perceptual hashes).

The packages come with the extra `curate`.
"""

from __future__ import annotations

import importlib.util
import io
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from trajmill.schemas.errors import BadInputError
from trajmill.stages.overlap import words_of

if TYPE_CHECKING:
    from trajmill.schemas.observation import ScreenReader

_LETTERS = 3
_PERMUTATIONS: Final = 128


def _check_package(package: str, key: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise BadInputError(f"{key} needs {package}: pip install 'trajmill[curate]', or set it to 0")


def alike_queries(instructions: Mapping[str, str], similarity: float) -> dict[str, str]:
    """Return by query id the first query in order of id that is alike; one like no other stands for itself.

    Two instructions are alike if the Jaccard similarity of their runs of three letters is at least `similarity`. The
    pairs that MinHash finds are computed exactly.

    Raises:
        BadInputError: the package datasketch is not installed.
    """
    _check_package("datasketch", "curate.near_queries")
    from datasketch import MinHash, MinHashLSH

    index = MinHashLSH(threshold=similarity, num_perm=_PERMUTATIONS)
    runs: dict[str, frozenset[str]] = {}
    chosen: dict[str, str] = {}
    for query_id in sorted(instructions):
        text = " ".join(words_of(instructions[query_id]))
        own = frozenset(text[at : at + _LETTERS] for at in range(max(1, len(text) - _LETTERS + 1)))
        sketch = MinHash(num_perm=_PERMUTATIONS)
        sketch.update_batch([run.encode() for run in own])
        found = sorted(index.query(sketch))
        near = [other for other in found if len(own & runs[other]) / len(own | runs[other]) >= similarity]
        chosen[query_id] = near[0] if near else query_id
        if not near:
            runs[query_id] = own
            index.insert(query_id, sketch)
    return chosen


def without_alike_screens(examples: pa.Table, screens: ScreenReader, bits: int) -> pa.Table:
    """Drop the rows that repeat the reply of an earlier row on a screen that looks the same.

    Args:
        examples: in the schema `DIGESTS`; only `reply` and `last_screen` are read.
        screens: where the screens are; only those of rows with equal replies are decoded.
        bits: most bits in which two perceptual hashes of 64 bits may differ.

    Raises:
        BadInputError: the package imagehash is not installed.
    """
    _check_package("imagehash", "curate.near_screens")
    by_reply: dict[bytes, list[int]] = defaultdict(list)
    for row, reply in enumerate(examples["reply"].to_pylist()):
        by_reply[reply].append(row)
    last_screens = examples["last_screen"].to_pylist()
    kept: list[int] = []
    hashes: dict[str, int] = {}
    for rows in by_reply.values():
        kept_hashes: list[int] = []
        for row in rows:
            screen_id = last_screens[row]
            if len(rows) > 1 and screen_id is not None:
                if screen_id not in hashes:
                    hashes[screen_id] = _perceptual_hash(screens.image(screen_id))
                own = hashes[screen_id]
                if any((own ^ other).bit_count() <= bits for other in kept_hashes):
                    continue
                kept_hashes.append(own)
            kept.append(row)
    return examples.take(pa.array(sorted(kept), pa.int64()))


def _perceptual_hash(image: bytes) -> int:
    """Return the perceptual hash (DCT) of an encoded image: 64 bits, few of which differ between alike images."""
    import imagehash
    from PIL import Image

    with Image.open(io.BytesIO(image)) as opened:
        return int(str(imagehash.phash(opened.convert("RGB"), hash_size=8)), 16)
