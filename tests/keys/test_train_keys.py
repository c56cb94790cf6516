"""Every key of a training, at another value, changes a bit of a run of four steps, is refused, or
has a reason."""

import hashlib
import json

import pytest
import yaml

from tests.keys.effects import REFUSED, with_keys
from tests.keys.schema import own_keys, training_keys
from tests.keys.train_algorithm_cases import ALGORITHMS, BESIDE
from tests.keys.train_cases import BASE, ENTRIES, Key
from tests.registries import REGISTRIES
from tests.train.masked_set import write_masked_sets
from tests.train.runs import complete, saved, start
from tests.train.synthetic import plain_config

BY_PACKAGE = {registry.package: registry for registry in REGISTRIES}


def test_every_key_of_a_training_has_an_entry():
    assert ENTRIES.keys() == training_keys()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two sets with held-out rows, in sets and sets/other."""
    folder = tmp_path_factory.mktemp("keys")
    write_masked_sets(folder / "sets", rows=64, heldout=32)
    write_masked_sets(folder / "sets" / "other", rows=80, heldout=24, name="other")
    return folder


@pytest.fixture(scope="module")
def base(folder, one_rank):
    """A run to start from, and to learn from."""
    plain = plain_config(
        data__shards=str(folder / "sets" / "train" / "manifest.json"), output=str(folder / "base")
    )
    config = folder / "base.yaml"
    config.write_text(yaml.safe_dump(plain | BASE | {"steps": 1, "seed": 3}))

    complete(one_rank, config)


def result_of(output):
    """Return the digest of what a run computed and kept: losses, rates, evaluations, checkpoints,
    weights."""
    digest = hashlib.sha256()

    for line in (output / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        kept = {
            key: record.get(key) for key in ("step", "losses", "gradient_norm", "learning_rate")
        }
        heldout = {name: one["losses"] for name, one in record.get("heldout", {}).items()}
        digest.update(json.dumps([kept, heldout], sort_keys=True).encode())

    names = sorted(path.name for path in (output / "checkpoints").iterdir() if path.is_dir())
    digest.update(json.dumps(names).encode())
    for name, tensor in sorted(saved(output).items()):
        digest.update(name.encode() + tensor.float().numpy().tobytes())
    return digest.hexdigest()


def run_with(folder, pool, changes):
    """Run with other keys; return what came out, or `REFUSED` and the message.

    Equal runs run once.
    """
    name = hashlib.sha256(json.dumps(changes, sort_keys=True).encode()).hexdigest()[:16]
    output = folder / "runs" / name
    kept = folder / "runs" / f"{name}.json"
    if not kept.exists():
        output.parent.mkdir(exist_ok=True)
        plain = plain_config(data__shards="{sets}/train/manifest.json", output=str(output)) | BASE
        text = yaml.safe_dump(with_keys(plain, changes))
        text = text.replace("{sets}", str(folder / "sets")).replace("{base}", str(folder / "base"))
        config = output.with_suffix(".yaml")
        config.write_text(text)
        ((code, message),) = pool.run(start, config)

        assert code in (0, 64), message

        kept.write_text(json.dumps([REFUSED if code else result_of(output), message]))

    return json.loads(kept.read_text())


LISTS = ("hooks", "distil.losses")
"""Keys that choose several algorithms."""

CASES = {key: entry for key, entry in ENTRIES.items() if isinstance(entry, Key)}


@pytest.mark.slow
@pytest.mark.parametrize("key", CASES)
def test_every_key_of_a_training_changes_a_bit_or_is_refused(folder, one_rank, key):
    value, read_with, reason = CASES[key]
    unchanged, _ = run_with(folder, one_rank, {**read_with})
    changed, message = run_with(folder, one_rank, {**read_with, key: value})

    assert changed not in (unchanged, REFUSED), message

    if read_with and not reason:
        alone, _ = run_with(folder, one_rank, {key: value})
        assert alone != run_with(folder, one_rank, {})[0], (
            "refuse the key without those that must stand next to it"
        )


OF_ALGORITHMS = [
    (package, chooser, name, key)
    for (package, chooser), algorithms in ALGORITHMS.items()
    for name, (_, entries) in algorithms.items()
    for key, entry in entries.items()
    if isinstance(entry, Key)
]


def test_every_key_of_what_a_training_chooses_has_an_entry():
    for (package, _), algorithms in ALGORITHMS.items():
        assert algorithms.keys() == {*BY_PACKAGE[f"clozeline.{package}"].available()}, (
            "add a case to tests/keys/train_algorithm_cases.py"
        )
        entries = {f"{name}.{key}" for name, (_, of) in algorithms.items() for key in of}
        assert entries == own_keys(BY_PACKAGE[f"clozeline.{package}"])


@pytest.mark.slow
@pytest.mark.usefixtures("base")
@pytest.mark.parametrize(("package", "chooser", "name", "key"), OF_ALGORITHMS)
def test_every_key_of_what_a_training_chooses_changes_a_bit(
    folder, one_rank, package, chooser, name, key
):
    options, entries = ALGORITHMS[package, chooser][name]
    value, read_with, _ = entries[key]

    def chosen(**changes):
        one = {"name": name, **options, **changes}
        one = {option: given for option, given in one.items() if given is not None}
        return BESIDE.get(chooser, {}) | {chooser: [one] if chooser in LISTS else one}

    unchanged, problem = run_with(folder, one_rank, chosen(**read_with))

    assert unchanged != REFUSED, problem

    changed, message = run_with(folder, one_rank, chosen(**{**read_with, key: value}))

    assert changed not in (unchanged, REFUSED), message

    if read_with:
        alone, _ = run_with(folder, one_rank, chosen(**{key: value}))
        assert alone != run_with(folder, one_rank, chosen())[0], (
            "refuse the key without those that must stand next to it"
        )
