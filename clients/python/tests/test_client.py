"""The synchronous client: scopes, refusals, loss, what it shows."""

from __future__ import annotations

import gc
import threading
import time
import uuid
from pathlib import Path
from typing import Iterator, List

import pytest
from conftest import Server, until

import leasehold
from leasehold import Client


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url, name="tester") as made:
        yield made


def test_a_lock_is_held_in_its_scope_and_free_after_it(server: Server, client: Client, name: str) -> None:
    with client.lock(name, ttl=30, timeout=10) as lease:
        lease.check()
        assert lease.held and lease.token > 0 and lease.slot is None
        assert 25 < lease.remaining() <= 29.4
        _, shown = server.call("GET", f"/lock?job={name}")
        assert shown["holder"].startswith("tester/") and shown["token"] == lease.token
        assert client.lock(name).locked()
    assert not lease.held and server.lock_is_free(name) and not client.lock(name).locked()
    with pytest.raises(leasehold.LeaseLost, match="released"):
        lease.check()


def test_a_claim_and_a_slot(server: Server, client: Client, name: str, pool: str) -> None:
    with client.claim(name, timeout=10, metadata={"job": 7}) as claim, client.pool(pool).borrow(ttl=60, wait=30) as slot:
        assert slot.position == slot.slot == 0
        assert client.claim(name).locked() and client.pool(pool).borrow().locked()
        assert client.pool(pool).show()["in_use"] == 1
        _, listed = server.call("GET", f"/v1/resources/{name}")
        assert listed["in_use"] == 1 and claim.token > 0
    assert not client.claim(name).locked() and client.pool(pool).show()["in_use"] == 0


def test_held_by_another(client: Client, name: str) -> None:
    with client.lock(name) as lease:
        other = client.lock(name, timeout=0)
        assert other.acquire() is None and other.acquire(blocking=False) is None
        with pytest.raises(leasehold.Conflict) as conflict, other:
            raise AssertionError("unreachable")
        assert str(conflict.value.holder).startswith("tester/") and conflict.value.request_id
        began = time.monotonic()
        with pytest.raises(leasehold.Timeout), client.lock(name, timeout=0.5):
            raise AssertionError("unreachable")
        assert 0.45 <= time.monotonic() - began < 3
        with pytest.raises(TimeoutError), client.lock(name, blocking_timeout=0.1):
            raise AssertionError("unreachable")
        assert lease.held


def test_waiters_take_turns(client: Client, name: str) -> None:
    order: List[int] = []

    def wait(number: int) -> None:
        with client.claim(name, timeout=30):
            order.append(number)

    with client.claim(name):
        threads = []
        for number in range(3):
            threads.append(threading.Thread(target=wait, args=(number,)))
            threads[-1].start()
            until(lambda wanted=number + 1: client_waits(client, name) == wanted)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2]


def client_waits(client: Client, name: str) -> int:
    from leasehold._base import plain
    from leasehold._wire import Request

    answer = client._worker.submit(plain(client._worker.calls, Request("GET", f"/v1/resources/{name}"))).result()
    assert answer is not None
    return int(answer.body["waiting"])


def test_what_is_not_there(client: Client) -> None:
    with pytest.raises(leasehold.NotFound), client.pool(str(uuid.uuid4())).borrow(ttl=5, wait=0):
        raise AssertionError("unreachable")
    with pytest.raises(leasehold.ProtocolError), client.pool("no-uuid").borrow(ttl=5, wait=0):
        raise AssertionError("unreachable")
    assert client.pool(str(uuid.uuid4())).delete() is False


def test_the_name_and_the_data_of_a_slot_travel_with_its_lease(server: Server, client: Client, name: str, pool: str) -> None:
    slots = {"slots": [{"name": "bench-3", "data": {"port": 9}}]}
    for path, wanted in ((f"/l/{pool}", client.pool(pool).borrow()), (f"/v1/resources/{name}", client.claim(name))):
        server.call("PUT", path, slots)
        with wanted as lease:
            assert (lease.slot, lease.slot_name, lease.slot_data) == (0, "bench-3", {"port": 9})
    with client.lock(name) as lock:
        assert (lock.slot_name, lock.slot_data) == (None, None)


