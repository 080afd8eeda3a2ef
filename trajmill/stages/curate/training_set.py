"""Curates the training set of a release: chooses trajectories, drops duplicates, then weighs tasks."""

from __future__ import annotations

import hashlib
import importlib.util
import io
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.errors import BadInputError
from trajmill.stages.curate.diversity import with_few_equal
from trajmill.stages.curate.history import with_task_weights
from trajmill.stages.overlap import SimilarSets, words_of

if TYPE_CHECKING:
    from trajmill.schemas.observation import ScreenReader

DIGESTS = pa.schema(
    [
        ("example_id", pa.string()),
        ("kind", pa.string()),
        ("query_id", pa.string()),
        ("trajectory_id", pa.string()),
        ("step_index", pa.int32()),
        ("round", pa.int64()),
        ("loss_weight", pa.float64()),
        ("variant", pa.string()),
        ("written_by", pa.string()),
        ("words", pa.binary()),
        ("conversation", pa.binary()),
        ("reply", pa.binary()),
        ("last_screen", pa.string()),
    ]
)
"""`words` is equal for equal messages, `conversation` for equal messages and screens, `reply` for an equal last
message; `last_screen` may be null. The other columns are those of table `examples`."""

DIGESTED = (*DIGESTS.names[:-4], "messages", "screens")
KEPT_PER_QUERY = 3
_SEPARATOR = "\x1f"
_HASH_BYTES = 16
_ROWS_AT_ONCE = 2000


def digests_of(examples: pa.Table) -> pa.Table:
    """Return the digests of rows of table `examples`, which has at least the columns `DIGESTED`."""
    made: dict[str, list[bytes | str | None]] = {name: [] for name in DIGESTS.names[-4:]}
    for batch in examples.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for messages, shown in zip(batch["messages"].to_pylist(), batch["screens"].to_pylist(), strict=True):
            texts = [text for message in messages for text in (message["role"], message["content"])]
            made["words"].append(_hash(_SEPARATOR.join(texts)))
            made["conversation"].append(_hash(_SEPARATOR.join([*texts, _SEPARATOR.join(shown)])))
            made["reply"].append(_hash(messages[-1]["content"]))
            made["last_screen"].append(shown[-1] if shown else None)
    columns = [
        pa.array(made[field.name], field.type) if field.name in made else examples[field.name].cast(field.type)
        for field in DIGESTS
    ]
    return pa.table(columns, schema=DIGESTS)


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=_HASH_BYTES).digest()


def without_duplicates(examples: pa.Table) -> pa.Table:
    """Keep the first row of each distinct `conversation`, in the order of the table."""
    if examples.num_rows == 0:
        return examples
    indices = examples["conversation"].combine_chunks().dictionary_encode().indices.to_numpy()
    _, first = np.unique(indices, return_index=True)
    return examples.take(pa.array(np.sort(first)))


def shortest_successes(
    examples: pa.Table, per_query: int = KEPT_PER_QUERY, same: Mapping[str, str] = {}
) -> frozenset[str]:
    """Return the ids of the `per_query` shortest trajectories of each query, by smaller id if equally long.

    Args:
        examples: only the columns `query_id`, `trajectory_id` and `step_index` are read.
        per_query: how many trajectories are kept.
        same: by query id, the query that it counts as.
    """
    by_query: dict[str, list[tuple[int, str]]] = defaultdict(list)
    ends = examples.group_by(["query_id", "trajectory_id"]).aggregate([("step_index", "max")])
    columns = (ends[name].to_pylist() for name in ("query_id", "trajectory_id", "step_index_max"))
    for query, trajectory, last in zip(*columns, strict=True):
        by_query[same.get(query, query)].append((last, trajectory))
    return frozenset(trajectory for found in by_query.values() for _, trajectory in sorted(found)[:per_query])


class TrainingSet(NamedTuple):
    """The examples of a release, and how many were left out for which reason."""

    examples: pa.Table
    longer_success: int
    """Rows of trajectories that are not among the shortest of their query."""
    duplicate: int
    equal_reply: int
    """Rows left out because enough others have the same reply."""
    near_screen: int = 0
    """Rows left out because another one has the same reply on a screen that looks the same."""


class Alike(NamedTuple):
    queries: Mapping[str, str] = {}
    """By query id, the query that it counts as; a query that is not named counts as itself."""
    without_alike_screens: Callable[[pa.Table], pa.Table] | None = None
    """Drops rows whose screens look like those of others; None keeps all."""


