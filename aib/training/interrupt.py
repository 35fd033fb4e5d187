"""SIGINT and SIGTERM as a request: finish the step, save, then stop."""

import signal
import threading
from types import FrameType


class SignalCatcher:
    """Inside the `with`, the first SIGINT or SIGTERM sets `signal`; a second one acts as usual."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._previous: dict[int, object] = {}

    def __enter__(self) -> "SignalCatcher":
        if threading.current_thread() is threading.main_thread():  # Python allows it only there
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._catch)
        return self

    def __exit__(self, *exception: object) -> None:
        self._restore()

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous = {}


class Interrupted(Exception):  # noqa: N818 (an outcome, not an error)
    """Training stopped by `signal` after saving; the exit code is 128 + signal."""

    def __init__(self, message: str, number: int):
        super().__init__(message)
        self.signal = number
