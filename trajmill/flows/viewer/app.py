"""The routes of the viewer: pages, and the JSON and the images that they show."""

from __future__ import annotations

from http import HTTPStatus
from importlib import resources
from pathlib import PurePath
from typing import Annotated

from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp

from trajmill.flows.viewer.catalogue import Catalogue
from trajmill.flows.viewer.filters import AttemptFilter
from trajmill.flows.viewer.guard import ViewerGuard
from trajmill.flows.viewer.images import SharedScreens
from trajmill.flows.viewer.listing import AttemptPage, FacetValue, PageRequest, attempt_page, facets
from trajmill.flows.viewer.overview import RunCard, run_cards
from trajmill.flows.viewer.success import Group, SuccessCell, success_over_rounds
from trajmill.flows.viewer.training import TrainingRows, training_rows
from trajmill.flows.viewer.trajectory import TrajectoryPage, model_calls, trajectory_named, trajectory_page
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.warehouse.layout import Warehouse

_PLACES = ("/", "/trajectories", "/success", "/trajectories/{run_id}/{trajectory_id}", "/compare")
_MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_NOT_SHOWN = {"steps": {"__all__": {"reply_token_ids", "reply_logprobs"}}}
_FOR_EVER = {"cache-control": "private, max-age=31536000, immutable"}
_ASK_AGAIN = {"cache-control": "no-cache"}


class _SuccessRequest(AttemptFilter):
    by: Group = "app"


def viewer_app(warehouse: Warehouse, token: str = "") -> ASGIApp:
    """The app that shows a warehouse; it only reads.

    Args:
        warehouse: what is shown.
        token: what readers must send; empty for readers on this machine.

    Raises:
        BadInputError: a committed file or an entry of a table's log is missing or damaged.
    """
    app = FastAPI(title="trajmill", openapi_url=None)
    app.add_exception_handler(BadInputError, _not_found)
    _add_pages(app)
    _add_data(app, warehouse, Catalogue(warehouse), SharedScreens(warehouse))
    return ViewerGuard(app, token)


def _add_pages(app: FastAPI) -> None:
    files = {
        path.name: (path.read_bytes(), _MEDIA_TYPES[PurePath(path.name).suffix])
        for path in resources.files(__package__).joinpath("page").iterdir()
    }

    def place() -> Response:
        return _file("index.html")

    def static(name: str) -> Response:
        return _file(name)

    def _file(name: str) -> Response:
        if name not in files:
            return Response(status_code=HTTPStatus.NOT_FOUND)
        data, media_type = files[name]
        return Response(data, media_type=media_type, headers=_ASK_AGAIN)

    for path in _PLACES:
        app.add_api_route(path, place)
    app.add_api_route("/static/{name}", static)


def _add_data(app: FastAPI, warehouse: Warehouse, catalogue: Catalogue, screens: SharedScreens) -> None:
    @app.get("/api/runs")
    def runs() -> list[RunCard]:
        return run_cards(warehouse, catalogue)

    @app.get("/api/trajectories")
    def trajectories(wanted: Annotated[PageRequest, Query()]) -> AttemptPage:
        return attempt_page(catalogue, wanted)

    @app.get("/api/facets")
    def values(wanted: Annotated[AttemptFilter, Query()]) -> dict[str, list[FacetValue]]:
        return facets(catalogue, wanted)

    @app.get("/api/success")
    def success(wanted: Annotated[_SuccessRequest, Query()]) -> list[SuccessCell]:
        return success_over_rounds(catalogue, wanted, wanted.by)

    @app.get("/api/trajectories/{run_id}/{trajectory_id}", response_model_exclude=_NOT_SHOWN)
    def trajectory(run_id: str, trajectory_id: str) -> TrajectoryPage:
        return trajectory_page(warehouse, catalogue, screens, run_id, trajectory_id)

    @app.get("/api/trajectories/{run_id}/{trajectory_id}/training")
    def training(run_id: str, trajectory_id: str) -> TrainingRows:
        return training_rows(warehouse, run_id, trajectory_id)

    @app.get("/api/trajectories/{run_id}/{trajectory_id}/calls")
    def calls(run_id: str, trajectory_id: str) -> list[ModelCall]:
        return model_calls(warehouse, run_id, trajectory_id)

    @app.get("/api/screens/{screen_id}")
    def screen(screen_id: str) -> Response:
        image = screens.image(screen_id)
        return Response(image.data, media_type=image.media_type, headers=_FOR_EVER)

    @app.get("/t/{start}")
    def named(start: str) -> Response:
        """A short link: `/t/` and the start of a trajectory's id."""
        found = trajectory_named(catalogue, start)
        return RedirectResponse(f"/trajectories/{found.run_id}/{found.trajectory_id}", HTTPStatus.SEE_OTHER)


def _not_found(request: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, HTTPStatus.NOT_FOUND)
