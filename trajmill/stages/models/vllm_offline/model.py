"""Runs vLLM in this process, for judging many trajectories on a GPU worker without a server.

Beam's `RunInference` with its vLLM handler takes text messages only (no screens), has the same sampling arguments for a
whole step, and fails a bundle with one request. A judge's questions depend on earlier answers, so it needs a
`ChatModel` to await, not a map over prepared prompts. In the asynchronous engine, each caller joins the running batch
and leaves it independently; `vllm.LLM.chat` would answer a list when its last request is finished.
"""

from __future__ import annotations

import asyncio
import json
import os
import weakref
from itertools import count
from multiprocessing import active_children
from pathlib import Path
from threading import Thread
from typing import Any, Final

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.stages.models.base import MOST_SEED, ChatRequest, Completion, TokenLogprob
from trajmill.stages.models.local.chat import (
    Sample,
    chat_tokens,
    completion_of,
    rgb_pictures,
    short_reason,
    use_template,
)
from trajmill.stages.models.local.folder import FolderModel, VllmSpec
from trajmill.stages.reaper import Reaper, with_descendants

_RANKS: Final = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The ranks that vLLM has room for; an adapter takes the smallest that holds it."""


def adapter_arguments(adapter: Path | None) -> dict[str, Any]:
    """Return engine arguments that make room for an adapter. Raises BadInputError if vLLM cannot take it."""
    if adapter is None:
        return {}
    file = adapter / "adapter_config.json"
    try:
        rank = json.loads(file.read_text())["r"]
    except OSError as error:
        raise BadInputError(f"{adapter} is no LoRA adapter: it has no {file.name}; name one that PEFT saved") from error
    except (ValueError, KeyError, TypeError) as error:
        raise BadInputError(f"{file}: it does not say the adapter's rank (r)") from error
    room = next((most for most in _RANKS if isinstance(rank, int) and 0 < rank <= most), None)
    if room is None:
        raise BadInputError(f"{file}: vLLM takes an adapter of rank 1 to {_RANKS[-1]}, not {rank}")
    return {"enable_lora": True, "max_lora_rank": room}


class VllmModel(FolderModel["_Engine"]):
    """A `ChatModel` with its own vLLM engine; callers may await it from any event loop.

    Closing it ends the engine; a later request starts a new one.
    """

    def __init__(self, spec: VllmSpec) -> None:
        super().__init__(spec, lambda: _Engine(spec))
        self._numbers = count()

    async def complete(self, request: ChatRequest) -> Completion:
        engine = await asyncio.to_thread(self._loaded)
        prompt = await asyncio.to_thread(self._prompt, engine.tokenizer, request)
        return await engine.answer(prompt, request, f"trajmill-{next(self._numbers)}")

    async def close(self) -> None:
        engine = self._take_loaded()
        if engine is not None:
            await asyncio.to_thread(engine.stop)

    def _prompt(self, tokenizer: PreTrainedTokenizerBase, request: ChatRequest) -> dict[str, Any]:
        chat = chat_tokens(tokenizer, request.messages)
        pictures = rgb_pictures(chat.screens, self._family.budget, request.image_scale)
        return {"prompt_token_ids": chat.tokens} | ({"multi_modal_data": {"image": pictures}} if pictures else {})


class _Engine:
    """vLLM's engine with an event loop in its own thread, so that it outlives the loops of its callers."""

    def __init__(self, spec: VllmSpec) -> None:
        self._loop = asyncio.new_event_loop()
        thread = Thread(target=self._loop.run_forever, name="vllm", daemon=True)
        thread.start()
        try:
            try:
                self.tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
                    spec.model, local_files_only=True
                )
            except (OSError, ValueError, KeyError, ImportError) as error:
                raise BadInputError(f"{spec.model}: its tokenizer cannot be loaded: {short_reason(error)}") from error
            use_template(self.tokenizer, spec.model)
            others = {child.pid for child in active_children()}
            self._llm, self._adapter = asyncio.run_coroutine_threadsafe(_start(spec), self._loop).result()
            reaper = Reaper()  # The engine is a process of its own, and does not notice that its owner has ended.
            started = {child.pid for child in active_children() if child.pid is not None} - others
            reaper.watch(with_descendants(started), [])  # Its workers may outlive it.
        except BaseException:
            _end_loop(self._loop, thread)
            raise
        # This also runs if the process ends without closing the model.
        self.stop = weakref.finalize(self, _stop, self._llm, reaper, self._loop, thread)

    async def answer(self, prompt: dict[str, Any], request: ChatRequest, request_id: str) -> Completion:
        """Wait in the caller's loop for the engine's loop; if the caller is cancelled, so is the request."""
        work = asyncio.run_coroutine_threadsafe(self._answer(prompt, request, request_id), self._loop)
        return await asyncio.wrap_future(work)

    async def _answer(self, prompt: dict[str, Any], request: ChatRequest, request_id: str) -> Completion:
        final = None
        try:
            async for output in self._llm.generate(prompt, _sampling(request), request_id, lora_request=self._adapter):
                final = output
        except Exception as error:  # vLLM's own errors have changed their names and bases from version to version
            raise ModelFailure(f"vLLM failed: {short_reason(error.__cause__ or error)}") from error
        if final is None or not final.outputs:
            raise ModelFailure("vLLM ended the request without an answer")
        made = sorted(final.outputs, key=lambda output: int(output.index))
        samples = [
            Sample(each.text, tuple(each.token_ids), each.finish_reason, _logprobs(each, request.top_logprobs))
            for each in made
        ]
        return completion_of(samples, len(final.prompt_token_ids))


