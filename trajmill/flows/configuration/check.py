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
from trajmill.stages.environments.desktop.spec import DesktopSpec
from trajmill.stages.environments.simulated.spec import AppFilesSpec
from trajmill.stages.environments.spec import FixedTasksSpec
from trajmill.stages.models.openai_api.spec import OpenAiSpec


class Missing(NamedTuple):
    """A mistake that can be found only in the whole configuration."""

    keys: KeyPath
    message: str


def missing_files(config: Config, folder: Path) -> list[Missing]:
    """Missing files and folders that decide rows; paths are relative to the folder of the configuration file."""
    return [
        Missing((*keys, name), f"{'.'.join((*keys, name))}: there is no {path}")
        for keys, spec in tables_in(config, only_decisive=True)
        for name in decisive_fields(type(spec))
        for path in _paths(getattr(spec, name))
        if not (folder / path).exists()
    ]


def _paths(value: object) -> tuple[Path, ...]:
    values = value if isinstance(value, tuple) else value.values() if isinstance(value, dict) else (value,)
    return tuple(each for each in values if isinstance(each, Path))


def missing_for_environment(config: Config) -> list[Missing]:
    """Missing keys that the environment of the run needs."""
    files = (config.pathways.file, config.graphs.files, config.explore.apps)
    other_queries = any((config.pathways.queries, config.pathways.written, config.causal.any_wanted, *files))
    return [
        Missing(("environment", each.key), f"environment.{each.key} {each.message}")
        for each in config.environment.missing(other_queries)
    ]


def missing_endpoints(config: Config) -> list[Missing]:
    """Roles and judges whose endpoint is not defined, endpoints without an address, and names that are taken."""
    known = [EMBEDDED, *config.endpoints]
    found = [
        Missing(keys, f"{'.'.join(keys)}: there is no [endpoints.{name}]; {instead_of(name, known)}")
        for keys, name in (*config.asked_endpoints(), *_named_by_judges(config))
        if name != EMBEDDED and name not in config.endpoints
    ]
    for name, endpoint in config.endpoints.items():
        keys = ("endpoints", name)
        if name == EMBEDDED:
            found.append(Missing(keys, f'endpoints.{name}: "{EMBEDDED}" is the name of what comes with trajmill'))
        elif isinstance(endpoint, OpenAiSpec) and not endpoint.addresses:
            found.append(Missing(keys, f"endpoints.{name}.urls is missing: the base address of its server"))
    if OWN_JUDGE in config.judges:
        message = f'judges.{OWN_JUDGE}: "{OWN_JUDGE}" is taken by the judge of the run; choose another name'
        found.append(Missing(("judges", OWN_JUDGE), message))
    return found


def missing_for_proposals(config: Config) -> list[Missing]:
    """Missing keys that are needed to propose tasks and to judge the attempts at them."""
    found = []
    for key in (name for name in ("curriculum", "screenshot") if getattr(config.queries, name)):
        reasons = []
        if config.queries.example_tasks is None:
            reasons.append("it needs queries.example_tasks, a file of tasks that people wrote")
        if config.models.writer == EMBEDDED:
            reasons.append("tasks are proposed by a model; map models.writer to an [endpoints.NAME]")
        if isinstance(config.environment, FixedTasksSpec):
            reasons.append(f"{config.environment.kind} has no start states for other tasks than its own; set it to 0")
        for channel in config.judge.channels:
            if channel == "programmatic":
                reasons.append("no check knows a proposed task; leave programmatic out of judge.channels")
            elif set(getattr(config.models.critic, channel)) == {EMBEDDED}:
                reasons.append(f"only a model can judge a proposed task; map models.critic.{channel} to one")
        found += [Missing(("queries", key), f"queries.{key}: {reason}") for reason in reasons]
    if config.queries.try_proposals and not config.queries.curriculum + config.queries.screenshot:
        message = "queries.try_proposals: nothing is proposed; set queries.curriculum or queries.screenshot"
        found.append(Missing(("queries", "try_proposals"), message))
    return found


