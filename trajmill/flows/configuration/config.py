"""The configuration of a run, as one TOML file gives it; the defaults are the default job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from trajmill.flows.configuration.sections import (
    EMBEDDED,
    POLICY_ROLE,
    AtomicSection,
    ModelsSection,
    NotifySection,
    PathwaysSection,
    PromptsSection,
    ServeSection,
)
from trajmill.flows.configuration.tables import ByKind, KeyPath
from trajmill.pipelines.fan_out import BeamSettings
from trajmill.schemas.dialects.families import ANY, Family
from trajmill.schemas.names import known_by
from trajmill.schemas.record import content_id
from trajmill.schemas.secrets import Secrets
from trajmill.schemas.spec import LATER, OPERATIONAL, Fraction, Spec, With
from trajmill.stages.agents.spec import AGENTS, OFF_ROLE, POLICY_MODEL, AgentSpec, EndToEndSpec
from trajmill.stages.critics.spec import JudgeSpec
from trajmill.stages.curate.diversity import Quotas
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.derive.spec import DeriveSpec, RLSpec
from trajmill.stages.environments.kinds import ENVIRONMENTS, SimulatedSpec
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.export.exporter import exporter_spec
from trajmill.stages.graphs.explore.spec import ExploreSpec
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.models.spec import MODELS, Endpoint, ModelSpec
from trajmill.stages.queries.spec import QUERY_SOURCES, CausalSpec, GraphQueriesSpec, GraphSourceSpec, QuerySourceSpec
from trajmill.stages.training.embedded.spec import EmbeddedSftSpec
from trajmill.stages.training.spec import RECIPES, RecipeSpec
from trajmill.warehouse.store.base import Root, local_folder

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=40)]
OWN_JUDGE = "judge"
"""Name of the judge of the run itself, beside those of `[judges.NAME]`."""

REQUEST_CACHE = "request-cache"
"""Folder of the request cache within a warehouse; it may be deleted at any time."""
PROBES = 0.75
"""Share of the unguided attempts that dynamic sampling makes before it looks at their outcomes."""
_MOST_ROUNDS = 9999
"""The names of a round's files have four digits."""


class RunSection(Spec):
    """What to run, and where its rows go."""

    name: Name = "default"
    """Name of the run: lower-case letters, digits, `-` and `_`."""
    seed: NonNegativeInt = 0
    """Seed of everything random; equal seeds give equal runs."""
    rounds: Annotated[int, Field(gt=0, le=_MOST_ROUNDS), OPERATIONAL] = 8
    """Number of rounds after which `evolve` stops."""
    root: Annotated[Root, OPERATIONAL] = Path("trajmill-data")
    """Folder of the warehouse, or a URL such as `s3://bucket/nightly`, `gs://...` or `abfs://...`, whose credentials
    come from the environment."""
    asynchronous: Annotated[bool, OPERATIONAL] = False
    """Whether the next round's attempts are made and judged while the policy trains, by the policy in force then."""


class QueriesSection(GraphQueriesSpec):
    """How many queries the first round generates for each split, and how many tasks each round proposes."""

    example_tasks: Path | None = None
    """Tasks that people wrote, to propose new ones from. One JSON object a line: `{"instruction": "Order me a pizza",
    "platform": "phone", "apps": ["bites"]}`, and `start_state` if it is not the environment's default."""
    curriculum: NonNegativeInt = 0
    """Training tasks that `models.writer` proposes in each round from the example tasks and the success so far."""
    fresh: Annotated[NonNegativeInt, LATER] = 0
    """New training queries of each later round, from navigation graphs, as difficult as the success so far allows."""
    harder_above: Annotated[Fraction, With("fresh")] = 0.7
    """Success at a difficulty from which `fresh` adds queries of the next one."""
    screenshot: NonNegativeInt = 0
    """Training tasks that `models.writer`, which must read images, proposes in each round from first screens."""
    try_proposals: Annotated[bool, LATER] = False
    """Whether the policy tries each proposed task first; training gets those whose attempt the run's judge accepts."""


