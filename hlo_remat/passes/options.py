# SPDX-License-Identifier: Apache-2.0
"""The options of a pass as text, in the syntax of MLIR's pass pipelines.

options ::= option (space option)*
option  ::= key '=' value | key              `key` alone means true
value   ::= text without spaces | '{' text '}' | quoted text
list    ::= value (',' value)*

Quotes, braces and parentheses protect the spaces and commas between them.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

if typing.TYPE_CHECKING:
    from hlo_remat.passes.base import Pass

_CLOSING = {"(": ")", "{": "}", "[": "]"}


@dataclasses.dataclass(frozen=True)
class Option:
    """An option as its pass declares it."""

    name: str
    field: str
    type: Any
    default: Any
    help: str

    @property
    def choices(self) -> tuple[str, ...]:
        return typing.get_args(self.type) if typing.get_origin(self.type) is Literal else ()

    @property
    def kind(self) -> str:
        """What may be given, for people: `int`, `list`, `a|b`."""
        if self.choices:
            return "|".join(self.choices)
        return "list" if typing.get_origin(self.type) is tuple else self.type.__name__

    @property
    def default_text(self) -> str:
        return "none" if self.default in (None, (), "") else _format_value(self.default)


class OptionError(ValueError):
    """What is wrong with an option, and where in the text (an offset)."""

    def __init__(self, offset: int, message: str):
        self.offset = offset
        super().__init__(message)


def declared_options(pass_type: type[Pass]) -> tuple[Option, ...]:
    hints = typing.get_type_hints(pass_type)
    return tuple(
        Option(
            name=field.name.replace("_", "-"),
            field=field.name,
            type=_without_none(hints[field.name]),
            default=field.default,
            help=field.metadata["help"],
        )
        for field in dataclasses.fields(pass_type)
        if "help" in field.metadata
    )


def passes_from_text(owner: str, pass_types: Sequence[type[Pass]], text: str) -> list[Pass]:
    """Passes from the text between the braces after `owner`: a pass, or a pipeline of several.

    Every option goes to the passes that declare it. Raises OptionError.
    """
    values: dict[type[Pass], dict[str, Any]] = {pass_type: {} for pass_type in pass_types}
    seen: set[str] = set()
    for offset, key, value in _key_values(text):
        takers = [(t, o) for t in pass_types for o in declared_options(t) if o.name == key]
        if not takers:
            known = ", ".join(o.name for t in pass_types for o in declared_options(t)) or "none"
            raise OptionError(
                offset, f"no such option {key}; the options of '{owner}' are: {known}"
            )
        if key in seen:
            raise OptionError(offset, f"for the --{key} option: may only occur zero or one times!")
        seen.add(key)
        for pass_type, option in takers:
            try:
                values[pass_type][option.field] = _parse_value(option, value)
            except ValueError as error:
                raise OptionError(offset, f"for the --{key} option: {error}") from None
    try:
        return [pass_type(**fields) for pass_type, fields in values.items()]
    except ValueError as error:
        raise OptionError(0, str(error)) from None


def pass_to_text(pass_: Pass) -> str:
    """`name{key=value ...}` with the options that differ from their defaults."""
    given = " ".join(
        f"{option.name}={_format_value(value)}"
        for option in declared_options(type(pass_))
        if (value := getattr(pass_, option.field)) != option.default
    )
    return f"{pass_.name}{{{given}}}" if given else pass_.name


def split_outside_brackets(text: str, separator: str) -> Iterator[tuple[int, str]]:
    """Parts of `text` between matches of the regex `separator`, each with its offset.

    A separator inside quotes, braces or parentheses does not count.
    """
    begin, at = 0, 0
    while at < len(text):
        if found := re.compile(separator).match(text, at):
            yield begin, text[begin:at]
            begin = at = found.end()
        else:
            at = _skip_protected(text, at)
    yield begin, text[begin:]


def _skip_protected(text: str, at: int) -> int:
    """The offset after the character at `at`, or after what it protects if it is a bracket."""
    if text[at] in "'\"":
        close = text.find(text[at], at + 1)
        return close + 1 if close >= 0 else len(text)
    if text[at] not in _CLOSING:
        return at + 1
    closing = _CLOSING[text[at]]
    at += 1
    while at < len(text) and text[at] != closing:
        at = _skip_protected(text, at)
    return at + 1


def _key_values(text: str) -> Iterator[tuple[int, str, str]]:
    for offset, part in split_outside_brackets(text, r"\s+"):
        if part:
            key, equals, value = part.partition("=")
            yield offset, key, _unwrapped(value) if equals else "true"


def _unwrapped(value: str) -> str:
    wrapped = value[:1] in ("{", "'", '"') and _skip_protected(value, 0) == len(value) > 1
    return value[1:-1] if wrapped else value


def _parse_value(option: Option, text: str) -> Any:
    if option.choices:
        if text not in option.choices:
            raise ValueError(f"'{text}' is not one of {', '.join(option.choices)}")
        return text
    if typing.get_origin(option.type) is tuple:
        parts = (_unwrapped(part.strip()) for _, part in split_outside_brackets(text, ","))
        return tuple(part for part in parts if part)
    return _SCALARS[option.type](text)


def _parse_bool(text: str) -> bool:
    if text.lower() not in ("true", "1", "false", "0"):
        raise ValueError(f"'{text}' is invalid value for boolean argument! Try 0 or 1")
    return text.lower() in ("true", "1")


def _parse_int(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        raise ValueError(f"'{text}' value invalid for integer argument!")
    return int(text)


def _parse_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"'{text}' value invalid for floating point argument!") from None


_SCALARS: dict[type, Callable[[str], Any]] = {
    bool: _parse_bool,
    int: _parse_int,
    float: _parse_float,
    str: str,
}


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "{" + ",".join(_format_value(element) for element in value) + "}"
    text = str(value)
    return f"{{{text}}}" if re.search(r"[\s,'\"{}]", text) else text


def _without_none(hint: Any) -> Any:
    """`T` for `T | None`: None can be a default but not be written."""
    if isinstance(hint, types.UnionType):
        (hint,) = (part for part in typing.get_args(hint) if part is not types.NoneType)
    return hint
