#!/usr/bin/env python3
"""The most memory that an anonymous caller can make a server with default settings take, tried (docs/security.md).

    scripts/worst_case.py target/release/leasehold [STATE_MAX_MIB [HTTP2_CONNECTIONS [CONNECTIONS]]]

Starts the server on a loopback port, in a directory of its own, with a disk that confirms at once or hangs. It takes two
minutes, 4 GiB of memory and 5 GiB of disk, and needs a C compiler and 20 000 open files.
"""

import os
import re
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time

BINARY = sys.argv[1]
STATE_MAX_MIB, HTTP2, CONNECTIONS = (int(arg) for arg in (sys.argv[2:] + ["2048", "384", "16384"][len(sys.argv) - 2 :]))
STREAMS = 256
BODIES = 4096
CALLERS = 64
RELEASED = 6400
LONG = b"x" * (16 * 1024 - 2)
SHIM = """
#include <stdlib.h>
#include <unistd.h>
static int hang(void) { const char *p = getenv("HANG_WHILE"); while (p && access(p, F_OK) == 0) usleep(1000); return 0; }
int fsync(int fd) { return hang(); }
int fdatasync(int fd) { return hang(); }
"""


def request(method, path, body=b""):
    return f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def claim(number):
    return request("POST", "/v1/claims/", b'{"resource":"r%d","timeout":3600,"metadata":"%s"}' % (number, LONG))


def read(line):
    got = b""
    while True:
        more = line.recv(1 << 20)
        if not more:
            raise ConnectionError("closed")
        got += more
        head = got.find(b"\r\n\r\n")
        if head >= 0:
            length = re.search(rb"content-length: (\d+)", got[:head])
            if len(got) >= head + 4 + (int(length.group(1)) if length else 0):
                return int(got[9:12]), got[head + 4 :]


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def text(value):
    return bytes([len(value)]) + value


