"""Waiting for what another process does."""
import time


def wait_until(condition, what="the condition", timeout=10):
    """The first true value of condition(). Polls, for what can't be waited upon."""
    deadline = time.monotonic() + timeout
    pause = 0.002
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout} s for {what}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
