from __future__ import annotations

import threading

import pytest

from clozeline.train.data.stream.threads import BackgroundBuilder, LoaderThreads


def test_results_come_in_order_and_not_too_many_are_made() -> None:
    made = 0
    third = threading.Event()

    def build() -> int:
        nonlocal made
        made += 1
        if made == 3:
            third.set()
        return made

    ahead = BackgroundBuilder(build, 2)
    assert [ahead.get(), ahead.get()] == [1, 2]
    assert third.wait(10)
    ahead.stop()
    assert ahead.join()
    assert made <= 5, "two that wait, two that were taken, one that was begun"


def test_an_error_comes_after_the_results_before_it() -> None:
    results = iter([1, 2])
    ahead = BackgroundBuilder(lambda: next(results), 5)
    assert [ahead.get(), ahead.get()] == [1, 2]
    with pytest.raises(StopIteration):
        ahead.get()
    assert ahead.join()


def test_loaders_give_results_and_errors() -> None:
    loaders = LoaderThreads(2, "test")
    futures = [loaders.submit(divmod, 7, n) for n in (2, 0, 3)]
    assert futures[0].result(10) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        futures[1].result(10)
    assert futures[2].result(10) == (2, 1)
    loaders.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("test-")]


def test_loaders_end_without_one_that_hangs() -> None:
    """Closing does not wait for a read that never ends; what was cancelled never runs."""
    begun, never = threading.Event(), threading.Event()
    loaders = LoaderThreads(1, "hanging")
    loaders.submit(lambda: (begun.set(), never.wait(30)))
    assert begun.wait(10)
    waiting = loaders.submit(divmod, 1, 1)
    assert waiting.cancel()
    loaders.close()
    assert [thread for thread in threading.enumerate() if thread.name == "hanging-0"]
    never.set()
