"""The real Terraform against the real server. Every scenario is a promise of docs/terraform.md."""

import sys
import tempfile
import time
from pathlib import Path

from world import Cutter, Leasehold, Stack, state_server, token, until


def never_two(seen):
    """Every beginning is followed by its own end."""
    assert len(seen) % 2 == 0, seen
    for begin, end in zip(seen[::2], seen[1::2]):
        assert begin.split() == ["begin", end.split()[1]] and end.startswith("end "), seen


def eight_at_once(place, states, server):
    first = Stack(place / "eight", states, f"{server.url}/tf/team/eight?wait=60s", seconds=0.2)
    stacks = [first] + [first.copy(f"eight.{n}") for n in range(1, 8)]
    runs = [stack.apply(f"r{n}") for n, stack in enumerate(stacks)]
    for run in runs:
        code, text = run.wait()
        assert code == 0, text
    never_two(first.seen())
    assert len(first.seen()) == 16, first.seen()
    claims = server.claims("team/eight")
    assert [claim["status"] for claim in claims] == ["released"] * 8, claims
    by_arrival = sorted(claims, key=lambda claim: claim["created"])
    tokens = [claim["token"] for claim in by_arrival]
    assert tokens == sorted(tokens), "they came in the order in which they asked"
    return "8 applies at once, in order"


def killed(place, states, server):
    lock = f"{server.url}/tf/killed?wait=60s&ttl=5s"
    dying = Stack(place / "killed", states, lock, seconds=600)
    run = dying.apply("dies")
    until("the first holds the lock and works", lambda: dying.seen() == ["begin dies"])
    run.kill()
    began = time.monotonic()
    # The state has nothing to end, so that the second makes it anew.
    code, text = Stack(place / "killed2", states, lock).apply("next").wait()
    assert code == 0, text
    assert [claim["status"] for claim in server.claims("killed")] == ["expired", "released"]
    return f"one killed, the next after {time.monotonic() - began:.0f} s"


def server_killed(place, states, server):
    lock = f"{server.url}/tf/durable"
    gate = place / "gate"
    stack = Stack(place / "durable", states, lock, seconds=f"0; while [ ! -e {gate} ]; do sleep 0.05; done")
    other = stack.copy("durable.1")
    run = stack.apply("holds")
    until("it holds the lock and works", lambda: stack.seen() == ["begin holds"])
    server.kill()
    server.start()
    (held,) = server.held("durable")
    code, text = other.apply("refused").wait()
    assert code != 0 and held["metadata"]["ID"] in text, text
    gate.touch()
    code, text = run.wait()
    assert code == 0, text
    assert server.held("durable") == []
    return "held over kill -9 of the server"


def reply_cut(place, states, server):
    proxy = Cutter(server.port)
    stack = Stack(place / "cut", states, f"http://127.0.0.1:{proxy.port}/tf/cut")
    code, text = stack.apply("once").wait()
    assert code == 0, text
    assert proxy.cut == 1, "no reply was cut"
    (claim,) = [claim for claim in server.claims("cut") if claim["status"] != "withdrawn"]
    assert claim["status"] == "released", claim
    return "a reply cut, one lock"


def force_unlock(place, states):
    (ci, ci_lines), (root, root_lines) = token("ci", "builders"), token("root", "operators")
    server = Leasehold(
        f"""[auth]
{ci_lines}
{root_lines}
[[policy]]
groups = ["builders"]
actions = ["inspect", "acquire", "update-own"]
resources = ["tf/*"]
[[policy]]
groups = ["operators"]
actions = ["*"]
"""
    )
    try:
        lock = f"{server.url}/tf/forced"
        status, answer = server.call("LOCK", "/tf/forced", {"ID": "left-behind", "Who": "root"}, root)
        assert status == 200, answer
        may_not = Stack(place / "forced", states, lock, user=("ci", ci))
        code, text = may_not.run("force-unlock", "-force", "left-behind").wait()
        assert code != 0, text
        code, text = may_not.apply("refused").wait()
        assert code != 0 and "left-behind" in text, text
        may = Stack(place / "forced2", states, lock, user=("-", root))
        code, text = may.run("force-unlock", "-force", "left-behind").wait()
        assert code == 0, text
        code, text = may_not.apply("again").wait()
        assert code == 0, text
    finally:
        server.end()
    return "force-unlock frees, and needs its right"


def main():
    began = time.monotonic()
    server = Leasehold()
    done = []
    with tempfile.TemporaryDirectory() as place:
        try:
            for scenario in (eight_at_once, killed, server_killed, reply_cut):
                # Each has a state of its own.
                done.append(scenario(Path(place), f"{state_server()}/{scenario.__name__}", server))
            done.append(force_unlock(Path(place), f"{state_server()}/forced"))
        finally:
            server.end()
    print(f"terraform: {'; '.join(done)}; {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
