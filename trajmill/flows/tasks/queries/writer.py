"""The language model that writes queries."""

from __future__ import annotations

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.model_specs import model_of
from trajmill.flows.configuration.models import EMBEDDED
from trajmill.flows.configuration.prompts import prompts_of
from trajmill.stages.queries.graph.from_world import WriterModel


def writer_model(config: Config) -> WriterModel | None:
    """The model of `models.writer`; None if the grammar writes the queries."""
    endpoint = config.models.writer
    if endpoint == EMBEDDED:
        return None
    return WriterModel(model_of(config, endpoint), prompts_of(config).writer, config.endpoints[endpoint].max_in_flight)
