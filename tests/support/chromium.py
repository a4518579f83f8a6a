# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

TIMEOUT_S = 300
WIDTH, HEIGHT = 1280, 2400

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--force-device-scale-factor=1", "--force-color-profile=srgb",
    "--enable-logging=stderr", "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip


@dataclass
class Browser:
    """Chromium without a window."""

    program: str
    folder: Path

    def __call__(self, page: Path, *arguments: str) -> tuple[str, str]:
        """Opens `page`; returns stdout, and what stood on its console."""
        run = [self.program, *FLAGS, f"--user-data-dir={self.folder / 'profile'}"]
        run += [f"--window-size={WIDTH},{HEIGHT}", *arguments, page.as_uri()]
        browser = subprocess.Popen(
            run,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | {"HOME": str(self.folder)},
        )
        try:
            out, errors = browser.communicate(timeout=TIMEOUT_S)
        finally:
            # Whatever it started dies with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()
        assert browser.returncode == 0, errors
        console = [line for line in errors.splitlines() if "CONSOLE" in line]
        return out, "\n".join(console)


def browser_in(folder: Path) -> Browser:
    """A browser with its profile in `folder`; skips the test where there is none."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no chromium: apt-get install chromium")
    return Browser(program, folder)
