"""vLLM in this process: for judging many trajectories on a GPU worker without a server beside it.

Why not Beam's `RunInference` with its vLLM handler: that one starts an OpenAI server as a child and is a client of it,
with text messages only (no screens) and one set of sampling arguments for a whole step; an error of one request fails
the bundle. A judge asks questions that depend on earlier answers (steps, then channels, then votes until it is
decided), so it wants a `ChatModel` to await, not a map over prepared prompts. What the handler has to offer beyond
that, one load per worker, comes with keeping this model for the life of the process.

Why the asynchronous engine and not `vllm.LLM.chat`: the latter answers a list of requests when the last one is done.
Here each caller joins the running batch and leaves it on its own.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from itertools import count
from multiprocessing import active_children
from pathlib import Path
from threading import Thread
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.stages.models.base import ChatRequest, Completion, TokenLogprob
from trajmill.stages.models.local.chat_text import render_chat, use_template
from trajmill.stages.models.local.folder_model import FolderModel
from trajmill.stages.models.local.pictures import rgb_pictures
from trajmill.stages.models.local.short_reason import short_reason
from trajmill.stages.models.vllm_offline.spec import VllmSpec
from trajmill.stages.models.vllm_offline.watchdog import ProcessWatchdog

_SEEDS = 2**63
"""vLLM keeps a seed in a signed integer of 64 bits."""


class VllmModel(FolderModel["_Engine"]):
    """A `ChatModel` around a vLLM engine of its own; callers may await it from any event loop.

    Closing it lets go of the engine; a request after that starts it again.
    """

    def __init__(self, spec: VllmSpec) -> None:
        """Start the engine: seconds to minutes, by the size of the model.

        Raises:
            BadInputError: vLLM is not installed, or the folder holds no model that it can run.
        """
        super().__init__(spec, lambda: _Engine(spec))
        self._numbers = count()

    @property
    def several_answers(self) -> bool:
        """Always: a prompt is read once for all its samples."""
        return True

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer a request together with all others that are on their way.

        Raises:
            ModelFailure: a picture that does not decode, a request that is longer than the model's context, a schema
                that cannot be followed, or an engine that died.
        """
        engine = await asyncio.to_thread(self._loaded)
        prompt = await asyncio.to_thread(self._prompt, engine.tokenizer, request)
        return await engine.answer(prompt, request, f"trajmill-{next(self._numbers)}")

    async def close(self) -> None:
        """End the engine and its processes; closing twice is fine."""
        engine = self._let_go()
        if engine is not None:
            await asyncio.to_thread(engine.stop)

    def _prompt(self, tokenizer: PreTrainedTokenizerBase, request: ChatRequest) -> dict[str, Any]:
        chat = render_chat(tokenizer, request.messages)
        tokens = tokenizer(chat.text, add_special_tokens=False, verbose=False)["input_ids"]
        pictures = rgb_pictures(chat.screens, self._family.budget, request.image_scale)
        return {"prompt_token_ids": tokens} | ({"multi_modal_data": {"image": pictures}} if pictures else {})


class _Engine:
    """vLLM's engine on an event loop in a thread of its own, so that it outlives the loops of its callers."""

    def __init__(self, spec: VllmSpec) -> None:
        self._loop = asyncio.new_event_loop()
        thread = Thread(target=self._loop.run_forever, name="vllm", daemon=True)
        thread.start()
        try:
            self.tokenizer = _tokenizer(spec.model)
            others = {child.pid for child in active_children()}
            self._llm = asyncio.run_coroutine_threadsafe(_start(spec), self._loop).result()
            guard = ProcessWatchdog({child.pid for child in active_children() if child.pid is not None} - others)
        except BaseException:
            _end_loop(self._loop, thread)
            raise
        # Also runs when the process ends without closing the model.
        self.stop = weakref.finalize(self, _stop, self._llm, guard, self._loop, thread)

    async def answer(self, prompt: dict[str, Any], request: ChatRequest, request_id: str) -> Completion:
        """Wait in the caller's loop for what the engine's loop is doing; giving up there ends it here."""
        work = asyncio.run_coroutine_threadsafe(self._answer(prompt, request, request_id), self._loop)
        return await asyncio.wrap_future(work)

    async def _answer(self, prompt: dict[str, Any], request: ChatRequest, request_id: str) -> Completion:
        final = None
        try:
            async for output in self._llm.generate(prompt, _sampling(request), request_id):
                final = output
        except Exception as error:  # vLLM's own errors have changed their names and bases from version to version
            raise ModelFailure(f"vLLM failed: {short_reason(error.__cause__ or error)}") from error
        if final is None or not final.outputs:
            raise ModelFailure("vLLM ended the request without an answer")
        return _completion(final, request.top_logprobs)


async def _start(spec: VllmSpec) -> Any:
    # vLLM reports its use to its makers unless it is told not to, or the user has told it to.
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    try:
        from vllm import AsyncEngineArgs  # type: ignore[import-not-found]
        from vllm.v1.engine.async_llm import AsyncLLM  # type: ignore[import-not-found]
    except ImportError as error:
        raise BadInputError(
            f"vLLM cannot be imported ({short_reason(error)}); install it on this worker: pip install vllm"
        ) from error
    try:
        return AsyncLLM.from_engine_args(AsyncEngineArgs(**{"model": str(spec.model)} | spec.engine))
    except Exception as error:  # whatever a device, a folder or an argument makes it raise
        raise BadInputError(f"{spec.model}: vLLM cannot run this model: {short_reason(error)}") from error


def _tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise BadInputError(f"{folder}: its tokenizer cannot be loaded: {short_reason(error)}") from error
    use_template(tokenizer, folder)
    return tokenizer


def _stop(llm: Any, guard: ProcessWatchdog, loop: asyncio.AbstractEventLoop, thread: Thread) -> None:
    llm.shutdown()
    guard.dismiss()
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
        seed=request.seed % _SEEDS,
        max_tokens=request.max_tokens,
        logprobs=request.top_logprobs or None,
        structured_outputs=StructuredOutputsParams(json=schema) if schema else None,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _completion(output: Any, top_logprobs: int) -> Completion:
    first, *others = sorted(output.outputs, key=lambda sample: int(sample.index))
    return Completion(
        text=first.text,
        input_tokens=len(output.prompt_token_ids),
        output_tokens=sum(len(sample.token_ids) for sample in output.outputs),
        finish_reason=first.finish_reason,
        others=tuple(sample.text for sample in others),
        logprobs=_logprobs(first, top_logprobs) if top_logprobs else (),
    )


def _logprobs(sample: Any, top: int) -> tuple[TokenLogprob, ...]:
    found = []
    for token, place in zip(sample.token_ids, sample.logprobs, strict=True):
        # The chosen token stands among the likeliest even if it is none of them.
        best = sorted((each for each in place.values() if each.rank <= top), key=lambda each: int(each.rank))
        candidates = tuple((str(each.decoded_token), float(each.logprob)) for each in best)
        found.append(TokenLogprob(str(place[token].decoded_token), float(place[token].logprob), candidates))
    return tuple(found)
