"""A Hugging Face model in this process, on a CPU or a GPU: text models, and vision-language models of the Qwen family.

It needs no server, but is slow: requests that wait at the same time are one batch, and the next batch begins when the
longest answer of this batch is finished. There is no guided decoding: `answer_schema` has no effect. For a structured
answer, use `trajmill.stages.models.prompts.ask`, which checks the answer and asks again.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, islice
from typing import NamedTuple

from trajmill.schemas.errors import ModelFailure
from trajmill.stages.models.base import ChatRequest, Completion
from trajmill.stages.models.local.chat import Sample, completion_of
from trajmill.stages.models.local.folder import FolderModel, TransformersSpec
from trajmill.stages.models.transformers_local.generation import LoadedModel, SampleTask, load_model


class _Waiting(NamedTuple):
    rows: Sequence[SampleTask]
    answer: asyncio.Future[Completion]


class TransformersModel(FolderModel[LoadedModel]):
    """A `ChatModel` of a folder; use it from one event loop at a time.

    Closing it frees the weights; a later request loads them again.
    """

    def __init__(self, spec: TransformersSpec) -> None:
        super().__init__(spec, lambda: load_model(spec))
        self._max_batch = spec.max_batch
        self._waiting: list[_Waiting] = []
        self._encoding = 0
        self._work: asyncio.Task[None] | None = None
        # One thread encodes while the other computes; there is never more than one batch in memory.
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="prompts")
        self._computer = ThreadPoolExecutor(1, thread_name_prefix="batches")

    async def complete(self, request: ChatRequest) -> Completion:
        loop = asyncio.get_running_loop()
        self._encoding += 1
        try:
            prompt = await loop.run_in_executor(self._reader, lambda: self._loaded().encode(request))
        finally:
            self._encoding -= 1
            # Requests of callers that continue together are encoded one by one, then answered in one batch.
            if not self._encoding:
                self._begin()
        rows = [SampleTask(prompt, request.sample(number)) for number in range(request.n)]
        waiting = _Waiting(rows, loop.create_future())
        self._waiting.append(waiting)
        if sum(len(each.rows) for each in self._waiting) >= self._max_batch:
            self._begin()
        return await waiting.answer

    async def close(self) -> None:
        self._take_loaded()

    def _begin(self) -> None:
        """Answer the waiting requests from the next turn of the loop on."""
        if self._work is None or self._work.done():
            self._work = asyncio.ensure_future(self._answer_waiting())

    async def _answer_waiting(self) -> None:
        while batch := self._next_batch():
            rows = [row for each in batch for row in each.rows]
            made = iter(await asyncio.get_running_loop().run_in_executor(self._computer, self._generate, rows))
            for each in batch:
                samples = list(islice(made, len(each.rows)))
                if each.answer.done():
                    continue
                failure = next((sample for sample in samples if isinstance(sample, ModelFailure)), None)
                if failure is None:
                    good = [sample for sample in samples if isinstance(sample, Sample)]
                    each.answer.set_result(completion_of(good, len(each.rows[0].prompt.tokens)))
                else:
                    each.answer.set_exception(failure)

    def _next_batch(self) -> list[_Waiting]:
        """Return the next batch: one request and as many others as fit; cancelled requests are left out."""
        waiting = [each for each in self._waiting if not each.answer.done()]
        sizes = list(accumulate(len(each.rows) for each in waiting))
        count = max(1, bisect_right(sizes, self._max_batch))
        self._waiting = waiting[count:]
        return waiting[:count]

    def _generate(self, rows: Sequence[SampleTask]) -> list[Sample | ModelFailure]:
        most = self._max_batch
        parts = [rows[start : start + most] for start in range(0, len(rows), most)]
        return [made for part in parts for made in self._loaded().generate(part)]
