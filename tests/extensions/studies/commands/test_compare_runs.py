"""Runs side by side."""

import json

import yaml

from clozeline.checksummed_json import add_checksum
from clozeline.extensions.studies.commands.compare_runs import main as compare_runs
from clozeline.files import publish_json
from tests.pages import checked
from tests.sealed_lines import sealed
from tests.train.synthetic import plain_config


def write_run(folder, losses, **changes):
    """A run with one record a step.

    Held-out losses at every second step are 1 below those in training.
    """
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(plain_config(output=str(folder), **changes)))
    lines = []

    for step, loss in enumerate(losses, 1):
        record = {
            "step": step,
            "samples": 8 * step,
            "tokens": 100 * step,
            "flops": 1e12 * step,
            "time": 100.0 + 2 * step,
            "loss": loss,
            "losses": {"masked_lm": loss},
            "tokens_per_s": 50.0 * step,
            "padded_tokens_per_s": 80.0,
            "mfu": 0.25,
            "memory_bytes": 2**20 * step,
            "stream": {"waited_share": 0.125},
        }
        if step % 2 == 0:
            lost = None if loss is None else loss - 1
            record["heldout"] = {"heldout": {"loss": lost, "unigram_entropy": 2.75, "labels": 5}}

        lines.append(record)

    (folder / "metrics.jsonl").write_text("".join(f"{sealed(**line)}\n" for line in lines))
    (folder / "events.jsonl").write_text(sealed(event="start", time=100.0) + "\n")
    return folder


def test_figures_are_the_last_and_the_best(tmp_path, capsys):
    runs = [
        write_run(tmp_path / "a/run", [5.0, 3.0, 4.0, 3.5, 3.25]),
        write_run(tmp_path / "b/run", [5.0, 4.0, None, None], optimizer__learning_rate=0.5, seed=8),
    ]

    assert compare_runs([*map(str, runs), "--json"]) == 0

    found = json.loads(capsys.readouterr().out)

    assert [run["name"] for run in found["runs"]] == ["a/run", "b/run"]

    first, second = (run["figures"] for run in found["runs"])

    assert first == {
        "step": 5,
        "samples": 40,
        "tokens": 500,
        "seconds": 10.0,
        "flops": 5e12,
        "training loss": 3.25,
        "held-out loss, last": 2.5,
        "held-out loss, best": 2.0,
        "held-out loss, step of the best": 2,
        "held-out unigram entropy": 2.75,
        "tokens/s, median": 150.0,
        "MFU, median": 0.25,
        "share of time waiting for data, median": 0.125,
        "resident bytes of rank 0, most": 5 * 2**20,
    }
    assert "training loss" not in second  # it is not finite
    assert (second["held-out loss, last"], second["held-out loss, best"]) == (3.0, 3.0)
    assert found["differences"] == {"optimizer.learning_rate": ["0.003", "0.5"], "seed": ["7", "8"]}


def test_losses_of_different_objectives_have_charts_of_their_own(tmp_path, capsys):
    runs = [
        write_run(tmp_path / name, [5.0, 4.0])
        for name in ("masked", "masked_too", "causal", "other_words", "by_row")
    ]
    (runs[-1] / "events.jsonl").write_text(sealed(event="start", time=1.0, unit="rows") + "\n")
    names = ["masked_lm", "masked_lm", "causal_lm", "masked_lm", "masked_lm"]
    for run, name, fingerprint in zip(runs, names, "aaaba", strict=True):
        objective = {
            "name": name,
            "label": name,
            "architecture": "encoder",
            "heads": ["masked_lm"],
            "frame": {},
        }

        tokenizer = {
            "name": "word",
            "fingerprint": 16 * fingerprint,
            "vocab_size": 9,
            "special_ids": {},
        }

        recorded = {
            "path": "set",
            "name": "set",
            "digest": "",
            "checksum": "",
            "objective": objective,
            "columns": [],
        }

        recorded |= {"tokenizer": tokenizer, "max_length": 8, "languages": []}
        publish_json(run / "sets.json", add_checksum({"format": 1, "sets": [recorded]}))

    page = tmp_path / "page.html"

    assert compare_runs([*map(str, runs), f"html={page}"]) == 0

    printed = capsys.readouterr()

    assert "cannot be compared" in printed.err

    shown = [
        text for text in checked(page.read_text()).pictures if text.startswith("Training loss")
    ]

    assert len(shown) == 4 * 4
    assert "masked_lm, mean over rows, tokenizer aaaaaaaa (4)" in page.read_text()

    assert all("masked; masked_too from" in text for text in shown[:4]), "equal curves are one"
    assert not [text for text in shown[4:] if "masked_too" in text]
    assert compare_runs([*map(str, runs[:2])]) == 0
    assert "cannot be compared" not in capsys.readouterr().err


def test_secrets_of_a_configuration_are_not_shown(tmp_path, capsys):
    runs = [
        write_run(
            tmp_path / name,
            [1.0],
            data__store={"fsspec": {"s3": {"secret": f"hidden-{name}", "anon": name}}},
        )
        for name in ("a", "b")
    ]

    assert compare_runs([*map(str, runs), "--json"]) == 0

    shown = capsys.readouterr().out

    assert "hidden" not in shown
    assert "data.store.fsspec.s3.anon" in shown


def test_damaged_lines_are_left_out(tmp_path, capsys):
    run = write_run(tmp_path / "run", [5.0, 3.0])
    with (run / "metrics.jsonl").open("a") as file:
        last = sealed(step=4, heldout=[1], loss="x")
        file.write(
            f'{{"step": 3, "loss"\n{sealed(step="x")}\n[]\n{sealed(event="start")}\n{last}\n'
        )

    assert compare_runs([str(run), "--json"]) == 0

    shown = capsys.readouterr()

    assert json.loads(shown.out)["runs"][0]["figures"]["step"] == 4
    assert (
        f"note: {run}/metrics.jsonl: 3 lines cannot be read, torn, damaged or of another file"
        in shown.err
    )


def test_mistakes_are_one_message(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "run", [1.0])

    for count, message in ((2, "the same run is given twice"), (9, "expected at most 8 runs")):
        assert compare_runs(["run"] * count) == 64
        assert message in capsys.readouterr().err
