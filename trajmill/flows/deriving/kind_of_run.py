"""A kind of derived data as a configuration describes it, with the models that it asks, ready to be derived."""

from __future__ import annotations

from dataclasses import dataclass

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.model_specs import model_of
from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.pipelines.models import Endpoint
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import instead_of
from trajmill.schemas.record import content_id
from trajmill.stages.derive.kind_spec import KindSpec
from trajmill.stages.derive.spec import DERIVE_KINDS

_ID_DIGITS = 8


@dataclass(frozen=True)
class KindOfRun:
    """A kind with its settings and models."""

    spec: KindSpec
    models: dict[str, str]
    """Name of the endpoint by role, for the roles that the kind can ask."""
    made_by: str
    """Version on the rows: of the kind, with a hash of its settings and models."""

    def endpoint(self, config: Config, role: str) -> Endpoint | None:
        """The model of a role; None if the kind does not ask it, or if it is embedded."""
        name = self.models.get(role, EMBEDDED)
        return None if name == EMBEDDED else model_of(config, name)


def kind_named(config: Config, name: str) -> KindOfRun:
    """A kind as the configuration describes it.

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
