"""Retrieves knowledge about a task: queries, search by BM25 or embeddings, summary (Mobile-Agent-v3, 7.2.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.stages.agents.base import EpisodeView
from trajmill.stages.agents.replies import NONE, bounded, read_queries, read_summary
from trajmill.stages.agents.roles import Role, RoleReply
from trajmill.stages.models.wrapped import EmbeddingModel

Retriever = Callable[[str], Awaitable[tuple[str, ...]]]
"""Gives the passages for a query, best first."""


class Researcher(NamedTuple):
    queries: Role
    summary: Role


class Retrieval(NamedTuple):
    """Without a researcher the instruction is the query, and the passages are the knowledge."""

    search: Retriever
    researcher: Researcher | None = None

    async def knowledge(self, episode: EpisodeView) -> RoleReply[str]:
        """Return K = Process(SearchEngine(GenerateQueries(I))), empty if nothing is found.

        After malformed queries the instruction is searched for, after a malformed summary the passages are the
        knowledge. Raises ModelFailure if a model did not answer.
        """
        instruction = bounded(episode.instruction)
        if self.researcher is None:
            return RoleReply("\n\n".join(map(bounded, await self.search(instruction))), ())
        written = await self.researcher.queries.ask(episode, read_queries, instruction=instruction)
        queries = written.said or (instruction,)
        found = await asyncio.gather(*map(self.search, queries))
        # The best passage of each query comes first.
        ranked = [each for each in chain.from_iterable(zip_longest(*found)) if each is not None]
        passages = list(dict.fromkeys(map(bounded, ranked)))
        if not passages:
            return RoleReply("", written.calls)
        listed = "\n".join(f"{number}. {text}" for number, text in enumerate(passages, 1))
        summary = self.researcher.summary
        summed = await summary.ask(episode, read_summary, instruction=instruction, passages=listed)
        said = "\n\n".join(passages) if summed.said is None else summed.said
        return RoleReply("" if said == NONE else said, (*written.calls, *summed.calls))


SUFFIXES = (".md", ".txt")
LONGEST_PASSAGE = 1200
"""Characters after which the paragraphs of a document begin another passage."""
_TEXTS = 32


class KeywordIndex:
    def __init__(self, passages: Sequence[str]) -> None:
        try:
            import bm25s
        except ModuleNotFoundError:
            raise BadInputError("agent.knowledge needs bm25s: pip install 'trajmill[knowledge]'") from None
        self._passages = passages
        self._tokenize = partial(bm25s.tokenize, stopwords="en", show_progress=False)
        self._index = bm25s.BM25()
        self._index.index(self._tokenize(list(passages)), show_progress=False)

    async def retrieve(self, instruction: str, most: int) -> tuple[str, ...]:
        """Return at most `most` passages that share words with an instruction, best first."""
        words = self._tokenize([instruction])
        if not words.vocab:
            return ()
        found = self._index.retrieve(words, k=min(most, len(self._passages)), show_progress=False)
        ranked = zip(found.documents[0].tolist(), found.scores[0].tolist(), strict=True)
        return tuple(self._passages[at] for at, score in ranked if score > 0)


class MeaningIndex:
    """Finds passages by an embedding model; the first search embeds them."""

    def __init__(self, passages: Sequence[str], model: EmbeddingModel) -> None:
        self._passages = passages
        self._model = model
        self._turn = asyncio.Lock()
        self._vectors: NDArray[np.float64] | None = None
        self._length = 0

    async def retrieve(self, instruction: str, most: int) -> tuple[str, ...]:
        """Return the passages that are nearest to an instruction (cosine of the vectors), best first."""
        async with self._turn:
            if self._vectors is None:
                starts = range(0, len(self._passages), _TEXTS)
                parts = [await self._embedded(self._passages[start : start + _TEXTS]) for start in starts]
                self._vectors = np.concatenate(parts)
            vectors = self._vectors
        [asked] = await self._embedded([instruction])
        best = np.argsort(-(vectors @ asked), kind="stable")[:most]
        return tuple(self._passages[at] for at in best)

    async def _embedded(self, texts: Sequence[str]) -> NDArray[np.float64]:
        vectors = np.array(await self._model.embed(texts))
        if self._length not in (0, vectors.shape[1]):
            raise ModelFailure(f"embeddings of {vectors.shape[1]} numbers after some of {self._length}")
        self._length = vectors.shape[1]
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(lengths == 0, 1, lengths)


def read_passages(folder: Path) -> list[str]:
    """Read the passages of all `.md` and `.txt` files below a folder, in the order of their names.

    Raises BadInputError if there is no such file with text, or one is not UTF-8.
    """
    found: list[str] = []
    for path in sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file()):
        try:
            found += passages(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise BadInputError(f"{path}: not UTF-8 (byte {error.start}); a document is a text file") from None
    if not found:
        raise BadInputError(f"{folder}: no document with text; put {' or '.join(SUFFIXES)} files there")
    return found


def passages(text: str) -> list[str]:
    """The paragraphs of a document, joined to passages of at most `LONGEST_PASSAGE` characters; a longer one is cut."""
    found: list[str] = []
    for paragraph in (part.strip()[:LONGEST_PASSAGE] for part in text.split("\n\n")):
        if found and len(found[-1]) + len(paragraph) + 2 <= LONGEST_PASSAGE:
            found[-1] = f"{found[-1]}\n\n{paragraph}"
        else:
            found.append(paragraph)
    return [passage for passage in found if passage]
