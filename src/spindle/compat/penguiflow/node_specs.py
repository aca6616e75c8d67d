"""Tools in the form of a planner's catalog: NodeSpec, with Pydantic models for arguments and results."""

from __future__ import annotations

import keyword
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field, create_model

from spindle.domain.json_schema import JsonObject, is_array, is_object

if TYPE_CHECKING:
    from spindle.compat.penguiflow.config import ToolContext
    from spindle.domain.tool import Tool

ToolFunction = Callable[[BaseModel, "ToolContext"], Awaitable[dict[str, Any]]]
_SIMPLE: Mapping[object, Any] = MappingProxyType(
    {"string": str, "integer": int, "number": float, "boolean": bool, "object": dict[str, Any]}
)


class Registry(Protocol):
    """The models of all tools of a planner, by the tools' names."""

    def register(self, node_name: str, in_model: type[BaseModel], out_model: type[BaseModel], /) -> object:
        """Adds the models of a tool; raises ValueError if it has some already."""
        ...


class ModelRegistry:
    """A registry for programs that have no planner of their own."""

    def __init__(self) -> None:
        self._models: dict[str, tuple[type[BaseModel], type[BaseModel]]] = {}

    def register(self, node_name: str, in_model: type[BaseModel], out_model: type[BaseModel], /) -> None:
        """Adds the models of a tool; raises ValueError if it has some already."""
        if node_name in self._models:
            raise ValueError(f"there are models of {node_name!r} already")
        self._models[node_name] = (in_model, out_model)

    def models(self, node_name: str) -> tuple[type[BaseModel], type[BaseModel]]:
        """Returns the models of a tool: of its arguments, and of its result."""
        return self._models[node_name]


@dataclass(frozen=True, slots=True)
class SpecNode:
    """The function of a tool, under the tool's name."""

    func: ToolFunction
    name: str


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A tool as a planner's catalog lists it."""

    node: SpecNode
    name: str
    desc: str
    args_model: type[BaseModel]
    out_model: type[BaseModel]
    side_effects: str = "external"
    tags: Sequence[str] = ()
    auth_scopes: Sequence[str] = ()
    cost_hint: str | None = None
    latency_hint_ms: int | None = None
    safety_notes: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    loading_mode: str = "always"
    examples: Sequence[Any] = ()

    def examples_payload(self) -> list[dict[str, Any]]:
        """Returns examples of arguments: none, as sources give none."""
        return []

    def to_tool_record(self) -> dict[str, Any]:
        """Describes the tool as JSON, for a prompt."""
        return {
            "name": self.name,
            "desc": self.desc,
            "side_effects": self.side_effects,
            "tags": list(self.tags),
            "auth_scopes": list(self.auth_scopes),
            "cost_hint": self.cost_hint,
            "latency_hint_ms": self.latency_hint_ms,
            "safety_notes": self.safety_notes,
            "args_schema": self.args_model.model_json_schema(),
            "out_schema": self.out_model.model_json_schema(),
            "extra": dict(self.extra),
            "loading_mode": self.loading_mode,
            "examples": self.examples_payload(),
        }


def node_spec(name: str, tool: Tool, transport: str, function: ToolFunction) -> NodeSpec:
    """Returns a tool of the catalog as a NodeSpec under this name."""
    return NodeSpec(
        SpecNode(function, name),
        name,
        tool.description,
        arguments_model(name, tool.input_schema),
        create_model(f"{_class_name(name)}Result", result=(Any, None)),
        tags=(transport, tool.source),
        extra={"source": transport, "namespace": tool.source},
    )


class _Arguments(BaseModel):
    """Arguments of a tool. Those that the models cannot describe are let through: the call checks all of them
    against the tool's own schema, which is also the one that is shown."""

    model_config = ConfigDict(extra="allow", populate_by_name=True, protected_namespaces=())
    tool_schema: ClassVar[JsonObject] = {}

    @classmethod
    def model_json_schema(cls, *_: Any, **__: Any) -> JsonObject:
        return cls.tool_schema


def arguments_of(model: BaseModel) -> dict[str, Any]:
    """Returns the arguments that were given. Those left out stay out: not every tool takes null."""
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def arguments_model(name: str, schema: JsonObject) -> type[BaseModel]:
    """Returns a model of a tool's arguments with fields for its parameters."""
    properties = schema.get("properties")
    required = schema.get("required")
    fields: dict[str, Any] = {}
    for parameter, described in (properties if is_object(properties) else {}).items():
        wanted = _type_of(described)
        alias = None if _is_field(parameter) else parameter
        key = parameter if alias is None else f"argument_{len(fields)}"
        if is_array(required) and parameter in required:
            fields[key] = (wanted, Field(alias=alias))
        else:
            fields[key] = (wanted | None, Field(default=None, alias=alias))

    model: type[_Arguments] = cast(Any, create_model)(
        f"{_class_name(name)}Args", __base__=_Arguments, **fields
    )
    model.tool_schema = schema
    return model


def _type_of(described: object) -> Any:
    """The Python type of a simple schema; anything for others."""
    if not is_object(described):
        return Any
    kind = described.get("type")
    if kind == "array":
        items = described.get("items")
        inner = _SIMPLE.get(items.get("type")) if is_object(items) else None
        return list[Any] if inner is None else list[inner]
    return _SIMPLE.get(kind, Any) if isinstance(kind, str) else Any


def _is_field(parameter: str) -> bool:
    usable = parameter.isidentifier() and not keyword.iskeyword(parameter)
    return usable and not parameter.startswith("_") and not hasattr(_Arguments, parameter)


def _class_name(name: str) -> str:
    return "".join(
        part[:1].upper() + part[1:] for part in name.replace("-", "_").replace(".", "_").split("_")
    )
