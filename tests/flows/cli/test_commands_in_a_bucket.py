"""Commands that need nothing but the address of a warehouse say the same of a bucket as of a folder."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.bucket_server import environment_for, new_bucket
from tests.flows.synthetic_run import write_run
from tests.warehouse.test_releases import export, release
from trajmill.flows.cli.app import run
from trajmill.flows.viewer.app import viewer_app
from trajmill.warehouse.layout import create_warehouse, open_warehouse
from trajmill.warehouse.read import read_table

pytestmark = pytest.mark.slow

COMMANDS = (
    ("sql", "SELECT round, count(*) AS steps FROM steps GROUP BY 1 ORDER BY 1"),
    ("sql", "SELECT split, success_rate FROM success_by_round ORDER BY ALL"),
    ("show", "{trajectory}"),
    ("releases", "list"),
    ("vacuum", "--dry-run"),
    ("compact",),
    ("releases", "drop", "first"),
    ("vacuum", "--days", "0"),
)
"""In the order in which they are called."""


@pytest.fixture(scope="module")
def roots(s3_endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The same run and release in a folder and in a bucket."""
    folder = tmp_path_factory.mktemp("commands")
    with pytest.MonkeyPatch.context() as environment:
        for name, value in environment_for(s3_endpoint, folder / "caches").items():
            environment.setenv(name, value)
        places = (str(folder / "root"), new_bucket(s3_endpoint))
        for place in places:
            warehouse = create_warehouse(place)
            write_run(warehouse, rounds=1)
            export(warehouse, "first")
            release(warehouse, "first")
        yield places


def said(capsys: pytest.CaptureFixture[str], root: str, words: tuple[str, ...]) -> str:
    assert run([*words, "--root", root]) == 0, (words, capsys.readouterr().err)
    out = capsys.readouterr().out.replace(root, "ROOT")
    # The sizes of tables in Parquet depend on the names of files and on times.
    return out.partition(" MB")[0].rpartition(" ")[0] if "MB" in out else out


def test_commands_say_the_same(roots: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    folder, bucket = roots
    trajectory = read_table(open_warehouse(Path(folder)), "trajectories", ["trajectory_id"])["trajectory_id"][0].as_py()
    for words in COMMANDS:
        filled = tuple(word.format(trajectory=trajectory) for word in words)
        assert said(capsys, bucket, filled) == said(capsys, folder, filled), words


def test_the_viewer_shows_the_same(roots: tuple[str, str]) -> None:
    folder, bucket = (TestClient(viewer_app(open_warehouse(root)), base_url="http://localhost") for root in roots)
    names = ["run_id", "trajectory_id", "screen_before"]
    [row] = read_table(open_warehouse(Path(roots[0])), "steps", names).slice(0, 1).to_pylist()
    pages = ("trajectories", "facets", f"trajectories/{row['run_id']}/{row['trajectory_id']}")
    for page in pages:
        wanted, shown = folder.get(f"/api/{page}"), bucket.get(f"/api/{page}")
        # The two warehouses were written one after the other.
        texts = [re.sub(r'"written_at":"[^"]*"', "", reply.text) for reply in (wanted, shown)]
        assert wanted.status_code == 200 and texts[0] == texts[1], page
    images = [viewer.get(f"/api/screens/{row['screen_before']}") for viewer in (folder, bucket)]
    assert images[0].status_code == 200 and images[0].content == images[1].content


def test_the_report_is_written_on_this_machine(roots: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "--root", roots[1]]) == 0
    assert "<html" in Path(capsys.readouterr().out.strip()).read_text()
