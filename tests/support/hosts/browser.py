"""A real, headless Chromium, in which pages are opened; skips where there is none."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any, Iterator

import pytest

DEADLINE_MS = 30_000


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """A browser, for as long as the block lasts."""
    driver = pytest.importorskip("playwright.sync_api")
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("needs chromium: apt-get install chromium")
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with driver.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=as_root)
        try:
            yield started
        finally:
            started.close()


class Tab:
    """A page that was opened, with what it said in its console and what it asked the network for."""

    def __init__(self, started: Any, width: int = 1280, scheme: str = "light"):
        self._context = started.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self._context.new_page()
        self.page.set_default_timeout(DEADLINE_MS)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on(
            "dialog", lambda dialog: (self.said.append(f"dialog: {dialog.message}"), dialog.dismiss())
        )
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, address: str | Path) -> Any:
        """Open a file or an address, and wait until all its plots are drawn."""
        self.page.goto(address.as_uri() if isinstance(address, Path) else address)
        self.wait_until_drawn()
        return self.page

    def wait_until_drawn(self) -> None:
        self.page.wait_for_selector("html[data-plots=drawn]", state="attached")

    def close(self) -> None:
        self._context.close()
