"""How the RL rows of a round are made, `[rl]`, and how further kinds of data are derived, `[derive]`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.spec import OPERATIONAL, Fraction, Spec
from trajmill.stages.derive.kind_spec import KindSpec
from trajmill.stages.models.prompts import Prompt, load_prompt
from trajmill.stages.parts import PartGroup

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
    """Whether a success of an earlier round replaces one random attempt of a group, if all of its two or more attempts
    failed; it had no guidance."""
    tokens: bool = True
    """Whether requests to a served policy ask for the tokens of replies and their log probabilities, as vLLM returns
    them. Replies without them then give no RL rows. Set it to false for servers without `return_token_ids`."""
    max_staleness: Annotated[NonNegativeInt, OPERATIONAL] = 2
    """Largest number of policy versions between an attempt and the policy that trains on it; older attempts give no RL
    rows. Replayed successes may be older. Without `run.asynchronous`, only groups that waited for a judgement are
    older, by two versions at most unless you promote versions by hand."""


_PROMPTS: Final = {
    "rephrase": "writer_rephrase-1",
    "describe_action": "describer_action-1",
    "check_effect": "describer_effect-1",
    "think": "describer_think-1",
    "act": "describer_act-1",
    "merge": "writer_merge-1",
    "manual": "writer_manual-1",
    "plan": "writer_plan-1",
}
"""The packaged prompts, by the key of the user's file."""


class DerivePromptFiles(Spec):
    """Your prompt files for the models of `[derive]`."""

    rephrase: Path | None = None
    """For `derive.writer`, which rephrases grounding instructions."""
    describe_action: Path | None = None
    """For `derive.describer`, which describes an action from the screen before it."""
    check_effect: Path | None = None
    """For `derive.describer`, which votes on such a description."""
    think: Path | None = None
    """For `derive.describer`, which thinks before a step."""
    act: Path | None = None
    """For `derive.describer`, which acts on a thought alone."""
    merge: Path | None = None
    """For `derive.writer`, which merges the outputs of several agents into one thought."""
    manual: Path | None = None
    """For `derive.writer`, which writes the manual of a task from its successes."""
    plan: Path | None = None
    """For `derive.writer`, which plans a task without a success from the task alone."""

    def load(self) -> dict[str, Prompt]:
        """Return the prompts by key, packaged ones where the user has no file.

        Raises:
            BadInputError: a file cannot be read, or misses a section or a field.
        """
        return {key: load_prompt("trajmill.stages.derive", name, getattr(self, key)) for key, name in _PROMPTS.items()}


class StepDataSpec(KindSpec):
    """Step data with the signals of CODA's judge: `trajmill derive step`."""

    name: ClassVar[str] = "step"
    version: ClassVar[str] = "3"
    deriver: ClassVar[str] = "trajmill.stages.derive.step_data:StepData"

    failed: bool = True
    """Whether steps of failed trajectories before their first error are used."""


class GroundingSpec(KindSpec):
    """Grounding from the accessibility trees of the screens that agents saw: `trajmill derive grounding`."""

    name: ClassVar[str] = "grounding"
    version: ClassVar[str] = "3"
    deriver: ClassVar[str] = "trajmill.stages.derive.grounding.deriver:Grounding"
    once_per_screen: ClassVar[bool] = True
    roles: ClassVar[tuple[str, ...]] = ("writer",)
    prompts: ClassVar[tuple[str, ...]] = ("rephrase",)

    instructions: tuple[Literal["functional", "appearance", "layout"], ...] = ("functional", "appearance", "layout")
    """The sorts of instructions: what an element is for, how it looks, where it stands."""
    smallest: PositiveInt = 8
    """Smallest width and height of an element, in pixels."""
    dense_from: NonNegativeInt = 12
    """Number of elements at which a screen is cut into regions; rows then show one region. 0 cuts none."""
    region_elements: PositiveInt = 8
    """Most elements of a region."""
    ocr: Literal["", "rapidocr"] = ""
    """OCR engine for instructions that name a word or a character: `rapidocr` (extra `ocr`), some seconds per
    screen. Empty disables OCR."""
    detector: str = ""
    """Address of an OmniParser server, which finds elements in pixels; elements and lines of text that it does not
    find are refused. Not used if empty."""
    overlap: Fraction = 0.5
    """Smallest overlap (intersection over union) of an element with a box of the detector (the paper's 0.5)."""

    def refuse_without(self, models: dict[str, str], embedded: str) -> None:
        """Also check that the package for OCR is installed where it is used."""
        super().refuse_without(models, embedded)
        if self.ocr and importlib.util.find_spec("rapidocr_onnxruntime") is None:
            raise BadInputError("derive.grounding.ocr needs rapidocr: pip install 'trajmill[ocr]', or leave it empty")


