"""Claims: each verdict follows from its numbers, and each command is the one that gave them."""

import json
import re
import shlex

import numpy as np
import pytest
import scipy.stats
import yaml

from clozeline import HOME
from clozeline.extensions.studies.commands import study as tool
from clozeline.extensions.studies.study_plan import load_study
from clozeline.files import publish_json
from docs.generate.claims import collect, decide, minutes_of, read_measured

CLAIMS = yaml.safe_load((HOME / "docs/generate/claims.yaml").read_text(encoding="utf-8"))
MEASURED = read_measured(CLAIMS["others"])
STUDIES = {name: run for name, run in MEASURED.items() if "rate" in run}
ROWS = [claim for group in CLAIMS["claims"].values() for claim in group if "cannot" not in claim]


@pytest.mark.parametrize("name", STUDIES)
def test_a_command_is_that_of_its_row_and_short(name, monkeypatch):
    run, seen = STUDIES[name], []
    monkeypatch.setattr(tool, "_run_study", seen.append)
    assert tool.main(shlex.split(run["command"])[2:]) == 0
    study, variants = load_study(seen[0].study)
    chosen = seen[0].variants or list(variants)

    assert (seen[0].flops is None) == (seen[0].steps is not None)
    assert (seen[0].flops or run["flops"], seen[0].seeds) == (run["flops"], run["seeds"])
    assert {arm.partition(" from ")[0] for arm in run["variants"]} <= set(chosen)
    assert minutes_of(run) <= 45.5
    # a study as its file has it is not longer
    assert study.flops * study.seeds * len(variants) / run["rate"] / 60 <= 45.5


def write_files(folder):
    """Write the files that commands name; each text is of its language."""
    sentences = {
        "en": "The old house stood by the river, and nobody knew who had lived there before them.",
        "de": "Das alte Haus stand am Fluss, und niemand wusste, wer vorher darin gewohnt hatte.",
        "fr": "La vieille maison était près de la rivière, et personne ne savait qui y vivait.",
        "es": "La casa vieja estaba cerca del río, y nadie sabía quién había vivido en ella.",
    }
    for name in ("texts", "en", "de", "fr", "es", "novels", "plays", "other_novels", "other_plays"):
        said = sentences.get(name, sentences["en"])
        lines = [{"text": f"{name} {n * n}. " + f"{said} {n * 7919} " * 30} for n in range(80)]
        text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_a_command_plans_the_flops_of_its_row(name, tmp_path, monkeypatch, capfd):
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = shlex.split(STUDIES[name]["command"].replace("=TEXTS", "=texts.jsonl"))[2:]

    assert tool.main([str(HOME / words[0]), *words[1:], "dry_run=true"]) == 0

    planned = re.findall(
        r"^(\S+), seed (\d+): [\d,]+ steps, ([\d.e+]+) FLOPs", capfd.readouterr().out, re.M
    )

    assert {int(seed) for _, seed, _ in planned} == set(range(STUDIES[name]["seeds"]))
    if "flops=" in STUDIES[name]["command"]:  # those of a step depend on the vocabulary
        assert [float(flops) for *_, flops in planned] == pytest.approx(
            [STUDIES[name]["flops"]] * len(planned), rel=0.05
        )


@pytest.mark.parametrize("claim", ROWS, ids=lambda claim: claim["claim"])
def test_a_claim_compares_what_was_measured_with_equal_heads(claim):
    """Heads differ only where they are what is claimed, which the row says."""
    run = MEASURED[claim["study"]]
    arms = [arm.partition(" from ")[0] for arm in claim["arms"]]

    assert set(claim["arms"]) <= run["variants"].keys()
    if claim["study"] in STUDIES:
        _, variants = load_study(HOME / shlex.split(run["command"])[2])
        first, second = (variants[arm].train.get("model", {}).get("heads") for arm in arms)

        assert (first == second) == (not claim.get("other_heads", False))


def normal_sample(mean, deviation):
    """Return three runs with this mean and standard deviation."""
    return [mean - deviation, mean, mean + deviation]


