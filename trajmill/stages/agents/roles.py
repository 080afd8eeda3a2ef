"""The roles of an agent: each has a model or embedded rules, a prompt, and a parser for its replies."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Final, Generic, NamedTuple, TypeVar

from trajmill.schemas.actions import Action, action_to_json
from trajmill.schemas.coordinates import CoordinateFrame, native_frame
from trajmill.schemas.dialects.base import Dialect, NotExpressible, bare_call
from trajmill.schemas.dialects.families import ANY, Family
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import seed_of
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.text import storable
from trajmill.stages.agents.base import AgentCall, AgentModel, Decision, EpisodeView
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.replies import Malformed, bounded, read_sections
from trajmill.stages.agents.spec import OFF_ROLE, POLICY_MODEL, RolesSpec
from trajmill.stages.models.base import ChatMessage, ChatModel, ChatRequest, Completion
from trajmill.stages.models.prompts import Prompt, load_prompt

T = TypeVar("T")

RETRY_TEMPERATURE: Final = 1.0
"""Sampling temperature of the retry; a greedy one would give the malformed reply again."""
_LETTERS_PER_TOKEN = 4
_NO_ACTION = "no action could be read"


class RoleReply(NamedTuple, Generic[T]):
    said: T | None
    """None if the reply is malformed; then the role decides nothing."""
    calls: tuple[AgentCall, ...]
    """For the rows of `model_calls`; two if the first reply was malformed and the role was retried."""


@dataclass(frozen=True, slots=True)
class Role:
    """A role's model, which is asked greedily, and its prompt."""

    name: str
    """Its name on rows of `model_calls`: manager, reflector, ..."""
    model: ChatModel
    prompt: Prompt
    family: Family | None = None
    """The family of its model; None for embedded rules, which read stored pixels."""
    max_tokens: int = 1024
    retry: bool = False
    top_logprobs: int = 0
    """Number of candidates whose log probabilities are given for each token of its reply."""

    async def ask(
        self,
        episode: EpisodeView,
        read: Callable[[str], T | Malformed],
        screens: Sequence[Observation] = (),
        **fields: str,
    ) -> RoleReply[T]:
        """Ask with the prompt's fields filled in and some screens after the text; `read` is the parser of the role.

        Seed and length of the episode decide the seed of the request. Raises ModelFailure if the model did not answer.
        """
        filled = self.prompt.fill(**fields)
        messages = (ChatMessage("system", (filled.system,)), ChatMessage("user", (filled.user, *screens)))
        seed = seed_of(self.name, episode.seed, len(episode.history))
        request = ChatRequest(
            self.name, messages, seed=seed, max_tokens=self.max_tokens, top_logprobs=self.top_logprobs
        )
        calls: tuple[AgentCall, ...] = ()
        for _ in range(2 if self.retry else 1):
            start = perf_counter()
            completion = await self.model.complete(request)
            said = read(storable(completion.text))
            malformed = said.reason if isinstance(said, Malformed) else ""
            elapsed = (perf_counter() - start) * 1000
            calls = (*calls, AgentCall(request, completion, elapsed, None, self.model.version, malformed))
            if not isinstance(said, Malformed):
                return RoleReply(said, calls)
            request = replace(request, temperature=RETRY_TEMPERATURE, seed=(seed + 1) % 2**31)
        return RoleReply(None, calls)

    def action_text(self, decision: Decision, platform: Platform, screen: Size) -> str:
        """Return the action of a step in the words and the coordinate space of this role's model."""
        if decision.action is None:
            return _NO_ACTION
        if self.family is None:
            return action_to_json(decision.action)
        return action_words(decision.action, self.family.dialect(platform), self.model.frame(screen))


def action_words(action: Action, dialect: Dialect, frame: CoordinateFrame) -> str:
    """Return an action as a call of a dialect on one line; as JSON without positions if it has no words for it."""
    try:
        # Prompts have a label of their own before the action.
        return bounded(bare_call(action, dialect, frame)).removeprefix("Action: ")
    except NotExpressible:
        return action_without_positions(action)


