"""Wrap the calls of layers and heads: activation checkpointing and compilation."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, cast

import torch
from torch import nn
from torch._functorch import config as functorch_config
from torch.utils.checkpoint import checkpoint

from clozeline.model.heads import Head

OnFailure = Callable[..., object]
_MAX_GRAPHS: Final = 64
"""Recompilation limit of a function that all layers or heads of a class share. It has graphs for
each type of layer, with and without padding, in training and evaluation, for the first shapes, for
any shape, and for one row. torch's default is 8."""


def recompute_layers(model: nn.Module) -> None:
    """Store only the input of each layer, and run it again in the backward pass (arXiv 1604.06174).

    Losses and gradients are bit-identical, including dropout; a step costs about a third more
    arithmetic.
    """
    for layer in _layers(model):
        forward = layer.forward
        recompute = partial(_recompute, layer)
        layer.forward = (
            forward.within(recompute)
            if isinstance(forward, _Replaceable)
            else partial(recompute, forward)
        )


def compile_layers(
    model: nn.Module, backend: str = "inductor", on_failure: OnFailure | None = None
) -> None:
    """Compile each layer as one graph; call this before `recompute_layers`.

    Layers must have no graph breaks. After a second batch size or row length, a graph for any shape
    is compiled, and no further one.


    Args:
        model: the model.
        backend: backend of torch.compile.
        on_failure: called with the `reason` when a layer cannot be compiled; the layers then run
            uncompiled, with the same gradients. None: the error is raised.
    """
    compiler = _Compiler(backend, on_failure)
    for layer in _layers(model):
        layer.forward = compiler.compile(layer.forward)


def compile_heads(
    model: nn.Module, backend: str = "inductor", on_failure: OnFailure | None = None
) -> None:
    """Compile each head that only reads labeled positions, with a graph per number of labels.

    `pad_labels` keeps that number constant. `on_failure` is that of `compile_layers`.
    """
    compiler = _Compiler(backend, on_failure)
    for head in model.modules():
        if isinstance(head, Head) and head.unit == "label":
            head.forward = compiler.compile(head.forward)  # type: ignore[method-assign]


class _Compiler:
    """Compiles functions until one of them fails."""

    def __init__(self, backend: str, on_failure: OnFailure | None) -> None:
        self.backend = backend
        self.on_failure = on_failure
        self.failed = False

        if backend == "inductor":
            from torch._inductor import config  # a slow import

            # otherwise it chooses kernels, and with them roundings, by their speed, which differs
            # between processes
            config.deterministic = torch.are_deterministic_algorithms_enabled()

        if on_failure is not None:
            # otherwise a graph for any shape could fail in the middle of the backward pass
            functorch_config.force_non_lazy_backward_lowering = True

    def compile(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        # untyped in torch
        settings: Any = {
            "fullgraph": True,
            "backend": self.backend,
            "recompile_limit": _MAX_GRAPHS,
        }
        compiled = torch.compile(forward, **settings)
        return compiled if self.on_failure is None else _Replaceable(compiled, forward, self)


class _Replaceable:
    """A compiled function, and the uncompiled one that replaces it after the first failure.

    Recomputation belongs inside: a call of one of the two is recomputed by the same one.
    """

    def __init__(
        self,
        compiled: Callable[..., Any],
        uncompiled: Callable[..., Any],
        compiler: _Compiler,
    ) -> None:
        self.compiled = compiled
        self.uncompiled = uncompiled
        self.compiler = compiler

    def within(self, wrapper: Callable[..., Any]) -> "_Replaceable":
        return _Replaceable(
            partial(wrapper, self.compiled), partial(wrapper, self.uncompiled), self.compiler
        )

    def __call__(self, *inputs: object) -> object:
        if self.compiler.failed:
            return self.uncompiled(*inputs)
        try:
            return self.compiled(*inputs)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"

        outputs = self.uncompiled(*inputs)  # raises an error that is not the compiler's
        self.compiler.failed = True
        cast(OnFailure, self.compiler.on_failure)(reason=reason)
        return outputs


def _layers(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the members of every list named `layers`, each once."""
    lists = (getattr(module, "layers", None) for module in model.modules())
    members = [layer for layers in lists if isinstance(layers, nn.ModuleList) for layer in layers]
    yield from dict.fromkeys(members)


def _recompute(layer: nn.Module, forward: Any, *inputs: Any) -> Any:
    if layer.training and torch.is_grad_enabled():
        return checkpoint(forward, *inputs, use_reentrant=False)
    return forward(*inputs)
