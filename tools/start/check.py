"""Check a custom algorithm by the contract of its registry.

    clozeline check mylab.objectives:FallingRate

ALGORITHM is the name of one of Clozeline's or of an extension, such as `masked_lm`, or
`module:Class`. Its options are keys: `clozeline check shouting share=0.3`. A line for each promise
says whether it is kept, and for a broken one what was expected, what it gave and what to do. The
exit code is 0, or 65 if a promise is broken.
"""

import inspect
import textwrap
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Annotated, Any, Final

from clozeline import plugins
from clozeline.command_line import OtherKeys, Positional
from clozeline.configuration.config import apply_words, config_class
from clozeline.errors import ConfigurationError, IntegrityError, message_text
from clozeline.model.registries import HEADS
from clozeline.pipeline.registries import FILTERS, OBJECTIVES
from clozeline.registry import Registry, options_of
from clozeline.tools.command import run_as_script, run_tool
from clozeline.tools.start.contracts import Entry, Failed
from clozeline.train.registries import OPTIMIZERS

_REGISTRIES: Final[Mapping[str, Registry[object]]] = {
    registry.name: registry for registry in (OBJECTIVES, FILTERS, HEADS, OPTIMIZERS)
}
"""Registries that have a contract, by their names."""


@config_class
class CheckOptions:
    """The algorithm to check."""

    algorithm: Annotated[str, Positional(0)]
    """module:Class, or the name of an algorithm"""
    registry: str | None = None
    """objectives, filters, heads or optimizers; default: each that has the algorithm"""
    words: Annotated[tuple[str, ...], OtherKeys("options of the algorithm")] = ()


def find_registries(name: str, chosen: str | None = None) -> list[Registry[object]]:
    """Return the registries that have an algorithm.

    For `module:Class` by its interface, or the chosen one.

    Raises:
        ConfigurationError: none of those with a contract has it.
    """
    known = ", ".join(_REGISTRIES)

    if chosen is not None:
        if chosen in _REGISTRIES:
            return [_REGISTRIES[chosen]]
        raise ConfigurationError(
            f"registry: expected one that has a contract ({known}), got '{chosen}'"
        )

    if plugins.is_custom(name):
        kind = plugins.import_class(name)
        found = [registry for registry in _REGISTRIES.values() if registry.implements(kind)]
    else:
        found = [registry for registry in _REGISTRIES.values() if name in registry.available()]

    if not found:
        raise ConfigurationError(
            f"{name}: expected an algorithm of a registry that has a contract: {known}"
        )

    return found


def check_algorithm(
    registry: Registry[object], name: str, words: Sequence[str] = ()
) -> Iterator[tuple[str, str]]:
    """Yield the promises of a registry, each with what breaks it; "" if it is kept.

    Args:
        registry: of the algorithm.
        name: of the algorithm.
        words: its options, `key=value`.
    """
    kind = registry.load_class(name)
    case = []
    contract = import_module(f"clozeline.tools.start.contracts.{registry.name}")

    def build() -> None:
        schema = options_of(kind)
        entry: Entry = {"name": name, **apply_words(schema, {}, words)}
        case.append(contract.prepare(entry))

    def run(step: Callable[[], Any]) -> str:
        try:
            step()
        except (Failed, IntegrityError) as failed:
            return str(failed)
        except ConfigurationError:
            raise  # an option is missing or wrong
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            last = [frame for frame in frames if frame.filename == inspect.getfile(kind)] or frames
            return (
                f"raised {type(error).__name__}: {error}, in line {last[-1].lineno} of "
                f"{last[-1].filename}"
            )

        return ""

    yield "It is built from its options.", run(build)
    for check in contract.CHECKS if case else ():
        yield (inspect.getdoc(check) or "").partition("\n")[0], run(partial(check, case[0]))


def _check(options: CheckOptions) -> int:
    """Print the promises; return 65 if one is broken."""
    broken = 0
    plugins.allow(options.algorithm)
    for registry in find_registries(options.algorithm, options.registry):
        print(f"{options.algorithm}, one of {registry.name}:")
        for promise, fault in check_algorithm(registry, options.algorithm, options.words):
            print(f"  {'BROKEN' if fault else 'kept  '}  {promise}")
            if fault:
                print(textwrap.indent(textwrap.fill(message_text(fault), 100), " " * 10))
            broken += bool(fault)
    return IntegrityError.exit_code if broken else 0


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, CheckOptions, _check, prints=True)


if __name__ == "__main__":
    run_as_script(main)
