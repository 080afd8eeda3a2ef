"""Derives rows of one kind from the stored trajectories of a run (`trajmill derive KIND`).

A batch is the trajectories of one round that the kind, with its settings and models, has not been derived from yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow.compute as pc

from trajmill.flows.batches import Batches
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.model_specs import model_of
from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.flows.deriving.manual_trials import with_tried_manuals
from trajmill.flows.deriving.sources import sources_of_round, tasks_of_round
from trajmill.flows.serving.models_ready import models_ready
from trajmill.flows.stage import RoundContext
from trajmill.pipelines.derive import DerivedFrom, DeriveKind
from trajmill.pipelines.fan_out import WrittenFiles, divide
from trajmill.pipelines.models import Endpoint
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import instead_of
from trajmill.schemas.record import content_id
from trajmill.stages.derive.collected import Maker
from trajmill.stages.derive.kind_spec import GuidanceLift, KindSpec
from trajmill.stages.derive.spec import DERIVE_KINDS, PlanningSpec
from trajmill.warehouse.layout import StageRun, create_warehouse
from trajmill.warehouse.lock import sole_worker
from trajmill.warehouse.staged_screens import write_screens
from trajmill.warehouse.views import refresh_views

_ID_DIGITS = 8
_MOST_IN_SHARD = 200
"""Trajectories of one shard; the rows of a shard are in memory together."""


class DerivedData(NamedTuple):
    trajectories: int
    examples: int
    failures: int
    refused: Mapping[str, int]


@dataclass(frozen=True)
class KindOfRun:
    """A kind with its settings and models, as a configuration describes it."""

    spec: KindSpec
    models: dict[str, str]
    """Name of the endpoint by role, for the roles that the kind may use."""
    made_by: str
    """Version on the rows: of the kind, with a hash of its settings and models."""

    def endpoint(self, config: Config, role: str) -> Endpoint | None:
        """The model of a role; None if the kind does not use it, or if it is embedded."""
        name = self.models.get(role, EMBEDDED)
        return None if name == EMBEDDED else model_of(config, name)


def kind_named(config: Config, name: str) -> KindOfRun:
    """Return a kind as the configuration describes it.

    Raises:
        BadInputError: there is no such kind, an endpoint is not defined, or a model is missing that it needs.
    """
    spec = config.derive.kind(name)
    usual = {"writer": config.models.writer, "describer": config.models.describer}
    models = {role: getattr(config.derive, role) or usual[role] for role in spec.roles}
    for role, endpoint in models.items():
        if endpoint != EMBEDDED and endpoint not in config.endpoints:
            advice = instead_of(endpoint, [EMBEDDED, *config.endpoints])
            raise BadInputError(f"derive.{role}: there is no [endpoints.{endpoint}]; {advice}")
    spec.refuse_without(models, EMBEDDED)
    asked = {role: EMBEDDED if at == EMBEDDED else config.endpoints[at].identity() for role, at in models.items()}
    prompts = config.derive.prompts.load()
    texts = [list(prompts[key]) for key in spec.prompts]
    settings = content_id(spec.identity(), asked, texts, config.run.seed)[:_ID_DIGITS]
    return KindOfRun(spec, models, f"derive.{name}/{spec.version}-{settings}")


def kinds_in_force(config: Config) -> frozenset[str]:
    """The versions on the rows of all kinds, as the configuration describes them now; a release takes only these."""
    found = set()
    for name in DERIVE_KINDS.kinds():
        try:
            found.add(kind_named(config, name).made_by)
        except BadInputError:
            # A kind whose model is not configured has no rows.
            continue
    return frozenset(found)


def derive_kind(config: Config, name: str) -> DerivedData:
    """Derive a kind from all judged training trajectories of the run that it was not derived from yet.

    Raises:
        BadInputError: there is no such kind, a model is missing, or the run has no judged trajectory.
        RunInUseError: another process works on the run.
    """
    kind = kind_named(config, name)
    warehouse = create_warehouse(config.run.root)
    context = RoundContext(config, warehouse, 0)
    newest = pc.max(context.read("judgements", ["round"])["round"]).as_py()
    if newest is None:
        raise BadInputError(
            f"run {context.run_id} in {warehouse.address} has no judged trajectory; run `trajmill evolve` first"
        )
    with sole_worker(warehouse, context.run_id), ExitStack() as models:
        models.enter_context(models_ready(config, warehouse.run(context.run_id), kind.models.values()))
        if isinstance(kind.spec, PlanningSpec) and kind.spec.trials:
            # The policy and the roles of its agent try the manuals.
            models.enter_context(models_ready(config, warehouse.run(context.run_id)))
        done = _derive_rounds(context, kind, range(1, newest + 1))
    refresh_views(warehouse)
    return done


def derive_in_round(context: RoundContext, name: str) -> DerivedData:
    """Derive a kind from the judged trajectories of the rounds so far, as a stage of a run that is locked.

    Raises:
        BadInputError: there is no such kind, or a model is missing.
    """
    return _derive_rounds(context, kind_named(context.config, name), range(1, context.round + 1))


def _derive_rounds(run: RoundContext, kind: KindOfRun, rounds: Iterable[int]) -> DerivedData:
    config, spec, refused = run.config, kind.spec, Counter[str]()
    counts = Counter[str]()

    def derive_round(context: RoundContext) -> None:
        def remaining(finished: Sequence[Mapping[str, Any]]) -> list[DerivedFrom]:
            done = {trajectory_id for batch in finished for trajectory_id in batch["trajectories"]}
            if isinstance(spec, PlanningSpec):
                return tasks_of_round(context, done, spec)
            return sources_of_round(context, done, spec.once_per_screen)

        def work(at: StageRun, batch: Sequence[Sequence[Any]]) -> WrittenFiles:
            job = DeriveKind(
                context.warehouse,
                at,
                context.origin,
                Maker(spec.name, kind.made_by, context.origin),
                spec,
                rounds=(context.round,),
                prompts=config.derive.prompts.load(),
                writer=kind.endpoint(config, "writer"),
                describer=kind.endpoint(config, "describer"),
                curate=config.curate,
                concurrency=config.derive.concurrency,
            )
            sources = [_source(*values) for values in batch]
            made = context.fan_out(at, divide(sources, config.rollout.workers, _MOST_IN_SHARD), job)
            if isinstance(spec, PlanningSpec) and spec.trials:
                made = with_tried_manuals(context, at, made, spec.trials)
            counts.update(trajectories=len(sources), examples=made.rows("examples"), failures=made.rows("failures"))
            refused.update(made.dropped)
            crops = write_screens(context.warehouse, at, context.origin, kind.made_by)
            return WrittenFiles({**made.files, "screens": [crops]})

        stage = f"derive-{kind.made_by.partition('.')[2].replace('/', '-')}"
        Batches(context, stage, kind.made_by, f"derive {spec.name}").do(
            remaining, work, lambda batch: {"trajectories": [trajectory_id for trajectory_id, *_ in batch]}
        )

    for number in rounds:
        derive_round(run.in_round(number))
    return DerivedData(counts["trajectories"], counts["examples"], counts["failures"], dict(refused))


def _source(
    name: str, steps: list[int] | None, others: Sequence[str] = (), lift: tuple[float, float] | None = None
) -> DerivedFrom:
    compared = None if lift is None else GuidanceLift(*lift)
    return DerivedFrom(name, None if steps is None else tuple(steps), tuple(others), compared)
