"""Actions of the host: Ctrl-C, exit, fork, a clock that jumps; and the arithmetic of deadlines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Server, until

import leasehold
from leasehold import _lease
from leasehold._clock import CLOCK
from leasehold._kinds import Grant, LockDialect, _go

SOURCE = str(Path(leasehold.__file__).parents[1])


def program(server: Server, text: str) -> "subprocess.Popen[str]":
    env = {**os.environ, "PYTHONPATH": SOURCE, "LEASEHOLD_URL": server.url}
    return subprocess.Popen([sys.executable, "-c", text], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_ctrl_c_while_waiting_leaves_nothing(server: Server, name: str) -> None:
    _, held = server.call("POST", "/v1/claims/", {"resource": name, "timeout": 60})
    text = "import leasehold, logging\nlogging.basicConfig(level=10, format='%(relativeCreated)d %(message)s')\n"
    waiter = program(server, f"{text}leasehold.Client().claim({name!r}).acquire()")
    until(lambda: server.call("GET", f"/v1/resources/{name}")[1]["waiting"] == 1)
    waiter.send_signal(signal.SIGINT)
    _, errors = waiter.communicate(timeout=10)
    assert "KeyboardInterrupt" in errors and waiter.returncode != 0
    # The withdrawal has left; on a busy machine the service may still have it before it.
    until(lambda: server.call("GET", f"/v1/resources/{name}")[1]["waiting"] == 0)
    server.call("PATCH", f"/v1/claims/{held['id']}/", {"status": "released"})


def test_a_program_that_ends_releases(server: Server, name: str) -> None:
    text = f"import leasehold\nlease = leasehold.Client().lock({name!r}, ttl=60).acquire()\nprint(lease.token, flush=True)"
    ended = program(server, text)
    output, errors = ended.communicate(timeout=10)
    assert int(output) > 0 and ended.returncode == 0, errors
    assert server.lock_is_free(name)


def test_exit_takes_two_seconds_when_the_service_is_gone(name: str) -> None:
    server = Server()
    text = f"""
import leasehold, sys
lease = leasehold.Client().lock({name!r}, ttl=60).acquire()
print("held", flush=True)
sys.stdin.readline() if False else input()
"""
    env = {**os.environ, "PYTHONPATH": SOURCE, "LEASEHOLD_URL": server.url}
    ending = subprocess.Popen([sys.executable, "-c", text], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert ending.stdout and ending.stdin and ending.stdout.readline() == "held\n"
    server.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    ending.communicate("\n", timeout=20)
    assert time.monotonic() - began < 4
    server.stop()


def test_a_child_of_fork_holds_nothing_and_can_start_afresh(server: Server, name: str) -> None:
    text = f"""
import leasehold, os, sys
client = leasehold.Client()
with client.lock({name!r}, ttl=3) as lease:
    token = lease.token
    child = os.fork()
    if child == 0:
        try:
            lease.check()
        except leasehold.LeaseLost as loss:
            assert loss.cause == "forked", loss.cause
        else:
            sys.exit(9)
        assert lease.release() == "ended_before"
        with client.lock({name!r} + "-child", timeout=5) as own:
            assert own.held
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    import time
    time.sleep(3.5)
    assert lease.token == token
print("well")
"""
    output, errors = program(server, text).communicate(timeout=30)
    assert output == "well\n", errors
    assert server.events(f"lock:{name}").count("granted") == 1


def test_a_suspended_machine_has_lost_its_lease(server: Server, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with leasehold.Client(server.url) as client:
        lease = client.lock(name, ttl=30).acquire()
        assert lease is not None and lease.held
        monkeypatch.setattr(CLOCK, "jump_s", 29.0)
        lease.check()
        monkeypatch.setattr(CLOCK, "jump_s", 31.0)
        with pytest.raises(leasehold.LeaseLost, match="deadline"):
            lease.check()
        assert lease.lost.wait(2)


def state(length_s: float, sent_at: float) -> _lease.LeaseState:
    return _lease.LeaseState(LockDialect("x", length_s, "me"), Grant("me", 1, None, length_s), sent_at)


def test_the_points_of_a_lease() -> None:
    """The table of docs/clients.md for L = 30 s, and its bounds."""
    now = CLOCK.now()
    lease = state(30.0, now)
    assert lease.deadline - now == pytest.approx(29.4)
    assert lease.at_risk_at - now == pytest.approx(19.4)
    assert all(8.5 <= lease.renewal_due() - now <= 10.0 for _ in range(200))
    assert [_lease.attempt_s(length) for length in (1, 2.5, 3, 30, 50, 60)] == pytest.approx([0.25, 0.25, 0.3, 3, 5, 5])
    assert [_lease.margin_s(length) for length in (1, 2.5, 3, 30)] == pytest.approx([0.05, 0.05, 0.06, 0.6])


def test_a_deadline_never_moves_back_and_lost_is_final(monkeypatch: pytest.MonkeyPatch) -> None:
    now = CLOCK.now()
    lease = state(30.0, now)
    assert lease.renewed(Grant("me", 1, None, 3.0), now + 1)
    assert lease.deadline - now == pytest.approx(29.4)
    assert lease.renewed(Grant("me", 1, None, 30.0), now + 5)
    assert lease.deadline - now == pytest.approx(34.4)
    monkeypatch.setattr(CLOCK, "jump_s", 34.5)
    assert not lease.renewed(Grant("me", 1, None, 30.0), now + 34), "an answer heard after the deadline changes nothing"
    monkeypatch.setattr(CLOCK, "jump_s", 0.0)
    assert lease.held, "the clock of this test went back; a real one does not"
    monkeypatch.setattr(CLOCK, "jump_s", 34.5)
    assert not lease.held
    monkeypatch.setattr(CLOCK, "jump_s", 0.0)
    assert not lease.held and lease.loss().cause == "deadline"


def test_durations_of_locks_are_never_shorter_than_asked() -> None:
    assert [_go(value) for value in (1, 30, 0.5, 1.0000001)] == ["1000000us", "30000000us", "500000us", "1000001us"]