ECHOES: Final = frozenset(f"embedded-{rule}-1" for rule in ("coordinator", "notetaker", "planner", "state-tracker"))
"""Versions of the embedded rules that only pass on what they are given, against what their prompts ask for."""


class EmbeddedQuestion(NamedTuple):
    sections: Mapping[str, str]
    screens: tuple[Observation, ...]

    def section(self, heading: str) -> str:
        return self.sections.get(heading, "")


class EmbeddedRole:
    """A `ChatModel` that answers by a rule; it sees the request alone, as a model would."""

    def __init__(self, version: str, rule: Callable[[EmbeddedQuestion], str]) -> None:
        self.version = version
        self._rule = rule

    def frame(self, screen: Size) -> CoordinateFrame:
        return native_frame(screen)

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer by the rule; four letters count as a token."""
        parts = request.messages[-1].parts
        text = "".join(part for part in parts if isinstance(part, str))
        screens = tuple(part for part in parts if isinstance(part, Observation))
        answer = self._rule(EmbeddedQuestion(read_sections(text), screens))
        return Completion(answer, len(text) // _LETTERS_PER_TOKEN, len(answer) // _LETTERS_PER_TOKEN, "stop")

    async def close(self) -> None: ...


def open_role(
    spec: RolesSpec,
    given: AgentModel,
    name: str,
    embedded: ChatModel | None,
    own: Path | None,
    prompt: str = "",
    package: str = "",
) -> Role | None:
    """Open the role that a field of an agent's spec names; None if it is off, or has neither a model nor rules.

    `embedded` has the rules for a role without an endpoint; `own` is the user's file in place of the packaged one that
    `prompt` names, of `package` or else of the spec's. Raises BadInputError if it cannot be read, or misses a section
    or a field.
    """
    named = spec.roles()[name]
    if named == OFF_ROLE:
        return None
    model: ChatModel | None = given.roles.get(name)
    family: Family | None = given.families.get(name, ANY)
    if named == POLICY_MODEL:
        model, family = given.model, given.family
    text = load_prompt(package or type(spec).__module__.rpartition(".")[0], prompt or f"{name}-1", own)
    if model is None:
        model, family = embedded, None
    return Role(name, model, text, family, spec.role_tokens, spec.retry_malformed) if model else None


def open_acting_role(spec: RolesSpec, given: AgentModel, role: str, platform: Platform, key: str = "") -> EndToEndAgent:
    """Open the role that acts, asked in the layout of its model's family.

    `role` is its name on rows of `model_calls`; `key` the field of the spec that names its endpoint, else the policy
    acts.
    """
    own = given.roles.get(key)
    return EndToEndAgent(
        own or given.model,
        platform,
        given.temperature,
        role=role,
        family=given.families.get(key, ANY) if own else given.family,
        with_tokens=given.with_tokens and not own,
        max_tokens=spec.max_tokens,
    )


def action_without_positions(action: Action | None) -> str:
    """An action as JSON for a role that sees no screen: without positions, a swipe or a drag with its direction."""
    if action is None:
        return _NO_ACTION
    fields = action.model_dump(mode="json")
    x, y, x2, y2 = (fields.pop(name, None) for name in ("x", "y", "x2", "y2"))
    if x2 is not None:
        across, down = x2 - x, y2 - y
        sideways = "right" if across > 0 else "left"
        fields["direction"] = sideways if abs(across) > abs(down) else "down" if down > 0 else "up"
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def without_action(role: str, calls: tuple[AgentCall, ...], outputs: Mapping[str, str]) -> Decision:
    """A step without effect, because a role before the acting one gave a malformed reply."""
    return Decision("", None, f"The {role} gave no valid reply.", role_outputs=dict(outputs), calls=calls)
