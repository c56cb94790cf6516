"""A clock for tests of waiting."""


class Clock:
    """A clock that only sleeping moves; `then` runs after each sleep."""

    def __init__(self, then=lambda now: None):
        self.now = 0.0
        self.then = then

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        assert self.now < 10_000
        self.then(self.now)
