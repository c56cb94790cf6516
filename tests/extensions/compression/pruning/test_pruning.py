"""Promises of every pruning method, and masks of matrices: which ones, when, and from the start."""

import pytest
import torch

from clozeline.extensions.compression.pruning._pruning import CubicOptions
from clozeline.extensions.compression.registries import PRUNING
from clozeline.model.build import Model, build_model
from clozeline.model.parameters.freezing import freeze
from tests.contracts import contract
from tests.declarations import declared
from tests.extensions.compression.pruning.pruned import pruned, tensors_of, train
from tests.refusals import refused
from tests.train.synthetic import VOCABULARY, build, tiny, train_steps


def case(name):
    """`CASE` of a method's own test file: its options in a run of 8 steps, and keys of the run with
    a dot as `__`."""
    return declared("extensions.compression.pruning", name, "CASE", {})


@contract(PRUNING)
def test_a_method_resumes_to_the_bit_and_its_states_are_those_of_checkpoints(
    one_rank, tmp_path, name
):
    """Losses, weights and states of a run that was saved half way."""
    own = case(name)
    config = pruned(
        {"name": name, **own["prune"]},
        **own.get("run", {}),
        zero__stage=0,
    )
    ((losses, tensors),) = one_rank.run(train, config)
    ((again, resumed),) = one_rank.run(train, config, 8, str(tmp_path))

    assert losses == again
    assert len(losses) == 8

    for parameter, states in tensors.items():
        assert states.keys() == resumed[parameter].keys()
        assert all(torch.equal(state, resumed[parameter][key]) for key, state in states.items()), (
            parameter
        )

    added = {key for states in tensors.values() for key in states} - {
        "weight",
        "exp_avg",
        "exp_avg_sq",
    }

    assert added == PRUNING.load_class(name).keys


LSTM = {
    "model": {
        "family": "awd_lstm",
        "dim": 20,
        "layers": 2,
        "cell_dim": 24,
        "heads": {"regularized_lm": {}},
    }
}


QUERY = r"family\.stack\.layers\.\d\.attention\.body\.query\.weight"


def matrices_to_prune(model, parameters=()):
    method = PRUNING.resolve(
        {"name": "magnitude", "sparsity": 0.5, "parameters": list(parameters)}
    ).build()
    return method.sizes_of(model)


def model_of(**changes):
    return build_model(tiny(**changes).model, VOCABULARY, {}, seed=1)


def test_linear_maps_of_layers_are_pruned_and_nothing_else():
    names = matrices_to_prune(model_of())
    maps = (
        "attention.body.query",
        "attention.body.key",
        "attention.body.value",
        "attention.body.out",
    )

    maps += ("feed_forward.body.up", "feed_forward.body.down")
    expected = {f"family.stack.layers.{layer}.{path}.weight" for layer in (0, 1) for path in maps}

    assert set(names) == expected

    shared = matrices_to_prune(model_of(model__share={"groups": 1}))

    assert set(shared) == {name for name in expected if ".layers.0." in name}


@pytest.mark.parametrize(
    ("changes", "patterns", "frozen", "message"),
    [
        (
            {},
            ["family.tokens.weight"],
            (),
            "prune.parameters: 'family.tokens.weight' matches no parameter",
        ),
        ({}, ["("], (), "prune.parameters"),
        (
            LSTM,
            [],
            (),
            "nothing to prune: expected a family with layers of linear maps, got awd_lstm",
        ),
    ],
)
def test_what_cannot_be_pruned_is_refused_by_name(changes, patterns, frozen, message):
    config = tiny(**changes)
    with torch.device("meta"):
        model = Model(config.model, VOCABULARY)
    freeze(model, frozen)
    method = PRUNING.resolve({"name": "magnitude", "sparsity": 0.5, "parameters": patterns}).build()
    with refused(".") as error:
        method.describe(model, 8)

    assert message in str(error.value)


def test_parameters_that_cannot_be_pruned_are_refused_by_name():
    with refused(r"'family.tokens.weight' matches no parameter"):
        matrices_to_prune(model_of(), ["family.tokens.weight"])


def start_with_zeros(world, prune, fresh, initialized):
    """Three steps from a model whose queries have zeros in their first row."""

    def empty_rows(model):
        with torch.no_grad():
            for name in matrices_to_prune(model, [QUERY]):
                model.get_parameter(name)[0] = 0

    engine = build(pruned(prune), world, prepare=empty_rows)
    (pruning,) = engine.hooks
    pruning.start(fresh, initialized=initialized)
    train_steps(engine, 1, 3)
    tensors = tensors_of(engine, world)
    engine.close()
    return tensors


def test_zeros_of_the_source_stay_and_only_chosen_matrices_are_pruned(one_rank):
    """Zeros that `clozeline compress method=magnitude` made survive fine-tuning."""
    prune = {
        "name": "magnitude",
        "sparsity": 0.01,
        "start": 2,
        "end": 2,
        "parameters": [QUERY],
    }
    new = "family.stack.layers.0.attention.body.query.weight"

    for initialized in (True, False):
        (tensors,) = one_rank.run(start_with_zeros, prune, [new], initialized)

        for layer in (0, 1):
            own = tensors[f"family.stack.layers.{layer}.attention.body.query.weight"][
                "weight"
            ].view(20, 20)
            # 4 of 400 are pruned; in a matrix from the source the 20 of the first row stay, which
            # include them
            assert int((own == 0).sum()) == (20 if initialized and layer == 1 else 4), (
                initialized,
                layer,
            )

            key = tensors[f"family.stack.layers.{layer}.attention.body.key.weight"]["weight"]

            assert (key != 0).all()


def test_the_end_defaults_to_two_thirds_and_is_within_the_run():
    assert CubicOptions().last_step(9) == 6
    assert CubicOptions().last_step(1) == 1
    assert CubicOptions(start=3, end=3).last_step(9) == 3

    with refused(r"prune\.end: expected at most 9, .* got 10"):
        CubicOptions(end=10).last_step(9)
    with refused(r"prune\.start: expected at most 9, .* got 12"):
        CubicOptions(start=12).last_step(9)
    with pytest.raises(ValueError, match="end: expected start 5 or a later step, got 4"):
        CubicOptions(start=5, end=4)
