"""The commands of policies: list, promote, roll back, compare, and add a version that another program has trained."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.flows.policies import policy as policies
from trajmill.flows.report.comparison import Comparison, compare_measured, measured_policies, write_comparison
from trajmill.flows.report.figures import run_views
from trajmill.flows.round import current_round, run_command
from trajmill.flows.serving.models_ready import working_on
from trajmill.flows.stage import RoundContext, StageOutcome, StageReport, finished, has_begun, report_of, run_once
from trajmill.flows.tasks.judge import GUIDED, judge_precision
from trajmill.flows.tasks.release import RELEASE
from trajmill.flows.tasks.rollout import ROLLOUT, attempt_all
from trajmill.flows.tasks.train import TRAIN, Training, chosen, measure_and_decide, measured_queries
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import the_one
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.policy_version import PolicyVersion
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.environments.kinds import AppFilesSpec
from trajmill.stages.environments.simulated.app_files.references import texts_of
from trajmill.stages.models.embedded.spec import EmbeddedSpec
from trajmill.stages.models.local.folder import TransformersSpec, folder_version, model_folder
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.rollout.base import plan_once
from trajmill.stages.training.admission import ADAPTER_CONFIG, NOT_ADMITTED, admit
from trajmill.warehouse.atomic import replacing_folder
from trajmill.warehouse.layout import StageRun, Warehouse, open_warehouse
from trajmill.warehouse.releases import publish_weights, read_release, seal_folder


class Addition(NamedTuple):
    model: str | None = None
    """The model name at the policy's server, or the folder of its weights."""
    adapter: Path | None = None
    """Folder of a LoRA adapter for the weights of the policy in force."""
    release: str | None = None
    """The release that it was trained on; None means the release of the round that waits, and none between rounds."""


class ListedPolicy(NamedTuple):
    row: PolicyVersion
    """Its newest decision."""
    made: int
    """The round that made it."""
    in_force: bool

    @property
    def validation(self) -> str:
        """Its success on the validation queries, e.g. `61/80`; empty if it was not measured."""
        of_split = (each for each in self.row.success if each.split == Split.VALIDATION)
        return next((f"{each.successes}/{each.queries}" for each in of_split), "")


def list_policies(config: Config) -> list[ListedPolicy]:
    """List all versions of the run, oldest first, with the newest decisions. Raises BadInputError if there are none."""
    context = _measured_run(config)
    in_force = policies.policy_before(context).version
    made = {row.model_version: row.round for row in sorted(context.rows(PolicyVersion), key=lambda row: -row.round)}
    versions = policies.policy_versions(context).items()
    listed = [ListedPolicy(row, made[version], version == in_force) for version, row in versions]
    return sorted(listed, key=lambda each: each.made)


def promote_policy(config: Config, version: str) -> StageReport:
    """Put a version in force. Raises BadInputError (unknown, in force, or a rollout is under way), RunInUseError."""
    context = _measured_run(config)
    with working_on(context):
        known = _known(context, version)
        if known.reason.startswith(NOT_ADMITTED):
            raise BadInputError(f"{known.model_version} is {known.reason}")
        return _choose(context, known, f"promoted by hand in place of {policies.policy_before(context).version}")


def roll_back_policy(config: Config) -> StageReport:
    """Put the parent in force. Raises BadInputError (it has none, or a rollout is under way), RunInUseError."""
    context = _measured_run(config)
    with working_on(context):
        old = _known(context, policies.policy_before(context).version)
        if old.parent is None:
            raise BadInputError(f"{old.model_version} has no parent to roll back to; `trajmill policy list` shows all")
        refused = old.model_copy(update={"promoted": False, "reason": f"rolled back to {old.parent} by hand"})
        reason = f"rolled back from {old.model_version} by hand"
        return _choose(context, _known(context, old.parent), reason, [refused])


def _known(context: RoundContext, version: str) -> PolicyVersion:
    versions = policies.policy_versions(context)
    return versions[the_one(version, versions, f"run {context.run_id} has no policy {version!r}")]


def _choose(
    context: RoundContext, version: PolicyVersion, reason: str, replaced: Sequence[PolicyVersion] = ()
) -> StageReport:
    if version.model_version == policies.policy_before(context).version:
        raise BadInputError(f"{version.model_version} is in force already")
    for rolled_out, stage in ((context, ROLLOUT), (context, GUIDED), (context.in_round(context.round + 1), ROLLOUT)):
        if has_begun(rolled_out, stage) and report_of(rolled_out, stage) is None:
            raise BadInputError(
                f"round {rolled_out.round} of run {context.run_id} is rolling out its policy; let `trajmill evolve` "
                "finish that first"
            )
    return policies.choose(context, lambda at: chosen(context, at, version, reason, replaced))