async def _start(spec: VllmSpec) -> tuple[Any, Any]:
    """Start an engine; return it with the request of its adapter, if any."""
    # vLLM sends usage statistics to its makers by default; the user can still allow it.
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    try:
        from vllm import AsyncEngineArgs  # type: ignore[import-not-found]
        from vllm.lora.request import LoRARequest  # type: ignore[import-not-found]
        from vllm.v1.engine.async_llm import AsyncLLM  # type: ignore[import-not-found]
    except ImportError as error:
        raise BadInputError(
            f"vLLM cannot be imported ({short_reason(error)}); install it on this worker: pip install vllm"
        ) from error
    arguments = {"model": str(spec.model)} | adapter_arguments(spec.adapter) | spec.engine
    try:
        engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
    except Exception as error:  # whatever a device, a folder or an argument makes it raise
        raise BadInputError(f"{spec.model}: vLLM cannot run this model: {short_reason(error)}") from error
    if spec.adapter is None:
        return engine, None
    adapter = LoRARequest(spec.adapter.name, 1, str(spec.adapter.absolute()))
    try:
        await engine.add_lora(adapter)
    except Exception as error:  # whatever the engine's process makes of the adapter's files
        engine.shutdown()
        raise BadInputError(f"{spec.adapter}: no adapter of this model: {short_reason(error)}") from error
    return engine, adapter


def _stop(llm: Any, reaper: Reaper, loop: asyncio.AbstractEventLoop, thread: Thread) -> None:
    llm.shutdown()
    reaper.close()
    _end_loop(loop, thread)


def _end_loop(loop: asyncio.AbstractEventLoop, thread: Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def _sampling(request: ChatRequest) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams  # type: ignore[import-not-found]

    schema = request.answer_schema
    return SamplingParams(
        n=request.n,
        temperature=request.temperature,
        top_p=request.top_p,
        seed=request.seed % MOST_SEED,
        max_tokens=request.max_tokens,
        logprobs=request.top_logprobs or None,
        structured_outputs=StructuredOutputsParams(json=schema) if schema else None,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _logprobs(sample: Any, top: int) -> tuple[TokenLogprob, ...]:
    found = []
    for token, place in zip(sample.token_ids, sample.logprobs, strict=True) if top else ():
        # vLLM lists the chosen token among the most likely ones, even if it is none of them.
        best = sorted((each for each in place.values() if each.rank <= top), key=lambda each: int(each.rank))
        candidates = tuple((str(each.decoded_token), float(each.logprob)) for each in best)
        found.append(TokenLogprob(str(place[token].decoded_token), float(place[token].logprob), candidates))
    return tuple(found)
