"""Components of edges that come in pieces equal those of scipy, by native code and by numpy."""

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from clozeline.native.library import is_available, numpy_only
from clozeline.pipeline.dedup import components
from clozeline.pipeline.dedup.components import Components


def smallest_reached(count, left, right):
    """Return the smallest node that each of the nodes 0 .. `count` reaches, 0 without an edge."""
    graph = coo_array((np.ones(len(left), bool), (left, right)), (count + 1, count + 1))
    labels = connected_components(graph, directed=False)[1]
    smallest = np.full(count + 1, count + 1)
    np.minimum.at(smallest, labels, np.arange(count + 1))
    return np.where(np.isin(np.arange(count + 1), [left, right]), smallest[labels], 0)


def joined(count, left, right, pieces=1):
    found = Components(count)
    for some in np.array_split(np.arange(len(left)), pieces):
        found.join(left[some].astype(np.uint64), right[some].astype(np.uint64))
    return found.roots()


@pytest.fixture(params=["native", "numpy"], autouse=True)
def form(request):
    if request.param == "numpy":
        with numpy_only():
            yield
    elif is_available():
        yield
    else:
        pytest.skip("the compiled module is not in use")


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_in_pieces(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(components, "MAPPED_BYTES", int(rng.choice([0, 1 << 30])))
    monkeypatch.setattr(components, "MOST_SHORT", int(rng.choice([2, 2**32 - 1])))
    count = int(rng.integers(1, 300))
    left, right = rng.integers(1, count + 1, (2, int(rng.integers(0, 2 * count))))
    found = joined(count, left, right, int(rng.integers(1, 9)))
    assert found.tolist() == smallest_reached(count, left, right)[1:].tolist()


@pytest.mark.parametrize("pair", [(0, 1), (1, 4), (4, 1)])
def test_a_node_that_does_not_exist_is_refused(pair):
    with pytest.raises(ValueError, match="expected nodes from 1 to 3"):
        joined(3, *np.array([[1, pair[0]], [2, pair[1]]]))