class RolloutSection(Spec):
    """How the policy is rolled out to collect trajectories."""

    episodes_per_round: PositiveInt = 600
    """Episodes in each round, guided ones included."""
    group_size: PositiveInt = 2
    """Unguided attempts at each chosen query: the group that RL compares. With 1 a release has no RL rows; larger
    groups mean fewer queries, not more attempts."""
    largest_group: Annotated[NonNegativeInt, LATER] = 0
    """Dynamic sampling: most unguided attempts at a query whose first `group_size` have both succeeded and failed. A
    quarter of the round's unguided attempts goes there, or to other queries. 0 gives all queries `group_size`."""
    branches: Annotated[NonNegativeInt, LATER] = 0
    """Attempts from the last good screen of a failed attempt, at each query without a success; 0 makes none."""
    branch_share: Annotated[Fraction, With("branches")] = 0.3
    """Largest share of a round's episodes that may be branches."""
    probe: Annotated[NonNegativeInt, LATER] = 0
    """Longest probe in actions: after an attempt, it visits the pages of the app's graph that must show the effect. Its
    screens are evidence for the judge's channel `probe`, never steps. 0 disables it."""
    concurrency: Annotated[PositiveInt, OPERATIONAL] = 128
    """Episodes that one worker runs at the same time."""
    temperature: PositiveFloat = 1.0
    """Sampling temperature of the policy; evaluation is greedy."""
    max_seconds: PositiveFloat = 300.0
    """Time limit of one episode, from its first screen to the agent's last step."""
    environment_tries: PositiveInt = 3
    """Tries of an attempt, each on a fresh environment, before its failure is stored."""
    step_seconds: PositiveFloat = 30.0
    """Time limit of one action; an environment that takes longer is replaced."""
    recycle_after: PositiveInt = 1000
    """Episodes after which an environment is replaced."""
    workers: Annotated[PositiveInt, OPERATIONAL] = 1
    """Processes of this machine that work side by side, this one included, each with `concurrency` episodes; elsewhere
    the least number of shards."""
    store_after: Annotated[PositiveInt, OPERATIONAL] = 16
    """Finished episodes that a worker stores in a bucket at once. If it is killed, it loses at most these; in a folder
    each episode is stored as it ends."""
    store_seconds: Annotated[PositiveFloat, OPERATIONAL] = 30.0
    """Longest time in seconds before it stores them."""


class JudgeSection(JudgeSpec):
    """How trajectories and steps are judged."""

    precision_floor: Fraction = 0.8
    """A round whose judge has a lower precision does not train."""
    filter_steps: bool = True
    """Whether steps that the step critic finds useless are dropped from training data."""


class NamedJudgeSection(JudgeSpec):
    """Another judge, for `trajmill judge --again` and `trajmill calibrate`; it decides no rows of the run."""

    step: str = ""
    """The endpoint that judges each step; that of `models.critic` if empty."""
    text: tuple[str, ...] = ()
    """The endpoints that vote in the text channel; those of `models.critic` if empty."""
    multimodal: tuple[str, ...] = ()
    """The endpoints that vote in the multimodal channel; those of `models.critic` if empty."""


class GuidanceSection(Spec):
    """Second chances for queries that failed."""

    enabled: bool = True
    """Whether failed queries get guidance."""
    after_failures: NonNegativeInt = 1
    """Failed attempts after which a query gets guidance; 0 also guides queries that were never attempted."""
    share: Fraction = 0.5
    """Largest share of a round's episodes that may be guided. Queries with `train.keep_per_query` successes get no more
    hints; the next round spends what is left on larger groups of queries that were learned from and still fail."""
    demonstrate: bool | Literal["explorer"] = False
    """Whether the reference agent makes the guided attempts, for a policy that cannot follow hints yet; `explorer`: the
    untrained embedded policy, which needs no reference path. Accepted steps become training data."""


