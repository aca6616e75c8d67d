"""Real message brokers, each in a process of its own on a free port."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from servers.running import missing

READY_WITHIN = 180.0


class NotStartedError(RuntimeError):
    pass


@dataclass
class Broker:
    """A running broker. It can be killed, and started again on the same port with the same state."""

    protocol: str
    port: int
    command: list[str]
    folder: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        log = (self.folder / "log").open("ab")
        with log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        self._wait_until_ready()

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def revive(self) -> None:
        """Make sure that it runs, whatever an earlier test did to it."""
        self.thaw()
        if self.process is None or self.process.poll() is not None:
            self.start()

    def freeze(self) -> None:
        """It keeps its connections and answers nothing."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGSTOP)
        # Until all threads of all its processes stand still, one of them may answer.
        while any(state not in "TtZX" for state in _states(self.process.pid)):
            time.sleep(0.01)

    def thaw(self) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGCONT)

    def _wait_until_ready(self) -> None:
        assert self.process is not None
        deadline = time.monotonic() + READY_WITHIN
        while not _answers(self.protocol, self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise NotStartedError(f"{self.protocol} did not start:\n{(self.folder / 'log').read_text()}")
            # A port says nothing when it opens: asking again is the only way.
            time.sleep(0.05)


def _answers(protocol: str, port: int) -> bool:
    """Whether the broker speaks, not only its port."""
    greetings = {"redis": b"PING\r\n", "amqp": b"AMQP\x00\x00\x09\x01"}
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as link:
            link.settimeout(5)
            if protocol == "mqtt":
                return True
            link.sendall(greetings.get(protocol, b""))
            return bool(link.recv(1))
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def _states(group: int) -> Iterator[str]:
    """The states of all threads of a group of processes, as /proc has them."""
    for stat in Path("/proc").glob("[0-9]*/task/[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            state, _, its_group, *_ = stat.read_text().rpartition(")")[2].split()
            if int(its_group) == group:
                yield state


def _program(name: str, package: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if found is None:
        missing(f"{name} is not installed: `make services` installs {package}")
    return found


@contextlib.contextmanager
def _running(
    protocol: str, folder: Path, command: Callable[[int], list[str]], **environment: str
) -> Iterator[Broker]:
    folder.mkdir(parents=True, exist_ok=True)
    broker = None
    try:
        for _ in range(3):
            port = free_port()
            here = {name: value.replace("PORT", str(port)) for name, value in environment.items()}
            broker = Broker(protocol, port, command(port), folder, here)
            try:
                broker.start()
                break
            except NotStartedError:
                # Somebody else took the port that was free a moment ago.
                broker.kill()
        else:
            raise NotStartedError(f"{protocol} did not start:\n{(folder / 'log').read_text()}")
        yield broker
    finally:
        if broker is not None:
            broker.thaw()
            broker.kill()


@contextlib.contextmanager
def nats(folder: Path, *options: str) -> Iterator[Broker]:
    """From PyPI, so it is always there. With JetStream."""
    program = str(Path(sys.executable).parent / "nats-server")
    store = ["-js", "-sd", str(folder / "jetstream")]
    with _running(
        "nats", folder, lambda port: [program, "-a", "127.0.0.1", "-p", str(port), *store, *options]
    ) as broker:
        yield broker


@contextlib.contextmanager
def redis(folder: Path, *options: str) -> Iterator[Broker]:
    program = _program("redis-server", "redis-server")
    folder.mkdir(parents=True, exist_ok=True)
    durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
    settings = ["--bind", "127.0.0.1", "--dir", str(folder), *durable, *options]
    with _running("redis", folder, lambda port: [program, "--port", str(port), *settings]) as broker:
        yield broker


@contextlib.contextmanager
def mosquitto(folder: Path, *lines: str) -> Iterator[Broker]:
    program = _program("mosquitto", "mosquitto")
    folder.mkdir(parents=True, exist_ok=True)
    settings = lines or ("allow_anonymous true",)

    def command(port: int) -> list[str]:
        (folder / "mosquitto.conf").write_text("\n".join([f"listener {port} 127.0.0.1", *settings, ""]))
        return [program, "-c", str(folder / "mosquitto.conf")]

    with _running("mqtt", folder, command) as broker:
        yield broker


@contextlib.contextmanager
def rabbitmq(folder: Path) -> Iterator[Broker]:
    """A node of its own name, so that several can run beside each other."""
    _program("rabbitmq-server", "rabbitmq-server")
    program = _rabbit_script("rabbitmq-server")
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    register = str(free_port())
    (folder / "enabled_plugins").write_text("[].\n")
    limits = "vm_memory_high_watermark.absolute = 512MB\ndisk_free_limit.absolute = 1MB\n"
    (folder / "rabbitmq.conf").write_text(limits)
    registering = subprocess.Popen(
        ["epmd", "-port", register, "-address", "127.0.0.1"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with _running(
            "amqp",
            folder,
            lambda _: [program],
            HOME=str(home),
            RABBITMQ_NODENAME="spindlePORT@localhost",
            RABBITMQ_NODE_IP_ADDRESS="127.0.0.1",
            RABBITMQ_NODE_PORT="PORT",
            RABBITMQ_DIST_PORT=str(free_port()),
            RABBITMQ_MNESIA_BASE=str(folder / "mnesia"),
            RABBITMQ_LOG_BASE=str(folder / "logs"),
            RABBITMQ_LOGS="-",
            RABBITMQ_ENABLED_PLUGINS_FILE=str(folder / "enabled_plugins"),
            RABBITMQ_CONFIG_FILE=str(folder / "rabbitmq"),
            RABBITMQ_CONF_ENV_FILE=str(folder / "none"),
            RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=f"-setcookie {'c' * 20}",
            ERL_EPMD_ADDRESS="127.0.0.1",
            # The register of Erlang's nodes outlives who started it, so we have one of our own, and end it.
            ERL_EPMD_PORT=register,
        ) as broker:
            yield broker
    finally:
        registering.kill()
        registering.wait()


def _rabbit_script(name: str) -> str:
    """The script itself: what is in PATH changes the user to `rabbitmq`, which owns none of our folders."""
    installed = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin"))
    for place in [*installed, Path("/usr/lib/rabbitmq/bin")]:
        if (place / name).is_file():
            return str(place / name)
    return _program(name, "rabbitmq-server")


@contextlib.contextmanager
def kafka() -> Iterator[str]:
    """librdkafka's mock cluster: brokers that speak Kafka's protocol, inside a client."""
    from confluent_kafka import Producer

    cluster = Producer({"bootstrap.servers": "ignored", "test.mock.num.brokers": 1})
    brokers = cluster.list_topics(timeout=READY_WITHIN).brokers
    first = next(iter(brokers.values()))
    yield f"{first.host}:{first.port}"
    cluster.flush(5)


def mosquitto_password(file: Path, user: str, password: str) -> None:
    program = _program("mosquitto_passwd", "mosquitto")
    subprocess.run([program, "-b", "-c", str(file), user, password], check=True, capture_output=True)
