# SPDX-License-Identifier: Apache-2.0
"""Terms: what values are, as one hash-consed graph for both modules.

Two values with the same term are equal in every run. A term is a head (an op's name, attributes and
result types) over other terms; a rule of its head may bring it into a simpler form first.

Inside of a loop a value is a function of the trip. Its term is over the loop's variable, and what
the loop carries is a *stream*: a system of equations (where it starts, how a trip goes on), read at
an index. So a loop that makes the same as another one, with whatever else it carries, is the same
term, and a row of a stack is the term of what was written there, at the trip that wrote it.

A symbol is open as long as its loop is being read; to close it is to give it the name that depends
on nothing but what is inside. A term's mask says which symbols and names are free in it, and which
predicates of branches it depends on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jaxlib.mlir import ir

from hlo_remat.validation.affine import Index, limits
from hlo_remat.validation.substitution import Substitution

Rule = Callable[["Terms", int, tuple[int, ...]], int | None]
_BOUND_BITS = (
    128  # of the names of 64 nested binders: a variable, and what comes from the last trip
)
# What may be another term in two ways to make the same stream, until they are proven to be that.
_VARYING = ("at", "case", "integer", "previous", "symbol")
_MAX_GUESSES_INSIDE = 3  # of loops in each other
_MAX_GUESSES = 16  # which carries of two loops may be the same, where several look alike


class Head:
    """What a term is apart from its children. `kind` is an op's name, or one of the words that
    `Terms` makes terms of; `data` whatever else tells two heads apart."""

    __slots__ = ("binder", "data", "kind", "mask", "op", "rule", "types")

    def __init__(self, kind: str, data: tuple[Any, ...], types: tuple[int, ...], rule: Rule | None):
        self.kind = kind
        self.data = data
        self.types = types
        self.rule = rule
        self.op: ir.Operation | None = None  # one that has this head
        self.mask = 0  # the bit of a symbol or of a bound name
        self.binder = 0  # the number of the names that it binds


class NotProvable(Exception):
    """A module that is beyond what terms can express."""


class Terms:
    """The graph. `rules` are by kind."""

    def __init__(self, rules: dict[str, Rule]):
        self.rules = rules
        self.heads: list[Head] = []
        self.head: list[int] = []
        self.children: list[tuple[int, ...]] = []
        self.mask: list[int] = []
        self.source: dict[int, ir.Operation] = {}  # an op that makes the value
        self.types: dict[int, ir.Type] = {}
        self._head_rules: list[Rule | None] = []
        self._head_ids: dict[tuple[Any, ...], int] = {}
        self._ids: dict[tuple[int, tuple[int, ...]], int] = {}
        self._case_bits: dict[int, int] = {}
        self._shapes: dict[int, list[int] | None] = {}
        self._num_open = 0
        self._specialised: dict[tuple[Any, ...], Substitution] = {}
        self._rows: dict[tuple[int, int], Substitution] = {}
        self._systems: dict[tuple[Any, ...], dict[tuple[int, int], None]] = {}
        self._outlines: dict[int, int] = {}
        self._guesses = 0  # inductions that are going on
        self._same: dict[int, list[tuple[int, int]]] = {}  # of systems: which streams theirs are

    # -- heads and terms -----------------------------------------------------------------------

    def head_of(self, kind: str, data: tuple[Any, ...], types: tuple[int, ...]) -> int:
        key = kind, data, types
        number = self._head_ids.get(key)
        if number is None:
            number = self._head_ids[key] = len(self.heads)
            head = Head(kind, data, types, self.rules.get(kind))
            self.heads.append(head)
            self._head_rules.append(head.rule)
        return number

    def make(self, head: int, children: tuple[int, ...]) -> int:
        """The term of a head over children, in its simplest form."""
        rule = self._head_rules[head]
        if rule is not None:
            simpler = rule(self, head, children)
            if simpler is not None:
                return simpler
        return self.intern(head, children)

    def intern(self, head: int, children: tuple[int, ...]) -> int:
        """The term of a head over children as it is."""
        key = head, children
        term = self._ids.get(key)
        if term is None:
            term = self._ids[key] = len(self.head)
            mask = 0
            for child in children:
                mask |= self.mask[child]
            own = self.heads[head]
            if own.binder:
                mask &= ~(3 << 2 * own.binder)
            elif own.kind == "case":
                mask |= self.case_bit(children[0])
            self.head.append(head)
            self.children.append(children)
            self.mask.append(mask | own.mask)
        return term

    def kind(self, term: int) -> str:
        return self.heads[self.head[term]].kind

    def data(self, term: int) -> tuple[Any, ...]:
        return self.heads[self.head[term]].data

    def type(self, term: int) -> int:
        return self.heads[self.head[term]].types[0]

    def shape(self, type_: int) -> list[int] | None:
        """The sizes of a ranked tensor type, if all are static; None for any other type."""
        if type_ not in self._shapes:
            exact: Any = self.types.get(type_)
            is_static = isinstance(exact, ir.RankedTensorType) and exact.has_static_shape
            self._shapes[type_] = list(exact.shape) if is_static else None
        return self._shapes[type_]

    # -- integers ------------------------------------------------------------------------------

    def integer(self, type_: int, index: Index) -> int:
        """An integer scalar of a type. A constant wraps, as the ops that make it do."""
        element: Any = ir.RankedTensorType(self.types[type_]).element_type
        if index.variable < 0:
            low, _ = limits(element)
            index = Index(0, (index.offset - low) % (1 << element.width) + low)
        return self._of_index("integer", (), type_, (), index)

    def _of_index(
        self, kind: str, data: tuple[Any, ...], type_: int, first: tuple[int, ...], index: Index
    ) -> int:
        """A term whose last child, if there is one, is the variable of an index."""
        scale, offset, variable = index
        last = (variable,) if variable >= 0 else ()
        return self.intern(self.head_of(kind, (*data, scale, offset), (type_,)), (*first, *last))

    def index(self, term: int) -> Index | None:
        """The index that an integer, or what is read `at` one, is at."""
        if self.kind(term) not in ("integer", "at"):
            return None
        *_, scale, offset = self.data(term)
        children = self.children[term]
        return Index(scale, offset, children[-1] if scale else -1)

    def constant(self, term: int) -> int | None:
        index = self.index(term) if self.kind(term) == "integer" else None
        return index.offset if index and index.variable < 0 else None

    def range(self, index: Index) -> tuple[int, int] | None:
        """The least and the greatest value of an index; None where that isn't known."""
        if index.variable < 0:
            return index.offset, index.offset
        trips = self.data(index.variable)[-1] if self.kind(index.variable) == "variable" else None
        if not trips:
            return None
        ends = index.offset, index.scale * (trips - 1) + index.offset
        return min(ends), max(ends)

    # -- symbols and bound names ---------------------------------------------------------------

    @contextmanager
    def scope(self, types: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
        """The bit for a variable, and open symbols of some types."""
        first = self._num_open
        self._num_open += 1 + len(types)
        try:
            yield first, [self._symbol(first + 1 + k, t) for k, t in enumerate(types)]
        finally:
            self._num_open = first

    def _symbol(self, bit: int, type_: int) -> int:
        return self._leaf("symbol", (bit,), type_, 1 << _BOUND_BITS + 2 * bit)

    def variable(self, bit: int, trips: int | None) -> int:
        """The variable of a loop of so many trips, if that is known."""
        return self._leaf("variable", (bit, trips), 0, 1 << _BOUND_BITS + 2 * bit)

    def bound_variable(self, binder: int) -> int:
        return self._leaf("bound variable", (binder,), 0, 1 << 2 * binder)

    def previous(self, binder: int, position: int, type_: int) -> int:
        """In the equations of a system: one of its streams, a trip before; in a function: one of
        its arguments."""
        return self._leaf("previous", (binder, position), type_, 2 << 2 * binder)

    def _leaf(self, kind: str, data: tuple[Any, ...], type_: int, mask: int) -> int:
        head = self.head_of(kind, data, (type_,))
        self.heads[head].mask = mask
        return self.intern(head, ())

    def case_bit(self, predicate: int) -> int:
        number = self._case_bits.setdefault(predicate, len(self._case_bits))
        return 2 << _BOUND_BITS + 2 * number

    def binder_above(self, terms: Iterable[int], mask: int) -> int:
        """The least number that no binder has that is on the way from `terms` to a symbol of
        `mask`."""
        highest, todo, seen = 0, list(terms), set()
        while todo:
            term = todo.pop()
            if term in seen or not self.mask[term] & mask:
                continue
            seen.add(term)
            highest = max(highest, self.heads[self.head[term]].binder)
            todo += self.children[term]
        if 2 * highest + 4 > _BOUND_BITS:
            raise NotProvable("loops are nested too deeply")
        return highest + 1

    # -- functions, systems and loops -----------------------------------------------------------

    def function(self, name: str, arguments: list[int], results: list[int]) -> int:
        """The term of a function, by its results over open symbols, its arguments."""
        binder = self.binder_above(results, self._mask_of(arguments))
        types = tuple(self.type(v) for v in arguments)
        previous = self.previous_of(binder, arguments)
        names = {symbol: bound for bound, symbol in previous.items()}
        close = Substitution(self, names, renames=True)
        return self._bind("function", (name, types), (0,), binder, [close(r) for r in results])

    def previous_of(self, binder: int, symbols: Sequence[int]) -> dict[int, int]:
        """Open symbols by the names that a binder has for them."""
        return {self.previous(binder, k, self.type(s)): s for k, s in enumerate(symbols)}

    def _bind(
        self,
        kind: str,
        data: tuple[Any, ...],
        types: tuple[int, ...],
        binder: int,
        children: Iterable[int],
    ) -> int:
        head = self.head_of(kind, (binder, *data), types)
        self.heads[head].binder = binder
        return self.intern(head, tuple(children))

    def _mask_of(self, symbols: Iterable[int]) -> int:
        mask = 0
        for symbol in symbols:
            mask |= self.mask[symbol]
        return mask

    def system(
        self, variable: int, trips: int | None, equations: dict[int, tuple[int, int]]
    ) -> dict[int, int]:
        """The streams that symbols are, each over the variable, by where they start and how they
        go on. The symbols depend on each other and on nothing else that is open in their loop."""
        color = self._colors(equations)
        # As much as can be by what no renaming changes.
        equation_of = {color[s]: e for s, e in equations.items()}
        ranked = sorted(equation_of, key=lambda c: (*map(self.outline, equation_of[c]), c))
        order = {c: k for k, c in enumerate(ranked)}
        symbols = list(equations)
        steps = [step for _, step in equations.values()]
        binder = self.binder_above(steps, self._mask_of([variable, *symbols]))
        names = {s: self.previous(binder, order[color[s]], self.type(s)) for s in symbols}
        names[variable] = self.bound_variable(binder)
        close = Substitution(self, names, renames=True)
        closed: dict[int, tuple[int, int]] = {}
        for symbol, (start, step) in equations.items():
            equation = start, close(step)
            if closed.setdefault(color[symbol], equation) != equation:
                raise NotProvable("two carries of a loop look alike, but aren't")
        types = tuple(self.type(next(s for s in symbols if color[s] == c)) for c in order)
        children = [term for c in order for term in closed[c]]
        system = self._bind("system", (trips,), types, binder, children)
        streams = self._same.get(system)
        if streams is None:
            streams = [(system, position) for position in range(len(order))]
            if self._guesses < _MAX_GUESSES_INSIDE:
                known = self._known(variable, trips, equations)
                for position, c in enumerate(order):
                    key = trips, types[position], closed[c][0], self.outline(closed[c][1])
                    self._systems.setdefault(key, {})[system, position] = None
                for symbol, stream in known.items():
                    streams[order[color[symbol]]] = stream
                self._same[system] = streams
        now = Index(1, 0, variable)
        return {s: self.at(*streams[order[color[s]]], now) for s in symbols}

    def _colors(self, equations: dict[int, tuple[int, int]]) -> dict[int, int]:
        """Symbols with the same color are the same stream: the coarsest partition of a loop's
        carries by start and step (Alpern, Wegman and Zadeck, POPL 1988)."""
        color = {
            s: self.intern(self.head_of("color", (), (self.type(s),)), (start,))
            for s, (start, _) in equations.items()
        }
        count = 0
        while len(equations) > 1 and len(set(color.values())) > count:
            count = len(set(color.values()))
            step = Substitution(self, color, renames=True)
            color = {
                s: self.intern(self.head_of("color", (), (self.type(s),)), (color[s], step(after)))
                for s, (_, after) in equations.items()
            }
        return color

    def _known(
        self, variable: int, trips: int | None, equations: dict[int, tuple[int, int]]
    ) -> dict[int, tuple[int, int]]:
        """Streams, by system and position, that are there already and that these equations make
        again, partly from their own values: by induction over the trips. None where there are
        none."""
        places: list[list[tuple[int, int]]] = []
        for symbol, (start, step) in equations.items():
            key = trips, self.type(symbol), start, self.outline(step)
            places.append(list(self._systems.get(key, ())))
        now = Index(1, 0, variable)
        self._guesses += 1
        try:
            for system in {s: None for s, _ in places[0]}:
                choices = [[place for place in found if place[0] == system] for found in places]
                for chosen in itertools.islice(itertools.product(*choices), _MAX_GUESSES):
                    guess = dict(zip(equations, chosen, strict=True))
                    assumed = Substitution(self, {s: self.at(*g, now) for s, g in guess.items()})
                    if all(
                        assumed(equations[s][1])
                        == self.row(system, self.children[system][2 * k + 1], now)
                        for s, (_, k) in guess.items()
                    ):
                        return guess
        finally:
            self._guesses -= 1
        return {}

    def outline(self, term: int) -> int:
        """A number that is the same for terms that differ in streams only."""
        todo = [term]
        while todo:
            now = todo[-1]
            if now in self._outlines:
                todo.pop()
                continue
            head = self.heads[self.head[now]]
            children = () if head.kind in _VARYING else self.children[now]
            missing = [child for child in children if child not in self._outlines]
            if missing:
                todo += missing
                continue
            todo.pop()
            name = head.types if head.kind in _VARYING else self.head[now]
            self._outlines[now] = hash((name, *(self._outlines[child] for child in children)))
        return self._outlines[term]

    def at(self, system: int, position: int, index: Index) -> int:
        """One of the streams of a system at an index."""
        if index == Index(0, 0):
            return self.children[system][2 * position]
        type_ = self.heads[self.head[system]].types[position]
        return self._of_index("at", (position,), type_, (system,), index)

    def last(self, variable: int, stream: int, condition: int) -> int:
        """A stream at the first trip in which a condition doesn't hold."""
        if not self.mask[stream] & self.mask[variable]:
            return stream
        binder = self.binder_above((stream, condition), self.mask[variable])
        close = Substitution(self, {variable: self.bound_variable(binder)}, renames=True)
        return self._bind(
            "last", (), (self.type(stream),), binder, (close(stream), close(condition))
        )

    def specialised(self, term: int, predicate: int, branch: int, count: int) -> int:
        """`term` where a predicate of so many branches chooses one of them."""
        if not self.mask[term] & self.case_bit(predicate):
            return term
        key = predicate, branch, count
        if key not in self._specialised:
            self._specialised[key] = Substitution(self, {}, chosen=key)
        return self._specialised[key](term)

    def row(self, system: int, term: int, index: Index) -> int:
        """A term of a system's equations at a trip."""
        head = self.heads[self.head[system]]
        binder = head.binder
        variable = self.bound_variable(binder)
        if not self.mask[term] & 2 << 2 * binder:
            key = binder, self.integer_like(index)
            if key not in self._rows:
                self._rows[key] = Substitution(self, {}, {variable: index})
            return self._rows[key](term)
        names = {
            self.previous(binder, k, t): self.at(system, k, index) for k, t in enumerate(head.types)
        }
        return Substitution(self, names, {variable: index})(term)

    def integer_like(self, index: Index) -> int:
        """A term that stands for an index alone."""
        return self._of_index("index", (), 0, (), index)
