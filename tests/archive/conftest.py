"""Places for archives: a folder with SQLite in it, and a folder with its catalog in PostgreSQL."""

import itertools
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import chown, rmtree

import psycopg
import pytest
from archive_kit import NewPlace, Place

import whence
from whence.archive import Archive


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Other processes write and are killed on SQLite; on PostgreSQL too by `make test-full`."""
    for item in items:
        processes = any(word in item.name for word in ("killed", "two_processes"))
        if processes and item.get_closest_marker("postgresql"):
            item.add_marker(pytest.mark.full)


def _unprivileged() -> str | None:
    """PostgreSQL refuses to run as root: a user for it, or None where this one will do."""
    if os.geteuid() != 0:
        return None
    import pwd

    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in known)


def _wait_until_ready(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(300):
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError:
            if server.poll() is not None:
                break
            time.sleep(0.1)
    pytest.fail("PostgreSQL did not start:\n" + log.read_text())


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """URL of a PostgreSQL server of our own, on a socket in a temporary folder."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not installed:
        pytest.skip("PostgreSQL's server is not installed (Debian: apt-get install postgresql)")
    user = _unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="whence-postgresql-"))
    if user:
        chown(folder, user)
    data, log = folder / "data", folder / "log"
    init = [installed[-1].with_name("initdb"), "-D", data, "-U", "whence", "-A", "trust", "-N"]
    subprocess.run(init, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL)
    command = [
        installed[-1],
        "-D",
        data,
        "-k",
        folder,
        "-c",
        "listen_addresses=",
        "-c",
        "fsync=off",
    ]
    with log.open("wb") as output:
        server = subprocess.Popen(command, user=user, cwd=folder, stdout=output, stderr=output)
    try:
        _wait_until_ready(f"host={folder} user=whence dbname=postgres", server, log)
        yield f"postgresql+psycopg://whence@/postgres?host={folder}"
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        rmtree(folder)


@pytest.fixture(
    scope="session",
    params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)],
)
def new_place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NewPlace:
    """Makes places with nothing in them yet, for each kind of catalog."""
    top = tmp_path_factory.mktemp("archives")
    numbers = itertools.count()
    if request.param == "sqlite":
        return lambda: Place(top / f"archive-{next(numbers)}", None)
    server: str = request.getfixturevalue("postgresql")

    def place() -> Place:
        name = f"archive_{uuid.uuid4().hex}"  # the server outlives this fixture
        with psycopg.connect(server.replace("+psycopg", "")) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return Place(top / name, f"{server}&options=-csearch_path%3D{name}")

    return place


@pytest.fixture
def place(new_place: NewPlace) -> Place:
    return new_place()


@pytest.fixture
def archive(place: Place) -> Archive:
    return place.open(create=True)


class Child:
    """A process that forks writers for us to kill; see archive_child.py."""

    def __init__(self, place: Place) -> None:
        script = Path(__file__).with_name("archive_child.py")
        arguments = [str(place.location)] + ([place.catalog] if place.catalog else [])
        path = os.pathsep.join([str(Path(whence.__file__).parents[1]), str(script.parent)])
        self.process = subprocess.Popen(
            [sys.executable, script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    def order(self, text: str) -> int:
        """Have a writer forked; its process id."""
        assert self.process.stdin
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        word, pid = self.line()
        assert word == "start"
        return int(pid)

    def line(self) -> list[str]:
        assert self.process.stdout
        return self.process.stdout.readline().split(maxsplit=1)

    def rest(self) -> list[list[str]]:
        """What the writer says until its end."""
        return list(iter(self.line, ["end"]))

    def close(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture
def new_child() -> Iterator[Callable[[Place], Child]]:
    children: list[Child] = []

    def new(place: Place) -> Child:
        children.append(Child(place))
        return children[-1]

    yield new
    for child in children:
        child.close()
