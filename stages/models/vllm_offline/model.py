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
import io
import json
import os
import weakref
from itertools import count
from multiprocessing import active_children
from threading import Lock, Thread
from typing import Any

from PIL import Image
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.stages.models.base import ChatRequest, Completion, TokenLogprob
from trajmill.stages.models.images import sent_image
from trajmill.stages.models.local.chat_text import render_chat, use_template
from trajmill.stages.models.local.folder import folder_version, model_folder
from trajmill.stages.models.local.settings import LocalSettings
from trajmill.stages.models.vllm_offline.watchdog import ProcessWatchdog

_SEEDS = 2**63
"""vLLM keeps a seed in a signed integer of 64 bits."""


class OfflineSettings(LocalSettings):
    """A model in a folder, and how vLLM runs it."""

    engine: str = "{}"
    """JSON object of vLLM's engine arguments by their Python names, e.g. `{"tensor_parallel_size": 2}`."""


class VllmModel:
    """A `ChatModel` around a vLLM engine of its own; callers may await it from any event loop.

    Closing it lets go of the engine; a request after that starts it again.
    """

    def __init__(self, settings: OfflineSettings) -> None:
        """Start the engine: seconds to minutes, by the size of the model.

        Raises:
            BadInputError: vLLM is not installed, or the folder holds no model that it can run.
        """
        self._settings = settings
        self._version = folder_version(model_folder(settings.folder))
        self._starting = Lock()
        self._engine: _Engine | None = _Engine(settings)
        self._numbers = count()

    @property
    def version(self) -> str:
        """Name of the folder and hash of what is in it."""
        return self._version

    def frame(self, screen: Size) -> CoordinateFrame:
        """The coordinates it writes, on the size at which it sees a screen."""
        return CoordinateFrame(self._settings.space, screen, self._settings.budget.fit(screen))

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer a request together with all others that are on their way.

        Raises:
            ModelFailure: a picture that does not decode, a request that is longer than the model's context, a schema
                that cannot be followed, or an engine that died.
        """
        engine = await asyncio.to_thread(self._started)
        prompt = await asyncio.to_thread(self._prompt, engine.tokenizer, request)
        return await engine.answer(prompt, request, f"trajmill-{next(self._numbers)}")

    async def close(self) -> None:
        """End the engine and its processes; closing twice is fine."""
        with self._starting:
            engine, self._engine = self._engine, None
        if engine is not None:
            await asyncio.to_thread(engine.stop)

    def _started(self) -> _Engine:
        with self._starting:
            if self._engine is None:
                self._engine = _Engine(self._settings)
            return self._engine

    def _prompt(self, tokenizer: PreTrainedTokenizerBase, request: ChatRequest) -> dict[str, Any]:
        chat = render_chat(tokenizer, request.messages)
        tokens = tokenizer(chat.text, add_special_tokens=False, verbose=False)["input_ids"]
        sent = [sent_image(screen, self._settings.budget, request.image_scale) for screen in chat.screens]
        pictures = [Image.open(io.BytesIO(image.data)).convert("RGB") for image in sent]
        return {"prompt_token_ids": tokens} | ({"multi_modal_data": {"image": pictures}} if pictures else {})


class _Engine:
    """vLLM's engine on an event loop in a thread of its own, so that it outlives the loops of its callers."""

    def __init__(self, settings: OfflineSettings) -> None:
        self._loop = asyncio.new_event_loop()
        thread = Thread(target=self._loop.run_forever, name="vllm", daemon=True)
        thread.start()
        try:
            self.tokenizer = _tokenizer(settings)
            others = {child.pid for child in active_children()}
            self._llm = asyncio.run_coroutine_threadsafe(_start(settings), self._loop).result()
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
            raise ModelFailure(f"vLLM failed: {_line(error.__cause__ or error)}") from error
        if final is None or not final.outputs:
            raise ModelFailure("vLLM ended the request without an answer")
        return _completion(final, request.top_logprobs)


async def _start(settings: OfflineSettings) -> Any:
    arguments = _arguments(settings)
    # vLLM reports its use to its makers unless it is told not to, or the user has told it to.
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    try:
        from vllm import AsyncEngineArgs  # type: ignore[import-not-found]
        from vllm.v1.engine.async_llm import AsyncLLM  # type: ignore[import-not-found]
    except ImportError as error:
        raise BadInputError(
            f"vLLM cannot be imported ({_line(error)}); install it on this worker: pip install vllm"
        ) from error
    try:
        return AsyncLLM.from_engine_args(AsyncEngineArgs(**{"model": str(settings.folder)} | arguments))
    except Exception as error:  # whatever a device, a folder or an argument makes it raise
        raise BadInputError(f"{settings.folder}: vLLM cannot run this model: {_line(error)}") from error


def _arguments(settings: OfflineSettings) -> dict[str, Any]:
    try:
        arguments = json.loads(settings.engine)
    except ValueError as error:
        raise BadInputError(f"engine arguments of vLLM are not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise BadInputError("engine arguments of vLLM are not a JSON object")
    return arguments


def _tokenizer(settings: OfflineSettings) -> PreTrainedTokenizerBase:
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(settings.folder, local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise BadInputError(f"{settings.folder}: its tokenizer cannot be loaded: {_line(error)}") from error
    use_template(tokenizer, settings.folder)
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


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