class ReleaseSection(Spec):
    """What a release is made of."""

    formats: Annotated[tuple[str, ...], known_by(exporter_spec)] = ("trl", "verl")
    """Formats of its rows."""
    quotas: Annotated[Quotas, LATER] = {}
    """Largest share of the supervised rows that one value of an aspect may have, e.g. `{ app = 0.2, thought = 0.5 }`;
    surplus rows are left out. Aspects: `thought` (its skeleton), `action`, `x` and `y` (tenths of the screen),
    `platform`, `app`, `task`, `steps`, `ending`, `words`."""


class EvaluateSection(Spec):
    """How an old and a new policy are compared."""

    episodes: PositiveInt = 60
    """Greedy episodes on each held-out split."""
    train_sample: NonNegativeInt = 60
    """Greedy episodes on training queries. They help to decide if there are fewer than 40 validation queries."""
    level: Annotated[float, Field(gt=0, lt=1)] = 0.01
    """Significance level of each paired test, two for each group of queries: a new policy is refused if it is
    significantly worse in one. A higher level refuses more; 0.5 refuses whatever loses more queries than it wins."""
    promote_without_evidence: bool = False
    """Whether a new policy is promoted if neither policy solves a deciding query; for trials with weak models."""


class RetentionSection(Spec):
    """What to keep in an old warehouse."""

    unused_days: NonNegativeFloat = 7.0
    """Age in days at which unreferenced files are deleted."""
    releases: NonNegativeInt = 0
    """Number of newest releases to keep for the run; 0 keeps all."""


