"""Wall time that a test moves: a file of 8 bytes that brim-test maps (edge/base/clock_test.c)."""
import mmap
import struct
import time


class Clock:
    def __init__(self, path):
        self.path = path
        with open(path, "wb") as f:
            f.write(bytes(8))
        with open(path, "r+b") as f:
            self._map = mmap.mmap(f.fileno(), 8)

    def advance(self, seconds):
        self._set(self.offset_ms + round(seconds * 1000))

    @property
    def offset_ms(self):
        return struct.unpack("<q", self._map[:])[0]

    def _set(self, ms):
        self._map[:] = struct.pack("<q", ms)

    def now(self):
        """Seconds since 1970, as the node sees them."""
        return time.time() + self.offset_ms / 1000

    def close(self):
        self._map.close()
