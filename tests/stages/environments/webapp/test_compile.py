import json
import re
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.stages.environments.simulated.worlds import PAPER, SHELF, world_of
from trajmill.schemas.errors import BadInputError
from trajmill.stages.environments.simulated.app_files.check import builtin_files
from trajmill.stages.environments.webapp.compile import (
    INDEX,
    WebApp,
    compile_files,
    compile_world,
    web_app_server,
    write_web_app,
)


def data_of(app: WebApp) -> Any:
    blocks = re.findall(r'<script type="application/json" id="world">(.*?)</script>', app[INDEX], re.DOTALL)
    assert len(blocks) == 1
    return json.loads(blocks[0])


@pytest.mark.slow
def test_the_first_file_says_which_platform_opens_and_a_wrong_one_is_told_by_line(tmp_path: Path) -> None:
    mine = tmp_path / "paper.yaml"
    mine.write_text(PAPER)
    data = data_of(compile_files([mine]))
    assert data["platform"] == "desktop" and "bites" in data["apps"]
    errand = next(path for path in builtin_files() if path.parent.name == "errands")
    assert data_of(compile_files([errand, mine]))["platform"] == "phone"
    mine.write_text(PAPER.replace("kind: choice", "kind: chioce"))
    with pytest.raises(BadInputError, match=r"paper\.yaml:\d+: unknown kind `chioce`"):
        compile_files([mine])


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    app = compile_world(world_of(SHELF))
    page = write_web_app(app, tmp_path / "new" / "site")
    assert write_web_app(app, page.parent) == page
    assert {path.name: path.read_text() for path in page.parent.iterdir()} == app
    (page.parent / "thesis.txt").write_text("years of work")
    with pytest.raises(BadInputError, match="thesis"):
        write_web_app(app, page.parent)


def test_the_server_knows_the_files_of_the_app_and_no_others() -> None:
    app = compile_world(world_of(SHELF))
    with web_app_server(app, 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        for name in ("", "index.html?x=1", "style.css"):
            assert httpx.get(f"{address}/{name}").text == app[name.partition("?")[0] or INDEX]
        assert httpx.get(f"{address}/%2e%2e/etc/passwd").status_code == 404
        with pytest.raises(BadInputError, match=f"--port {server.server_port}: "):
            web_app_server(app, server.server_port)
        server.shutdown()
        thread.join()
