"""The values that a user gives for an entry, and the texts that are made of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from spindle.errors import ConfigurationError, InvalidArgumentsError, did_you_mean
from spindle.registry.entry import EntryError, EntryInput, Package, Remote
from spindle.registry.names import shown

_VARIABLE = re.compile(r"\{([^{}]*)\}")
_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_KEY = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class InputQuestion:
    """One value to ask a user for."""

    key: str
    """The name by which it is given: `--input KEY=VALUE`."""
    about: EntryInput
    required: bool
    secret: bool

    @property
    def default(self) -> str | None:
        return self.about.default


@dataclass(frozen=True, slots=True)
class Answers:
    """The values that a user gave, by key."""

    values: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    def of(self, key: str, about: EntryInput) -> Sequence[str]:
        """Returns the values for a key: those given, else the entry's own default."""
        given = self.values.get(key)
        if given is not None:
            return given
        return [about.default] if about.default else []


def questions(offer: Package | Remote) -> list[InputQuestion]:
    """Returns all values that a package or a remote server can be given, each once."""
    found: dict[str, InputQuestion] = {}
    for key, about, required in _asked(offer):
        known = found.get(key)
        found[key] = InputQuestion(
            key,
            known.about if known else about,
            required or bool(known and known.required),
            about.secret or bool(known and known.secret),
        )
    return list(found.values())


def _asked(offer: Package | Remote) -> Iterator[tuple[str, EntryInput, bool]]:
    if isinstance(offer, Remote):
        for variable in offer.variables:
            if f"{{{variable.name}}}" in offer.url:
                yield key_of(variable), variable, True
        inputs: Sequence[EntryInput] = offer.headers
    else:
        inputs = (*offer.environment, *offer.runner_arguments, *offer.arguments)
    for about in inputs:
        if about.value is None:
            if not is_switch(about):
                yield key_of(about), about, about.required
            continue
        for variable in about.variables:
            if f"{{{variable.name}}}" in about.value and variable.value is None:
                # What is not said to be wanted is left out with the whole argument.
                yield key_of(variable), variable, variable.required or about.required


def is_switch(about: EntryInput) -> bool:
    """True for an option such as `--stdio` that takes no value."""
    hints = about.default or about.description or about.placeholder or about.choices
    return about.part == "named" and about.value is None and not hints and not about.required


def key_of(about: EntryInput) -> str:
    """Returns the name under which a value is given."""
    return _KEY.sub("_", about.name.lstrip("-")).strip("_") or "argument"


def check_answers(asked: Sequence[InputQuestion], answers: Answers) -> None:
    """Refuses values that nobody asked for, and those that are not among the choices or of the format."""
    keys = [question.key for question in asked]
    for key in answers.values:
        if key not in keys:
            known = f"known are {', '.join(keys)}" if keys else "this server takes none"
            raise InvalidArgumentsError(f"there is no input {key!r}", hint=did_you_mean(key, keys, known))
    for question in asked:
        given = answers.values.get(question.key, ())
        if len(given) > 1 and not question.about.repeated:
            raise InvalidArgumentsError(f"the input {question.key} was given more than once")
        for value in given:
            problem = value_problem(question, value)
            if problem is not None:
                raise InvalidArgumentsError(f"the input {question.key} {problem}")


def value_problem(question: InputQuestion, value: str) -> str | None:
    """Returns what is wrong with a value, as the end of a sentence; None if nothing is."""
    about = question.about
    if is_reference(value):
        return None
    if "\n" in value or "\r" in value or "\0" in value:
        return "must be one line"
    if about.choices and value not in about.choices:
        return f"must be one of {', '.join(about.choices)}"
    if about.format == "number" and not re.fullmatch(r"-?\d+(?:\.\d+)?", value):
        return "must be a number"
    if about.format == "boolean" and value not in ("true", "false"):
        return "must be true or false"
    return None


