"""The sections of what runs unattended: the schedule, and who is notified."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, Field, PositiveFloat, PositiveInt
from pydantic_core import PydanticCustomError

from trajmill.schemas.spec import Fraction, Spec

_FIELDS = 5
_ANY_DAY = datetime(2000, 1, 1, tzinfo=UTC)


def _possible(cron: str) -> str:
    """Return a cron schedule that comes up at some time; another one is an error with its reason."""
    try:
        if len(cron.split()) != _FIELDS:
            raise CronSimError("Wrong number of fields")
        next(CronSim(cron, _ANY_DAY))
    except (CronSimError, StopIteration) as error:
        reason = str(error).lower() or "no day is like that"
        message = "should be a cron schedule of minute, hour, day, month and weekday ({reason})"
        raise PydanticCustomError("cron", message, {"reason": reason}) from error
    return cron


Cron = Annotated[str, AfterValidator(_possible)]
Address = Annotated[str, Field(pattern=r"^(https?://\S+)?$")]


class ServeSection(Spec):
    """What `trajmill serve` schedules."""

    cron: Cron = "0 2 * * *"
    """When the nightly deployment runs (minute, hour, day, month, weekday), in UTC."""
    maintain_cron: Cron = "0 12 * * 0"
    """When the maintain deployment runs, which does what `[retention]` says."""
    rounds_per_night: PositiveInt = 1
    """Rounds that one nightly run collects."""
    nightly_trains: bool = False
    """Whether a nightly run trains each round that it has collected, however little has landed. By default only the
    retrain deployment trains."""
    retrain_after_accepted: PositiveInt = 200
    """Newly accepted trajectories that start the retrain deployment."""
    when_busy: Literal["wait", "skip"] = "wait"
    """What a nightly run or a retraining does while another process works on the run, e.g. `trajmill evolve`."""
    wait_hours: PositiveFloat = 6.0
    """Longest time to wait; then it is skipped."""


class NotifySection(Spec):
    """Who is notified when a nightly run or a retraining fails, or needs a person."""

    webhook: Address = ""
    """An address that the message is posted to as JSON with the key `text`, as chat programs take it; none if empty."""
    blocks: tuple[str, ...] = ()
    """Notification blocks of the Prefect server, e.g. `slack-webhook/team`."""
    heartbeat: Address = ""
    """An address that is fetched at the end of each night, e.g. a check of healthchecks.io; it raises the alarm when a
    night does not happen and nothing here is left to do so. None if empty."""
    judge_failures: Fraction = 0.2
    """Share of a night's finished attempts that the judge fails on, above which the night needs a person."""
