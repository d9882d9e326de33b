"""Processes that tests start, speak with, and end by their own ids."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def environment(**more: str) -> dict[str, str]:
    """An environment in which scripts of this folder find whence and each other."""
    paths = [str(ROOT / "src"), str(HERE), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONUNBUFFERED": "1",
        **more,
    }


class Child:
    """A process in a group of its own, whose lines can be read one by one."""

    def __init__(
        self, command: Sequence[str], log: Path, more: Mapping[str, str] | None = None
    ) -> None:
        self.log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment(**(more or {})),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def line(self) -> str:
        """The next line; fails, with what the process complained of, if there is none."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"{self._process.args} ended: {self.complaint()}"
        return line.strip()

    def rest(self) -> list[str]:
        """All lines that are left, once the process has ended."""
        assert self._process.stdout is not None
        return [line.strip() for line in self._process.stdout]

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def wait(self) -> int:
        return self._process.wait(timeout=300)

    def running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process and all that it started, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=60)

    def close(self) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()

    def complaint(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]


@contextmanager
def child(
    command: Sequence[str], log: Path, more: Mapping[str, str] | None = None
) -> Iterator[Child]:
    """A process that is gone at the end, however the test ends."""
    process = Child(command, log, more)
    try:
        yield process
    finally:
        process.close()


def script(name: str, *arguments: Any) -> list[str]:
    """The command that runs a script of this folder."""
    return [sys.executable, str(HERE / name), *map(str, arguments)]