class GroundingRLSpec(GroundingSpec):
    """Grounding that the policy does by luck, for RL (GUI-Owl 3.1.2): `trajmill derive grounding_rl`."""

    name: ClassVar[str] = "grounding_rl"
    version: ClassVar[str] = "1"
    deriver: ClassVar[str] = "trajmill.stages.derive.grounding.deriver:PartlyHit"
    roles: ClassVar[tuple[str, ...]] = ("writer", "policy")

    samples: Annotated[int, Field(ge=2)] = 8
    """Presses of the policy for each instruction; those that it hits with some, not with none or all, are kept."""

    def refuse_without(self, models: dict[str, str], embedded: str) -> None:
        """Also check that the policy is a model that reads images."""
        super().refuse_without(models, embedded)
        if models["policy"] == embedded:
            raise BadInputError("derive grounding_rl asks the policy: map models.policy to an [endpoints.NAME]")


class RolesSpec(KindSpec):
    """What the roles of agents said in accepted trajectories: `trajmill derive roles`."""

    name: ClassVar[str] = "roles"
    version: ClassVar[str] = "2"
    deriver: ClassVar[str] = "trajmill.stages.derive.role_rows:RoleRows"
    with_calls = True


class CesDataSpec(KindSpec):
    """Rows that warm up a Coordinator and a State Tracker, from any agent's trajectories: `trajmill derive ces`."""

    name: ClassVar[str] = "ces"
    version: ClassVar[str] = "6"
    deriver: ClassVar[str] = "trajmill.stages.derive.ces_rows:CesRows"


class CodaDataSpec(KindSpec):
    """What Planners thought in clean successes, for a generalist: `trajmill derive coda`."""

    name: ClassVar[str] = "coda"
    version: ClassVar[str] = "2"
    deriver: ClassVar[str] = "trajmill.stages.derive.role_rows:CodaRows"
    with_calls = True


class RftDataSpec(KindSpec):
    """Candidates of T-RFT that a process reward lets through: `trajmill derive rft`."""

    name: ClassVar[str] = "rft"
    version: ClassVar[str] = "3"
    deriver: ClassVar[str] = "trajmill.stages.derive.step_data:RftRows"

    least_reward: Fraction = 0.8
    """Least process reward of a candidate: the mean score of its steps, where GOOD is 1, NEUTRAL 0.5, HARMFUL 0."""


class JudgeDataSpec(KindSpec):
    """What critics said of attempts with a known outcome, where they were right: `trajmill derive judge`."""

    name: ClassVar[str] = "judge"
    deriver: ClassVar[str] = "trajmill.stages.derive.role_rows:JudgeRows"
    with_calls: ClassVar[bool | Literal["critics"]] = "critics"
    trains_policy: ClassVar[bool] = False


class PrmDataSpec(KindSpec):
    """Candidate actions, labelled by the step critic or branches, for a reward model: `trajmill derive prm`."""

    name: ClassVar[str] = "prm"
    version: ClassVar[str] = "2"
    with_branches = True
    deriver: ClassVar[str] = "trajmill.stages.derive.role_rows:PrmRows"
    trains_policy: ClassVar[bool] = False


class ForksSpec(KindSpec):
    """Where failed attempts left the way of a success of their group: `trajmill derive forks`."""

    name: ClassVar[str] = "forks"
    version: ClassVar[str] = "2"
    deriver: ClassVar[str] = "trajmill.stages.derive.forks:Forks"
    once_per_failure: ClassVar[bool] = True


class ActionSemanticsSpec(KindSpec):
    """Action semantics from the screens before and after each step: `trajmill derive action_semantics`."""

    name: ClassVar[str] = "action_semantics"
    version: ClassVar[str] = "3"
    deriver: ClassVar[str] = "trajmill.stages.derive.semantics:ActionSemantics"
    equal_words: ClassVar[int | None] = None
    roles: ClassVar[tuple[str, ...]] = ("describer",)
    prompts: ClassVar[tuple[str, ...]] = ("describe_action", "check_effect")

    candidates: PositiveInt = 2
    """Number of descriptions that a model writes for an action."""
    votes: PositiveInt = 3
    """Number of votes on whether a description fits what changed."""
    agree_from: Annotated[Fraction, Field(gt=0)] = 0.6
    """Smallest share of votes to keep a description; the one with most votes is kept."""


