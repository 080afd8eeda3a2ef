"""Finds the passages whose embeddings are nearest to that of an instruction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trajmill.schemas.errors import ModelFailure
from trajmill.stages.models.embedding import EmbeddingModel

_TEXTS = 32
"""Passages of one request."""


class MeaningIndex:
    """Finds passages by an embedding model; their vectors are asked for once, by the first search."""

    def __init__(self, passages: Sequence[str], model: EmbeddingModel) -> None:
        """Ask nothing yet."""
        self._passages = passages
        self._model = model
        self._turn = asyncio.Lock()
        self._vectors: NDArray[np.float64] | None = None
        self._length = 0

    async def retrieve(self, instruction: str, most: int) -> tuple[str, ...]:
        """The passages that are nearest to an instruction (cosine of the vectors), best first.

        Args:
            instruction: the task, which is the search query.
            most: number of passages.

        Raises:
            ModelFailure: the model does not answer.
        """
        vectors = await self._indexed()
        [asked] = await self._embedded([instruction])
        best = np.argsort(-(vectors @ asked), kind="stable")[:most]
        return tuple(self._passages[at] for at in best)

    async def _indexed(self) -> NDArray[np.float64]:
        async with self._turn:
            if self._vectors is None:
                parts = [
                    await self._embedded(self._passages[start : start + _TEXTS])
                    for start in range(0, len(self._passages), _TEXTS)
                ]
                self._vectors = np.concatenate(parts)
            return self._vectors

    async def _embedded(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """The vectors of texts, each of length 1."""
        vectors = np.array(await self._model.embed(texts))
        if self._length not in (0, vectors.shape[1]):
            raise ModelFailure(f"embeddings of {vectors.shape[1]} numbers after some of {self._length}")
        self._length = vectors.shape[1]
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(lengths == 0, 1, lengths)
