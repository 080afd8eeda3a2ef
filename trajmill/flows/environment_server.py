"""Serves the environment of a configuration to trainers, and stores their episodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from trajmill.flows.configuration.config import Config, policy_family
from trajmill.flows.configuration.judges import judge_named
from trajmill.flows.serving.listening import is_loopback, listening, serve_app, url_of
from trajmill.flows.serving.models_ready import models_ready
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.generate import generate
from trajmill.pipelines.drawing import draw_elsewhere
from trajmill.pipelines.judge import judging
from trajmill.pipelines.online import OnlineRecorder
from trajmill.schemas.dialects.families import Family, family_named
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.names import refuse_unknown
from trajmill.schemas.tables.query import Split
from trajmill.stages.environments.base import refuse_without
from trajmill.stages.environments.kinds import read_token
from trajmill.stages.environments.pool.pool import EnvironmentLimits
from trajmill.stages.online.host import EpisodeHost, HostSettings, ServedQueries, draw_in_thread
from trajmill.stages.rollout.base import Limits
from trajmill.warehouse.layout import sole_worker
from trajmill.warehouse.views import refresh_views

_COMMIT_SECONDS = 60.0
_LONGEST_EPISODE_SECONDS = 24 * 3600.0


def serve_environment(
    config: Config,
    ready: Callable[[str], None],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    slots: int = 8,
    splits: Sequence[str] = (),
    family: str = "",
    judge: str = "",
    token_file: Path | None = None,
) -> None:
    """Serve until Ctrl-C or SIGTERM; finished episodes are stored. `ready` gets the address when the server is ready.

    There are at most `slots` sessions at the same time. `family` is that of the trainer's model, by default that of the
    configuration's policy; `judge` gives the reward, by default the environment's own check. Raises BadInputError (an
    option is wrong, or the port is taken), EnvironmentFailure (a package is missing, or the environment cannot be
    prepared), RunInUseError (another server stores episodes of the run).
    """
    refuse_without("openenv", "openenv")
    if token_file is None and not is_loopback(host):
        raise BadInputError(
            f"--host {host}: others can reach it; name a file with a secret by --token-file, or use 127.0.0.1"
        )
    token = "" if token_file is None else read_token(token_file)
    refuse_unknown(splits, Split, "there is no split")
    rewarding = judge_named(config, judge) if judge else None
    context = RoundContext.of(config, 0)
    warehouse, environment, origin = context.warehouse, context.config.environment, context.origin
    settings = _host_settings(context, slots, family_named(family) if family else policy_family(config))

    async def serve() -> None:
        from trajmill.stages.online.openenv_server import environment_app

        recorder = OnlineRecorder(warehouse, origin, environment.kind)
        async with AsyncExitStack() as stack:
            judged = None
            if rewarding is not None:
                judged = await stack.enter_async_context(judging(rewarding.spec, rewarding.critics, origin))
            draw = draw_elsewhere if environment.draws_screens else draw_in_thread
            asked, numbers = tuple(map(Split, splits or [Split.TRAIN])), recorder.numbers()
            queries = ServedQueries(context.queries.values(), asked)
            hosted = EpisodeHost(environment, queries, settings, recorder.record, judged, draw, numbers=numbers)
            await stack.enter_async_context(_committing(recorder))
            stack.push_async_callback(hosted.close)
            ready(url_of(listener))
            app = environment_app(hosted, slots, token, trouble=lambda: recorder.trouble)
            await serve_app(app, listener)

    with (
        listening(host, port) as listener,
        sole_worker(warehouse, f"{context.run_id}-online"),
        models_ready(config, warehouse.run(context.run_id), rewarding.endpoints if rewarding else ()),
    ):
        if not context.queries:
            # As in the run's first stage.
            with sole_worker(warehouse, context.run_id):
                generate(context)
        asyncio.run(serve())
    refresh_views(warehouse)


def _host_settings(context: RoundContext, slots: int, family: Family) -> HostSettings:
    rollout, longest = context.config.rollout, _LONGEST_EPISODE_SECONDS
    within = EnvironmentLimits(
        step_seconds=rollout.step_seconds, recycle_after=rollout.recycle_after, lease_seconds=longest
    ).with_slow_calls(context.config.environment.slow_seconds)
    limits = Limits(seconds=longest, environment_tries=rollout.environment_tries, environment=within)
    return HostSettings(context.origin, context.config.run.seed, family, slots, limits)


@asynccontextmanager
async def _committing(recorder: OnlineRecorder) -> AsyncIterator[None]:
    task = asyncio.create_task(recorder.commit_every(_COMMIT_SECONDS))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        try:
            await recorder.commit()
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise TrajmillError(
                f"episodes are not committed: {reason}; they stay on disk for the next `trajmill env serve`"
            ) from error
