"""Train every recipe's model for a step on a GPU that is only pretended, and report what a real one would stumble over.

    python -m tests.benchmarks.fake_gpu [--recipes bert t5 ...] [--json FILE]

A row is one training configuration, and for encoder-decoders a second one, `apart`, with documents packed into its
rows: micro-batch, forward, backward and optimizer step in bf16 under torch's FakeTensorMode on the device "cuda", which
computes shapes, types and devices but no values. So any read of a value by the host raises an error, and so do tensors
of two devices, arguments that do not fit an operator's schema, and graph breaks: each layer, and each head of labels,
is compiled as one graph by dynamo. A row fails on

- a host read: a value, a size that depends on values, or a copy from the device to the host
- tensors of different devices in one operation, or a tensor of the model that does not move with it
- a product of weights in fp32, although they are bf16
- a graph break; recurrent families are not compiled

`attention` names the kernels: flash (full rows), varlen (packed documents), mask (any mask). `fp32 products` counts
those of activations that are fp32 on purpose: DeBERTa's scores, similarities, relations of a teacher. A CPU build of
torch needs a C++ compiler here: `pretended_cuda.cpp` is what makes its autograd accept the device.
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
import time
import traceback
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from benchmarks.harness import ROOT, parser, print_table, write_json

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from clozeline.configuration.config import load_config
from clozeline.model.build import Model
from clozeline.model.checkpoints import build_heads_of_class
from clozeline.model.compilation.host_shapes import add_host_shapes, pad_labels
from clozeline.model.compilation.layer_calls import compile_heads, compile_layers
from clozeline.pipeline.recipe import load_recipe
from clozeline.registry import find
from clozeline.train.compression.distillation.student import Student
from clozeline.train.compression.distillation.teacher import Teacher
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.device_copies import DeviceCopies
from clozeline.train.data.stream.labels import sample_words
from clozeline.train.optim.weights.flat_buffers import Layout, Segment
from clozeline.train.optim.weights.parameter_groups import parameter_groups
from tests.benchmarks.recipe_batches import VOCABULARY, recipe_batch, vocabulary
from tests.recipes import trainings

DEVICE = torch.device("cuda:0")
_LIBRARY = "pretended_cuda.so"
_BODIES = {
    "tasks/summaries": ["family=encoder_decoder", "norm=rms", "position.kind=t5"],
    "tasks/instructions": ["family=decoder", "norm=rms", "position.kind=rope"],
    "other": ["family=encoder", "position.maximum=512"],
}
"""Bodies of runs that start from another model."""
_SIZES = ["dim=64", "layers=2", "attention_heads=4", "ffn_dim=128"]
_OF_WEIGHTS, _PRODUCTS = {"mm", "addmm"}, {"mm", "addmm", "bmm", "baddbmm"}


def configurations(names):
    """Yield the trainings of recipes by name, such as `tasks/squad` or `bert variant=tiny`; all for none."""
    for training in trainings():
        if not names or training.name in names:
            yield training


def load(training):
    """Return the configuration of a training; one that starts from another model gets a small body."""
    keys, words = training.keys, [*training.words, "data.shards=unused", "output=unused"]
    if "family" not in keys["model"]:
        body = _BODIES.get(training.recipe, _BODIES["other"])
        words += [f"model.{word}" for word in (*body, *_SIZES)]
    words += ["distil.teacher=unused"] if "distil" in keys else []
    classes = {"classification": 2, "tagging": 3}
    heads = keys["model"]["heads"]
    words += [f"model.heads.{head}.classes={count}" for head, count in classes.items() if head in heads]
    config = load_config(TrainConfig, training.path, words)
    return replace(config, model=build_heads_of_class(config.model, {}))


def may_pack_pairs(training):
    """Return whether a training of an encoder-decoder reads corrupted text, whose rows may hold documents."""
    if "tasks" in training.path.parts or load(training).model.architecture != "encoder_decoder":
        return False
    entries = load_recipe(training.pipeline, ["output=unused"]).config_of("corrupt")
    return hasattr(entries[0].objective.options, "cross_documents")


class Operations(TorchDispatchMode):
    """Counts operations of a step: products in fp32, copies from the device to the host, and calls of kernels."""

    def __init__(self):
        super().__init__()
        self.wide = Counter()
        self.copies = Counter()
        self.varlen = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Count an operation and do it."""
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        tensors = [value for value in args if isinstance(value, Tensor)]
        self.wide[name] += name in _PRODUCTS and tensors[0].dtype == torch.float32
        self.varlen += name == "_flash_attention_forward"
        if name in ("_to_copy", "copy_") and tensors[-1].is_cuda and not result.is_cuda:
            self.copies[name] += 1
        return result