def test_a_pool_is_made_resized_and_deleted(client: Client) -> None:
    pool = client.pool(str(uuid.uuid4()))
    assert pool.configure(2)["available"] == 2
    assert pool.configure(3)["count"] == 3
    assert pool.delete() is True
    with pytest.raises(leasehold.NotFound):
        pool.show()


def test_a_service_that_is_away() -> None:
    with Client("http://127.0.0.1:1") as client:
        began = time.monotonic()
        with pytest.raises(leasehold.ServiceUnavailable, match="cannot connect") as error, client.lock("x", timeout=0.5):
            raise AssertionError("unreachable")
        assert error.value.url == "http://127.0.0.1:1" and 0.4 <= time.monotonic() - began < 5
        with pytest.raises(leasehold.ServiceUnavailable), client.lock("x", timeout=0):
            raise AssertionError("unreachable")


def test_lost_in_the_body(server: Server, client: Client, name: str) -> None:
    told: List[leasehold.LeaseLost] = []
    leases: List[leasehold.Lease] = []
    with pytest.raises(leasehold.LeaseLost) as lost, client.claim(name, ttl=1.5, on_lost=lambda _, loss: told.append(loss)) as lease:
        leases.append(lease)
        server.revoke(f"claim:{name}", lease.token)
        assert lease.lost.wait(5)
        with pytest.raises(leasehold.LeaseLost):
            _ = lease.token
    assert lost.value.cause == "revoked" and lost.value.resource == f"claim {name!r}"
    until(lambda: told)
    assert told[0].cause == "revoked" and len(told) == 1
    assert leases[0].release() == "ended_before"


def test_the_body_keeps_its_own_exception(server: Server, client: Client, name: str) -> None:
    with pytest.raises(KeyError) as error, client.lock(name, ttl=1.5) as lease:
        server.revoke(f"lock:{name}", lease.token)
        assert lease.lost.wait(5)
        raise KeyError("the body's own")
    assert isinstance(error.value.lease_lost, leasehold.LeaseLost)  # type: ignore[attr-defined]
    with pytest.raises(ZeroDivisionError), client.lock(name):
        _ = 1 / 0
    assert server.lock_is_free(name)


def test_a_loss_that_is_not_to_be_raised(server: Server, client: Client, name: str) -> None:
    with client.lock(name, ttl=1.5, raise_on_loss=False) as lease:
        server.revoke(f"lock:{name}", lease.token)
        assert lease.lost.wait(5)
    loss = lease.loss()
    assert loss is not None and not lease.held


def test_max_hold_ends_renewal(client: Client, name: str) -> None:
    with client.lock(name, ttl=1, max_hold=0.2, raise_on_loss=False) as lease:
        assert lease.lost.wait(3)
    loss = lease.loss()
    assert loss is not None and loss.cause == "deadline" and "max_hold" in str(loss)


def test_it_is_renewed(server: Server, client: Client, name: str) -> None:
    with client.lock(name, ttl=1) as lease:
        before = lease.token
        time.sleep(2.5)
        assert lease.token == before
    assert server.events(f"lock:{name}").count("granted") == 1


def test_guarded_functions(client: Client, name: str) -> None:
    calls: List[int] = []

    @client.lock(name, timeout=0).guard(skip=True)
    def nightly(number: int) -> int:
        """Runs at night."""
        calls.append(number)
        return number

    assert nightly(1) == 1 and nightly.__doc__ == "Runs at night."
    with client.lock(name):
        assert nightly(2) is None
    assert calls == [1]

    @client.lock(name, timeout=0).guard()
    def strict() -> None:
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        strict()
    with client.lock(name), pytest.raises(leasehold.Conflict):
        strict()


def test_one_object_has_one_lease(client: Client, name: str) -> None:
    lock = client.lock(name)
    with pytest.raises(RuntimeError, match="nothing is acquired"):
        lock.release()
    assert lock.acquire() is not None
    with pytest.raises(RuntimeError, match="not re-entrant"):
        lock.acquire()
    assert lock.release() == "released"
    assert lock.acquire() is not None and lock.release() == "released"


