# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window, driven: opened pages are clicked, typed at, measured and pictured.

It is spoken to over two pipes (the DevTools protocol, messages that end in a zero byte), so that
no port is open and no driver has to be installed.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chromium import FLAGS, browser_in

TIMEOUT_S = 120

START = """import fcntl, os, sys
reads, writes = (fcntl.fcntl(int(one), fcntl.F_DUPFD, 20) for one in sys.argv[1:3])
os.dup2(reads, 3)
os.dup2(writes, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Puts the pipes where Chromium looks for them, whatever their numbers are here."""


class Page:
    """One page in one browser; what it prints on its console is kept."""

    def __init__(self, listens: int, answers: int) -> None:
        self._listens, self._answers = listens, answers
        self._said = b""
        self._number = 0
        self._session = ""
        self._loaded: set[str] = set()
        self.console: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self._call("Page.setLifecycleEventsEnabled", enabled=True)

    def open(self, address: str) -> None:
        """Goes to `address` and waits until it has loaded: it, and not the page before, which may
        be loading itself again."""
        loader = self._call("Page.navigate", url=address)["loaderId"]
        while loader not in self._loaded:  # it may have come before the answer
            self._next()

    def run_scripts(self, *, any_page: bool) -> None:
        """Whether pages whose policy forbids it run scripts; holds for those opened from now on."""
        self._call("Page.setBypassCSP", enabled=any_page)

    def __call__(self, script: str) -> Any:
        """What an expression comes to, which may be a promise."""
        found = self._call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, script: str) -> None:
        """Waits until an expression is true."""
        deadline = time.monotonic() + TIMEOUT_S
        while not self(f"Boolean({script})"):
            assert time.monotonic() < deadline, f"never true: {script}"
            time.sleep(0.02)

    def size(self, width: int, height: int = 900) -> None:
        """As wide as a screen of another kind."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                   deviceScaleFactor=1, mobile=False)  # fmt: skip

    def media(self, kind: str = "", *, dark: bool = False) -> None:
        """On paper (`print`), or with dark colours."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", media=kind, features=[scheme])

    def key(self, name: str) -> None:
        """Presses a key and lets it go."""
        code = {"ArrowRight": 39, "ArrowLeft": 37, "Tab": 9, "Enter": 13, "End": 35, "Home": 36}
        for kind in ("rawKeyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                       windowsVirtualKeyCode=code[name])  # fmt: skip
        if name == "Enter":
            self._call("Input.dispatchKeyEvent", type="char", key=name, text="\r")

    def drag(self, *places: tuple[float, float]) -> None:
        """Presses the mouse at the first of `places`, and lets it go at the last."""
        for number, (x, y) in enumerate(places):
            kind = "mouseMoved" if number else "mousePressed"
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1,
                       clickCount=1)  # fmt: skip
        x, y = places[-1]
        self._call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left",
                   clickCount=1)  # fmt: skip

    def click(self, selector: str) -> None:
        """Clicks in the middle of the first element that `selector` names."""
        box = self(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)});"
            "one.scrollIntoView({block: 'center'}); const b = one.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        self.drag((box[0], box[1]))

    def picture(self, path: Path) -> Path:
        """The whole page as PNG."""
        shot = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))
        return path

    def paper(self, path: Path) -> Path:
        """The page as PDF."""
        path.write_bytes(base64.b64decode(self._call("Page.printToPDF")["data"]))
        return path

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        order = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            order["sessionId"] = self._session
        data = json.dumps(order).encode() + b"\0"
        while data:
            data = data[os.write(self._listens, data) :]
        while (answer := self._next()).get("id") != self._number:
            pass
        assert "error" not in answer, (method, answer["error"])
        found: dict[str, Any] = answer["result"]
        return found

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT_S
        while b"\0" not in self._said:
            left = max(deadline - time.monotonic(), 0)
            assert select.select([self._answers], [], [], left)[0], "the browser says nothing"
            more = os.read(self._answers, 1 << 20)
            assert more, "the browser is gone"
            self._said += more
        one, _, self._said = self._said.partition(b"\0")
        message: dict[str, Any] = json.loads(one)
        told = message.get("params", {})
        if message.get("method") == "Page.lifecycleEvent" and told["name"] == "load":
            self._loaded.add(told["loaderId"])
        if message.get("method") == "Log.entryAdded":
            self.console.append(message["params"]["entry"]["text"])
        elif message.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.console.append(json.dumps(message["params"]))
        return message


@contextlib.contextmanager
def page_in(folder: Path) -> Iterator[Page]:
    """A page of a browser with its profile in `folder`; skips the test where there is none."""
    program = browser_in(folder).program
    theirs, listens = os.pipe()
    answers, theirs_too = os.pipe()
    here = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"  # the last one counts
    words = [
        program,
        *FLAGS,
        here,
        "--remote-debugging-pipe",
        f"--user-data-dir={folder / 'driven'}",
    ]
    browser = subprocess.Popen(
        [sys.executable, "-c", START, str(theirs), str(theirs_too), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(theirs, theirs_too),
        start_new_session=True,
        env=os.environ | {"HOME": str(folder), "TMPDIR": str(folder)},
    )
    os.close(theirs)
    os.close(theirs_too)
    try:
        yield Page(listens, answers)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(browser.pid, signal.SIGKILL)
        browser.wait()
        os.close(listens)
        os.close(answers)
