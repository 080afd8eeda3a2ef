"""The embedded policy as a chat model: it reads the prompt and the screen's elements, and answers in GUI-Owl's dialect.

Requests that wait at the same time are scored in one forward pass. An answer depends on its request alone, not on the
other requests of the batch: scores are computed in double precision and rounded, and each request has its own seed.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from trajmill.schemas.coordinates import CoordinateFrame, native_frame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlDesktop, GuiOwlMobile
from trajmill.schemas.dialects.user_text import UserText, read
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import content_id
from trajmill.stages.models.base import ChatRequest, Completion
from trajmill.stages.models.embedded.candidates import CONCLUSION_VERBS
from trajmill.stages.models.embedded.policy_network import NetworkShape, PolicyNetwork
from trajmill.stages.models.embedded.situation import InputReader, PolicyInput, bags, collate
from trajmill.stages.models.embedded.thoughts import compose_thought
from trajmill.stages.models.embedded.words import MOUSE_VERBS, Conclusion, noted_values, plain, write_conclusion

_DECIMALS = 6
_MOST_REMEMBERED = 4096
"""Number of screens after which the caches are emptied, so that a long run needs little memory."""
_MAX_BATCH = 256
_LETTERS_PER_TOKEN = 4


def is_phone_prompt(system: str) -> bool:
    """Return whether a system message declares the tool of phones, and not the one of desktops."""
    return '"name": "computer_use"' not in system


class _Asked(NamedTuple):
    policy_input: PolicyInput
    scores: asyncio.Future[list[float]]
    """Logits of its candidates."""


class EmbeddedModel:
    """A `ChatModel` around a `PolicyNetwork`; use it from one event loop at a time."""

    def __init__(self, network: PolicyNetwork, version: str) -> None:
        self.version = version
        self._network = network.double().eval()
        self._reader = InputReader()
        self._vectors = torch.zeros(0, network.shape.word_width, dtype=torch.double)
        self._weights = torch.zeros(0, dtype=torch.double)
        self._waiting: list[_Asked] = []

    def frame(self, screen: Size) -> CoordinateFrame:
        return native_frame(screen)

    async def close(self) -> None: ...

    async def complete(self, request: ChatRequest) -> Completion:
        """Score in one batch with all waiting requests. Raises ModelFailure without an accessibility tree."""
        if not self._waiting and len(self._reader.screens) > _MOST_REMEMBERED:
            self._reader = InputReader()
            self._vectors = self._vectors[:0]
        asked = request.messages[-1].parts
        system, user_text = (
            "".join(part for part in parts if isinstance(part, str)) for parts in (request.messages[0].parts, asked)
        )
        seen = next((part for part in reversed(asked) if isinstance(part, Observation)), None)
        if seen is None or seen.elements is None:
            raise ModelFailure("the embedded policy reads accessibility trees; the request shows none")
        phone, user, size = is_phone_prompt(system), read(user_text), seen.screen.size
        policy_input = self._reader.read(user, seen.screen.screen_id, size, seen.elements, phone=phone)
        loop = asyncio.get_running_loop()
        waiting = _Asked(policy_input, loop.create_future())
        self._waiting.append(waiting)
        if len(self._waiting) == 1:
            # Wait two turns of the loop, so that episodes that continue together are in one batch.
            loop.call_soon(loop.call_soon, self._score_waiting)
        chosen = _sample(await waiting.scores, request, user_text)
        reply = reply_for(policy_input, chosen, user, phone=phone)
        text = (GuiOwlMobile() if phone else GuiOwlDesktop()).render(reply, native_frame(size))
        return Completion(text, len(user_text) // _LETTERS_PER_TOKEN, len(text) // _LETTERS_PER_TOKEN, "stop")

    @torch.inference_mode()
    def _score_waiting(self) -> None:
        waiting = [each for each in self._waiting if not each.scores.done()]
        self._waiting = []
        lexicon, known = self._reader.lexicon, len(self._vectors)
        if known < len(lexicon.buckets):
            # The vector of each word is computed once.
            fresh = bags(lexicon, range(known, len(lexicon.buckets)))
            self._vectors = torch.cat([self._vectors, self._network.word_vectors(fresh)])
            self._weights = torch.tensor(lexicon.weights, dtype=torch.double)
        for start in range(0, len(waiting), _MAX_BATCH):
            part = waiting[start : start + _MAX_BATCH]
            batch = collate([each.policy_input.situation for each in part])
            logits: list[list[float]] = self._network(batch, self._vectors, self._weights).tolist()
            for each, scores in zip(part, logits, strict=True):
                each.scores.set_result(scores[: len(each.policy_input.candidates)])


def _sample(logits: Sequence[float], request: ChatRequest, user_text: str) -> int:
    """Return the index of a candidate; at temperature 0 the first one of the largest logit."""
    if any(math.isnan(logit) for logit in logits):
        raise ModelFailure("the scores of the network are no numbers")
    scores = [round(logit, _DECIMALS) for logit in logits]
    if request.temperature > 0:
        draw = random.Random(content_id("sample", request.seed, user_text))
        scores = [score / request.temperature - math.log(-math.log(draw.random() or 1e-300)) for score in scores]
    return max(range(len(scores)), key=scores.__getitem__)


_MOST_NOTES = 3


def reply_for(policy_input: PolicyInput, chosen: int, user: UserText, *, phone: bool) -> Reply:
    """Return the reply for the candidate at index `chosen`.

    It notes values of the screen that are neither in the instruction nor noted yet, as later steps may need them.
    """
    candidate, instruction = policy_input.candidates[chosen], user.instruction
    text, verb = candidate.text, candidate.verb
    known = set(noted_values(policy_input.conclusions))
    fresh = [line for value in policy_input.values if (line := plain(value)) not in known and line not in instruction]
    said = CONCLUSION_VERBS[verb] if phone else MOUSE_VERBS.get(CONCLUSION_VERBS[verb], CONCLUSION_VERBS[verb])
    parts = Conclusion(said, text, candidate.field, policy_input.title, tuple(fresh[:_MOST_NOTES]))
    how = verb if verb in ("down", "up") else {"home": "for the home screen", "drag": "to"}.get(verb, "")
    joint = "into" if verb == "type" else "beside" if candidate.role == "list_item" else "for"
    conclusion = write_conclusion(parts, how=how, joint=joint, place="from" if verb in ("home", "back") else "on")
    thought = compose_thought(policy_input, chosen, user)
    return Reply(thought, candidate.action(phone=phone), conclusion)


def use_one_thread() -> None:
    """Make torch compute on one core in this process.

    Small networks get slower with more threads, and their sums must not depend on the number of cores.
    """
    torch.set_num_threads(1)


_WEIGHTS, _CONFIG = "model.safetensors", "config.json"
_MODEL_TYPE = "trajmill_candidate_scorer"


def untrained_network(seed: int, shape: NetworkShape | None = None) -> PolicyNetwork:
    """Return a network before training; equal seeds give equal weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return PolicyNetwork(shape or NetworkShape())


