"""The unattended flows (collecting every night, retraining, maintenance) and their deployments at a Prefect server."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from prefect import Flow, flow, serve
from prefect.artifacts import create_markdown_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import DeploymentStatus, State, WorkPool
from prefect.deployments.runner import DeploymentApplyError, RunnerDeployment
from prefect.events import DeploymentEventTrigger, ResourceSpecification
from prefect.exceptions import ObjectNotFound
from prefect.schedules import Cron
from prefect.types.entrypoint import EntrypointType

from trajmill.flows.configuration.config import Config
from trajmill.flows.evolve import ENOUGH_LABEL, LANDED, announce_landed, artifact_key, do_as_task, round_flow
from trajmill.flows.importing.import_folder import has_imports
from trajmill.flows.new_run import RESOURCE_FILE, begin_or_continue, run_resource
from trajmill.flows.nights.log import NEEDS_PERSON, NIGHTLY, Ending, FlowEnd
from trajmill.flows.nights.notices import HOOKS, unattended, watching_nights
from trajmill.flows.policies.policy import PROMOTE, PolicyInForce, accepted_since_training
from trajmill.flows.round import collecting_stages, current_round, stages_of
from trajmill.flows.serving.models_ready import working_on
from trajmill.flows.stage import RoundContext, finished, report_of
from trajmill.flows.tasks.judge import JUDGE
from trajmill.flows.tasks.train import TRAIN, Training, adopt_configured, leave_untrained
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.policy_version import PolicyVersion
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.critics.calibration.agreement import Precision
from trajmill.stages.critics.judge import STAGE as JUDGE_STAGE
from trajmill.warehouse.layout import RunInUseError, create_warehouse
from trajmill.warehouse.read import tuples
from trajmill.warehouse.releases import release_names, verify_release
from trajmill.warehouse.upkeep import maintain as maintain_warehouse
from trajmill.warehouse.views import refresh_views

_PROMOTIONS = 3
"""Promotions in a row with a fall of validation after which a run needs a person."""


@flow(name=NIGHTLY, **HOOKS)
def nightly(config_file: str | None = None) -> State[Any]:
    """Collect the rounds of a night; the state names what landed."""
    return unattended(config_file, collect_night)


@flow(name="retrain", **HOOKS)
def retrain(config_file: str | None = None) -> State[Any]:
    """Train on what has landed if it is enough; an event during a training starts this again, with nothing new."""
    return unattended(config_file, retrain_if_enough)


@flow(name="maintain", **HOOKS)
def maintain(config_file: str | None = None) -> State[Any]:
    """Drop old releases, join small files, delete unused ones, and check the releases that are kept."""
    return unattended(config_file, keep_small)


def working_alone(config: Config) -> AbstractContextManager[None]:
    """Work on the run alone after a wait (`serve.wait_hours`). Raises NewRunError, RunInUseError (still in use)."""
    begin_or_continue(config)
    waits = config.serve.when_busy == "wait"
    patience = 3600 * config.serve.wait_hours if waits else 0.0
    return working_on(RoundContext.of(config), models=None, patience=patience)


class Landed(NamedTuple):
    rounds: Sequence[int] = ()
    attempts: int = 0
    finished: int = 0
    accepted: int = 0
    """Finished attempts that were judged correct."""
    unjudged: int = 0
    guided: int = 0
    """Attempts with guidance, among all attempts."""
    failures: Counter[str] = Counter()

    def line(self) -> str:
        unjudged = f", {self.unjudged} could not be judged" if self.unjudged else ""
        failed = "".join(f", {name} failures: {count}" for name, count in self.failures.most_common())
        return (
            f"round {', '.join(map(str, self.rounds))}: {self.finished} of {self.attempts} attempts finished, "
            f"{self.guided} of them guided; {self.accepted} accepted{unjudged}{failed}"
        )

    def markdown(self, accepted_since_training: int) -> str:
        rows = {
            "rounds": ", ".join(map(str, self.rounds)),
            **{name: getattr(self, name) for name in ("attempts", "finished", "guided", "accepted")},
            "could not be judged": self.unjudged,
            "accepted since the last training": accepted_since_training,
            **{f"failures: {name}": count for name, count in self.failures.most_common()},
        }
        return "\n".join(["| what landed | |", "|---|---|", *(f"| {name} | {count} |" for name, count in rows.items())])


def landed_in(context: RoundContext, rounds: Sequence[int]) -> Landed:
    rows = tuples(context.read("trajectories", ["trajectory_id", "purpose", "status"], rounds))
    attempts = {name: (purpose, status) for name, purpose, status in rows if purpose in (Purpose.TRAIN, Purpose.GUIDED)}
    judged = context.correctness(rounds)
    failures = list(tuples(context.read("failures", ["failure_class", "stage", "input_id"], rounds)))
    undecided = {input_id for _, stage, input_id in failures if stage == JUDGE_STAGE} - judged.keys()
    finished = {name for name, (_, status) in attempts.items() if status == "finished"}
    return Landed(
        rounds,
        len(attempts),
        len(finished),
        sum(bool(judged.get(name)) for name in attempts),
        len(undecided & finished),
        sum(purpose == Purpose.GUIDED for purpose, _ in attempts.values()),
        Counter(failure_class for failure_class, _, _ in failures),
    )


def collect_night(config: Config) -> FlowEnd:
    """Collect as many rounds as the configuration names; call it inside a flow."""
    rounds, trainings = list[int](), list[FlowEnd]()
    try:
        with working_alone(config):
            for _ in range(config.serve.rounds_per_night):
                earlier = close_collected(current_round(config))
                if earlier is not None and earlier.ending is Ending.AWAITING_POLICY:
                    return earlier
                context = current_round(config)
                collect(context)
                rounds.append(context.round)
                own = train_round(context) if config.serve.nightly_trains else None
                trainings += [end for end in (earlier, own) if end is not None]
            landed, accepted = landed_in(RoundContext.of(config), rounds), announce_landed(RoundContext.of(config))
    except RunInUseError as error:
        return FlowEnd(Ending.SKIPPED, f"did not collect: {error}")
    key = artifact_key(config, "night")
    create_markdown_artifact(landed.markdown(accepted), key=key, description="What landed in a night")
    if not landed.finished:
        ending = Ending.EMPTY_NIGHT
    elif landed.unjudged > config.notify.judge_failures * landed.finished:
        ending = Ending.JUDGE_FAILS
    elif not landed.accepted:
        ending = Ending.NOTHING_ACCEPTED
    else:
        ending = next((end.ending for end in trainings if end.ending in NEEDS_PERSON), Ending.COLLECTED)
    lines = [landed.line(), f"{accepted} accepted since the last training", *(end.line for end in trainings)]
    return FlowEnd(ending, "; ".join(lines))


def collect(context: RoundContext) -> None:
    adopt_configured(context)
    for stage in collecting_stages(context.config):
        do_as_task(stage, context)
    refresh_views(context.warehouse)


def close_collected(context: RoundContext) -> FlowEnd | None:
    """End a round that an earlier night collected; return how its training ended, None if it was left untrained."""
    if report_of(context, collecting_stages(context.config)[-1].name) is None:
        return None
    accepted, serve = accepted_since_training(context), context.config.serve
    enough = serve.retrain_after_accepted
    if serve.nightly_trains or accepted >= enough or report_of(context, TRAIN) is not None:
        return train_round(context)
    for stage in takewhile(lambda stage: stage.name != TRAIN, stages_of(context.config)):
        do_as_task(stage, context)
    leave_untrained(context, f"{accepted} trajectories accepted since the last training, {enough} are enough")
    round_flow(context)
    return None


def retrain_if_enough(config: Config) -> FlowEnd:
    def too_few() -> FlowEnd | None:
        accepted, enough = accepted_since_training(RoundContext.of(config)), config.serve.retrain_after_accepted
        line = f"did not train: {accepted} trajectories accepted since the last training, {enough} are enough"
        return FlowEnd(Ending.NOT_ENOUGH, line) if accepted < enough else None

    if (end := too_few()) is not None:
        return end
    try:
        with working_alone(config):
            # Another process may have trained while this one waited.
            return too_few() or train_round(current_round(config))
    except RunInUseError as error:
        return FlowEnd(Ending.SKIPPED, f"did not train: {error}")


def train_round(context: RoundContext) -> FlowEnd:
    """Do the rest of a round that is judged or has imports; call it inside a flow, with the run locked."""
    if report_of(context, JUDGE) is None and not has_imports(context):
        line = f"did not train: round {context.round} is not judged yet; it trains on what has landed at its end"
        return FlowEnd(Ending.NOT_ENOUGH, line)
    accepted = accepted_since_training(context)
    if waiting := round_flow(context):
        return FlowEnd(Ending.AWAITING_POLICY, f"did not train: {waiting}")
    trained, decided = Training.of(finished(context, TRAIN)), PolicyInForce.of(finished(context, PROMOTE))
    if not trained.trained:
        low = trained.judge_precision is Precision.TOO_LOW
        ending = Ending.BELOW_JUDGE_FLOOR if low else Ending.NOT_TRAINED
        return FlowEnd(ending, f"round {context.round} did not train: {trained.reason}")
    decision = "promoted" if decided.promoted else "not promoted"
    line = f"round {context.round}, {accepted} newly accepted trajectories: {decision}, {decided.reason}"
    fall = validation_fall(context) if decided.promoted else ""
    return FlowEnd(Ending.VALIDATION_FELL, f"{line}; {fall}") if fall else FlowEnd(Ending.TRAINED, line)


def validation_fall(context: RoundContext) -> str:
    promoted = sorted((row for row in context.rows(PolicyVersion) if row.promoted), key=lambda row: row.round)
    measured = [split for row in promoted for split in row.success if split.split == Split.VALIDATION and split.queries]
    shares = [split.successes / split.queries for split in measured][-_PROMOTIONS - 1 :]
    if len(shares) <= _PROMOTIONS or any(later >= earlier for earlier, later in pairwise(shares)):
        return ""
    path = ", ".join(f"{100 * share:.0f}" for share in shares)
    return f"validation fell at each of the last {_PROMOTIONS} promotions: {path} %"


def keep_small(config: Config) -> FlowEnd:
    """Apply `[retention]`, then check all releases. Raises BadInputError with a line that names what is damaged."""
    warehouse, kept = create_warehouse(config.run.root), config.retention
    done = maintain_warehouse(
        warehouse, keep_releases=kept.releases, unused_days=kept.unused_days, now=time.time(), run_id=config.run_id
    )
    refresh_views(warehouse)
    names = release_names(warehouse)
    for name in names:
        verify_release(warehouse, name)
    freed = sum(file.size for file in done.deleted) / 1e6
    in_use = f" (not of {', '.join(done.in_use)}, which another process works on)" if done.in_use else ""
    line = (
        f"{len(done.dropped)} releases dropped{in_use}, {len(done.compacted)} tables compacted, "
        f"{len(done.deleted)} unused files deleted ({freed:,.1f} MB), {len(names)} releases checked"
    )
    return FlowEnd(Ending.MAINTAINED, line)


def deployments(config: Config, config_file: Path | None) -> list[RunnerDeployment]:
    """Return the deployments; the lock of the run limits them, as it ends with its process, unlike Prefect's slots."""
    warehouse = create_warehouse(config.run.root)
    resource = run_resource(warehouse, config.run_id)
    enough_landed = DeploymentEventTrigger(
        name=f"retrain {config.run.name} when enough trajectories have landed",
        expect={LANDED},
        match=ResourceSpecification({"prefect.resource.id": resource, ENOUGH_LABEL: "yes"}),
        threshold=1,
        within=timedelta(0),
    )

    def deployment(flow: Flow[..., Any], **started_by: Any) -> RunnerDeployment:
        made = flow.to_deployment(
            config.run.name,
            parameters={"config_file": None if config_file is None else str(config_file.absolute())},
            description=f"Run {config.run_id} in {warehouse.address}.",
            tags=[resource],
            # Prefect pauses what is no longer served; without this it would stay paused when it is served again.
            paused=False,
            entrypoint_type=EntrypointType.MODULE_PATH,
            **started_by,
        )
        assert isinstance(made, RunnerDeployment), "outside an event loop nothing is awaited"
        return made

    return [
        deployment(nightly, schedule=Cron(config.serve.cron)),
        deployment(retrain, triggers=[enough_landed]),
        deployment(maintain, schedule=Cron(config.serve.maintain_cron)),
    ]


