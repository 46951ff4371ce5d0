"""Hosts as network namespaces, joined by bridges, with links of a known rate.

Everything lies in namespaces of its own: one for the switches, one for each host, so that nothing
of the machine's own network is touched. Names hold the process's number, so that runs don't meet. A
guardian process in a session of its own removes all when the pipe to its parent closes: also when
the parent is killed.

    host k:  data   10.78.0.(k+1)   a shaped link to switch 0 (or 1)      what is measured goes here
             control 10.77.0.(k+1)  a link without limits                 launching, results
    switches 0 and 1 are joined by a trunk, shaped too; mpirun runs beside them, at 10.77.0.254
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

CONTROL, DATA = "10.77.0", "10.78.0"


class NotPermittedError(Exception):
    """The network can't be made on this machine; the message says why."""


def run(*words: str, check: bool = True) -> str:
    result = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if check and result.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {result.stdout.strip()}")
    return result.stdout


def tbf(megabits: float) -> list[str]:
    """A bucket of a quarter of a millisecond, two packets at least: idle time earns little."""
    burst = max(2 * 1514, int(megabits * 1e6 / 8 * 0.25e-3))
    return ["tbf", "rate", f"{int(megabits * 1e6)}bit", "burst", str(burst), "limit", "1m"]


def remove_namespaces(names: Sequence[str]) -> None:
    for stop in (signal.SIGTERM, signal.SIGKILL):
        for name in names:
            for pid in run("ip", "netns", "pids", name, check=False).split():
                with contextlib.suppress(ValueError, OSError):
                    os.kill(int(pid), stop)
        time.sleep(0.2)
    for name in names:
        run("ip", "netns", "del", name, check=False)


def start_guardian(names: Sequence[str], folder: Path) -> int:
    """Return the end of a pipe; all is removed when no process holds it any more."""
    watched, held = os.pipe()
    os.set_inheritable(held, False)
    child = os.fork()
    if child != 0:
        os.close(watched)
        os.waitpid(child, 0)
        return held
    os.close(held)
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        quiet = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(quiet, descriptor)
        os.read(watched, 1)
        remove_namespaces(names)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os._exit(0)