@pytest.mark.parametrize("claim", ROWS, ids=lambda claim: claim["claim"])
def test_a_verdict_that_is_not_undecided_follows_from_student(claim):
    """scipy's t statistic of the arms is beyond 2, on the side that the page says."""
    run = MEASURED[claim["study"]]
    text, said = decide(claim, run)
    first, second = (run["variants"][arm][claim["measure"]] for arm in claim["arms"])
    if said in ("holds", "does not hold"):
        found = scipy.stats.ttest_ind_from_stats(*first, *second, equal_var=False)
        better = (found.statistic > 0) == claim.get("unit", "nats").startswith(
            ("accuracy", "points", "times")
        )
        assert abs(found.statistic) > 2
        assert better == (said == "holds")
        mean = f"{abs(first[0] - second[0]):.3f}"
        assert claim.get("unit", "").startswith("times") or text.lstrip("+-").startswith(mean)


RUN = {"variants": {"a": {"tokens": 5}, "b": {"tokens": 5}}}
CLAIM = {"claim": "a is better", "study": "s", "arms": ["a", "b"], "measure": "m"}


def verdict(better, worse, **claim):
    variants = {name: RUN["variants"][name] | arm for name, arm in (("a", better), ("b", worse))}
    return decide(CLAIM | {"equal": "tokens"} | claim, {"variants": variants})


@pytest.mark.parametrize(
    ("better", "worse", "claim", "expected"),
    [
        ([5.646, 0.083, 3], [6.047, 0.175, 3], {}, "holds"),
        ([5.846, 0.083, 3], [6.047, 0.175, 3], {}, "undecided"),
        ([4.0, 0.1, 3], [4.5, 0.1, 3], {}, "holds"),
        ([4.0, 0.1, 3], [4.5, 0, 1], {}, "undecided: one seed"),
        ([0.8, 0.01, 3], [0.7, 0.01, 3], {"unit": "accuracy"}, "holds"),
        ([4.5, 0.1, 3], [4.0, 0.1, 3], {}, "does not hold"),
        ([4.0, 0.1, 3], [4.5, 0.1, 3], {"undecided": "too few steps"}, "undecided: too few steps"),
    ],
)
def test_numbers_give_the_verdict(better, worse, claim, expected):
    """The error is that of the difference of two means."""
    text, said = verdict({"m": better}, {"m": worse}, **claim)
    deviations = [np.std(normal_sample(*arm[:2]), ddof=1) ** 2 / arm[2] for arm in (better, worse)]
    assert said == expected
    assert f" ± {sum(deviations) ** 0.5:.3f} " in text


def test_what_was_held_equal_is_measured_or_equal_by_design():
    values = {"m": [4.0, 0.1, 3]}, {"m": [4.5, 0.1, 3]}
    for equal in ("token", "FLOPs"):
        with pytest.raises(ValueError, match=f"'a' was measured without '{equal}'; it has tokens"):
            verdict(*values, equal=equal)
    assert verdict(*values, equal="rows", equal_by_design=True)[1] == "holds"
    with pytest.raises(ValueError, match="without 'other'"):
        verdict(*values, measure="other")


@pytest.mark.parametrize(
    ("measure", "arms", "expected"),
    [
        ("masked_40", ["masked_40", "masked_15"], "undecided: own loss of the first arm"),
        ("masked_15", ["masked_40", "masked_15"], "holds"),
        ("masked_40", ["masked_15", "masked_40"], "undecided: own loss of the second arm"),
        ("masked_40", ["causal_then_masked", "masked_40"], "holds"),
    ],
)
def test_a_loss_that_one_arm_alone_was_trained_on_decides_nothing(measure, arms, expected):
    run = MEASURED["hybrid"]
    claim = CLAIM | {"arms": arms, "measure": measure, "equal": "FLOPs", "equal_by_design": True}
    assert decide(claim, run)[1] == expected


def test_the_better_one_had_no_more_tokens():
    more = verdict({"m": [4.5, 0.1, 3], "tokens": 1}, {"m": [4.0, 0.1, 3], "tokens": 2})
    fewer = verdict({"m": [4.0, 0.1, 3], "tokens": 1}, {"m": [4.5, 0.1, 3], "tokens": 2})

    assert (more[1], fewer[1]) == ("undecided: the better one had more tokens", "holds")


def test_what_a_study_measured_is_collected(tmp_path):
    for seed, loss in enumerate((4.0, 4.2)):
        figures = {"flops": 1e9, "tokens": 100, "losses": {"causal": loss}}
        publish_json(tmp_path / "scores" / f"plain-{seed}.json", figures)
    run = collect(tmp_path, "clozeline study configs/studies/textbook output=x flops=1e9")

    assert run["variants"] == {
        "plain": {"FLOPs": 1000000000, "tokens": 100, "causal": [4.1, 0.1414, 2]}
    }
    assert (run["flops"], run["seeds"]) == (1e9, 2)
