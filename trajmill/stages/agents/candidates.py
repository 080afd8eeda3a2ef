"""Best of several candidate actions: the policy samples them, and a process reward model rates each (NaturalGAIA F)."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from trajmill.schemas.actions import Action
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.agents.base import AgentMaker, AgentModel, Decision, EpisodeView
from trajmill.stages.agents.end_to_end import EndToEndAgent
from trajmill.stages.agents.replies import Malformed, bounded, numbered, plain
from trajmill.stages.agents.roles import Role, RoleReply
from trajmill.stages.concurrency import side_by_side
from trajmill.stages.models.base import Completion
from trajmill.stages.models.prompts import load_prompt

PRM: Final = "prm"
"""The role of a process reward model, and the kind of its training rows."""
PROMPT: Final = ("trajmill.stages.agents", "prm-1")
STEP_SCORES: Final = {StepLabel.GOOD: 1.0, StepLabel.NEUTRAL: 0.5, StepLabel.HARMFUL: 0.0}
"""CriticScore of paper Mobile-Agent-v3, 2.2.3: what a label of a step is worth."""
LABEL_CANDIDATES: Final = 20
"""Most tokens at the place of the label whose probabilities are asked for."""
_LONGEST_LABEL = 512
"""A model that thinks first needs some tokens before the label."""
_ACROSS, _DOWN = frozenset({"x", "x2"}), frozenset({"y", "y2"})


def prm_fields(instruction: str, done: Sequence[str], action: Action, screen: Size) -> dict[str, str]:
    """Return the fields of the prompt `prm-1`; `done` are the conclusions of the steps before."""

    def share(name: str, value: object) -> object:
        length = screen.width if name in _ACROSS else screen.height if name in _DOWN else None
        return f"{value / length:.1%}" if length and isinstance(value, int) else value

    said = {name: share(name, value) for name, value in action.model_dump(mode="json").items()}
    shown = json.dumps(said, ensure_ascii=False, separators=(", ", ": "))
    return {"instruction": bounded(instruction), "done": numbered(done), "action": shown}


def read_label(text: str) -> StepLabel | Malformed:
    """Read the one word that a process reward model answers with."""
    word = plain(text.rpartition("</think>")[2]).strip(" .").upper()
    return StepLabel(word) if word in STEP_SCORES else Malformed("neither GOOD, NEUTRAL nor HARMFUL")


def expected_score(label: StepLabel, completion: Completion | None) -> float:
    """Return the mean score over the probabilities of the labels; the label's own without them, or after thinking.

    A token stands for the label that it begins; those of the first place that has such tokens count.
    """
    is_bare = completion is not None and completion.text.strip().upper() == label
    for place in completion.logprobs if completion is not None and is_bare else ():
        begun = [(token.strip().upper(), math.exp(logprob)) for token, logprob in place.candidates if token.strip()]
        shares = [(STEP_SCORES[each], share) for text, share in begun for each in STEP_SCORES if each.startswith(text)]
        if shares:
            return sum(score * share for score, share in shares) / sum(share for _, share in shares)
    return STEP_SCORES[label]


def best_of_candidates(alone: Callable[[Query], EndToEndAgent], given: AgentModel, candidates: int) -> AgentMaker:
    """Return a maker of agents whose candidates the role `prm` rates; the policy does so itself without a model."""
    model, family = given.roles.get(PRM, given.model), given.families.get(PRM, given.family)
    prm = Role(PRM, model, load_prompt(*PROMPT), family, _LONGEST_LABEL, top_logprobs=LABEL_CANDIDATES)
    return lambda query: BestOfCandidates(alone(query), prm, candidates)


@dataclass(frozen=True, slots=True)
class BestOfCandidates:
    """An end-to-end agent that does the best of several sampled actions."""

    policy: EndToEndAgent
    prm: Role
    candidates: int

    @property
    def name(self) -> str:
        return self.policy.name

    @property
    def model_version(self) -> str:
        return self.policy.model_version

    async def act(self, episode: EpisodeView) -> Decision:
        """Do the candidate with the highest score; of equal ones the one that was sampled most often, then first.

        The first candidate is the decision that the policy alone would make. The process reward model is asked only
        if candidates differ; one that it gives no score loses. Raises ModelFailure if a model did not answer.
        """
        drawn = await side_by_side(self.policy.act(episode, draw=number) for number in range(self.candidates))
        counts = Counter(each.action for each in drawn if each.action is not None)
        calls = tuple(call for each in drawn for call in each.calls)
        if len(counts) < 2:
            chosen = next((each for each in drawn if each.action is not None), drawn[0])
            return replace(chosen, calls=calls, reply_tokens=None)
        rated = await side_by_side(self._rate(episode, action) for action in counts)
        scores = {
            action: -1.0 if reply.said is None else expected_score(reply.said, reply.calls[-1].completion)
            for action, reply in zip(counts, rated, strict=True)
        }
        best = max(counts, key=lambda action: (scores[action], counts[action]))
        lines = (f"{scores[action]:.3f} {action.model_dump_json()}" for action in counts)
        return replace(
            next(each for each in drawn if each.action == best),
            role_outputs={"candidates": "\n".join(lines)},
            calls=(*calls, *(call for reply in rated for call in reply.calls)),
            # The policy alone does not choose so: the log probabilities are those of another distribution.
            reply_tokens=None,
        )

    async def _rate(self, episode: EpisodeView, action: Action) -> RoleReply[StepLabel]:
        done = [decision.conclusion for decision in episode.history]
        fields = prm_fields(episode.instruction, done, action, episode.observation.screen.size)
        return await self.prm.ask(episode, read_label, (episode.observation,), **fields)
