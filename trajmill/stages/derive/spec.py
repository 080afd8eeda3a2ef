"""How the RL rows of a round are made, `[rl]`, and how further kinds of data are derived, `[derive]`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import NonNegativeInt, PositiveInt

from trajmill.schemas.spec import OPERATIONAL, Spec
from trajmill.stages.derive.grounding.spec import GroundingSpec
from trajmill.stages.derive.kind_spec import KindSpec
from trajmill.stages.derive.kinds import DERIVE_KINDS
from trajmill.stages.derive.planning.spec import PlanningSpec
from trajmill.stages.derive.prompt_files import DerivePromptFiles
from trajmill.stages.derive.reasoning.spec import ReasoningSpec
from trajmill.stages.derive.roles.spec import CesDataSpec, CodaDataSpec, RftDataSpec, RolesSpec
from trajmill.stages.derive.semantics.spec import ActionSemanticsSpec
from trajmill.stages.derive.step_data import StepDataSpec

StepWeight = Literal["inverse_length", "constant"]


class RLSpec(Spec):
    """How the RL rows of a round are made (paper 3.1.2)."""

    normalise: Literal["group", "batch"] = "group"
    """What a reward is compared with: the rewards of its group, or the running mean and deviation of all rewards so
    far. Earlier successes that replace failed attempts do not count in the latter."""
    step_weight: StepWeight = "inverse_length"
    """Weight of a step: one over the length of its trajectory, so that all trajectories weigh the same and a step of a
    long one counts less; or 1 for every step."""
    keep_without_spread: bool = False
    """Whether groups whose rewards are all equal give rows. Normalised within the group, their advantages are 0."""
    replay: bool = True
    """Whether a success of an earlier round replaces one attempt, drawn at random, where all attempts of a group of two
    or more failed."""
    replay_guided: bool = False
    """Whether that earlier success may have been made with guidance."""
    tokens: bool = True
    """Whether a served policy is asked for the tokens of its replies and their log probabilities, as vLLM gives them.
    Replies without them then give no RL rows. Set it to false for a server that does not know `return_token_ids`."""
    max_staleness: Annotated[NonNegativeInt, OPERATIONAL] = 2
    """How many policy versions an attempt may lie behind the policy that is trained on it; older ones give no RL rows.
    Successes that are replayed may be older. Without `run.asynchronous`, only groups that waited for a judgement lie
    behind, by two versions at most unless versions are put in force by hand."""
    carry_over: bool = True
    """Whether a group with an unjudged attempt waits for the round that judges it; if not, the group is used without
    that attempt."""


class DeriveSpec(Spec):
    """Data that is derived from stored trajectories, beside the examples that a round derives (see data.md)."""

    writer: str = ""
    """The endpoint of the language model that rephrases, merges and plans; that of `models.writer` if empty."""
    describer: str = ""
    """The endpoint of the vision-language model that describes and thinks; that of `models.describer` if empty."""
    concurrency: Annotated[PositiveInt, OPERATIONAL] = 16
    """Trajectories that one worker derives from at the same time."""
    prompts: DerivePromptFiles = DerivePromptFiles()
    step: StepDataSpec = StepDataSpec()
    grounding: GroundingSpec = GroundingSpec()
    roles: RolesSpec = RolesSpec()
    ces: CesDataSpec = CesDataSpec()
    coda: CodaDataSpec = CodaDataSpec()
    rft: RftDataSpec = RftDataSpec()
    action_semantics: ActionSemanticsSpec = ActionSemanticsSpec()
    reasoning: ReasoningSpec = ReasoningSpec()
    planning: PlanningSpec = PlanningSpec()
    kinds: dict[str, dict[str, Any]] = {}
    """By a kind of your own package, its settings, e.g. `[derive.kinds.my_kind]`."""

    def kind(self, name: str) -> KindSpec:
        """The spec of a kind.

        Raises:
            BadInputError: there is no such kind, its package cannot be imported, or a setting is wrong.
        """
        if name in DERIVE_KINDS.built_in:
            spec: KindSpec = getattr(self, name)
            return spec
        return DERIVE_KINDS.default_spec(name, KindSpec, self.kinds.get(name))