class Kernels(TorchFunctionMode):
    """Sends attention to the operators that a GPU has: a CPU build of torch would choose its own."""

    def __init__(self):
        super().__init__()
        self.used = Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is nn.functional.scaled_dot_product_attention and args[0].device.type == "cuda":
            return self._attend(*args, **kwargs)
        return func(*args, **kwargs)

    def _attend(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        assert query.dtype == key.dtype == value.dtype, f"attention of {query.dtype}, {key.dtype}, {value.dtype}"
        if enable_gqa:
            key, value = (part.repeat_interleave(query.shape[1] // key.shape[1], dim=1) for part in (key, value))
        self.used["flash" if attn_mask is None else "mask"] += 1
        if attn_mask is None:
            return torch.ops.aten._scaled_dot_product_flash_attention(
                query, key, value, dropout_p, is_causal, scale=scale
            )[0]
        if attn_mask.dtype == torch.bool:
            attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, -torch.inf)
        assert attn_mask.dtype == query.dtype, f"a mask of {attn_mask.dtype} for queries of {query.dtype}"
        mask = attn_mask.expand(*query.shape[:3], key.shape[2])
        return torch.ops.aten._scaled_dot_product_efficient_attention(
            query, key, value, mask, True, dropout_p, is_causal, scale=scale
        )[0]


def build(config):
    """Return the model of a run on the host, and the teacher of a distillation."""
    model = Model(config.model, VOCABULARY)
    if model.family.reads_characters:
        words = vocabulary()
        spelled = [f"{index}é".encode() for index in range(VOCABULARY)]
        model.family.set_token_bytes(spelled, words.specials)
    if config.distil is None:
        return model, None
    larger = replace(config.model, layers=2 * config.model.layers)
    student = Student(model, config.distil.losses, larger)
    return student, Teacher(Model(larger, VOCABULARY), student.needed_of_teacher)


def move(model):
    """Replace parameters and buffers by pretended ones on the device, in bf16 if they are numbers; ties stay."""
    moved = {}

    def pretend(tensor, made):
        dtype = torch.bfloat16 if tensor.is_floating_point() else tensor.dtype
        return moved.setdefault(id(tensor), made(torch.empty(tensor.shape, dtype=dtype, device=DEVICE)))

    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            trained = parameter.requires_grad
            setattr(module, name, pretend(parameter, lambda t, trained=trained: nn.Parameter(t, requires_grad=trained)))
        for name, buffer in module.named_buffers(recurse=False):
            setattr(module, name, pretend(buffer, lambda tensor: tensor))


def update(model, config):
    """Update fp32 copies of the weights by the optimizer of a run."""
    builder = config.optimizer.build()
    groups = parameter_groups(
        model, config.optimizer.options.weight_decay, matrices_apart=builder.matrices_apart,
        by_depth=config.optimizer.options.layer_decay is not None,
    )  # fmt: skip
    names, segments = {id(parameter): name for name, parameter in model.named_parameters()}, []
    for group in groups:
        copies = [nn.Parameter(parameter.detach().float()) for parameter in group["params"]]
        for copy, parameter in zip(copies, group["params"], strict=True):
            copy.grad = torch.zeros_like(copy) if parameter.grad is None else parameter.grad.float()
            name, shape, count = names[id(parameter)], tuple(copy.shape), copy.numel()
            segments.append([Segment(name, shape, copy, group["name"], 0, 0, count)])
        group["params"], group["lr"] = copies, 1e-3
    optimizer = builder.build(groups)
    builder.bind(optimizer, Layout([own[0].flat for own in segments], [segments], 0))
    optimizer.step()


def step(training, *, compiled, apart):
    """Return what a step of a configuration does on the device; what a GPU would stumble over is an exception."""
    # on the host: model, batch, and the shapes that the engine adds to it
    config = load(training)
    batch = recipe_batch(training, config, apart=apart)
    torch.manual_seed(0)
    model, teacher = build(config)
    batch = pad_labels(batch, 256) if compiled else batch
    if "sample_words" in model.needs:
        batch["sample_words"] = sample_words(0, 1, np.zeros((len(batch["input_ids"]), 3), np.int64), batch)
    host = add_host_shapes(batch, model.position_limit, model.host_tensors)
    # on the device
    operations, kernels = Operations(), Kernels()
    with pretended_device() as mode:
        for part in (model, *([] if teacher is None else [teacher.model])):
            move(part)
        pretended = {name: mode.from_tensor(tensor) for name, tensor in host.items()}
        inputs = DeviceCopies(DEVICE, torch.cpu).start(pretended).wait()
        if compiled:  # dynamo compiles nothing while other modes are active
            compile_layers(model, "eager")
            compile_heads(model, "eager")
            _forward_and_backward(model, teacher, inputs)
            return {}
        with operations, kernels:
            losses = _forward_and_backward(model, teacher, inputs)
        wide = {name: count for name, count in operations.wide.items() if count}
        with operations:
            update(model, config)
    assert wide.keys().isdisjoint(_OF_WEIGHTS), f"products of weights in fp32: {wide}"
    assert not operations.copies, f"copies from the device to the host: {dict(operations.copies)}"
    used = {**kernels.used, **({"varlen": operations.varlen} if operations.varlen else {})}
    return {"heads": list(losses), "attention": used, "fp32 products": sum(wide.values())}


def _forward_and_backward(model, teacher, inputs):
    losses = model(inputs if teacher is None else {**inputs, **teacher(inputs)})
    torch.stack([loss.total * 1.0 for loss in losses.values()]).sum().backward()
    return losses


@contextmanager
def pretended_device():
    """Enter the pretended device: an H200 in all that the model asks for."""
    properties = SimpleNamespace(major=9, minor=0, name="NVIDIA H200 (pretended)")
    with (
        FakeTensorMode() as mode,
        patch("torch.cuda.get_device_properties", lambda *_: properties),
        patch("torch.Tensor.record_stream", lambda *_: None),
    ):
        yield mode


def row(training, *, compiled, apart=False):
    """Return the row of a configuration; `problem` is empty if nothing is wrong. `apart`: documents are kept apart."""
    line = {
        "recipe": training.name + (" apart" if apart else ""),
        "family": "",
        "attention": {},
        "fp32 products": 0,
        "breaks": None,
    }
    began, line["problem"] = time.perf_counter(), ""
    try:
        config = load(training)
        line |= {"family": config.model.family, **step(training, compiled=False, apart=apart)}
        if compiled and find("clozeline.model.families", config.model.family).compiled:
            line["breaks"] = "?"
            step(training, compiled=True, apart=apart)
            line["breaks"] = 0
    except Exception as error:  # every error is a finding
        line["problem"] = describe(error)
    torch._dynamo.reset()
    return {**line, "seconds": round(time.perf_counter() - began, 2)}


def describe(error):
    """Return the first line of an error, and the line of the project that it comes from."""
    places = [
        f"{path.relative_to(ROOT)}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if (path := Path(frame.filename)).is_relative_to(ROOT) and not {"site-packages", "benchmarks"} & {*path.parts}
    ]
    first = (str(error).strip() or "no message").splitlines()[0]
    return " ".join([*places[-1:], f"{type(error).__name__}: {first}"])


def preload(folder):
    """Return the environment of a process with the pretended device, whose library is compiled into a folder."""
    if torch.version.cuda is not None:
        return {}
    root = Path(torch.__file__).parent
    library, libraries = folder / _LIBRARY, root / "lib"
    source = Path(__file__).with_name("pretended_cuda.cpp")
    compiler = (sysconfig.get_config_var("CXX") or "c++").split()[0]
    flags = [
        "-std=c++20",
        "-shared",
        "-fPIC",
        "-w",
        f"-I{root / 'include'}",
        f"-L{libraries}",
        f"-Wl,-rpath,{libraries}",
    ]
    subprocess.run([compiler, *flags, source, "-o", library, "-ltorch_cpu", "-lc10"], check=True)
    return {"LD_PRELOAD": str(library)}


def run(names, path, *, eager=False):
    """Print the table of recipes in a process with the pretended device; return 1 if a row fails."""
    words = [*(["--recipes", *names] if names else []), *([] if path is None else ["--json", str(path.absolute())])]
    words += ["--eager", "1"] if eager else []
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.benchmarks.fake_gpu", *words]
        return subprocess.run(command, cwd=ROOT, env=os.environ | preload(Path(folder)), check=False).returncode


def main():
    """Print the table, in this process if it has the pretended device."""
    recipes, eager = ([""], "names; default: all"), (0, "1: do not compile")
    options = parser(__doc__, recipes=recipes, eager=eager).parse_args()
    names, rows = [name for name in options.recipes if name], []
    if torch.version.cuda is None and _LIBRARY not in os.environ.get("LD_PRELOAD", ""):
        return run(names, options.json, eager=bool(options.eager))
    for training in configurations(names):
        for apart in (False, True)[: 1 + may_pack_pairs(training)]:
            rows.append(row(training, compiled=not options.eager, apart=apart))
            print(f"{rows[-1]['recipe']}: {rows[-1]['problem'] or 'no problem'}", file=sys.stderr, flush=True)
    shown = ("recipe", "family", "attention", "fp32 products", "breaks", "problem")
    print_table(
        shown, [[" ".join(value) if isinstance(value := one[name], dict) else value for name in shown] for one in rows]
    )
    write_json(options.json, rows)
    return int(not rows or any(one["problem"] for one in rows))


if __name__ == "__main__":
    raise SystemExit(main())