def serve_deployments(config: Config, config_file: Path | None) -> None:
    """Register the deployments and run them, one at a time, until interrupted."""
    with watching_nights(config, config_file):
        serve(*deployments(config, config_file), limit=1)


def deploy_to(
    name: str, config: Config, config_file: Path | None, image: str | None = None, job: Mapping[str, Any] | None = None
) -> list[str]:
    """Register the deployments at a work pool, or change those of an earlier call; return their names.

    `config_file` is where the workers find the configuration, `image` the Docker image of the pool's jobs (None if they
    are processes of the worker's machine), and `job` has further variables of them, e.g. `env` or `volumes`. Raises
    BadInputError if there is no such pool, or it runs no jobs of this sort.
    """
    with get_client(sync_client=True) as client:
        try:
            pool: WorkPool = client.read_work_pool(name)
        except ObjectNotFound:
            known = ", ".join(each.name for each in client.read_work_pools()) or "none"
            raise BadInputError(
                f"there is no work pool {name!r}; there are: {known}. "
                f"Make it: prefect work-pool create {name} --type {'docker' if image else 'process'}"
            ) from None
    takes_image = "image" in pool.base_job_template.get("variables", {}).get("properties", {})
    if takes_image != (image is not None):
        mend = "name the image of its jobs with --image" if takes_image else "whose jobs have no image"
        raise BadInputError(f"work pool {name!r} is of type {pool.type}{':' if takes_image else ','} {mend}")
    made = deployments(config, config_file)
    for deployment in made:
        deployment.work_pool_name = name
        deployment.job_variables = dict(job or {})
        try:
            deployment.apply(image=image)
        except DeploymentApplyError as error:
            message = " ".join(str(error).split())
            raise BadInputError(f"the Prefect server refused {deployment.full_name}: {message}") from error
    return [deployment.full_name for deployment in made]


def refuse_to_replace(config: Config, alone: bool = False) -> None:
    """Raise BadInputError if deployments of these names belong to another run or, with `alone`, another process.

    Of two processes that serve the same deployments, the first to end pauses the schedules of both.
    """
    warehouse = create_warehouse(config.run.root)
    # It is not made here: a refused run leaves nothing behind.
    resource = (warehouse.store.get(warehouse.run_file(config.run_id, RESOURCE_FILE)) or b"").decode()
    with get_client(sync_client=True) as client:
        for flow in (nightly, retrain, maintain):
            name = f"{flow.name}/{config.run.name}"
            try:
                there = client.read_deployment_by_name(name)
            except ObjectNotFound:
                continue
            if resource not in there.tags:
                raise BadInputError(
                    f"deployment {name} belongs to another run ({(there.description or 'unnamed').rstrip('.')}): "
                    "change run.name, or replace it with --replace"
                )
            is_polled = there.work_pool_name is None and there.status == DeploymentStatus.READY and not there.paused
            if alone and is_polled:
                advice = "end that one and wait a minute, or take its place with --replace"
                raise BadInputError(f"another `trajmill serve` serves deployment {name}; {advice}")
