"""The arithmetic from two samples to a cluster: lines, shares, whole units, clusters."""

import pytest

from benchmarks.stage_costs import (
    Estimate,
    Measurement,
    StageCost,
    count_units,
    estimate,
    estimate_near,
    fit_costs,
    fit_line,
    keep_fastest,
)

_SIZES = {"clean": 40.0, "dedup": 8.0, "encode": 2.0}
"""MB that each stage reads of a sample in which most documents are copies"""
_TRUE_LINES = {"clean": (0.8, 1.2), "dedup": (0.1, 0.16), "encode": (2.0, 0.3)}


def _measure(factor):
    return {
        name: Measurement(
            factor * size, _TRUE_LINES[name][0] + factor * size * _TRUE_LINES[name][1]
        )
        for name, size in _SIZES.items()
    }


def _of_sample(factor):
    return list(fit_costs(_measure(factor / 4), _measure(factor)).values())


@pytest.mark.parametrize(
    ("part", "whole", "line"),
    [
        ((2, 4), (8, 10), (2, 1)),
        ((5, 3), (5, 4), (0, 0.8)),  # both read all that they may
        ((2, 4), (8, 3), (0, 0.375)),  # the machine was busy during the smaller one
        ((2, 1), (8, 10), (0, 1.5)),  # a stage takes no negative time
    ],
)
def test_the_line_goes_through_both_samples_where_it_can(part, whole, line):
    assert fit_line(Measurement(*part), Measurement(*whole)) == pytest.approx(line)


def test_a_sample_four_times_as_large_gives_the_same_hours():
    small = estimate(_of_sample(0.1), 10, 2048)
    large = estimate(_of_sample(0.4), 10, 2048)
    for one, other in zip(small, large, strict=True):
        assert one.cpu_hours == pytest.approx(other.cpu_hours)


def test_each_stage_reads_its_share_of_the_files():
    clean, dedup, encode = estimate(_of_sample(1), 10, 2048)
    assert (clean.terabytes, dedup.terabytes, encode.terabytes) == pytest.approx((10, 2, 0.5))
    assert clean.cpu_hours == pytest.approx((0.8 + 1.2 * 10e6) / 3600)
    assert encode.cpu_hours == pytest.approx((2 + 0.3 * 0.5e6) / 3600)


def test_cores_without_a_unit_are_idle():
    cost = StageCost("clean", Measurement(1, 1), 0, 1.0)
    assert count_units(10) == 8192
    for cores, rounds in ((2048, 4), (8191, 2), (8192, 1), (100_000, 1)):
        (made,) = estimate([cost], 10, cores)
        assert made.hours == pytest.approx(made.cpu_hours / 8192 * rounds)
    assert count_units(2**26 / 1e12) == 2
    (few,) = estimate([cost], 2**26 / 1e12, 2048)
    assert few.hours == pytest.approx(few.cpu_hours / 2)


def test_a_stage_with_a_limit_reads_no_more_and_has_one_unit():
    first = StageCost("clean", Measurement(1, 1), 0, 1.0)
    limited = StageCost("train_tokenizer", Measurement(1, 1), 0, 0.5, most_megabytes=10_000)
    _, trained = estimate([first, limited], 10, 2048)
    assert trained == Estimate("train_tokenizer", 0.01, 5000 / 3600, 5000 / 3600)


def test_clusters_of_ten_terabytes_fit_into_processes_of_three_gigabytes():
    """400 times the measured run has 32 times its hash ranges, so 12.5 times its keys in each."""
    near = estimate_near(4e9, 8192)
    assert near.keys == pytest.approx(400 * 1.4e8)
    assert near.ranges == 2048
    assert near.cpu_hours == pytest.approx(400 * 22.4 / 3600)
    assert near.written == pytest.approx(2 * 400 * 1.08e9)  # bundles write all of it again
    assert near.memory < 3e9
    assert near.union == pytest.approx(16e9, rel=0.01)


def test_few_files_need_no_bundles():
    assert estimate_near(1e6, 64).written == pytest.approx(1.08e8)
    assert estimate_near(1e6, 128).written == pytest.approx(2 * 1.08e8)


def test_the_fastest_run_of_each_stage_counts():
    first = {"clean": Measurement(1, 5), "dedup": Measurement(1, 2)}
    second = {"clean": Measurement(1, 4), "dedup": Measurement(1, 3)}
    assert keep_fastest({}, first) == first
    assert keep_fastest(first, second) == {"clean": (1, 4), "dedup": (1, 2)}
