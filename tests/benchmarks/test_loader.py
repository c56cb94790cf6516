"""Figures as the comparison of loaders reports them: rounds merged, targets of both judges, requirements."""

import pytest

from benchmarks import loader
from benchmarks.peers import targets
from benchmarks.peers.targets import MAIN, ZSTD, ratios, requirements


def figures(**changed):
    parts = [f"{part}_{what}" for part in ("epoch", "resumed", "elastic") for what in ("repeated", "missing")]
    facts = dict.fromkeys([*parts, "elastic_other"], 0.0) | {"identical": 1.0, "state_bytes": 130.0}
    facts |= {"import": 0.2, "first": 0.02, "resume_1": 0.03, "resume_50": 0.03, "resume_99": 0.03}
    return facts | {"least_cpu": 0.4, "cpu": 0.5, "best_rate": 2e6, "rate": 1e6} | changed


def test_rounds_keep_the_best_speed_and_the_worst_losses(monkeypatch, tmp_path):
    rounds = iter(
        [
            figures(),
            figures(least_cpu=0.3, rate=3e6, first=0.05, epoch_missing=2.0, identical=0.0),
            figures(resume_50=0.01, best_rate=1.0),
        ]
    )
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "written").touch()
    loader.np.save(tmp_path / "lengths.npy", loader.np.full(32, 512))
    monkeypatch.setattr(loader, "CASES", {MAIN: loader.CASES[MAIN]})
    monkeypatch.setattr(loader, "in_fresh_process", lambda *arguments: next(rounds))
    found = loader.compare(tmp_path, "python", rounds=3, workers=0)[MAIN]
    expected = {"least_cpu": 0.3, "rate": 3e6, "best_rate": 2e6, "first": 0.02, "resume_50": 0.01}
    assert {name: found[name] for name in expected} == expected
    assert found["epoch_missing"] == 2
    assert found["identical"] == 0


def test_rows_are_as_long_as_the_texts_of_a_file(tmp_path):
    file = tmp_path / "texts.jsonl"
    file.write_text('{"text": "three short words"}\n{"text": "these are five short words"}\n')
    loader.write_samples(tmp_path, 64, documents=True, texts=file)
    assert set(loader.np.load(tmp_path / "lengths.npy").tolist()) == {3, 5}


def test_every_target_is_about_a_loader_that_there_is():
    """A peer under another name would never be compared."""
    peers = {peer for _, peer, _ in targets._TIMES} | {targets._LIMIT, *targets._STREAMS}
    assert peers == loader.CASES.keys() - {MAIN, ZSTD}


def test_both_judges_must_hold():
    found = {MAIN: figures(), ZSTD: figures(), "litdata": figures(least_cpu=4.4, best_rate=2.5e5)}
    cpu, wall, _, _ = ratios(found)[0]
    assert (cpu.holds, wall.holds) == (True, False), "11 times less CPU time, 8 times the samples a second; target 10"
    found["numpy memmap, whole batch"] = figures(least_cpu=0.31, best_rate=3.4e6)
    cpu, wall, _, _ = ratios(found)[-1]
    assert (cpu.holds, wall.holds) == (True, False), "1.29 times its CPU time is enough, 0.59 of its rate is not"
    found[MAIN] = figures(least_cpu=0.41, best_rate=2.05e6)
    assert [claim.holds for claim in ratios(found)[-1][:2]] == [False, True]


@pytest.mark.parametrize(
    "wrong",
    [
        {"least_cpu": 1.01},
        {"first": 0.11, "resume_1": 0.11},
        {"resume_99": 0.041},
        {"state_bytes": 301.0},
        {"resumed_missing": 1.0},
        {"elastic_repeated": 1.0},
        {"elastic_other": 1.0},
        {"identical": 0.0},
    ],
)
def test_each_requirement_can_fail(wrong):
    assert all(claim.holds for claim in requirements({MAIN: figures(), ZSTD: figures()}))
    failed = [claim for claim in requirements({MAIN: figures(**wrong), ZSTD: figures()}) if not claim.holds]
    assert len(failed) == 1


def test_resume_is_held_against_peers():
    found = {MAIN: figures(), ZSTD: figures(), "litdata": figures(first=0.03, resume_50=0.02)}
    failed = [claim.unit for claim in requirements(found) if not claim.holds]
    assert failed == ["s to resume at 50 %"]
