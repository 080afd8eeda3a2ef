"""What k votes on the same screenshots cost as one request (`n = k`) and as k requests.

`python -m benchmarks.judge_votes` starts a vLLM server of a tiny model on this machine's CPU (`make vllm-env`) and lets
the multimodal critic vote on some walks of the simulated phone. No verdict finds its screenshots or its prompt in a
cache of the server. Per verdict it prints the requests, the megabytes and the prompt tokens sent, the prompt tokens
that the server computed (the others it took from its prefix cache), and the seconds. What the tiny model writes is
replaced by valid votes, so that nothing is asked again.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from PIL import Image

from tests.flows.serving.test_model_server import free_port
from tests.stages.critics.phone import PhoneWalk, notes_on, walk_phone
from tests.stages.models.transformers_local.tiny_vlm import MAX_PIXELS, build_tiny_vlm
from tests.vllm.tiny_server import MODEL, tiny_server
from trajmill.flows.serving.model_server import ModelServer, ask_server, served
from trajmill.schemas.observation import ScreenHandle
from trajmill.stages.critics.model.channels import ModelChannel
from trajmill.stages.critics.spec import critic_prompts
from trajmill.stages.critics.voting import Vote
from trajmill.stages.models.base import ChatRequest, Completion, ContextBudget
from trajmill.stages.models.openai_api.model import OpenAiModel, request_body
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.models.prompts import Sampling
from trajmill.stages.models.wrapped import WrappedModel

PYTHON: Final = Path(__file__).parents[1] / ".venv-vllm" / "bin" / "python"
BUDGET: Final = ContextBudget(screens=4, tokens=6000)
VOTE: Final = json.dumps({"reason": "seen", "correct": True, "redundant_steps": [], "first_error_step": None})


class Cost(NamedTuple):
    """What some verdicts took, summed."""

    requests: int = 0
    megabytes: float = 0.0
    sent: int = 0
    computed: int = 0
    seconds: float = 0.0

    def plus(self, other: Cost) -> Cost:
        """Both together."""
        return Cost(
            self.requests + other.requests,
            self.megabytes + other.megabytes,
            self.sent + other.sent,
            self.computed + other.computed,
            self.seconds + other.seconds,
        )


class MeteredModel(WrappedModel):
    """Asks for a few tokens, puts a valid vote in the place of each answer, and counts what is sent."""

    def __init__(self, spec: OpenAiSpec) -> None:
        super().__init__(OpenAiModel(spec))
        self._spec = spec
        self.sent = Cost()

    async def complete(self, request: ChatRequest) -> Completion:
        """Ask the server."""
        body = request_body(request, self.version, self._spec.vision_family.budget)
        completion = await super().complete(replace(request, answer_schema="", max_tokens=16))
        self.sent = self.sent.plus(Cost(1, len(body) / 1e6, completion.input_tokens))
        return completion._replace(text=VOTE, others=(VOTE,) * len(completion.others))


class Way(NamedTuple):
    """A way of asking for votes."""

    name: str
    together: bool
    at_once: bool


WAYS: Final = (
    Way("k requests, one after the other", together=False, at_once=False),
    Way("k requests at once", together=False, at_once=True),
    Way("one request, n = k", together=True, at_once=True),
)


async def verdict(address: str, walk: PhoneWalk, votes: int, way: Way) -> Cost:
    """What one verdict takes on a server with empty caches."""
    spec = OpenAiSpec(urls=(address,), model=MODEL, family="qwen2.5-vl", max_pixels=MAX_PIXELS, attempts=1)
    model = MeteredModel(spec)
    critic = ModelChannel(model, critic_prompts().multimodal, Sampling(1.0, 0.6), BUDGET)
    case = (walk.episode, walk.screens(), notes_on(walk.episode))
    forget_prefixes(address)
    before, start = computed_tokens(address), time.perf_counter()
    try:
        if way.together:
            found = await critic.judge_together(*case, range(votes))
        elif way.at_once:
            found = [*await asyncio.gather(*(critic.judge(*case, draw) for draw in range(votes)))]
        else:
            found = [await critic.judge(*case, draw) for draw in range(votes)]
    finally:
        await model.close()
    seconds = time.perf_counter() - start
    assert len(found) == votes and all(isinstance(vote, Vote) for vote in found)
    return model.sent._replace(computed=computed_tokens(address) - before, seconds=seconds)


def fresh(walk: PhoneWalk, number: int) -> PhoneWalk:
    """The walk with screenshots that no server has seen yet: a corner of each has a colour of its own."""

    def screen(old: ScreenHandle) -> ScreenHandle:
        with Image.open(io.BytesIO(old.encode())) as image:
            changed = image.convert("RGB")
        changed.paste((number % 256, 7, 7), (0, 0, 60, 60))
        out = io.BytesIO()
        changed.save(out, "PNG")
        return replace(old, encode=out.getvalue)

    seen = {name: replace(one, screen=screen(one.screen)) for name, one in walk.observations.items()}
    return PhoneWalk(walk.episode, seen)


def forget_prefixes(address: str) -> None:
    """Empty the server's prefix cache."""
    asked = urllib.request.Request(f"{address.removesuffix('/v1')}/reset_prefix_cache", method="POST")
    urllib.request.urlopen(asked, timeout=30).close()


def computed_tokens(address: str) -> int:
    """Prompt tokens that the server has computed so far, those from its prefix cache left out."""
    lines = ask_server(address.removesuffix("/v1") + "/metrics").text.splitlines()
    asked, hits = (
        sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"vllm:prefix_cache_{name}_total"))
        for name in ("queries", "hits")
    )
    return round(asked - hits)


def report(address: str, walks: list[PhoneWalk], votes: int, numbers: Iterator[int]) -> None:
    """A line for each way of asking."""
    for way in WAYS:
        cost = Cost()
        for walk in walks:
            cost = cost.plus(asyncio.run(verdict(address, fresh(walk, next(numbers)), votes, way)))
        verdicts = len(walks)
        print(
            f"| {votes} | {way.name} | {cost.requests / verdicts:.0f} | {cost.megabytes / verdicts:.2f} "
            f"| {cost.sent / verdicts:,.0f} | {cost.computed / verdicts:,.0f} | {cost.seconds / verdicts:.2f} |"
        )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--walks", type=int, default=4)
    parser.add_argument("--votes", type=int, nargs="+", default=[3, 5])
    arguments = parser.parse_args()
    walks = [walk_phone(seed=seed) for seed in range(arguments.walks)]
    with tempfile.TemporaryDirectory() as folder:
        section = tiny_server(PYTHON, build_tiny_vlm(Path(folder) / "model"), free_port())
        section = section.model_copy(update={"environment": section.environment | {"VLLM_SERVER_DEV_MODE": "1"}})
        server = ModelServer("tiny", MODEL, section)
        with served([server], Path(folder)):
            numbers = count()
            asyncio.run(verdict(server.address, walks[0], 2, WAYS[-1]))
            print("| k | asked as | requests | MB sent | tokens sent | tokens computed | seconds |")
            print("|---|---|---|---|---|---|---|")
            for votes in arguments.votes:
                report(server.address, walks, votes, numbers)


if __name__ == "__main__":
    main()
