"""A target that writes down every request: when it came, from which address, for which path.

    target.py ADDRESS PORT LOG

An answer comes at once, or after `ms=N` milliseconds of the query. A line of the log is `TIME SOURCE PATH`, times by
the monotonic clock. When this process was not run for a while, a line `TIME stall SECONDS` says so: what is missing
from the log then may be the machine's fault. Nothing here depends on the rest of the package; it runs in a namespace of
its own.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok"
TICK_S = 0.05
STALL_S = 0.3
HEAD_BYTES_MAX = 65_536


class Connection(asyncio.Protocol):
    """One connection; its answers come in the order of its requests."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.unread = b""
        self.free_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.source = transport.get_extra_info("peername")[0]

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        self.unread += data
        while (end := self.unread.find(b"\r\n\r\n")) >= 0:
            head, self.unread = self.unread[:end], self.unread[end + 4:]
            path = head.split(b" ", 2)[1].decode("ascii", "replace")
            self.lines.append(f"{now:.6f} {self.source} {path}\n")
            self.answer(delay_s(path), now)
        if len(self.unread) > HEAD_BYTES_MAX:
            self.transport.abort()

    def answer(self, delay: float, now: float) -> None:
        due = max(self.free_at, now + delay)
        if due <= now:
            self.transport.write(ANSWER)
            return
        self.free_at = due
        asyncio.get_running_loop().call_later(due - now, self.write)

    def write(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(ANSWER)


def delay_s(path: str) -> float:
    at = path.find("ms=")
    if at < 0:
        return 0.0
    digits = path[at + 3:].split("&", 1)[0]
    return int(digits) / 1000 if digits.isdigit() else 0.0


async def serve(address: str, port: int, log: str) -> None:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, over.set)
    lines: list[str] = []
    await loop.create_server(lambda: Connection(lines), address, port, backlog=1024)
    with open(log, "w") as file:
        before = time.monotonic()
        while not over.is_set():
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            if now - before > TICK_S + STALL_S:
                lines.append(f"{now:.6f} stall {now - before:.3f}\n")
            before = now
            file.write("".join(lines))
            lines.clear()
            file.flush()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