def _measured_run(config: Config) -> RoundContext:
    context = RoundContext(config, open_warehouse(config.run.root), 1)
    if report_of(context.in_round(0), policies.BASELINE) is None:
        raise BadInputError(f"run {context.run_id} has no policy yet; `trajmill evolve` begins with one")
    return current_round(config)


def add_and_evaluate(config: Config, added: Addition) -> StageReport:
    """Add a version to the round that waits for one, or between two rounds; measure it and decide on its promotion.

    Returns that decision, or what its evaluation waits for. Raises BadInputError (the policy is embedded, a round is
    under way, or the version is not named once, does not exist or was measured before), RunInUseError.
    """
    context = _measured_run(config)
    # A model server takes minutes to start, so everything that can be checked is checked first.
    if config.models.policy == EMBEDDED:
        raise BadInputError("models.policy is the embedded policy, which [train] trains; map it to an [endpoints.NAME]")
    if (added.model is None) == (added.adapter is None):
        raise BadInputError("name either a model (--model NAME) or an adapter (--adapter DIR)")
    if added.adapter is not None:
        if not (added.adapter / ADAPTER_CONFIG).is_file():
            raise BadInputError(
                f"{added.adapter} is no LoRA adapter: it has no {ADAPTER_CONFIG}; name one that PEFT saved"
            )
        kind = config.endpoints[config.models.policy]
        if not kind.takes_adapters:
            line = f"a model of kind {kind.kind!r} takes no adapter; add a folder of merged weights (--model)"
            raise BadInputError(line)
    with working_on(context, models=None):
        if report_of(context, RELEASE) is None or report_of(context, TRAIN) is not None:
            return _add_between_rounds(context, added)
        release = added.release or str(finished(context, RELEASE).result["release"])
        policy, in_force = _candidate(context, added, release), policies.policy_before(context)
        is_new = policy.version != in_force.version
        trained = Training(
            trained=is_new,
            reason="" if is_new else f"{policy.version} stays: no other policy was added",
            judge_precision=judge_precision(context),
            parent=in_force.version,
            release=release,
            recipe="{}",
            policy_row=policy,
            metrics=None,
        )
        run_once(context, TRAIN, lambda at: StageOutcome(1, int(is_new), result=trained.as_json()))
        return run_command("evaluate", context)


def _add_between_rounds(context: RoundContext, added: Addition) -> StageReport:
    """Measure a version before its round begins, and put it in force unless it is significantly worse."""
    before, in_force = policies.policy_before(context), policies.policy_in_force(context)
    if has_begun(context, ROLLOUT):
        raise BadInputError(
            f"round {context.round} of run {context.run_id} is under way with {before.version}; `trajmill evolve` goes "
            "on with it, and a version can be added where it awaits a policy, or at its end"
        )
    policy = _candidate(context, added, added.release)
    if policy.version == before.version:
        raise BadInputError(f"{policy.version} is in force already")

    def work(at: StageRun) -> StageOutcome:
        lineage: dict[str, Any] = {"parent": before.version, "release": added.release, "updates": in_force.updates}
        outcome = measure_and_decide(context, at, policy, **lineage)
        promoted, reason = outcome.result["promoted"], outcome.result["reason"]
        policies.release_unused(context, before if promoted else policy)
        kept = in_force.model_copy(update={"promoted": False, "reason": reason})
        return outcome if promoted else replace(outcome, result=kept.as_json())

    return policies.choose(context, work)


def _candidate(context: RoundContext, added: Addition, release: str | None) -> policies.Policy:
    """The version to add. If its server refuses it, this fails before anything is recorded."""
    spec, in_force = context.config.endpoints[context.config.models.policy], policies.policy_before(context)
    folder, adapter, acts = None, None, in_force.paths(context.warehouse).folder
    if added.adapter is not None:
        admit(added.adapter, acts)
        version = folder_version(added.adapter)
        folder, adapter = acts, _stored(context.warehouse, added.adapter, version)
    elif Path(version := str(added.model)).is_dir():
        folder = model_folder(Path(version).absolute())
        # Its trajectories have the version that the model itself reports.
        version = EmbeddedSpec(model=folder).version if spec.kind == EMBEDDED else folder_version(folder)
        # The folder in force may be named again: then nothing is added.
        admit(folder, None if version == in_force.version else acts)
        if not context.warehouse.store.is_local:
            folder = _stored(context.warehouse, folder, version)
    policy = policies.Policy.stored_in(context.warehouse, version, spec.kind, folder, adapter)
    if release is not None:
        read_release(context.warehouse, release)
    policies.endpoint_of(context, policy)
    known = policies.policy_versions(context).get(policy.version)
    if known is not None and policy.version != in_force.version:
        raise BadInputError(
            f"{policy.version} has been measured in round {known.round} already ({known.reason}); "
            f"`trajmill policy promote {policy.version}` puts it in force"
        )
    return policy