def network_version(network: PolicyNetwork) -> str:
    digest = hashlib.blake2b(json.dumps(network.shape._asdict(), sort_keys=True).encode(), digest_size=8)
    digest.update(save(_weights(network)))
    return f"embedded-{digest.hexdigest()}"


def save_network(network: PolicyNetwork, folder: Path) -> str:
    """Write a network to `folder`, the configuration last; return its version."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _WEIGHTS).write_bytes(save(_weights(network), metadata={"format": "pt"}))
    version = network_version(network)
    config = {"model_type": _MODEL_TYPE, "version": version, "shape": network.shape._asdict()}
    (folder / _CONFIG).write_text(json.dumps(config, indent=2) + "\n")
    return version


def is_embedded_policy(folder: Path) -> bool:
    try:
        found = json.loads((folder / _CONFIG).read_text())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("model_type") == _MODEL_TYPE


def load_network(folder: Path) -> PolicyNetwork:
    """Read a network. Raises BadInputError if the folder holds no complete embedded policy."""
    try:
        config = json.loads((folder / _CONFIG).read_text())
        network = PolicyNetwork(NetworkShape(**config["shape"]))
        network.load_state_dict(load_file(folder / _WEIGHTS))
    except RuntimeError as error:  # weights of another shape
        text = f"{folder} holds an embedded policy of another version of trajmill; train a new one in a new warehouse"
        raise BadInputError(text) from error
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise BadInputError(f"{folder} holds no embedded policy ({type(error).__name__}); train or copy one") from error
    return network


def embedded_model(network: PolicyNetwork) -> EmbeddedModel:
    """Return a policy that acts with a copy of the network; later updates of `network` do not change it."""
    return EmbeddedModel(copy.deepcopy(network), network_version(network))


def load_embedded_model(folder: Path) -> EmbeddedModel:
    return embedded_model(load_network(folder))


def _weights(network: PolicyNetwork) -> dict[str, Tensor]:
    return {name: tensor.float().contiguous() for name, tensor in network.state_dict().items()}
