import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clozeline.errors import ConfigurationError
from clozeline.model.compression._sizes import StructureOptions, choose_best
from clozeline.registry import choose


@given(total=st.integers(1, 40), group=st.integers(1, 4), sparsity=st.floats(0.01, 0.99))
def test_a_share_keeps_entire_groups_and_at_least_one(total, group, sparsity):
    kept = StructureOptions(sparsity=sparsity).kept_of(total * group, "heads", group)
    assert kept % group == 0
    assert group <= kept <= total * group
    assert abs(kept - (1 - sparsity) * total * group) <= group


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.integers(1, 12))
def test_the_best_stay_and_of_equal_ones_the_first(scores, count):
    chosen = choose_best(torch.tensor(scores, dtype=torch.float64), count).tolist()
    expected = sorted(sorted(range(len(scores)), key=lambda index: (-scores[index], index))[:count])
    assert chosen == expected


@pytest.mark.parametrize("options", [{}, {"keep": 2, "sparsity": 0.5}, {"sparsity": 0}, {"sparsity": 1.0}, {"keep": 0}])
@pytest.mark.parametrize("method", ["heads", "rows"])
def test_either_a_count_or_a_share_in_0_1(method, options):
    with pytest.raises(ConfigurationError, match=r"keep|sparsity"):
        choose("clozeline.model.compression", {"name": method, **options})


@pytest.mark.parametrize("method", ["magnitude", "wanda"])
@pytest.mark.parametrize("sparsity", [0, 1, 1.5, -0.1])
def test_a_share_of_zeros_is_in_0_1(method, sparsity):
    with pytest.raises(ConfigurationError, match="sparsity"):
        choose("clozeline.model.compression", {"name": method, "sparsity": sparsity})
