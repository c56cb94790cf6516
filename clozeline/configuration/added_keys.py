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
from dataclasses import dataclass, is_dataclass
from typing import Annotated, Any, ClassVar, TypeVar, get_type_hints

from pydantic import Field, GetCoreSchemaHandler, SerializerFunctionWrapHandler
from pydantic.functional_serializers import model_serializer
from pydantic_core import CoreSchema, core_schema

from clozeline.configuration.config import adapter_of, config_class, validate
from clozeline.errors import ConfigurationError
from clozeline.extension_list import explain_unused, refuse_twins

T = TypeVar("T")


@dataclass(frozen=True)
class SingleValue:
    """A class of an added key that is written as its one value: `prune: {name: magnitude}`."""

    value: Any


class AddedKey:
    """A key and its config class, which `load` imports; the key is null where it is not set.

    A key of a hidden extension can only be null.
    """

    def __init__(
        self, key: str, load: Callable[[], Any], *, of_extension: bool = True, hidden: str = ""
    ) -> None:
        self._key = key
        self.load = load
        self.of_extension = of_extension
        self.hidden = hidden

    def schema(self) -> Any:
        """Return the type of what is written."""
        kind = self.load()
        single = isinstance(kind, type) and issubclass(kind, SingleValue)
        return get_type_hints(kind, include_extras=True)["value"] if single else kind

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
        if self.hidden:
            raise ValueError(
                f"{self._key}: is a key of the extension {self.hidden}, which is not used: "
                f"{explain_unused(self.hidden)}; or remove the key"
            )
        try:
            found = validate(self.schema(), value, "", f"{self._key}.")
        except ConfigurationError as error:
            raise ValueError(str(error)) from error
        return found if self.schema() is (kind := self.load()) else kind(found)

    def _to_data(self, value: Any) -> Any:
        if value is None:
            return None
        written = value.value if isinstance(value, SingleValue) else value
        return adapter_of(self.schema()).dump_python(written, mode="json", by_alias=True)


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
            cls.__annotations__[name] = Annotated[Any, key, Field(exclude=bool(key.hidden))]
            setattr(cls, name, None)
        setattr(cls, "ADDED", added)  # noqa: B010 (a class of any type)
        return cls

    return extend
