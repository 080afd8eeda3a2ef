"""The waits of `benchmarks.slots` in inspect_ai: how near it comes to the ideal with as many samples at once.

    pip install inspect-ai && python -m benchmarks.slots_inspect 64 512

A sample takes eight steps. In each it sleeps as long as a model server takes, and, but for the last one, as long as an
environment takes, and adds a new screen of 30 kB to its messages. `stored` is until the last sample is done, `written`
until the log is.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import tempfile
import time
from typing import Any

import inspect_ai
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ContentImage
from inspect_ai.solver import solver

_STEPS, _SAMPLES_PER_SLOT, _SCREEN_BYTES = 8, 3, 30_000


def _thinking(model: float, environment: float, ends: list[float]) -> Any:
    async def solve(state: Any, generate: Any) -> Any:
        for step in range(1, _STEPS + 1):
            await asyncio.sleep(model)
            state.messages.append(ChatMessageAssistant(content="I think."))
            if step < _STEPS:
                await asyncio.sleep(environment)
                screen = base64.b64encode(f"{state.sample_id}-{step}".encode().ljust(_SCREEN_BYTES)).decode()
                image = ContentImage(image=f"data:image/png;base64,{screen}")
                state.messages.append(ChatMessageUser(content=[image]))
        ends.append(time.perf_counter())
        return state

    return solve


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("slots", type=int, nargs="*", default=[64, 512])
    made = solver(_thinking)
    print("slots  model s  env s  ideal s  stored  written  CPU ms/step")
    for model, environment in ((0.5, 0.2), (0.25, 0.1)):
        for slots in options.parse_args().slots:
            samples = [Sample(input="Go.", id=str(number)) for number in range(slots * _SAMPLES_PER_SLOT)]
            ends: list[float] = []
            task = inspect_ai.Task(dataset=samples, solver=made(model, environment, ends))
            with tempfile.TemporaryDirectory() as folder:
                start, processor = time.perf_counter(), time.process_time()
                shared = {"log_dir": folder, "log_images": True, "display": "none"}
                [log] = inspect_ai.eval(task, model="mockllm/model", max_samples=slots, **shared)
                written, processor = time.perf_counter() - start, time.process_time() - processor
            assert log.status == "success", log.error
            ideal = _SAMPLES_PER_SLOT * (_STEPS * (model + environment) - environment)
            shares = f"{ideal / (max(ends) - start):7.1%} {ideal / written:8.1%}"
            spent = processor * 1000 / (len(samples) * _STEPS)
            print(f"{slots:5} {model:8} {environment:6} {ideal:8.1f} {shares} {spent:12.2f}", flush=True)


if __name__ == "__main__":
    main()
