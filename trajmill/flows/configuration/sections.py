"""Sections of the configuration: roles of models, programs, pathways, nights and notices."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, Field, NonNegativeInt, PositiveFloat, PositiveInt

from trajmill.flows.configuration.tables import KeyPath
from trajmill.schemas.spec import OPERATIONAL, Fraction, Spec
from trajmill.stages.queries.spec import AtomicApp, DocumentKind, WalkReach

EMBEDDED = "embedded"
"""The endpoint that needs no configuration: the policy network, and code without a model for all other roles."""

POLICY_ROLE: KeyPath = ("models", "policy")
"""The role of the policy. Its model is no part of a run's identity, because it changes within a run."""

EndpointNames = Annotated[tuple[str, ...], Field(min_length=1)]
_FIELDS = 5
_ANY_DAY = datetime(2000, 1, 1, tzinfo=UTC)


class CriticRoles(Spec):
    """The models that judge."""

    step: str = EMBEDDED
    """Judges each step."""
    text: EndpointNames = (EMBEDDED,)
    """Votes in the text channel; several endpoints are an ensemble."""
    multimodal: EndpointNames = (EMBEDDED,)
    """Votes in the multimodal channel; several endpoints are an ensemble."""


class PromptsSection(Spec):
    """Prompt files of your own, in place of those that come with trajmill (see models.md)."""

    critic_step: Path | None = None
    """For `models.critic.step`."""
    critic_text: Path | None = None
    """For `models.critic.text`."""
    critic_multimodal: Path | None = None
    """For `models.critic.multimodal`."""
    critic_milestones: Path | None = None
    """For the milestones of a goal (`judge.milestones`)."""
    critic_milestone: Path | None = None
    """For the check of one milestone."""
    critic_review: Path | None = None
    """For the review of the milestones."""
    describer_screen: Path | None = None
    """For captions of screens without an accessibility tree, by `models.describer`."""
    describer_step: Path | None = None
    """For descriptions of what a step changed, by `models.describer`; guidance is written from them."""
    writer_guidance: Path | None = None
    """For guidance."""
    writer_synthesise: Path | None = None
    """For the explicit instruction that describes a path."""
    writer_refine: tuple[Path, ...] = ()
    """For refined training instructions: one file per style; none may ask a question."""
    writer_refine_heldout: tuple[Path, ...] = ()
    """For the styles of the held-out split, which ask questions."""
    writer_curriculum: Path | None = None
    """For tasks proposed from the success so far."""
    writer_screen: Path | None = None
    """For tasks proposed from a start screen."""
    writer_selection: Path | None = None
    """For `pathways.second_opinion`."""
    writer_commands: Path | None = None
    """For `atomic.written` and `pathways.written`."""
    describer_page: Annotated[Path | None, OPERATIONAL] = None
    """For pages of a graph, their elements and transitions, by `trajmill graph annotate`."""
    writer_slots: Annotated[Path | None, OPERATIONAL] = None
    """For names of slots of a graph, by `trajmill graph annotate`."""


class ModelsSection(Spec):
    """The endpoint behind each role: `embedded`, or the NAME of an `[endpoints.NAME]`."""

    policy: str = EMBEDDED
    """The endpoint that acts in episodes and is trained."""
    writer: str = EMBEDDED
    """Writes instructions and guidance."""
    describer: str = EMBEDDED
    """Describes what a step changed, for guidance, and the pages of a graph."""
    critic: CriticRoles = CriticRoles()

    def roles(self) -> Iterator[tuple[KeyPath, str]]:
        """Each role as its key path, with the name of its endpoint; an ensemble gives several pairs."""
        for role in ("policy", "writer", "describer"):
            yield ("models", role), getattr(self, role)
        for role in CriticRoles.model_fields:
            names = getattr(self.critic, role)
            yield from ((("models", "critic", role), name) for name in ([names] if isinstance(names, str) else names))


