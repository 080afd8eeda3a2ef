"""The server of a local desktop, without a desktop."""

from __future__ import annotations

from typing import cast

import pytest

from trajmill.stages.environments.desktop.local.desktop import LocalDesktop
from trajmill.stages.environments.desktop.local.server import serve_desktop


@pytest.mark.parametrize(("error", "is_told"), [(BrokenPipeError(), False), (ValueError("a fault"), True)])
def test_a_client_that_has_gone_is_no_traceback_on_the_terminal(
    error: Exception, is_told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve_desktop(cast(LocalDesktop, None), "token") as server:
        try:
            raise error
        except type(error):
            server.handle_error(server.socket, ("127.0.0.1", 1))
    assert ("Traceback" in capsys.readouterr().err) is is_told