def missing_for_fresh(config: Config) -> list[Missing]:
    """An environment without the navigation graphs that new queries are made from."""
    others = config.graphs.any_wanted or config.causal.any_wanted
    if not config.queries.fresh or isinstance(config.environment, AppFilesSpec) or others:
        return []
    kind = config.environment.kind
    return [Missing(("queries", "fresh"), f"queries.fresh: environment.kind = {kind!r} has no navigation graphs")]


def missing_for_operations(config: Config) -> list[Missing]:
    """Missing keys that atomic operations need."""
    if not config.atomic.wanted or isinstance(config.environment, DesktopSpec):
        return []
    kind = config.environment.kind
    return [Missing(("atomic",), f'atomic: its programs are those of environment.kind = "desktop", not {kind}')]


def missing_for_written(config: Config) -> list[Missing]:
    """The model that writes queries from screenshots."""
    wanted = {"atomic": config.atomic.written, "pathways": config.pathways.written}
    if config.models.writer != EMBEDDED:
        return []
    advice = "a model writes them; map models.writer to an [endpoints.NAME]"
    return [Missing((section, "written"), f"{section}.written: {advice}") for section, count in wanted.items() if count]


def missing_for_graphs(config: Config) -> list[Missing]:
    """Missing files of the graphs that queries are wanted from."""
    if not config.graphs.any_wanted or config.graphs.files:
        return []
    return [Missing(("graphs", "files"), "graphs.files is missing: the files of the apps' graphs (see graphs.md)")]


def missing_for_groups(config: Config) -> list[Missing]:
    """Wrong values of keys that decide the groups of attempts."""
    size, unguided, found = config.rollout.group_size, config.unguided_episodes, []
    if size > max(1, unguided):
        message = f"rollout.group_size: a round makes {unguided} attempts without hints, fewer than a group of {size}"
        found.append(Missing(("rollout", "group_size"), message))
    if size == 1 and config.train.learns_from == "rl_steps":
        message = "rollout.group_size: the recipe of [train] compares attempts at one query; set 2 or more"
        found.append(Missing(("rollout", "group_size"), message))
    return found


def missing_for_training(config: Config) -> list[Missing]:
    """Roles of the recipe that name no model with weights, and models that its derived kind cannot do without."""
    kind = config.train.learns_kind
    needed = config.derive.kind(kind).needs if kind else ()
    found = [
        Missing(
            ("train",),
            f"train.kind {config.train.kind!r} derives {kind}, which asks a model: set derive.{role} to the NAME of an "
            "[endpoints.NAME]",
        )
        for role in needed
        if (getattr(config.derive, role) or getattr(config.models, role)) == EMBEDDED
    ]
    return found + [
        Missing(("train", role), f"train.{role}: the frozen {role} must read images; name an [endpoints.NAME]")
        for role, name in config.train.roles().items()
        if name == EMBEDDED or getattr(config.endpoints.get(name), "kind", "") == EMBEDDED
    ]


def missing_runner(config: Config) -> list[Missing]:
    """A Beam runner that does not exist, whose packages are not installed, or whose options are wrong."""
    beam, usual = config.beam, BeamSection()
    if (beam.runner, beam.options) == (usual.runner, usual.options):
        return []
    from trajmill.pipelines.executors.beam import BeamSettings, options_mistake, runner_mistake

    if mistake := runner_mistake(beam.runner):
        return [Missing(("beam", "runner"), f"beam.runner: {mistake}")]
    mistake = options_mistake(BeamSettings(beam.runner, beam.options))
    return [] if mistake is None else [Missing(("beam", "options"), f"beam.options: {mistake}")]


def _named_by_judges(config: Config) -> Iterator[tuple[KeyPath, str]]:
    for name, judge in config.judges.items():
        yield ("judges", name, "step"), judge.step or EMBEDDED
        for channel in ("text", "multimodal"):
            for endpoint in getattr(judge, channel):
                yield ("judges", name, channel), endpoint


def tasks_unknown_to_judge(config: Config) -> str | None:
    """A one-line warning if the embedded critics cannot judge the tasks of the environment, else None.

    They know only the annotations of simulated apps. In other environments they judge nothing, so nothing is learned.
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
