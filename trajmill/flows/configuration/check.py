"""Finds what is missing in a configuration: files, endpoints, and what an environment needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trajmill.flows.configuration.config import OWN_JUDGE, BeamSection, Config
from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.flows.configuration.tables import KeyPath, tables_in
from trajmill.schemas.names import instead_of
from trajmill.schemas.spec import decisive_fields
from trajmill.stages.environments.kinds import AppFilesSpec, DesktopSpec
from trajmill.stages.environments.spec import FixedTasksSpec
from trajmill.stages.models.openai_api.spec import OpenAiSpec


class Missing(NamedTuple):
    """A mistake that only the whole configuration shows."""

    keys: KeyPath
    message: str


def missing_in(config: Config, folder: Path) -> Iterator[Missing]:
    """Find every missing file, endpoint and key; paths are relative to the folder of the configuration file."""
    for keys, spec in tables_in(config, only_decisive=True):
        for name in decisive_fields(type(spec)):
            value = getattr(spec, name)
            values = value if isinstance(value, tuple) else value.values() if isinstance(value, dict) else (value,)
            for path in values:
                if isinstance(path, Path) and not (folder / path).exists():
                    yield _missing(*keys, name, message=f": there is no {path}")
    files = (config.pathways.file, config.graphs.files, config.explore.apps)
    other_queries = any((config.pathways.queries, config.pathways.written, config.causal.any_wanted, *files))
    for key, message in config.environment.missing(other_queries):
        yield _missing("environment", key, message=f" {message}")
    yield from _endpoints(config)
    yield from _queries(config)
    yield from _training(config)
    yield from _runner(config)


def _missing(*keys: str, message: str) -> Missing:
    return Missing(keys, f"{'.'.join(keys)}{message}")


def _endpoints(config: Config) -> Iterator[Missing]:
    """Roles and judges whose endpoint is not defined, endpoints without an address, and names that are taken."""
    named = list(config.asked_endpoints())
    for name, judge in config.judges.items():
        by_key = {"step": (judge.step or EMBEDDED,), "text": judge.text, "multimodal": judge.multimodal}
        named += [(("judges", name, key), endpoint) for key, endpoints in by_key.items() for endpoint in endpoints]
    known = [EMBEDDED, *config.endpoints]
    for keys, name in named:
        if name not in known:
            yield _missing(*keys, message=f": there is no [endpoints.{name}]; {instead_of(name, known)}")
    for name, spec in config.endpoints.items():
        if name == EMBEDDED:
            yield _missing("endpoints", name, message=f': "{EMBEDDED}" is the name of what comes with trajmill')
        elif isinstance(spec, OpenAiSpec) and not spec.addresses:
            yield Missing(("endpoints", name), f"endpoints.{name}.urls is missing: the base address of its server")
    if OWN_JUDGE in config.judges:
        taken = f': "{OWN_JUDGE}" is taken by the judge of the run; choose another name'
        yield _missing("judges", OWN_JUDGE, message=taken)


def _queries(config: Config) -> Iterator[Missing]:
    """Keys that proposed, new, atomic, graph and written queries need."""
    for key in ("curriculum", "screenshot"):
        if getattr(config.queries, key):
            for reason in _against_proposals(config):
                yield _missing("queries", key, message=f": {reason}")
    if config.queries.try_proposals and not config.queries.curriculum + config.queries.screenshot:
        nothing = ": nothing is proposed; set queries.curriculum or queries.screenshot"
        yield _missing("queries", "try_proposals", message=nothing)
    kind, has_graphs = config.environment.kind, config.graphs.any_wanted or config.causal.any_wanted
    if config.queries.fresh and not isinstance(config.environment, AppFilesSpec) and not has_graphs:
        yield _missing("queries", "fresh", message=f": environment.kind = {kind!r} has no navigation graphs")
    if config.atomic.wanted and not isinstance(config.environment, DesktopSpec):
        yield _missing("atomic", message=f': its programs are those of environment.kind = "desktop", not {kind}')
    if config.graphs.any_wanted and not config.graphs.files:
        yield _missing("graphs", "files", message=" is missing: the files of the apps' graphs (see graphs.md)")
    for section, count in (("atomic", config.atomic.written), ("pathways", config.pathways.written)):
        if count and config.models.writer == EMBEDDED:
            advice = ": a model writes them; map models.writer to an [endpoints.NAME]"
            yield _missing(section, "written", message=advice)


def _against_proposals(config: Config) -> Iterator[str]:
    """Reasons why tasks cannot be proposed, or the attempts at them not judged."""
    if config.queries.example_tasks is None:
        yield "it needs queries.example_tasks, a file of tasks that people wrote"
    if config.models.writer == EMBEDDED:
        yield "tasks are proposed by a model; map models.writer to an [endpoints.NAME]"
    if isinstance(config.environment, FixedTasksSpec):
        yield f"{config.environment.kind} has no start states for other tasks than its own; set it to 0"
    for channel in config.judge.channels:
        if channel == "programmatic":
            yield "no check knows a proposed task; leave programmatic out of judge.channels"
        elif set(getattr(config.models.critic, channel)) == {EMBEDDED}:
            yield f"only a model can judge a proposed task; map models.critic.{channel} to one"


def _training(config: Config) -> Iterator[Missing]:
    """Wrong sizes of groups, roles without a model of weights, and models that the trained kind needs."""
    size, unguided = config.rollout.group_size, config.unguided_episodes
    if size > max(1, unguided):
        message = f": a round makes {unguided} attempts without hints, fewer than a group of {size}"
        yield _missing("rollout", "group_size", message=message)
    if size == 1 and config.train.learns_from == "rl_steps":
        message = ": the recipe of [train] compares attempts at one query; set 2 or more"
        yield _missing("rollout", "group_size", message=message)
    kind = config.train.learns_kind
    for role in config.derive.kind(kind).needs if kind else ():
        if (getattr(config.derive, role) or getattr(config.models, role)) == EMBEDDED:
            yield Missing(
                ("train",),
                f"train.kind {config.train.kind!r} derives {kind}, which asks a model: set derive.{role} to the NAME "
                "of an [endpoints.NAME]",
            )
    for role, name in config.train.roles().items():
        if name == EMBEDDED or getattr(config.endpoints.get(name), "kind", "") == EMBEDDED:
            message = f": the frozen {role} must read images; name an [endpoints.NAME]"
            yield _missing("train", role, message=message)


def _runner(config: Config) -> Iterator[Missing]:
    """A Beam runner that does not exist, whose packages are not installed, or whose options are wrong."""
    beam, usual = config.beam, BeamSection()
    if (beam.runner, beam.options) == (usual.runner, usual.options):
        return
    from trajmill.pipelines.executors.beam import options_mistake, runner_mistake
    from trajmill.pipelines.fan_out import BeamSettings

    if mistake := runner_mistake(beam.runner):
        yield _missing("beam", "runner", message=f": {mistake}")
    elif mistake := options_mistake(BeamSettings(beam.runner, beam.options)):
        yield _missing("beam", "options", message=f": {mistake}")


def tasks_unknown_to_judge(config: Config) -> str | None:
    """Return a one-line warning if the embedded critics cannot judge the tasks of the environment.

    Their annotations are those of simulated apps. In other environments they judge nothing, so nothing is learned.
    """
    if isinstance(config.environment, AppFilesSpec):
        return None
    embedded = [
        channel
        for channel in config.judge.channels
        if channel != "programmatic"
        and EMBEDDED in getattr(config.models.critic, channel)
        and getattr(config.judge, f"{channel}_critic").startswith("annotated_")
    ]
    if not embedded:
        return None
    roles = " and ".join(f"models.critic.{channel}" for channel in embedded)
    return (
        f"the embedded critics know no task of environment {config.environment.kind!r}: trajectories stay unjudged and "
        f'teach nothing; map {roles} to a model, set judge.channels = ["programmatic"], or judge by graphs of the apps '
        '(judge.text_critic = "graph_way", judge.multimodal_critic = "graph_end")'
    )
