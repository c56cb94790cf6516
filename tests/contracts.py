"""Contract tests: what every algorithm of a registry promises, declared where the test is.

    @contract(HEADS)
    def test_scores_need_hidden_states_only(name): ...

Such a test runs for each algorithm of the registry, also for one whose file was just added. Every
case carries a mark that says which algorithm it is about: `make try NAME=...` and `make fast` ask
the mark.
"""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from clozeline.registry import Registry


def about(registry: Registry[object], name: str) -> pytest.MarkDecorator:
    """Return the mark of a case that is about one algorithm of a registry."""
    return pytest.mark.algorithm(registry.package, name)


def contract(
    registry: Registry[object],
    argument: str = "name",
    *,
    only: Callable[[str], bool] | Iterable[str] = lambda name: True,
    slow: Callable[[str], bool] = lambda name: False,
) -> pytest.MarkDecorator:
    """Return the decorator of a test that runs for the algorithms of a registry.

    Args:
        registry: of the algorithms.
        argument: name of the argument of the test that takes the algorithm's name.
        only: names that the promise holds for, or a function that says whether it holds for a name.
        slow: whether the case of a name is left to `make test-all`.
    """
    held = only if callable(only) else set(only).__contains__
    cases = [
        pytest.param(
            name,
            marks=[
                about(registry, name),
                *([pytest.mark.slow] if slow(name) else []),
            ],
        )
        for name in registry.available()
        if held(name)
    ]

    return pytest.mark.parametrize(argument, cases)


def cases_about(
    registry: Registry[object], cases: Iterable[Any], name_of: Callable[[Any], str]
) -> list[Any]:
    """Return the cases of a test, each with the mark of the algorithm that it is about.

    A case that is a tuple gives several arguments. One that has marks already keeps them.
    """
    marked = []

    for case in cases:
        marks, values = (case.marks, case.values) if isinstance(case, ParameterSet) else ((), case)
        values = values if isinstance(values, tuple) else (values,)
        name = name_of(values if len(values) > 1 else values[0])
        marked.append(pytest.param(*values, marks=[*marks, about(registry, name)]))

    return marked


def algorithm_of(item: pytest.Item) -> tuple[str, str] | None:
    """Return the registry and the name of the algorithm that a test is about, if it is about
    one."""
    mark = item.get_closest_marker("algorithm")
    return None if mark is None else (mark.args[0], mark.args[1])
