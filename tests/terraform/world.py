"""What the scenarios need: the real server, a state server, a proxy that cuts one reply, and Terraform's directories."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("LEASEHOLD_BINARY", Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug/leasehold"))
TF = [sys.executable, str(Path(__file__).with_name("tf.py"))]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until(what, check, seconds=60):
    """Looks again and again until `check` gives something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = check()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what}")


class Leasehold:
    """The real binary, with data that outlive it."""

    def __init__(self, config=""):
        self.directory = Path(tempfile.mkdtemp(prefix="leasehold-terraform-"))
        self.port = free_port()
        (self.directory / "leasehold.toml").write_text(config)
        self.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        arguments = ["serve", "--listen", f"127.0.0.1:{self.port}", "--data", str(self.directory / "data")]
        arguments += ["--config", str(self.directory / "leasehold.toml")]
        with open(self.directory / "log", "a") as log:
            self.process = subprocess.Popen([str(BINARY), *arguments], stdout=log, stderr=log)
        until("the server answers", lambda: self.call("GET", "/readyz")[0] == 200)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def call(self, method, path, body=None, token=None):
        request = urllib.request.Request(self.url + path, method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
        if token:
            request.add_header("authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")
        except (urllib.error.URLError, ConnectionError):
            return None, None

    def claims(self, name):
        query = urllib.parse.urlencode({"resource": f"tf/{name}", "limit": 1000})
        status, page = self.call("GET", f"/v1/claims/?{query}")
        assert status == 200, (status, page)
        return page["results"] if isinstance(page, dict) else page

    def held(self, name):
        return [claim for claim in self.claims(name) if claim["status"] == "active"]


class States(BaseHTTPRequestHandler):
    """Keeps states and no locks."""

    protocol_version = "HTTP/1.1"
    kept = {}

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        body = self.kept.get(self.path.split("?")[0])
        self.answer(200 if body else 204, body or b"")

    def do_POST(self):
        self.kept[self.path.split("?")[0]] = self.rfile.read(int(self.headers["content-length"]))
        self.answer(200)

    def log_message(self, *_):
        pass


def state_server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), States)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


class Cutter:
    """Passes bytes on, but cuts the connection in place of the first reply to LOCK."""

    def __init__(self, port):
        self.target, self.cut = port, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            near, _ = self.listener.accept()
            threading.Thread(target=self.pass_on, args=(near,), daemon=True).start()

    def pass_on(self, near):
        with near, socket.create_connection(("127.0.0.1", self.target)) as far:
            seen = b""

            def back():
                # Either side may have hung up.
                with contextlib.suppress(OSError):
                    while data := far.recv(65536):
                        if seen.startswith(b"LOCK ") and self.cut == 0:
                            self.cut += 1
                            near.shutdown(socket.SHUT_RDWR)
                            return
                        near.sendall(data)

            threading.Thread(target=back, daemon=True).start()
            with contextlib.suppress(OSError):
                while data := near.recv(65536):
                    seen = data if data[:1].isalpha() else seen
                    far.sendall(data)


class Stack:
    """A directory of Terraform's: a resource whose making is seen in a log."""

    def __init__(self, directory, states, lock, seconds=0, user=None):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log = self.directory.parent / f"{self.directory.name.split('.')[0]}.log"
        login = f'username = "{user[0]}"\n    password = "{user[1]}"' if user else ""
        (self.directory / "main.tf").write_text(f"""
terraform {{
  backend "http" {{
    address        = "{states}/state"
    lock_address   = "{lock}"
    unlock_address = "{lock}"
    {login}
  }}
}}
variable "run" {{ type = string }}
resource "terraform_data" "work" {{
  triggers_replace = var.run
  provisioner "local-exec" {{
    command = "echo begin ${{var.run}} >> {self.log}; sleep {seconds}; echo end ${{var.run}} >> {self.log}"
  }}
}}
""")
        code, text = self.run("init", "-input=false", "-no-color").wait()
        assert code == 0, text

    def copy(self, name):
        directory = self.directory.parent / name
        shutil.copytree(self.directory, directory, symlinks=True)
        other = object.__new__(Stack)
        other.directory, other.log = directory, self.log
        return other

    def run(self, *arguments):
        return Run(self.directory, *arguments)

    def apply(self, run):
        return self.run("apply", "-input=false", "-no-color", "-auto-approve", f"-var=run={run}")

    def seen(self):
        return self.log.read_text().split("\n")[:-1] if self.log.exists() else []


class Run:
    def __init__(self, directory, *arguments):
        self.out = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [*TF, str(directory), *arguments], stdout=self.out, stderr=subprocess.STDOUT, start_new_session=True
        )

    def wait(self, seconds=120):
        code = self.process.wait(seconds)
        self.out.seek(0)
        return code, self.out.read()

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def token(name, group):
    made = subprocess.run([str(BINARY), "token", "new", "--name", name, "--role", group], capture_output=True, text=True, check=True)
    return made.stdout.strip(), made.stderr