class AtomicSection(Spec):
    """Queries for operations (double-click, drag, input) in real programs, only for the environment `desktop`."""

    train: NonNegativeInt = 0
    """Training queries for each operation."""
    heldout_slots: NonNegativeInt = 0
    """Queries for each operation on new objects. Programs of `queries.heldout_app_names` have only these."""
    heldout_phrasings: NonNegativeInt = 0
    """Queries for each operation on new objects, in phrasings that training never sees."""
    validation: NonNegativeInt = 0
    """Queries for each operation on new objects that decide which policy is promoted."""
    programs: tuple[AtomicApp, ...] = ()
    """Programs to make queries for; all if empty."""
    written: NonNegativeInt = 0
    """Training queries for each kind of document that `models.writer`, which must read images, writes; all walked."""
    documents: tuple[DocumentKind, ...] = ("docx", "xlsx")
    """Kinds of documents that `written` queries are about: `docx`, `xlsx`, `pptx` (needs LibreOffice Impress)."""

    @property
    def drawn(self) -> bool:
        """Whether the run has queries for the packaged operations."""
        return any((self.train, self.heldout_slots, self.heldout_phrasings, self.validation))

    @property
    def wanted(self) -> bool:
        return self.drawn or self.written > 0


class PathwaysSection(WalkReach):
    """Queries from the menus, dialogs and tabs of running programs: which programs are walked, and how far."""

    file: Path | None = None
    """File of programs (YAML, see desktop.md); without one, the programs of the local desktop."""
    programs: tuple[str, ...] = ()
    """Names of programs of the file; all if empty."""
    queries: NonNegativeInt = 0
    """Most queries from each program; those in `queries.heldout_app_names` give none for training. 0 walks none."""
    written: NonNegativeInt = 0
    """Training queries about selections in each program that `models.writer`, which must read images, writes."""
    second_opinion: Annotated[str, OPERATIONAL] = ""
    """Endpoint that decides whether an element needs a selection, if the program does not show it. Empty: none."""


def _possible(cron: str) -> str:
    """Return a cron schedule that comes up at some time; another one is an error with its reason."""
    try:
        if len(cron.split()) != _FIELDS:
            raise CronSimError("Wrong number of fields")
        next(CronSim(cron, _ANY_DAY))
    except (CronSimError, StopIteration) as error:
        reason = str(error).lower() or "no day is like that"
        raise ValueError(f"should be a cron schedule of minute, hour, day, month and weekday ({reason})") from error
    return cron


Cron = Annotated[str, AfterValidator(_possible)]
Address = Annotated[str, Field(pattern=r"^(https?://\S+)?$")]


class ServeSection(Spec):
    """What `trajmill serve` schedules."""

    cron: Cron = "0 2 * * *"
    """When the nightly deployment runs (minute, hour, day, month, weekday), in UTC."""
    maintain_cron: Cron = "0 12 * * 0"
    """When the maintain deployment runs, which applies `[retention]`."""
    rounds_per_night: PositiveInt = 1
    """Rounds that one nightly run collects."""
    nightly_trains: bool = False
    """Whether a nightly run trains each round that it collected; by default only the retrain deployment trains."""
    retrain_after_accepted: PositiveInt = 200
    """Newly accepted trajectories that start the retrain deployment."""
    when_busy: Literal["wait", "skip"] = "wait"
    """What a nightly run or a retraining does while another process works on the run, e.g. `trajmill evolve`."""
    wait_hours: PositiveFloat = 6.0
    """Longest wait in hours; then the flow is skipped."""


class NotifySection(Spec):
    """Who is notified when a nightly run or a retraining fails, or needs a person."""

    webhook: Address = ""
    """Webhook that gets the notice as JSON with the key `text`, as chat programs take it; none if empty."""
    blocks: tuple[str, ...] = ()
    """Notification blocks of the Prefect server, e.g. `slack-webhook/team`."""
    heartbeat: Address = ""
    """Address to fetch at the end of each night, e.g. of healthchecks.io; none if empty."""
    judge_failures: Fraction = 0.2
    """Share of a night's finished attempts on which the judge may fail; above it, a person is notified."""
