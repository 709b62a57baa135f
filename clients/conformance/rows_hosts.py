"""Rows about the host: clocks, stops, blocked loops, forks, several URLs, credentials, many leases."""

from __future__ import annotations

import asyncio
import datetime
import os
import re
import signal
import socket
import subprocess
import sysconfig
from pathlib import Path

from proxy import now
from rows_holding import on_time, untroubled
from scene import Scene, row
from server import BINARY


def new_token(name: str) -> tuple[str, str]:
    """A token and the digest that goes into the configuration."""
    made = subprocess.run([str(BINARY), "token", "new", "--name", name], capture_output=True, text=True, check=True)
    token = re.search(r"lh_[0-9a-f]+", made.stdout)
    digest = re.search(r"sha256:[0-9a-f]+", made.stdout + made.stderr)
    assert token and digest, made
    return token.group(), digest.group()


async def signed_on(scene: Scene) -> tuple[Path, str, str]:
    """A server that wants tokens, one of which expires in 11 to 12 s; the client's token file, and both tokens."""
    first, first_digest = new_token("ci")
    second, second_digest = new_token("ci")
    root, root_digest = new_token("root")
    # Whole seconds, so that it expires on one.
    expires = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0) + datetime.timedelta(seconds=12)
    config = f"""
[[auth.token]]
name = "ci"
digest = "{first_digest}"
expires = "{expires.strftime('%Y-%m-%dT%H:%M:%SZ')}"
[[auth.token]]
name = "ci"
digest = "{second_digest}"
[[auth.token]]
name = "root"
digest = "{root_digest}"
[[policy]]
subjects = ["*"]
actions = ["*"]
"""
    scene.operator_headers = {"Authorization": f"Bearer {root}"}
    server = await scene.own_server(config=config)
    path = Path(server.directory.name) / "token"
    path.write_text(first + "\n")
    scene.credentials |= {first, second, root}
    return path, first, second


@row(23, kinds=("claim",))
async def token_expires_and_the_file_is_rotated(scene: Scene) -> None:
    started = await scene.bare_driver()
    path, _, second = await signed_on(scene)
    driver = await scene.driver(started=started, token_file=str(path))
    await scene.hold(driver)
    path.write_text(second + "\n")
    # The client may keep the token that it read until it is told 401.
    await asyncio.sleep(12)
    assert 401 in {record.status for record in scene.log.of("renew")}, "the token did not expire"
    await scene.renewed()
    untroubled(driver)
    await scene.holds(driver)
    await scene.release(driver)


@row(23, kinds=("claim",))
async def token_expires(scene: Scene) -> None:
    started = await scene.bare_driver()
    path, _, _ = await signed_on(scene)
    driver = await scene.driver(started=started, token_file=str(path))
    grant = await scene.hold(driver)
    lost = await driver.event("lost", "l", 25)
    on_time(scene, lost, grant.token)
    assert 401 in {record.status for record in scene.log.of("renew")}
    await scene.is_lost(driver)


