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
_BITS: Final = 64


def check_packages(package: str, key: str) -> None:
    """Raises BadInputError if a package of the extra is not installed."""
    if importlib.util.find_spec(package) is None:
        raise BadInputError(f"{key} needs {package}: pip install 'trajmill[curate]', or set it to 0")


def alike_queries(instructions: Mapping[str, str], similarity: float) -> dict[str, str]:
    """By query id, the first query in order of id that is alike; a query that is like no other stands for itself.

    Two instructions are alike if the Jaccard similarity of their runs of three letters is at least `similarity`. The
    pairs that MinHash finds are computed exactly.

    Raises:
        BadInputError: the package datasketch is not installed.
    """
    check_packages("datasketch", "curate.near_queries")
    from datasketch import MinHash, MinHashLSH

    index = MinHashLSH(threshold=similarity, num_perm=_PERMUTATIONS)
    runs = {query_id: _letter_runs(instructions[query_id]) for query_id in sorted(instructions)}
    chosen: dict[str, str] = {}
    for query_id, own in runs.items():
        sketch = MinHash(num_perm=_PERMUTATIONS)
        sketch.update_batch([run.encode() for run in own])
        near = [other for other in sorted(index.query(sketch)) if _jaccard(own, runs[other]) >= similarity]
        chosen[query_id] = near[0] if near else query_id
        if not near:
            index.insert(query_id, sketch)
    return chosen


def without_alike_screens(examples: pa.Table, screens: ScreenReader, bits: int) -> pa.Table:
    """The rows without those that repeat the reply of an earlier row on a screen that looks the same.

    Args:
        examples: in the schema `DIGESTS`; only `reply` and `last_screen` are read.
        screens: where the screens are; only those of rows with equal replies are decoded.
        bits: most bits in which two perceptual hashes of 64 bits may differ.

    Raises:
        BadInputError: the package imagehash is not installed.
    """
    check_packages("imagehash", "curate.near_screens")
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
                    hashes[screen_id] = perceptual_hash(screens.image(screen_id))
                own = hashes[screen_id]
                if any((own ^ other).bit_count() <= bits for other in kept_hashes):
                    continue
                kept_hashes.append(own)
            kept.append(row)
    return examples.take(pa.array(sorted(kept), pa.int64()))


def perceptual_hash(image: bytes) -> int:
    """The perceptual hash (DCT) of an encoded image: 64 bits of which few differ between images that look alike."""
    import imagehash
    from PIL import Image

    with Image.open(io.BytesIO(image)) as opened:
        return int(str(imagehash.phash(opened.convert("RGB"), hash_size=int(_BITS**0.5))), 16)


def _letter_runs(text: str) -> frozenset[str]:
    letters = " ".join(words_of(text))
    return frozenset(letters[at : at + _LETTERS] for at in range(max(1, len(letters) - _LETTERS + 1)))


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other)
