"""The sections of what runs unattended: the schedule, and who is told."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from trajmill.schemas.spec import Spec

Cron = Annotated[str, Field(pattern=r"^\S+( +\S+){4}$")]
Webhook = Annotated[str, Field(pattern=r"^(https?://\S+)?$")]


class ServeSection(Spec):
    """What `trajmill serve` schedules."""

    cron: Cron = "0 2 * * *"
    """When the nightly deployment runs (minute, hour, day, month, weekday)."""
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
    """Who is told when a nightly run or a retraining fails, or needs a person."""

    webhook: Webhook = ""
    """An address that the message is posted to as JSON with the key `text`, as chat programs take it; none if empty."""
    blocks: tuple[str, ...] = ()
    """Notification blocks of the Prefect server, e.g. `slack-webhook/team`."""
