# SPDX-License-Identifier: Apache-2.0
"""`--verify-diagnostics`: compares diagnostics with the `expected-*` comments of a test.

// expected-error {{text}}            on this line
// expected-warning @+1 {{text}}      one line below; also @-1
// expected-remark @below {{text}}    the next line without such a comment; also @above
// expected-note @unknown {{text}}    at no place in this input
// expected-error-re {{a {{b+}} c}}   with regular expressions between inner braces
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

from jaxlib.mlir import ir

from hlo_remat.diagnostics import Diagnostic, Severity
from hlo_remat.tools._source import Source

_COMMENT = re.compile(
    r"expected-(?P<severity>error|warning|remark|note)(?P<re>-re)?"
    r"\s*(?:@(?P<place>[+-]\d+|above|below|unknown))?\s*\{\{(?P<text>.*)\}\}\s*$"
)
_INNER_REGEX = re.compile(r"\{\{(.*?)\}\}")
# The verifier adds it to each error; nobody wants to repeat the operation in a test.
_IGNORED_NOTE = "see current operation: "


@dataclasses.dataclass(frozen=True)
class _Expectation:
    severity: Severity
    text: str
    pattern: re.Pattern[str]
    line: int | None
    comment_line: int

    def matches(self, diagnostic: Diagnostic, line: int | None) -> bool:
        return (
            self.severity is diagnostic.severity
            and self.line == line
            and self.pattern.search(diagnostic.message) is not None
        )


def check_expected(
    source: Source, diagnostics: Sequence[Diagnostic], context: ir.Context, only_expected: bool
) -> list[Diagnostic]:
    """What is wrong: expected diagnostics that are missing and, unless `only_expected`, others."""
    expectations, wrong = _read_expectations(source, context)
    missing = dict.fromkeys(expectations)
    for diagnostic in _with_notes(diagnostics):
        line = source.line_of(diagnostic.location)
        found = [e for e in expectations if e.matches(diagnostic, line)]
        if found:
            # Each comment stands for one diagnostic, but one that comes twice is not an error.
            missing.pop(next((e for e in found if e in missing), found[0]), None)
        elif not only_expected:
            message = f"unexpected {diagnostic.severity.value}: {diagnostic.message}"
            wrong.append(Diagnostic(Severity.ERROR, message, diagnostic.location))
    for expectation in missing:
        message = f'expected {expectation.severity.value} "{expectation.text}" was not produced'
        wrong.append(_at_comment(source, expectation.comment_line, message, context))
    return wrong


def _with_notes(diagnostics: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    for diagnostic in diagnostics:
        if not diagnostic.message.startswith(_IGNORED_NOTE):
            yield diagnostic
            yield from _with_notes(diagnostic.notes)


def _read_expectations(
    source: Source, context: ir.Context
) -> tuple[list[_Expectation], list[Diagnostic]]:
    comments = {
        number: match
        for number, line in enumerate(source.lines, start=1)
        if (match := _COMMENT.search(line))
    }
    expectations, wrong = [], []
    for number, match in comments.items():
        text = match["text"]
        try:
            pattern = re.compile(_regex(text) if match["re"] else re.escape(text))
        except re.error as error:
            message = f"invalid regular expression in {match[0]}: {error}"
            wrong.append(_at_comment(source, number, message, context))
            continue
        expectations.append(
            _Expectation(
                Severity(match["severity"]),
                text,
                pattern,
                _expected_line(number, match["place"], comments),
                number,
            )
        )
    return expectations, wrong


def _regex(text: str) -> str:
    """`text` as a regular expression of which only the parts in {{}} are special."""
    parts = _INNER_REGEX.split(text)
    return "".join(
        f"(?:{part})" if index % 2 else re.escape(part) for index, part in enumerate(parts)
    )


def _expected_line(
    number: int, place: str | None, comments: dict[int, re.Match[str]]
) -> int | None:
    if place is None:
        return number
    if place == "unknown":
        return None
    if place not in ("above", "below"):
        return number + int(place)
    step = 1 if place == "below" else -1
    while number in comments:
        number += step
    return number


def _at_comment(source: Source, line: int, message: str, context: ir.Context) -> Diagnostic:
    column = source.lines[line - 1].index("expected-") + 1
    location = ir.Location.file(source.path, line, column, context)
    return Diagnostic(Severity.ERROR, message, location)
