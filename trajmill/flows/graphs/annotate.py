"""Annotates the file of a graph with the describer and the writer of a configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.judges import prompts_of
from trajmill.flows.configuration.model_specs import model_of
from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.flows.graphs.explore import GraphFiles, open_picture, picture_files
from trajmill.flows.serving.models_ready import models_ready
from trajmill.pipelines.models import OpenEndpoints
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenHandle
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.stages.annotation.annotate import AnnotatedGraph, Annotation, Annotators
from trajmill.stages.annotation.base import explored_words
from trajmill.stages.annotation.describer import PageDescriber
from trajmill.stages.annotation.namer import SlotNamer
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.file import read_graph, write_graph
from trajmill.warehouse.store.address import local_folder


class ModelUse(NamedTuple):
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    price: float = 0.0

    def with_call(self, call: ModelCall) -> ModelUse:
        return ModelUse(
            self.calls + 1,
            self.input_tokens + call.input_tokens,
            self.output_tokens + call.output_tokens,
            self.price + call.price,
        )


class AnnotateReport(NamedTuple):
    annotated: AnnotatedGraph
    use: ModelUse
    embedded: tuple[str, ...]
    """The roles without a model; what they would fill stays empty."""


def annotate_file(
    config: Config, path: Path, progress: Callable[[int, int], None] = lambda done, pages: None
) -> AnnotateReport:
    """Fill what is missing in a graph; its file is written after each page, so that a second call continues.

    Args:
        config: has the models of the roles `describer` and `writer`.
        path: YAML file of the graph; pictures and the journal of exploring lie beside it.
        progress: called with the number of pages that are done, and of all that miss something.

    Raises:
        BadInputError: the file is no graph, no role has a model, or a model cannot be reached.
    """
    graph = read_graph(path)
    roles = {"describer": config.models.describer, "writer": config.models.writer}
    asked = [name for name in roles.values() if name != EMBEDDED]
    if not asked:
        raise BadInputError(
            "models.describer, models.writer: a graph is annotated by models; map one of them to an [endpoints.NAME]"
        )
    with models_ready(config, local_folder(config.run.root) / "annotate", asked):
        annotated, use = asyncio.run(_annotate(config, graph, path, progress))
    return AnnotateReport(annotated, use, tuple(role for role, name in roles.items() if name == EMBEDDED))


async def _annotate(
    config: Config, graph: AppGraph, path: Path, progress: Callable[[int, int], None]
) -> tuple[AnnotatedGraph, ModelUse]:
    use, pages_done, models = ModelUse(), 0, config.models

    def account(call: ModelCall) -> None:
        nonlocal use
        use = use.with_call(call)

    def keep(so_far: AppGraph) -> None:
        nonlocal pages_done
        pages_done += 1
        write_graph(so_far, path)
        progress(pages_done, len(waiting))

    origin = Origin(round=0, run_id=f"annotate-{graph.app}", code_version=version("trajmill"))
    async with OpenEndpoints(origin, account) as endpoints:
        prompts, annotators = prompts_of(config).annotation, Annotators(None, None)
        if models.describer != EMBEDDED:
            model = endpoints.model(model_of(config, models.describer))
            annotators = annotators._replace(describer=PageDescriber(model, prompts.describer_page))
        if models.writer != EMBEDDED:
            model = endpoints.model(model_of(config, models.writer))
            annotators = annotators._replace(namer=SlotNamer(model, prompts.writer_slots))
        annotation = Annotation(graph, explored_words(GraphFiles(path).journal), annotators)
        waiting = annotation.waiting
        progress(0, len(waiting))
        pictures = {}
        for name, file in picture_files(graph, path.parent).items():
            if name in waiting:
                with open_picture(file) as image:
                    size = Size(*image.size)
                # The picture is read again when a model needs it.
                pictures[name] = ScreenHandle(content_id("picture", file.read_bytes().hex()), size, file.read_bytes)
        asked = (name for name in (models.describer, models.writer) if name != EMBEDDED)
        in_flight = min(config.endpoints[name].max_in_flight for name in asked)
        annotated = await annotation.run(pictures, in_flight, keep)
    return annotated, use