class ReasoningSpec(KindSpec):
    """Thoughts for the steps of correct trajectories, written and checked by models: `trajmill derive reasoning`."""

    name: ClassVar[str] = "reasoning"
    version: ClassVar[str] = "2"
    deriver: ClassVar[str] = "trajmill.stages.derive.reasoning:Reasoning"
    roles: ClassVar[tuple[str, ...]] = ("describer", "writer")
    needs: ClassVar[tuple[str, ...]] = ("describer",)
    prompts: ClassVar[tuple[str, ...]] = ("think", "act", "merge")

    sources: tuple[Literal["offline", "agents", "online"], ...] = ("offline", "agents", "online")
    """`offline`: `derive.describer` rewrites it. `agents`: `derive.writer` merges what the roles of a multi-agent
    framework said. `online`: the policy's own thought, if a model wrote it."""
    styles: Annotated[tuple[str, ...], Field(min_length=1)] = (
        "Go through it in this order: what the screen shows, what is done so far, what is missing, what to do now.",
        "Think as briefly as you can: one short sentence.",
        "Weigh two things that could be done now against each other, then choose.",
    )
    """Styles of thoughts; each step starts with another one."""
    tries: PositiveInt = 2
    """Number of thoughts to try before the model gets the right action as a hint, for its last try."""


class PlanningSpec(KindSpec):
    """Manuals of tasks, from the correct trajectories of a round: `trajmill derive planning`."""

    name: ClassVar[str] = "planning"
    version: ClassVar[str] = "5"
    deriver: ClassVar[str] = "trajmill.stages.derive.planning.deriver:Planning"
    once_per_task: ClassVar[bool] = True
    roles: ClassVar[tuple[str, ...]] = ("writer",)
    prompts: ClassVar[tuple[str, ...]] = ("manual", "plan")

    successes: PositiveInt = 3
    """Largest number of successes of a task that a manual is written from: of other queries first, then unguided,
    then shortest. Without a writer they are compared, and one that also holds for other values becomes the manual."""
    distil: bool = False
    """Whether `derive.writer` also plans tasks that no attempt of the round solved, from the task alone; the
    variant is `distilled` until a trial shows that the plan helps."""
    trials: NonNegativeInt = 8
    """Training queries on which the round's policy tries a manual, each with and without it on the same seed. A
    manual that does not raise success is refused. 0 makes no attempts, and compares stored guided attempts."""

    def refuse_without(self, models: dict[str, str], embedded: str) -> None:
        """Also check that there is a writer where plans are distilled."""
        super().refuse_without(models, embedded)
        if self.distil and models["writer"] == embedded:
            raise BadInputError(
                "derive.planning.distil asks a model: set derive.writer to the NAME of an [endpoints.NAME]"
            )


DERIVE_KINDS: Final = PartGroup(
    "trajmill.derive_kinds",
    "derived data",
    {
        spec.name: f"{__name__}:{spec.__name__}"
        for spec in (
            *(StepDataSpec, GroundingSpec, GroundingRLSpec, ActionSemanticsSpec, ReasoningSpec, PlanningSpec),
            *(RolesSpec, CesDataSpec, CodaDataSpec, RftDataSpec, ForksSpec, JudgeDataSpec, PrmDataSpec),
        )
    },
)


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
    grounding_rl: GroundingRLSpec = GroundingRLSpec()
    roles: RolesSpec = RolesSpec()
    ces: CesDataSpec = CesDataSpec()
    coda: CodaDataSpec = CodaDataSpec()
    rft: RftDataSpec = RftDataSpec()
    forks: ForksSpec = ForksSpec()
    judge: JudgeDataSpec = JudgeDataSpec()
    prm: PrmDataSpec = PrmDataSpec()
    action_semantics: ActionSemanticsSpec = ActionSemanticsSpec()
    reasoning: ReasoningSpec = ReasoningSpec()
    planning: PlanningSpec = PlanningSpec()
    kinds: dict[str, dict[str, Any]] = {}
    """Settings of the kinds of your own package, by kind, e.g. `[derive.kinds.my_kind]`."""

    def kind(self, name: str) -> KindSpec:
        """Return the spec of a kind.

        Raises:
            BadInputError: there is no such kind, its package cannot be imported, or a setting is wrong.
        """
        if name in DERIVE_KINDS.built_in:
            spec: KindSpec = getattr(self, name)
            return spec
        return DERIVE_KINDS.default_spec(name, KindSpec, self.kinds.get(name))
