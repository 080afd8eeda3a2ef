"""The specs of the agents, and their kinds."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, PositiveInt, model_validator

from trajmill.schemas.spec import LATER, OPERATIONAL, Spec
from trajmill.stages.parts import PartGroup

if TYPE_CHECKING:
    from trajmill.schemas.tables.query import Query
    from trajmill.stages.agents.base import AgentMaker, AgentModel


AGENTS: Final = PartGroup(
    "trajmill.agents",
    "agent",
    {
        "end_to_end": "trajmill.stages.agents.spec:EndToEndSpec",
        "explorer": "trajmill.stages.agents.spec:ExplorerSpec",
        "ces": "trajmill.stages.agents.ces.agent:CesSpec",
        "coda": "trajmill.stages.agents.coda.agent:CodaSpec",
        "light_manus": "trajmill.stages.agents.light_manus.agent:LightManusSpec",
        "mobile_agent_v3": "trajmill.stages.agents.mobile_agent_v3.agent:MobileAgentV3Spec",
        "reference": "trajmill.stages.agents.spec:ReferenceSpec",
    },
)


EMBEDDED_ROLE = "embedded"
"""In place of an endpoint: the rules that come with trajmill."""
OFF_ROLE = "off"
"""In place of an endpoint: the agent does without the role."""
POLICY_MODEL = "policy"
"""In place of an endpoint: the policy, in the version that is in force."""
_WITHOUT_ENDPOINT = frozenset({EMBEDDED_ROLE, OFF_ROLE, POLICY_MODEL})


def _acts(name: str) -> str:
    if name in (EMBEDDED_ROLE, OFF_ROLE):
        raise ValueError(f"no rules act in place of a model: name {POLICY_MODEL!r} or an [endpoints.NAME]")
    return name


ActingRole = Annotated[str, AfterValidator(_acts), OPERATIONAL]
"""Names the model of a role that acts: `policy`, or an endpoint."""


class AgentSpec(Spec):
    """The base of the specs of agents: `[agent]`."""

    role_names: ClassVar[tuple[str, ...]] = ()
    """The fields that name the endpoints of its further roles. They are operational, because the name of an endpoint
    decides nothing; its model is part of a run's identity."""

    def roles(self) -> dict[str, str]:
        """By role, the name of its endpoint, `embedded`, `off` or `policy`."""
        return {role: getattr(self, role) for role in self.role_names}

    def endpoint_roles(self) -> dict[str, str]:
        """By role, the name of its endpoint, without the roles that need none."""
        return {role: name for role, name in self.roles().items() if name not in _WITHOUT_ENDPOINT}

    @abstractmethod
    def open(self, model: AgentModel | None) -> AgentMaker:
        """Return a function that makes the agent for a query; all agents share one model.

        Raises ValueError if the kind uses a model and got None.
        """


class RolesSpec(AgentSpec):
    """The base of the specs of agents with several roles."""

    max_tokens: PositiveInt = 512
    """Longest reply of a role that acts, in tokens."""
    role_tokens: PositiveInt = 1024
    """Longest reply of each other role in tokens."""
    retry_malformed: bool = False
    """Whether a role whose reply is malformed is sampled once more, at temperature 1."""


class EndToEndSpec(AgentSpec):
    """An agent whose model sees the screen and answers with an action (paper 2.1)."""

    kind: Literal["end_to_end"] = "end_to_end"
    """One model sees the screen and answers with an action."""
    max_tokens: PositiveInt = 512
    """Longest reply in tokens."""
    candidates: Annotated[PositiveInt, LATER] = 1
    """Replies that are sampled at each step, of which `prm` chooses one."""
    prm: ActingRole = ""
    """The process reward model that chooses among `candidates`: the NAME of an `[endpoints.NAME]` that reads images, or
    `policy`. None if empty."""

    @model_validator(mode="after")
    def _has_a_choice(self) -> EndToEndSpec:
        if (self.candidates > 1) is not bool(self.prm):
            raise ValueError("should have both prm and candidates of 2 or more, or neither")
        return self

    def roles(self) -> dict[str, str]:
        return {"prm": self.prm} if self.prm else {}

    def open(self, model: AgentModel | None) -> AgentMaker:
        from trajmill.stages.agents.candidates import best_of_candidates
        from trajmill.stages.agents.end_to_end import EndToEndAgent

        asked = given_model(model)

        def alone(query: Query) -> EndToEndAgent:
            return EndToEndAgent(
                asked.model,
                query.platform,
                asked.temperature,
                family=asked.family,
                with_tokens=asked.with_tokens,
                max_tokens=self.max_tokens,
            )

        return best_of_candidates(alone, asked, self.candidates) if self.prm else alone


class ExplorerSpec(AgentSpec):
    """The untrained embedded policy: random, but it prefers elements that share words with the instruction.

    Before its first update the policy's distribution over actions is the exploration policy.
    """

    kind: Literal["explorer"] = "explorer"
    """The untrained embedded policy."""
    demonstrates: bool = False
    """Whether its steps become training data, with thoughts that read the rows of the screen as the family
    `read-aloud` does."""

    def open(self, model: AgentModel | None) -> AgentMaker:
        from trajmill.stages.agents.end_to_end import EndToEndAgent

        asked = given_model(model)

        return lambda query: EndToEndAgent(
            asked.model,
            query.platform,
            role="explorer",
            name="explorer",
            family=asked.family,
            reads_aloud=self.demonstrates,
        )


class ReferenceSpec(AgentSpec):
    """Walks the annotated path of its query; guidance is written from this walk (paper 6.4)."""

    kind: Literal["reference"] = "reference"
    """Walks the annotated path of its query, and asks no model."""
    demonstrates: bool = False
    """Whether its steps become training data, with a prompt and thoughts that read the rows of the screen as the
    family `read-aloud` does."""

    def open(self, model: AgentModel | None) -> AgentMaker:
        from trajmill.stages.agents.reference import ReferenceAgent

        return partial(ReferenceAgent, demonstrates=self.demonstrates)


class WalkerSpec(AgentSpec):
    """Tries an environment: walks the annotated path of a query, or explores if the query has none."""

    kind: Literal["walker"] = "walker"
    """Walks the annotated path of a query, or explores if it has none."""

    def open(self, model: AgentModel | None) -> AgentMaker:
        reference = ReferenceSpec().open(None)
        return lambda query: reference(query) if query.path else ExplorerSpec().open(model)(query)


def given_model(model: AgentModel | None) -> AgentModel:
    if model is None:
        raise ValueError("this kind of agent asks a model")
    return model
