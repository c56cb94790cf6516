"""Figures as the comparison of loaders reports them: rounds merged, targets of both judges, requirements."""

from benchmarks import loader
from benchmarks.peers import targets
from benchmarks.peers.targets import MAIN, ZSTD, ratios, requirements


def figures(**changed):
    parts = [f"{part}_{what}" for part in ("epoch", "resumed", "elastic") for what in ("repeated", "missing")]
    facts = dict.fromkeys([*parts, "elastic_other"], 0.0) | {"identical": 1.0, "state_bytes": 130.0}
    facts |= {"import": 0.2, "first": 0.02, "resume_1": 0.03, "resume_50": 0.03, "resume_99": 0.03}
    return facts | {"least_cpu": 0.4, "cpu": 0.5, "best_rate": 2e6, "rate": 1e6} | changed


def test_rounds_keep_the_best_speed_and_the_worst_losses(monkeypatch, tmp_path):
    worse = figures(least_cpu=0.3, rate=3e6, first=0.05, epoch_missing=2.0, identical=0.0)
    rounds = iter([figures(), worse, figures(resume_50=0.01, best_rate=1.0)])
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "three short words"}\n{"text": "these are five short words"}\n')
    loader.write_samples(tmp_path, 64, documents=True, texts=texts)
    assert set(loader.np.load(tmp_path / "lengths.npy").tolist()) == {3, 5}
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "written").touch()
    monkeypatch.setattr(loader, "CASES", {MAIN: loader.CASES[MAIN]})
    monkeypatch.setattr(loader, "in_fresh_process", lambda *arguments: next(rounds))
    found = loader.compare(tmp_path, "python", rounds=3, workers=0)[MAIN]
    expected = {"least_cpu": 0.3, "rate": 3e6, "best_rate": 2e6, "first": 0.02, "resume_50": 0.01}
    assert {**found, **expected, "epoch_missing": 2, "identical": 0} == found


def test_both_judges_must_hold():
    peers = {peer for _, peer, _ in targets._TIMES} | {targets._LIMIT, *targets._STREAMS}
    assert peers == loader.CASES.keys() - {MAIN, ZSTD}, "a peer under another name would never be compared"
    found = {MAIN: figures(), ZSTD: figures(), "litdata": figures(least_cpu=4.4, best_rate=2.5e5)}
    cpu, wall, _, _ = ratios(found)[0]
    assert (cpu.holds, wall.holds) == (True, False), "11 times less CPU time, 8 times the samples a second; target 10"
    found["numpy memmap, whole batch"] = figures(least_cpu=0.31, best_rate=3.4e6)
    cpu, wall, _, _ = ratios(found)[-1]
    assert (cpu.holds, wall.holds) == (True, False), "1.29 times its CPU time is enough, 0.59 of its rate is not"
    found[MAIN] = figures(least_cpu=0.41, best_rate=2.05e6)
    assert [claim.holds for claim in ratios(found)[-1][:2]] == [False, True]


def test_each_requirement_can_fail():
    def failed(peers, **wrong):
        found = {MAIN: figures(**wrong), ZSTD: figures(), **peers}
        return [claim.unit for claim in requirements(found) if not claim.holds]

    assert not failed({})
    limits = {"least_cpu": 1.01, "resume_99": 0.041, "state_bytes": 301.0, "identical": 0.0}
    for wrong in (limits | dict.fromkeys(("resumed_missing", "elastic_repeated", "elastic_other"), 1.0)).items():
        assert len(failed({}, **dict([wrong]))) == 1, wrong
    assert len(failed({}, first=0.11, resume_1=0.11)) == 1
    assert failed({"litdata": figures(first=0.03, resume_50=0.02)}) == ["s to resume at 50 %"]