def test_release_can_be_repeated(client: Client, name: str) -> None:
    lease = client.lock(name).acquire()
    assert lease is not None
    assert lease.release() == "released" == lease.release()


def test_another_thread_cancels(server: Server, client: Client, name: str) -> None:
    with client.claim(name):
        cancel = leasehold.Cancel()
        threading.Timer(0.3, cancel.cancel).start()
        with pytest.raises(leasehold.Cancelled):
            client.claim(name).acquire(cancel=cancel)
        with pytest.raises(leasehold.Cancelled):
            client.claim(name).acquire(cancel=cancel)
        until(lambda: client_waits(client, name) == 0)
    until(lambda: "withdrawn" in server.events(f"claim:{name}"))


def test_a_forgotten_lease_is_given_back_with_a_warning(server: Server, client: Client, name: str) -> None:
    def forget() -> None:
        assert client.lock(name, ttl=60).acquire() is not None

    with pytest.warns(ResourceWarning, match="forgotten"):
        forget()
        gc.collect()
    until(lambda: server.lock_is_free(name))


def test_closing_releases_everything(server: Server, name: str) -> None:
    client = Client(server.url)
    leases = [client.claim(f"{name}-{number}").acquire() for number in range(20)]
    began = time.monotonic()
    client.close()
    assert time.monotonic() - began < 2
    assert all(lease is not None and not lease.held for lease in leases)
    for number in range(20):
        assert server.call("GET", f"/v1/resources/{name}-{number}")[0] == 404
    with pytest.raises(leasehold.Closed):
        client.lock(name).acquire()


def test_settings_are_checked(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    client = Client(server.url)
    with pytest.raises(ValueError, match=r"ttl: must be a number of seconds, at least 1, got 0\.999"):
        client.lock("x", ttl=0.999)
    client.lock("x", ttl=1)
    with pytest.raises(ValueError, match="name: must be a text of 1 to 1024 bytes"):
        client.lock("")
    client.lock("x" * 1024)
    with pytest.raises(ValueError, match="name: must be a text of 1 to 1024 bytes"):
        client.lock("x" * 1025)
    for wrong in (4.999, 290.001):
        with pytest.raises(ValueError, match="round: must be 5 to 290 s"):
            Client(server.url, round=wrong)
    Client(server.url, round=5)
    Client(server.url, round=290)
    for url in ("ftp://x", "localhost:8080", "http://", "http://a?b=c", "http://user@host"):
        with pytest.raises(ValueError, match="url: must be"):
            Client(url)
    with pytest.raises(ValueError, match="one of the two"):
        Client(server.url, token="t", token_file="f")
    monkeypatch.setenv("LEASEHOLD_URL", f"{server.url}, {server.url}")
    with Client() as from_environment, from_environment.lock("from-the-environment"):
        pass


def test_nothing_shows_an_id(client: Client, pool: str) -> None:
    with client.pool(pool).borrow(ttl=5) as lease:
        for shown in (repr(lease), repr(client.pool(pool)), repr(client), lease.resource):
            assert pool not in shown and lease._state.id not in shown


def test_progress_tells_of_the_queue(client: Client, name: str) -> None:
    told: List[leasehold.Progress] = []
    with client.claim(name), pytest.raises(leasehold.Timeout), client.claim(name, timeout=0.5, on_progress=told.append):
        raise AssertionError("unreachable")
    until(lambda: told)
    assert told[0].queue_position == 1 and told[0].place_lost == 0 and told[0].holders


def test_a_client_that_is_gone_leaves_no_thread(server: Server, name: str) -> None:
    def threads() -> int:
        return sum(thread.name == "leasehold" for thread in threading.enumerate())

    gc.collect()
    until(lambda: threads() <= 1)
    before = threads()
    lock = Client(server.url).lock(name)
    lease = lock.acquire()
    assert lease is not None and threads() == before + 1
    del lock
    gc.collect()
    assert lease.release() == "released"
    until(lambda: threads() == before)
    assert lease.release() == "released"
