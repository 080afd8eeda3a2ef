"""The viewer in the real Chromium: what models said stays text, marks are at their place, keys work."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Error, Page, sync_playwright

from tests.flows.synthetic_run import HOSTILE as SAID_BY_A_MODEL
from tests.flows.synthetic_run import RUN as SYNTHETIC
from tests.flows.synthetic_run import write_run
from tests.flows.viewer.conftest import COUNT, HOSTILE, RUN, name, serving
from tests.warehouse.samples import commit_rows, query, stage_run, trajectory
from trajmill.flows.report.page import render_report
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.warehouse.layout import Warehouse, create_warehouse

pytestmark = pytest.mark.browser
PATIENCE = 200_000.0
"""Milliseconds after which a browser or a page is given up."""
DRAWN = "#place:not([aria-busy]) > *"
OPEN_FOLDS = "for (const fold of document.querySelectorAll('details')) fold.open = true"
NETWORK_CHANGED = "ERR_NETWORK_CHANGED"


@pytest.fixture(scope="module")
def context(hostile_warehouse: Warehouse) -> Iterator[BrowserContext]:
    with serving(hostile_warehouse) as address, sync_playwright() as driver:
        executable = shutil.which("chromium-headless-shell")
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = driver.chromium.launch(executable_path=executable, args=arguments, timeout=PATIENCE)
        context = browser.new_context(base_url=address, viewport={"width": 1400, "height": 860})
        context.set_default_timeout(PATIENCE)
        yield context
        browser.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    page = context.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    yield page
    page.close()
    # The stored SVG is refused; everything else loads.
    assert [trouble for trouble in troubles if "404" not in trouble and NETWORK_CHANGED not in trouble] == []


def opened(page: Page, path: str) -> Page:
    """Open a page; again if Chromium has dropped requests because a test beside this one adds a network interface."""
    dropped: list[str] = []
    page.on("requestfailed", lambda request: dropped.append(str(request.failure)))
    while True:
        dropped.clear()
        try:
            page.goto(path)
        except Error as error:
            if NETWORK_CHANGED not in str(error):
                raise
            continue
        if not any(NETWORK_CHANGED in each for each in dropped):
            page.wait_for_selector(DRAWN)
        if not any(NETWORK_CHANGED in each for each in dropped):
            return page


def axe_finds(page: Page) -> list[tuple[str, str]]:
    """The rules that a page breaks: all in light colours, and that of contrast in dark ones."""
    rules = {"runOnly": ["wcag2a", "wcag2aa"], "resultTypes": ["violations"]}
    broken = Axe().run(page, options=rules).response["violations"]
    page.emulate_media(color_scheme="dark")
    contrast = rules | {"runOnly": ["color-contrast"]}
    broken += page.evaluate("async rules => (await axe.run(rules)).violations", contrast)
    page.emulate_media(color_scheme="light")
    return [(each["id"], each["nodes"][0]["html"]) for each in broken]


def test_what_models_said_is_only_text_and_every_page_meets_the_rules_of_accessibility(page: Page) -> None:
    for path in (
        "/",
        "/trajectories?purpose=train",
        "/trajectories?task=" + "%22%3E%3Cscript%3Ewindow.hit%3D7%3C/script%3E",
        f"/trajectories/{RUN}/{name(0)}",
        f"/trajectories/{RUN}/{name(0)}?step=3",
        "/trajectories/%3Cimg%20src=x%20onerror=window.hit=8%3E/x",
        f"/compare?a={RUN}/{name(0)}&b={RUN}/{name(1)}",
        "/success?purpose=train",
        "/failures?purpose=train",
        "/policies",
        "/live",
        "/nothing",
    ):
        opened(page, path)
        # Others of its kind are among them.
        assert path.endswith(("script%3E", "?step=3", "/x")) or axe_finds(page) == [], path
        page.evaluate(OPEN_FOLDS)
        page.mouse.move(300, 200)
        page.wait_for_timeout(150)
        assert page.evaluate("window.hit") is None
        harmful = ("script", "style", "[onerror]", "[onmouseover]", "[onload]")
        assert page.locator(", ".join(f"#place {each}" for each in harmful)).count() == 0
        assert page.evaluate("[...document.querySelectorAll('a')].every((link) => !link.href.startsWith('javascript'))")
        assert page.locator("#place").is_visible()
        if path.endswith(name(0)):
            assert page.locator("h1").inner_text() == HOSTILE.replace("\x1b", "\u241b").replace("\u202e", "\ufffd")


def test_marks_are_at_their_place_at_every_scale(page: Page) -> None:
    opened(page, f"/trajectories/{RUN}/{name(1)}")
    for width, height in ((1400, 400), (900, 400), (1100, 800)):
        page.set_viewport_size({"width": width, "height": height})
        image = page.locator(".stage img").bounding_box()
        circle = page.locator(".marks circle.core").bounding_box()
        box = page.locator(".marks rect.core").bounding_box()
        assert image and circle and box
        factor = image["width"] / 32
        assert image["height"] / 48 == pytest.approx(factor, rel=0.02)
        for mark in (circle, box):
            middle = (mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2)
            assert middle == pytest.approx((image["x"] + 8 * factor, image["y"] + 36 * factor), abs=1)


def test_keys_go_through_steps_and_trajectories(page: Page) -> None:
    opened(page, "/trajectories?purpose=train")
    rows = page.locator(".attempts tbody tr")
    assert rows.count() == COUNT
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector(".rail li.at")
    first = page.url
    for key, step in (("ArrowRight", 2), ("k", 1), ("End", 3), ("Home", 1), ("j", 2)):
        page.keyboard.press(key)
        page.wait_for_function("asked => location.search === asked", arg=f"?step={step}")
        assert page.locator(".rail li.at .number").inner_text() == str(step)
    page.keyboard.press("n")
    page.wait_for_function("before => location.pathname !== new URL(before).pathname", arg=first)
    page.wait_for_selector(DRAWN)
    page.keyboard.press("u")
    page.wait_for_selector(".attempts")
    assert page.url.endswith("/trajectories?purpose=train")


def test_two_rows_are_compared(page: Page) -> None:
    opened(page, "/trajectories?purpose=train&order=oldest")
    for key in ("x", "j", "x"):
        page.keyboard.press(key)
    page.wait_for_selector(".compare")
    assert page.locator(".pair .side").count() == 6
    assert "They part at step 1." in page.locator(".compare").inner_text()


def test_a_filter_and_a_text_are_in_the_address(page: Page) -> None:
    opened(page, "/trajectories")
    page.locator(".value", has_text="void").click()
    page.wait_for_selector(".chips")
    assert page.url.endswith("/trajectories?outcome=void")
    page.keyboard.press("/")
    page.keyboard.type("crashed")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url.endswith("/trajectories?outcome=void&text=crashed"))
    page.wait_for_selector(DRAWN)
    assert page.locator(".attempts tbody tr").count() == 1


def test_a_name_keeps_filters_in_this_browser(page: Page) -> None:
    opened(page, "/trajectories?outcome=void")
    page.get_by_label("Name for these filters").fill("crashes")
    page.keyboard.press("Enter")
    page.goto("/trajectories")
    page.locator(".saved a", has_text="crashes").click()
    page.wait_for_url("**/trajectories?outcome=void")
    page.get_by_label("Forget crashes").click()
    page.wait_for_selector(".saved", state="detached")


def test_keys_wait_for_the_page_that_is_asked_for(page: Page) -> None:
    opened(page, "/trajectories?purpose=train")
    # The next page never comes, so the one before is still to be seen, but it is no longer what keys act on.
    page.route("**/api/runs", lambda route: None)
    page.keyboard.press("g")
    page.wait_for_selector("#place[aria-busy]")
    page.keyboard.press("Enter")
    assert page.url.rstrip("/").count("/") == 2
    page.unroute_all(behavior="ignoreErrors")


def test_the_report_meets_them_too_loads_no_other_file_and_what_models_said_is_text(page: Page, tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "warehouse")
    write_run(warehouse)
    at = stage_run("evaluate", 2, SYNTHETIC)
    measured = [trajectory(100 + number, at, "q-1", purpose=Purpose.EVALUATE) for number in range(3)]
    commit_rows(warehouse, at, query("q-1", at), *measured)
    html = render_report(warehouse, SYNTHETIC)
    assert "--share: 1.00" in html
    page.set_content(html)
    assert page.get_by_text(SAID_BY_A_MODEL, exact=True).count() > 0
    assert page.locator("script, link, iframe, object, embed, [onerror], [onload]").count() == 0
    sources = page.eval_on_selector_all(
        "[src], [href]", "all => all.map(each => each.getAttribute('src') ?? each.href)"
    )
    assert sources and all(source.startswith("data:image/webp;base64,") for source in sources)
    page.evaluate(OPEN_FOLDS)
    assert axe_finds(page) == []