def libfaketime() -> str:
    for place in (f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"):
        library = Path(place) / "faketime" / "libfaketime.so.1"
        if library.exists():
            return str(library)
    raise AssertionError("libfaketime is not installed: scripts/need.sh installs it, on Debian it is the package faketime")


@row(24)
async def wall_clock_steps(scene: Scene) -> None:
    offset = Path(f"/tmp/leasehold-conformance-{os.getpid()}-{scene.client}-{scene.kind}.offset")
    offset.write_text("+0\n")
    env = {"LD_PRELOAD": libfaketime(), "FAKETIME_TIMESTAMP_FILE": str(offset), "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    try:
        driver = await scene.driver(env=env)
        grant = await scene.hold(driver)
        # A browser's client may lose early by a step forward; on these hosts nothing happens at all.
        for step in ("+3600", "+0", "-3600"):
            offset.write_text(f"{step}\n")
            await scene.renewed(count=2, timeout=10)
            assert (await scene.holds(driver))["token"] == grant.token
        untroubled(driver)
        assert (await scene.release(driver)).result == "released"
    finally:
        offset.unlink()


@row(25)
async def stopped_past_the_ttl(scene: Scene) -> None:
    driver = await scene.driver()
    await scene.hold(driver)
    await scene.renewed()
    witness = scene.witness().want()
    driver.signal(signal.SIGSTOP)
    # The witness has it while the client is stopped: by its own log the client must say that it lost it before.
    await witness.has_it(10)
    await asyncio.sleep(0.5)
    check = asyncio.create_task(scene.check(driver))
    await asyncio.sleep(0.1)
    continued = now()
    driver.signal(signal.SIGCONT)
    reply = await check
    assert not reply["ok"] and reply["error"] == "LeaseLost", reply
    lost = await driver.event("lost", "l", 5)
    assert lost.at >= continued
    await asyncio.sleep(1.5)
    assert not scene.log.of("renew", continued), "a renewal left after the deadline"
    # By its own clock it held until its deadline, not until it woke.
    lost.at = min(lost.at, lost.deadline)
    await witness.give()


@row(26)
async def suspended(scene: Scene) -> None:
    driver = await scene.driver()
    assert "clock" in driver.supports
    await scene.hold(driver)
    await scene.renewed()
    jumped = now()
    await driver.ask("clock", jump=10)
    reply = await scene.check(driver)
    assert not reply["ok"] and reply["error"] == "LeaseLost", reply
    lost = await driver.event("lost", "l", 3)
    assert lost.at - jumped <= 1.2, "no timer may sleep longer than a second while a lease is held"
    await asyncio.sleep(1.5)
    sent = [record for record in scene.log.of("renew", jumped + 0.05)]
    assert not sent, f"a renewal left after the deadline: {sent}"
    await scene.free_within(4.0)


@row(27)
async def user_runtime_blocked(scene: Scene) -> None:
    driver = await scene.driver()
    assert "block" in driver.supports
    grant = await scene.hold(driver)
    blocked = now()
    witness = scene.witness().want()
    blocking = asyncio.create_task(driver.op("block", seconds=6))
    check = asyncio.create_task(scene.check(driver))
    await blocking
    reply = await check
    if scene.is_typescript:
        assert not reply["ok"] and reply["error"] == "LeaseLost", reply
        lost = await driver.event("lost", "l", 3)
        lost.at = min(lost.at, lost.deadline)
        await witness.has_it(6)
        await witness.give()
    else:
        assert reply["ok"] and reply["token"] == grant.token, reply
        assert len(scene.log.of("renew", blocked)) >= 4
        untroubled(driver)
        await scene.release(driver)
        await witness.has_it(2)
        await witness.give()


@row(28)
async def forked(scene: Scene) -> None:
    driver = await scene.driver()
    if "fork" not in driver.supports:
        assert not scene.client.startswith("python"), "Python forks"
        return
    grant = await scene.hold(driver)
    before = now()
    await driver.ask("fork", lease="l")
    told = await driver.event("forked", "l", 15)
    assert told.check == "LeaseLost" and told.cause == "forked" and told.exit == 0, told.data
    assert not scene.log.of("release", before), "the child released what is its parent's"
    await scene.renewed(count=3, timeout=10)
    untroubled(driver)
    assert (await scene.holds(driver))["token"] == grant.token
    assert (await scene.release(driver)).result == "released"
    await scene.free_within(1.0)


class Unanswering:
    """An address whose connections never come about: its queue of connections is full."""

    def __init__(self) -> None:
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(0)
        self.fill: list[socket.socket] = []
        for _ in range(8):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(self.listener.getsockname())
            self.fill.append(filler)
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]

    def close(self) -> None:
        for sock in [self.listener, *self.fill]:
            sock.close()


async def second_url(scene: Scene, first: str, misfortune: str) -> None:
    driver = await scene.driver(urls=[first, scene.proxy.url])
    began = now()
    grant = await scene.hold(driver)
    assert grant.at - began <= 3.0, f"{misfortune}: granted after {grant.at - began:.2f} s"
    await scene.renewed(count=3, timeout=10)
    untroubled(driver)
    await scene.release(driver)
    await scene.free_within(1.0)


@row(29)
async def first_url_refuses(scene: Scene) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        await second_url(scene, "http://127.0.0.1:%d" % probe.getsockname()[1], "refused")


@row(29)
async def first_url_hangs(scene: Scene) -> None:
    first = Unanswering()
    try:
        await second_url(scene, first.url, "hangs")
    finally:
        first.close()


@row(29)
async def first_url_is_misdirected(scene: Scene) -> None:
    other = await scene.add_proxy()
    await scene.fault("answer", proxy=other, times=0, status=421, body={"error": "wrong host"})
    await second_url(scene, other.url, "421")


@row(29)
async def first_url_fails_while_held(scene: Scene) -> None:
    """Renewals, too, go to the second URL."""
    await scene.add_proxy()
    driver = await scene.driver()
    grant = await scene.hold(driver, ttl=6)
    await scene.renewed()
    for do in ("refuse", "hang"):
        used = next(p for p in scene.proxies if p.name == scene.log.of("renew")[-1].proxy)
        await scene.fault(do, proxy=used, **({} if do == "refuse" else {"times": 0}))
        record = await scene.renewed(timeout=5)
        assert record.proxy != used.name
        await scene.well()
    untroubled(driver)
    assert (await scene.holds(driver))["token"] == grant.token


@row(30)
async def second_url_is_another_service(scene: Scene) -> None:
    stranger = await scene.another_server()
    if scene.kind == "pool":
        await stranger.call("PUT", f"/l/{scene.name}", {"count": 1})
    second = await scene.add_proxy(stranger)
    assert second.upstream != scene.proxy.upstream
    scene.proxy.service, second.service = "one", "another"
    driver = await scene.driver()
    # A client may look at all its addresses before it uses one, and refuse them then.
    await scene.begin(driver, "before")
    while not (told := driver.all("granted", "before") + driver.all("failed", "before")):
        await asyncio.sleep(0.05)
    if told[0].event == "failed":
        assert told[0].error == "DifferentServices", told[0].data
        return
    await scene.release(driver, "before")
    await scene.fault("refuse")
    await scene.begin(driver, "after", timeout=10)
    failed = await driver.event("failed", "after", 15)
    assert failed.error == "DifferentServices", failed.data


def row_34_seconds() -> float:
    return float(os.environ.get("LEASEHOLD_CONFORMANCE_SECONDS", "25"))


@row(34, kinds=("claim",))
async def a_hundred_leases(scene: Scene) -> None:
    seconds = row_34_seconds()
    driver = await scene.driver()
    await scene.hold(driver, "l0", name=await scene.new_resource(), ttl=10)
    await asyncio.sleep(0.5)
    threads = driver.threads()
    for number in range(1, 100):
        await scene.begin(driver, f"l{number}", name=await scene.new_resource(), ttl=10)
    for number in range(1, 100):
        await driver.event("granted", f"l{number}", 60)
    # One call in ten goes wrong.
    for do, chance, more in (("hang", 0.01, {}), ("cut-before", 0.025, {}), ("cut-after", 0.025, {}), ("truncate", 0.02, {"bytes": 20}),
                             ("answer", 0.02, {"status": 502, "body": "bad gateway"})):
        await scene.fault(do, "renew", times=0, chance=chance, **more)
    until = now() + seconds
    while now() < until:
        await asyncio.sleep(1.0)
        assert not driver.all("lost"), driver.all("lost")
    assert driver.threads() <= threads, f"{driver.threads()} threads hold 100 leases, {threads} held one"
    faults = [record for record in scene.log.of("renew") if record.did != "forward"]
    assert len(faults) >= 5, "too few faults to tell anything"
    await scene.well()
    for number in range(0, 100, 9):
        await scene.holds(driver, f"l{number}")


@row(36)
async def ids_and_tokens_in_no_output(scene: Scene) -> None:
    """Errors, losses and refusals of all sorts; the judge then searches what the driver wrote."""
    driver = await scene.driver()
    await scene.hold(driver)
    name = "00000000-1111-4222-8333-444444444444" if scene.kind == "pool" else scene.name
    scene.log.secrets.add("00000000-1111-4222-8333-444444444444")
    await scene.begin(driver, "refused", name=name, timeout=0)
    await driver.event("failed", "refused", 10)
    secret = "lh_" + "5e" * 32
    scene.credentials.add(secret)
    path = Path(f"/tmp/leasehold-conformance-{os.getpid()}-{scene.client}-{scene.kind}.token")
    path.write_text(secret)
    try:
        await driver.ask("open", client="signed", urls=[scene.proxy.url], token_file=str(path), **scene.flags)
        for status in (401, 403, 400, 500):
            await scene.fault("answer", "acquire", times=3, status=status, body={"error": "no"}, headers={"Leasehold-Position": "1.1"})
            lease = f"refused-{status}"
            await scene.begin(driver, lease, client="signed", timeout=1)
            await driver.event("failed", lease, 10)
            await scene.well()
    finally:
        path.unlink()
    await scene.fault("hang", "renew", times=0)
    lost = await driver.event("lost", "l", 10)
    assert lost.message, "a loss says what happened"
    await scene.release(driver)
    await scene.well()
