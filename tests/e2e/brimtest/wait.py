"""Waiting for what another process does."""
import os
import time

# How many times longer than usual anything may take: on an emulated machine (tests/vm).
PATIENCE = float(os.environ.get("BRIM_TEST_PATIENCE") or 1)


def wait_until(condition, what="the condition", timeout=30):
    """The first true value of condition(). Polls, for what can't be waited upon."""
    deadline = time.monotonic() + timeout * PATIENCE
    pause = 0.002
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout * PATIENCE:g} s for {what}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
