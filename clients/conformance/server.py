"""The real server, as a process of its own that can be killed, stopped and started again on the same port and data."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import tempfile
from pathlib import Path

from http1 import Answer, call

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BINARY = Path(os.environ.get("LEASEHOLD_BINARY", TARGET / "debug" / "leasehold"))

# Reported on stderr once the socket is open.
LISTENING = re.compile(r"listening on https?://([^\s,/]+):(\d+)")
START_S = 30.0


class Server:
    def __init__(self, *args: str, config: str = "", env: dict[str, str] | None = None, memory: bool = False) -> None:
        self.args = list(args)
        self.env = env or {}
        self.directory = tempfile.TemporaryDirectory(prefix="leasehold-conformance-")
        self.store = ["--memory"] if memory else ["--data", f"{self.directory.name}/data"]
        self.address = ("127.0.0.1", 0)
        self.process: asyncio.subprocess.Process | None = None
        self._drain: asyncio.Task[None] | None = None
        if config:
            path = Path(self.directory.name) / "leasehold.toml"
            path.write_text(config)
            self.args += ["--config", str(path)]

    @property
    def url(self) -> str:
        return f"http://{self.address[0]}:{self.address[1]}"

    async def start(self) -> Server:
        port = self.address[1] or _free_port()
        # A lock's grace would hide a second holder: the witness shall get the lock as early as the server allows.
        self.process = await asyncio.create_subprocess_exec(
            str(BINARY), "serve", "--listen", f"127.0.0.1:{port}", *self.store,
            "--grace", "0s", *self.args,
            stderr=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL,
            env={**{k: v for k, v in os.environ.items() if not k.startswith("LEASEHOLD_")}, **self.env},
        )
        said: list[str] = []

        async def until_it_listens() -> None:
            assert self.process and self.process.stderr
            async for line in self.process.stderr:
                said.append(line.decode(errors="replace"))
                if LISTENING.search(said[-1]):
                    return
            raise RuntimeError("the server ended:\n" + "".join(said))

        await asyncio.wait_for(until_it_listens(), START_S)
        self.address = ("127.0.0.1", port)
        self._drain = asyncio.create_task(self._read_on())
        return self

    async def _read_on(self) -> None:
        assert self.process and self.process.stderr
        while await self.process.stderr.read(65536):
            pass

    async def kill(self) -> None:
        assert self.process
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def stop(self) -> None:
        if self.process and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGKILL)
            await self.process.wait()
        if self._drain:
            self._drain.cancel()
            await asyncio.gather(self._drain, return_exceptions=True)
        self.directory.cleanup()

    async def call(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> Answer:
        return await call(self.address, method, path, body, headers)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
