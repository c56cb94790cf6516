"""Configuration classes with keys that others declare: stages, and extensions.

    @config_class
    @add_keys({"prune": AddedKey("prune", load)})
    class TrainConfig(Extensible): ...

    if (pruning := config.part(PruneConfig)) is not None: ...

The class of such a key is imported when the key is set, described or read. A key of an extension
that is not set is neither written nor a part of a digest: whether the extension is there changes
nothing for who does not use it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import GetCoreSchemaHandler, SerializerFunctionWrapHandler
from pydantic.functional_serializers import model_serializer
from pydantic_core import CoreSchema, core_schema

from clozeline.configuration.config import adapter_of, config_class, validate
from clozeline.errors import ConfigurationError
from clozeline.extension_list import refuse_twins

T = TypeVar("T")


class AddedKey:
    """A key and its config class, which `load` imports; the key is null where it is not set."""

    def __init__(self, key: str, load: Callable[[], Any], *, of_extension: bool = True) -> None:
        self._key = key
        self.schema = load
        self.of_extension = of_extension

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        serializer = core_schema.plain_serializer_function_ser_schema(self._to_data)
        return core_schema.no_info_plain_validator_function(
            self._validate, serialization=serializer
        )

    def _validate(self, value: object) -> object:
        if value is None or is_dataclass(value):  # `replace` gives what was valid
            return value
        try:
            return validate(self.schema(), value, "", f"{self._key}.")
        except ConfigurationError as error:
            raise ValueError(str(error)) from error

    def _to_data(self, value: Any) -> Any:
        return (
            None
            if value is None
            else adapter_of(self.schema()).dump_python(value, mode="json", by_alias=True)
        )


@config_class
class Extensible:
    """A configuration with keys that others declare."""

    ADDED: ClassVar[Mapping[str, AddedKey]] = {}

    def part(self, kind: type[T]) -> T | None:
        """Return the value of the added key that has this class; None if it is not set."""
        return next((value for value in self.parts() if isinstance(value, kind)), None)

    def parts(self) -> Iterator[Any]:
        """Yield the values of the added keys that are set."""
        for name in self.ADDED:
            if (value := getattr(self, name)) is not None:
                yield value

    @model_serializer(mode="wrap")
    def _without_unused(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        added = self.ADDED
        return {
            key: value
            for key, value in serialize(self).items()
            if value is not None or key not in added or not added[key].of_extension
        }


def add_keys(added: Mapping[str, AddedKey]) -> Callable[[type[T]], type[T]]:
    """Return a decorator that adds keys to a class of options, below `config_class`.

    Raises:
        ConfigurationError: the class has a key of this name.
    """

    def extend(cls: type[T]) -> type[T]:
        own = ((name, cls.__qualname__) for name in cls.__annotations__)
        names = [*own, *((name, "an extension") for name in added)]
        refuse_twins("configuration key", names, lambda pair: pair)
        for name, key in added.items():
            cls.__annotations__[name] = Annotated[Any, key]
            setattr(cls, name, None)
        setattr(cls, "ADDED", added)  # noqa: B010 (a class of any type)
        return cls

    return extend
