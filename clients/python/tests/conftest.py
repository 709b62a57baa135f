"""The real server for the tests of the client, and the operator's calls to it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import pytest

ROOT = Path(__file__).resolve().parents[3]
BINARY = Path(os.environ.get("LEASEHOLD_BINARY", Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "leasehold"))

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

for variable in [name for name in os.environ if name.startswith("LEASEHOLD_")]:
    if variable != "LEASEHOLD_BINARY":
        del os.environ[variable]


class Server:
    """A server of its own, and calls to it without the client under test."""

    def __init__(self, *args: str, scheme: str = "http") -> None:
        assert BINARY.exists(), f"{BINARY} is missing: cargo build -p leasehold makes it"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"{scheme}://127.0.0.1:{port}"
        # In memory: how long a disk takes is not what is looked at.
        command = [str(BINARY), "serve", "--listen", f"127.0.0.1:{port}", "--memory", "--grace", "0s", *args]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr
        for line in self.process.stderr:
            if "listening on" in line:
                return
        raise RuntimeError("the server did not start")

    def call(self, method: str, path: str, body: Optional[Dict[str, Any]] = None) -> Tuple[int, Dict[str, Any]]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else {}
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def events(self, key: str) -> List[str]:
        """The events of a resource, oldest first."""
        _, body = self.call("GET", f"/v1/observe/resources/{key}/history")
        return [event["event"] for event in body["events"]]

    def revoke(self, key: str, token: int) -> None:
        status, body = self.call("POST", "/v1/admin/revoke", {"key": key, "token": token})
        assert (status, body) == (200, {"revoked": True})

    def lock_is_free(self, name: str) -> bool:
        _, body = self.call("GET", f"/lock?job={name}")
        return not body["holder"] or bool(body["is_expired"])

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.stop()


@pytest.fixture
def name() -> str:
    return f"r-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def pool(server: Server) -> str:
    made = str(uuid.uuid4())
    assert server.call("PUT", f"/l/{made}", {"count": 1})[0] == 200
    return made


def until(condition: Any, within_s: float = 10.0) -> None:
    """Waits for something that has to come about."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.01)