def training_set(
    examples: pa.Table,
    averages: Mapping[str, float] | None,
    per_query: int = KEPT_PER_QUERY,
    per_reply: int | None = None,
    alike: Alike = Alike(),
) -> TrainingSet:
    """Curate the examples of all rounds so far.

    The result depends on the rows alone, not on the order in which they were stored.

    Args:
        examples: in the schema `DIGESTS`, all of split `train`.
        averages: success average by query id for the loss weights; None leaves all weights as they are.
        per_query: how many successes of a query are learned from.
        per_reply: how many steps with the same reply are learned from; None for all.
        alike: queries that share `per_query`, and screens of which one is enough.
    """
    chosen = shortest_successes(examples, per_query, alike.queries)
    kept = examples.filter(pc.is_in(examples["trajectory_id"], pa.array(sorted(chosen), pa.string())))
    ordered = kept.sort_by([("query_id", "ascending"), ("trajectory_id", "ascending"), ("step_index", "ascending")])
    distinct = without_duplicates(ordered)
    apart = distinct if alike.without_alike_screens is None else alike.without_alike_screens(distinct)
    # Replies of every attempt, such as the last one, would otherwise dominate the training data.
    varied = apart if per_reply is None else with_few_equal(apart, "reply", per_reply)
    return TrainingSet(
        examples=varied if averages is None else with_task_weights(varied, averages),
        longer_success=examples.num_rows - kept.num_rows,
        duplicate=kept.num_rows - distinct.num_rows,
        equal_reply=apart.num_rows - varied.num_rows,
        near_screen=distinct.num_rows - apart.num_rows,
    )


POSITIVE: Final = "reflector_positive"
NEGATIVE: Final = "reflector_negative"
"""Variants of the rows of a Reflector."""
VERDICT_CORRECT: Final = "verdict_correct"
VERDICT_INCORRECT: Final = "verdict_incorrect"
"""Variants of the rows of a judge."""


def retained_reflections(positive: Mapping[int, bool]) -> frozenset[int]:
    """Return the steps of one trajectory whose reflections are learned from, by the paper's two rules.

    A negative reflection on step i is kept if step i + 1 was called positive. Otherwise reflections are kept only if
    all steps of the trajectory were called positive.

    Args:
        positive: by index of the step, whether the Reflector called it a success.
    """
    if all(positive.values()):
        return frozenset(positive)
    return frozenset(step for step, success in positive.items() if not success and positive.get(step + 1, False))


def with_equal_sides(examples: pa.Table) -> pa.Table:
    """Keep as many rows of one side as of the other: of a Reflector's outcomes, and of a judge's verdicts.

    Those with the smallest ids are kept (hashes, so a random sample).
    """
    surplus = list[str]()
    for sides in ((POSITIVE, NEGATIVE), (VERDICT_CORRECT, VERDICT_INCORRECT)):
        one, other = (
            sorted(examples.filter(pc.equal(examples["variant"], side))["example_id"].to_pylist()) for side in sides
        )
        size = min(len(one), len(other))
        surplus += [*one[size:], *other[size:]]
    return examples.filter(pc.invert(pc.is_in(examples["example_id"], pa.array(surplus, pa.string()))))


_LETTERS = 3


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
    known, chosen = SimilarSets(similarity), dict[str, str]()
    for query_id in sorted(instructions):
        text = " ".join(words_of(instructions[query_id]))
        runs = frozenset(text[at : at + _LETTERS] for at in range(max(1, len(text) - _LETTERS + 1)))
        near = (other for other, share in known.similar_to(runs).items() if share >= similarity)
        chosen[query_id] = min(near, default=query_id)
        if chosen[query_id] == query_id:
            known.add(query_id, runs)
    return chosen


def without_alike_screens(examples: pa.Table, screens: ScreenReader, bits: int) -> pa.Table:
    """Drop rows that repeat the reply of an earlier row on a screen whose hash differs in at most `bits` of 64."""
    _check_package("imagehash", "curate.near_screens")
    by_reply: dict[bytes, list[int]] = defaultdict(list)
    for row, reply in enumerate(examples["reply"].to_pylist()):
        by_reply[reply].append(row)
    last_screens = examples["last_screen"].to_pylist()
    kept, hashes = list[int](), dict[str, int]()
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