class Network:
    def __init__(self, hosts: int, megabits: float) -> None:
        self.prefix = f"pl{os.getpid()}"
        self.switches = f"{self.prefix}s"
        self.hosts = [f"{self.prefix}h{k}" for k in range(hosts)]
        self.folder = Path(tempfile.mkdtemp(prefix="paceline-cluster-"))
        names = [self.switches, *self.hosts]
        self.held: int | None = start_guardian(names, self.folder)
        try:
            try:
                self.make_switches(megabits)
            except (RuntimeError, OSError) as error:
                raise NotPermittedError(str(error)) from error
            for k in range(hosts):
                self.make_host(k, megabits)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Wait until the guardian has removed all."""
        if self.held is None:
            return
        self.leave()
        for _ in range(100):
            if not self.folder.exists():
                return
            time.sleep(0.1)
        print("the network could not be removed", file=sys.stderr)

    def leave(self) -> None:
        """A forked process lets go: what is left when its parent ends is removed."""
        if self.held is not None:
            os.close(self.held)
            self.held = None

    def at_switches(self, *words: str) -> None:
        run("ip", "netns", "exec", self.switches, *words)

    def make_switches(self, megabits: float) -> None:
        """Make one of each kind of thing: where this works, the rest does."""
        run("ip", "netns", "add", self.switches)
        ip = ["ip", "-n", self.switches]
        run(*ip, "link", "set", "lo", "up")
        for name in ("data0", "data1", "control"):
            run(*ip, "link", "add", name, "type", "bridge")
            run(*ip, "link", "set", name, "up")
        run(*ip, "addr", "add", f"{CONTROL}.254/24", "dev", "control")
        run(*ip, "link", "add", "trunk0", "type", "veth", "peer", "name", "trunk1")
        for side in (0, 1):
            run(
                *ip,
                "link",
                "set",
                f"trunk{side}",
                "gso_max_segs",
                "1",
                "master",
                f"data{side}",
                "up",
            )
        self.set_trunk(megabits)

    def make_host(self, k: int, megabits: float) -> None:
        host = self.hosts[k]
        run("ip", "netns", "add", host)
        run("ip", "-n", host, "link", "set", "lo", "up")
        for kind, subnet in (("data", DATA), ("control", CONTROL)):
            port = f"{kind[0]}{k}"
            run(
                "ip",
                "-n",
                self.switches,
                "link",
                "add",
                port,
                "type",
                "veth",
                "peer",
                "name",
                kind,
                "netns",
                host,
            )
            run(
                "ip",
                "-n",
                self.switches,
                "link",
                "set",
                port,
                "gso_max_segs",
                "1",
                "master",
                "control" if kind == "control" else "data0",
                "up",
            )
            run("ip", "-n", host, "link", "set", kind, "gso_max_segs", "1", "up")
            run("ip", "-n", host, "addr", "add", f"{subnet}.{k + 1}/24", "dev", kind)
        # Without losses every congestion control fills the link; Reno is everywhere, paces nothing.
        run(
            "ip",
            "netns",
            "exec",
            host,
            "sh",
            "-c",
            "echo reno > /proc/sys/net/ipv4/tcp_congestion_control; "
            "echo 0 > /proc/sys/net/ipv4/tcp_slow_start_after_idle",
        )
        self.set_rate(k, megabits)

    def set_rate(self, k: int, megabits: float) -> None:
        """Shape a host's link, in both directions."""
        run(
            "ip",
            "netns",
            "exec",
            self.hosts[k],
            "tc",
            "qdisc",
            "replace",
            "dev",
            "data",
            "root",
            *tbf(megabits),
        )
        self.at_switches("tc", "qdisc", "replace", "dev", f"d{k}", "root", *tbf(megabits))

    def set_rates(self, megabits: float) -> None:
        for k in range(len(self.hosts)):
            self.set_rate(k, megabits)

    def set_trunk(self, megabits: float) -> None:
        for side in (0, 1):
            self.at_switches(
                "tc", "qdisc", "replace", "dev", f"trunk{side}", "root", *tbf(megabits)
            )

    def two_racks(self, first_rack: int, rack: int, trunk_megabits: float) -> None:
        """Hosts 0 .. first_rack-1 stay, the next `rack` ones move to the other switch."""
        self.set_trunk(trunk_megabits)
        self.join(range(first_rack, first_rack + rack), "data1")

    def one_rack(self) -> None:
        self.join(range(len(self.hosts)), "data0")

    def join(self, hosts: range, switch: str) -> None:
        """A switch forgets who was behind the trunk, or frames go there until a host speaks."""
        ip = ["ip", "-n", self.switches, "link", "set"]
        for k in hosts:
            run(*ip, f"d{k}", "master", switch)
        for side in (0, 1):
            run(*ip, f"trunk{side}", "type", "bridge_slave", "fdb_flush")

    def mpirun_words(self, ranks: int) -> list[str]:
        """Start mpirun beside the switches, a daemon in each host; talk over the shaped links."""
        agent = self.folder / "agent.sh"
        if not agent.exists():
            agent.write_text(
                "#!/bin/sh\nhost=$1; shift\n"
                'exec ip netns exec "$host" unshare --uts sh -c '
                '\'hostname "$0"; exec sh -c "$*"\' "$host" "$@"\n',
                encoding="utf-8",
            )
            agent.chmod(0o755)
        return [
            "ip",
            "netns",
            "exec",
            self.switches,
            "mpirun",
            "--bind-to",
            "none",
            "--host",
            ",".join(self.hosts[:ranks]),
            "--mca",
            "plm",
            "rsh",
            "--mca",
            "plm_rsh_agent",
            str(agent),
            "--mca",
            "oob_tcp_if_include",
            f"{CONTROL}.0/24",
            "--mca",
            "btl",
            "tcp,self",
            "--mca",
            "btl_tcp_if_include",
            f"{DATA}.0/24",
            "-x",
            f"MASTER_ADDR={CONTROL}.1",
        ]