def missing(asked: Sequence[InputQuestion], answers: Answers) -> list[InputQuestion]:
    """Returns the required values that have neither been given nor have a default."""
    return [
        question for question in asked if question.required and not answers.of(question.key, question.about)
    ]


def refuse_missing(asked: Sequence[InputQuestion], answers: Answers) -> None:
    """Raises an error that names every required value that is not there."""
    absent = missing(asked, answers)
    if not absent:
        return
    listed = ", ".join(
        f"{question.key} ({question.about.description})" if question.about.description else question.key
        for question in absent
    )
    first = absent[0]
    value = f"'${{{variable_name(first.key)}}}'" if first.secret else "VALUE"
    why = "; a secret is given at a terminal, or as a variable" if first.secret else ""
    raise ConfigurationError(f"values are missing: {listed}", hint=f"--input {first.key}={value}{why}")


def variable_name(key: str) -> str:
    """Returns the name of an environment variable for a key."""
    return re.sub(r"[^A-Za-z0-9]+", "_", key).strip("_").upper() or "VALUE"


def is_reference(value: str) -> bool:
    """True for a value that is nothing but `${VAR}`: it can stand in a file, whatever it holds."""
    return _REFERENCE.fullmatch(value) is not None


def refuse_reference(text: str) -> None:
    """Refuses a text of an entry that became a reference to our settings when its parts were joined."""
    if "${" in text:
        raise EntryError(
            f"the entry makes {shown(text)!r} of its parts, which refers to the user's settings",
            hint="an entry may not do that; tell those who publish it",
        )


class Filler:
    """Makes the texts of a source from the inputs of an entry and the answers of its user.

    A secret becomes a reference to a sealed value, and is kept in `sealed` under its key.
    """

    def __init__(self, source: str, answers: Answers) -> None:
        self._source = source
        self._answers = answers
        self.sealed: dict[str, str] = {}

    def texts(self, about: EntryInput, *, in_argv: bool = False) -> list[str]:
        """Returns the values of an input, none where it is left out. `in_argv` refuses secrets: everybody
        on this machine can read the arguments of a program."""
        if about.value is None:
            key = key_of(about)
            return [self._kept(about, key, value, in_argv) for value in self._answers.of(key, about)]
        found = self.template(about.value, about.variables, in_argv=in_argv, secret=about.secret)
        return [] if found is None else [found]

    def template(
        self, text: str, variables: Sequence[EntryInput], *, in_argv: bool = False, secret: bool = False
    ) -> str | None:
        """Returns a text with its `{variables}` replaced; None if a value is missing."""
        values: dict[str, str] = {}
        probe: dict[str, str] = {}
        for variable in variables:
            if f"{{{variable.name}}}" not in text:
                continue
            key = key_of(variable)
            given = [variable.value] if variable.value is not None else self._answers.of(key, variable)
            if not given:
                return None
            values[variable.name] = self._kept(variable, key, given[0], in_argv, secret=secret)
            is_own = variable.secret or secret or self.is_given(variable)
            probe[variable.name] = "x" if is_own else given[0]
        refuse_reference(_VARIABLE.sub(lambda match: probe.get(match[1], match[0]), text))
        return _VARIABLE.sub(lambda match: values.get(match[1], match[0]), text)

    def is_given(self, about: EntryInput) -> bool:
        """True if the user gave the value, rather than the entry."""
        return about.value is None and key_of(about) in self._answers.values

    def _kept(self, about: EntryInput, key: str, value: str, in_argv: bool, *, secret: bool = False) -> str:
        if not (about.secret or secret):
            return value
        if in_argv:
            raise ConfigurationError(
                f"this server wants the secret {key} as an argument, where everybody on this machine can"
                " read it",
                hint="use another package of it, or its remote server, if there is one",
            )
        if is_reference(value):
            return value
        self.sealed[key] = value
        return f"${{secret:{self._source}.{key}}}"