class Config(Spec):
    """A whole configuration."""

    run: RunSection = RunSection()
    environment: Annotated[EnvironmentSpec, ByKind(ENVIRONMENTS, "simulated")] = SimulatedSpec()
    queries: QueriesSection = QueriesSection()
    rollout: RolloutSection = RolloutSection()
    judge: JudgeSection = JudgeSection()
    rl: RLSpec = RLSpec()
    guidance: GuidanceSection = GuidanceSection()
    agent: Annotated[AgentSpec, ByKind(AGENTS, "end_to_end")] = EndToEndSpec()
    curate: CurateSpec = CurateSpec()
    train: Annotated[RecipeSpec, ByKind(RECIPES, "embedded-sft")] = EmbeddedSftSpec()
    release: ReleaseSection = ReleaseSection()
    evaluate: EvaluateSection = EvaluateSection()
    models: ModelsSection = ModelsSection()
    prompts: PromptsSection = PromptsSection()
    endpoints: Annotated[dict[Name, Annotated[ModelSpec, ByKind(MODELS, "openai_api")]], OPERATIONAL] = {}
    """The models that roles can be mapped to, by name."""
    judges: Annotated[dict[Name, NamedJudgeSection], OPERATIONAL] = {}
    """Judges beside the one that decides, by name."""
    recipes: Annotated[dict[Name, Annotated[RecipeSpec, ByKind(RECIPES, "trl-sft")]], OPERATIONAL] = {}
    """Recipes for models beside the policy, such as a judge, by name: `trajmill train --recipe NAME`."""
    pathways: PathwaysSection = PathwaysSection()
    atomic: AtomicSection = AtomicSection()
    graphs: GraphSourceSpec = GraphSourceSpec()
    causal: CausalSpec = CausalSpec()
    sources: dict[Name, Annotated[QuerySourceSpec, ByKind(QUERY_SOURCES, "")]] = {}
    """Sources of queries from other packages, by name."""
    derive: Annotated[DeriveSpec, OPERATIONAL] = DeriveSpec()
    explore: Annotated[ExploreSpec, OPERATIONAL] = ExploreSpec()
    beam: Annotated[BeamSettings, OPERATIONAL] = BeamSettings()
    serve: Annotated[ServeSection, OPERATIONAL] = ServeSection()
    retention: Annotated[RetentionSection, OPERATIONAL] = RetentionSection()
    notify: Annotated[NotifySection, OPERATIONAL] = NotifySection()

    def identity(self) -> dict[str, Any]:
        """Return everything that decides rows; files count by their contents, roles by their models.

        What is operational does not count, so a run can be prolonged, moved, sped up and judged again. Nor does the
        policy, which changes within a run.
        """
        models: dict[str, list[object]] = {}
        for keys, name in self.asked_endpoints():
            if keys != POLICY_ROLE:
                models.setdefault(".".join(keys), []).append(self.identity_behind(name))
        asked = {
            "pathways": self.pathways.queries or self.pathways.written,
            "atomic": self.atomic.wanted,
            "graphs": self.graphs.files or self.graphs.any_wanted,
            "causal": self.causal.any_wanted,
            "sources": self.sources,
        }
        decisive = super().identity() | {"models": models}
        return {key: value for key, value in decisive.items() if asked.get(key, True)}

    def secrets(self, variables: Mapping[str, str]) -> Secrets:
        """Return the keys of the endpoints and of `[notify]`, and all others that environment variables hold."""
        served = [spec for spec in self.endpoints.values() if isinstance(spec, OpenAiSpec)]
        keys = [variables.get(spec.api_key_variable, "") for spec in served]
        addresses = [url for spec in served for url in spec.addresses]
        return Secrets.of(variables, *keys, self.notify.webhook, self.notify.heartbeat, urls=addresses)

    def identity_behind(self, endpoint: str) -> object:
        """Return what decides the replies of an endpoint; the name itself if it is not in `[endpoints]`."""
        return self.endpoints[endpoint].identity() if endpoint in self.endpoints else endpoint

    @property
    def guided_episodes(self) -> int:
        return int(self.rollout.episodes_per_round * (self.guidance.share if self.guidance.enabled else 0.0))

    @property
    def branch_episodes(self) -> int:
        return int(self.rollout.episodes_per_round * self.rollout.branch_share) if self.rollout.branches else 0

    @property
    def unguided_episodes(self) -> int:
        return self.rollout.episodes_per_round - self.guided_episodes - self.branch_episodes

    @property
    def first_episodes(self) -> int:
        """Unguided attempts before a round knows at which queries outcomes are mixed."""
        return int(self.unguided_episodes * (PROBES if self.rollout.largest_group else 1.0))

    @property
    def run_id(self) -> str:
        """Name of the run and a hash of its identity; reads the user's files."""
        return f"{self.run.name}-{content_id(self.identity())[:8]}"

    def asked_endpoints(self) -> Iterator[tuple[KeyPath, str]]:
        """Yield each key that names an endpoint of the run, with the name."""
        yield from self.models.roles()
        for role, name in self.agent.roles().items():
            if name not in (OFF_ROLE, POLICY_MODEL):
                yield ("agent", role), name
        for role, name in self.train.roles().items():
            yield ("train", role), name
        kind = self.train.learns_kind
        for role in self.derive.kind(kind).roles if kind else ():
            if name := getattr(self.derive, role):
                yield ("derive", role), name
        if self.pathways.second_opinion:
            yield ("pathways", "second_opinion"), self.pathways.second_opinion


def model_of(config: Config, name: str) -> Endpoint:
    return Endpoint(config.endpoints[name], local_folder(config.run.root) / REQUEST_CACHE)


def model_or_none(config: Config, name: str) -> Endpoint | None:
    return None if name == EMBEDDED else model_of(config, name)


def policy_family(config: Config) -> Family:
    policy = config.models.policy
    return ANY if policy == EMBEDDED else config.endpoints[policy].vision_family


def policy_gives_tokens(config: Config) -> bool:
    policy = config.models.policy
    return config.rl.tokens and policy != EMBEDDED and config.endpoints[policy].gives_tokens