def _stored(warehouse: Warehouse, folder: Path, version: str) -> Path:
    """Copy the user's folder into the warehouse: nobody changes the copy while it acts, and other machines read it."""
    stored = warehouse.model(version)
    if not stored.exists():
        with replacing_folder(stored) as copy:
            shutil.copytree(folder, copy, dirs_exist_ok=True)
            seal_folder(copy)
    publish_weights(warehouse, stored)
    return stored


class UntrainedPolicy(NamedTuple):
    folder: Path
    version: str
    is_new: bool


def make_untrained_policy(config: Config, blind: bool = False) -> UntrainedPolicy:
    """Make the model in the folder of the policy's endpoint from the run's seed and the apps' words; one there is kept.

    Raises BadInputError: the policy is no `read-aloud` model with a folder, or the environment has no app files.
    """
    policy, folder = config.models.policy, cast("Path | None", None)
    match config.endpoints.get(policy):
        case TransformersSpec(family="read-aloud", model=folder) | OpenAiSpec(family="read-aloud", weights=folder):
            pass
    if folder is None:
        raise BadInputError(
            f"models.policy {'is embedded' if policy == EMBEDDED else f'is {policy!r}'}; name an endpoint with "
            "family = 'read-aloud' and a folder of weights"
        )
    if not isinstance(config.environment, AppFilesSpec):
        raise BadInputError("the words of an untrained model come from app files; use environment.kind = 'simulated'")
    is_new = not (folder / "config.json").is_file()
    if is_new:
        from trajmill.stages.models.untrained import make_untrained

        world = config.environment.navigation_graph()
        texts = texts_of(world.apps.values(), [task.spec for task in world.tasks])
        make_untrained(folder, texts, config.run.seed, blind)
    return UntrainedPolicy(folder, folder_version(folder), is_new)


class Compared(NamedTuple):
    comparison: Comparison
    folder: Path


def compare_policies(config: Config, a: str, b: str, out: Path | None = None) -> Compared:
    """Compare two policies, each the name of an `[endpoints.NAME]` or a version of the run, or a part of one.

    A version has its stored evaluations; a model that is no version attempts the measured queries once, greedily, with
    their seeds. Raises BadInputError (a name is unknown, both are one, or nothing was scored by both), RunInUseError.
    """
    context = RoundContext(config, open_warehouse(config.run.root), 0)
    if report_of(context, policies.BASELINE) is None:
        raise BadInputError(f"run {context.run_id} has no queries yet; `trajmill evolve` begins with them")
    with run_views(context.warehouse, context.run_id) as views:
        measured = [policy for policy, _ in measured_policies(views)]
    one, other = (_version(context, name, measured) for name in (a, b))
    if one == other:
        raise BadInputError(f"{a!r} and {b!r} are both {one}; name two policies")
    for name, version in ((a, one), (b, other)):
        if version not in measured:
            _measure(context, name, version)
    with run_views(context.warehouse, context.run_id) as views:
        comparison = compare_measured(views, one, other)
    if not comparison.queries:
        raise BadInputError(f"{one} and {other} have no query that was scored for both; see `trajmill view`")
    names = "-".join(re.sub(r"[^\w.]+", "-", version)[-40:].strip("-.") for version in (one, other))
    folder = out or context.warehouse.run(context.run_id) / f"compare-{names}"
    for path in write_comparison(comparison, folder):
        if out is None:
            context.warehouse.store.publish(context.warehouse.name(path))
    return Compared(comparison, folder)


def _version(context: RoundContext, name: str, measured: list[str]) -> str:
    endpoints = context.config.endpoints
    unknown = f"{name!r} is no endpoint and no measured policy of {context.run_id}"
    found = the_one(name, [*endpoints, *measured], unknown)
    return endpoints[found].version if found in endpoints else found


def _measure(context: RoundContext, name: str, version: str) -> None:
    """Let the model of an endpoint attempt the measured queries, once in the run; no figure of the run counts it."""
    config = context.config
    models = config.models.model_copy(update={"policy": name})
    acting = replace(context, config=config.model_copy(update={"models": models}))

    def work(at: StageRun) -> StageOutcome:
        policy = policies.configured_policy(acting)
        agent = policies.acting(acting, policy, temperature=0.0, untrained=False)
        attempts = plan_once(measured_queries(context), Purpose.COMPARE, config.run.seed, 0)
        return attempt_all(acting, at, attempts, agent)

    stage = f"{Purpose.COMPARE}-{content_id(version)[:12]}"
    with working_on(context, {name, *config.agent.endpoint_roles().values()}):
        run_once(acting, stage, work, "rows")