class Trial:
    def __init__(self, root):
        source, shim, self.hang = (os.path.join(root, name) for name in ("shim.c", "shim.so", "hang"))
        with open(source, "w") as file:
            file.write(SHIM)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, source], check=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [BINARY, "serve", "--listen", f"127.0.0.1:{self.port}", "--data", os.path.join(root, "data")]
        command += ["--state-max", f"{STATE_MAX_MIB}MiB"]
        env = dict(os.environ, LD_PRELOAD=shim, HANG_WHILE=self.hang)
        self.log = open(os.path.join(root, "log"), "w")
        self.server = subprocess.Popen(command, env=env, stdout=self.log, stderr=self.log)
        self.began, self.claims, self.ids = time.time(), 0, []
        while True:
            try:
                self.connect().close()
                break
            except ConnectionError:
                time.sleep(0.1)

    def connect(self, number=0):
        line = socket.socket()
        # One address has too few ports for all.
        line.bind((f"127.0.0.{2 + number // 8000}", 0))
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.connect(("127.0.0.1", self.port))
        return line

    def call(self, *what):
        with self.connect() as line:
            line.sendall(request(*what))
            return read(line)

    def gauge(self, name):
        _, body = self.call("GET", "/metrics")
        return float(re.search(rb"^leasehold_" + name + rb" (\S+)", body, re.M).group(1))

    def resident_mib(self, what):
        with open(f"/proc/{self.server.pid}/status") as status:
            return int(re.search(what + r":\s+(\d+)", status.read()).group(1)) // 1024

    def say(self, what):
        took, peak, now = time.time() - self.began, self.resident_mib("VmHWM"), self.resident_mib("VmRSS")
        print(f"{took:6.1f} s  at most {peak:5d} MiB, now {now:5d} MiB  {what}", flush=True)

    def fill(self, until_bytes):
        while True:
            for line in self.lines:
                line.sendall(claim(self.claims))
                self.claims += 1
            answers = [read(line) for line in self.lines]
            self.ids += [re.search(rb'"id": ?"([^"]+)"', body).group(1).decode() for status, body in answers if status == 201]
            is_full = any(status == 503 for status, _ in answers)
            if is_full or (self.claims % 4096 == 0 and self.gauge(b"state_bytes") > until_bytes):
                return

    def answer_pings(self):
        while True:
            for key, _ in self.pinged.select(0.5):
                line, buffer = key.fileobj, key.data
                try:
                    more = line.recv(65536)
                except OSError:
                    more = b""
                if not more:
                    self.pinged.unregister(line)
                    continue
                buffer += more
                while len(buffer) >= 9 and len(buffer) >= 9 + (length := int.from_bytes(buffer[:3], "big")):
                    if buffer[3] == 6 and not buffer[4] & 1:
                        line.sendall(frame(6, 1, 0, bytes(buffer[9 : 9 + length])))
                    del buffer[: 9 + length]

    def park(self, number):
        line = self.connect()
        out = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", frame(4, 0, 0, b""), frame(4, 1, 0, b"")]
        for n in range(STREAMS):
            path = b"/lock?client=%d-%d&wait=5m" % (number, n)
            out.append(frame(1, 5, 2 * n + 1, b"\x83\x86\x01" + text(b"localhost") + b"\x04" + text(path)))
        line.sendall(b"".join(out))
        self.pinged.register(line, selectors.EVENT_READ, bytearray())
        return line

    def run(self):
        self.say("started")
        start_mib = self.resident_mib("VmHWM")
        self.lines = [self.connect() for _ in range(CALLERS)]
        self.fill((STATE_MAX_MIB - STATE_MAX_MIB * 3 // 20) << 20)
        self.say(f"{len(self.ids)} claims of 16 KiB")

        self.pinged = selectors.DefaultSelector()
        threading.Thread(target=self.answer_pings, daemon=True).start()
        self.call("POST", "/lock?client=holder&ttl=1h")
        kept = [self.park(number) for number in range(HTTP2)]
        until = time.time() + 60
        while (parked := self.gauge(b"parked_callers")) < HTTP2 * STREAMS and time.time() < until:
            time.sleep(0.2)
        self.say(f"{parked:.0f} streams parked on {HTTP2} connections")
        self.fill(1 << 62)
        used, most = (self.gauge(name) / 2**20 for name in (b"state_bytes", b"state_bytes_max"))
        self.say(f"{len(self.ids)} claims, then 503: {used:.0f} of {most:.0f} MiB by the account")

        for first in range(0, min(RELEASED, len(self.ids) // 3), CALLERS):
            for line, id in zip(self.lines, self.ids[first:]):
                line.sendall(request("PATCH", f"/v1/claims/{id}/", b'{"status":"released"}'))
            for line in self.lines:
                read(line)
        for n in range(50):
            self.call("GET", f"/v1/observe/resources?sort=waiting&limit=1&q=r{n}")
        for n in range(60):
            line = self.connect()
            line.sendall(request("GET", "/v1/events" if n % 3 == 0 else "/v1/claims/?limit=1000") * 8)
            kept.append(line)
        until = time.time() + 5
        while (unsent := self.gauge(b"unsent_bytes")) < 48 << 20 and time.time() < until:
            time.sleep(0.2)
        self.say(f"orders of 50 lists, {unsent / 2**20:.0f} MiB of answers that are not read")

        open(self.hang, "w").close()
        halves = CONNECTIONS - len(kept) - len(self.lines) - 2
        for n in range(halves):
            line = self.connect(n)
            if n < BODIES:
                head = b"POST /v1/claims/ HTTP/1.1\r\nhost: localhost\r\ncontent-length: 65536\r\n\r\n"
                line.sendall(head + b"z" * 65000)
            else:
                line.sendall(b"GET /lock HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * (31 * 1024))
            kept.append(line)
        self.say(f"{halves} connections with half of a request")
        late, is_refused = 0, False
        while not is_refused:
            for line in self.lines:
                line.sendall(claim(self.claims))
                self.claims += 1
            statuses = [read(line)[0] for line in self.lines]
            late, is_refused = late + statuses.count(502), 503 in statuses
        os.unlink(self.hang)
        while self.call("GET", "/v1/claims/?limit=1")[0] != 200:
            time.sleep(0.2)
        self.say(f"{late} claims waited for the disk until the next was 503, and it is back")
        print(f"{self.resident_mib('VmHWM') - start_mib} MiB beside {start_mib} MiB at the start")
        for line in kept + self.lines:
            line.close()
        time.sleep(3)
        self.say("all connections closed")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (20000, max(20000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    with tempfile.TemporaryDirectory() as root:
        trial = Trial(root)
        try:
            trial.run()
        finally:
            trial.server.terminate()
            print("ended with", trial.server.wait())
