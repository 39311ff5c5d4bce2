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
from typing import Any, NamedTuple

from jaxlib.mlir import ir

Rule = Callable[["Terms", int, tuple[int, ...]], int | None]
_BOUND_BITS = (
    128  # of the names of 64 nested binders: a variable, and what comes from the last trip
)
# What may be another term in two ways to make the same stream, until they are proven to be that.
_VARYING = ("at", "case", "integer", "previous", "symbol")
_MAX_GUESSES_INSIDE = 3  # of loops in each other
_MAX_GUESSES = 16  # which carries of two loops may be the same, where several look alike


class Index(NamedTuple):
    """`scale * variable + offset`; of no variable (-1) where it is a constant."""

    scale: int
    offset: int
    variable: int = -1


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


class Substitution:
    """Terms with symbols replaced by terms, variables by indices, and branches that are known.

    What none of its own symbols is free in is left to `parent`, another substitution. One that
    only `renames` gives symbols other names, which are free nowhere: then the simplest form of a
    term stays what it is, and systems stay closed.
    """

    def __init__(
        self,
        terms: Terms,
        symbols: dict[int, int],
        variables: dict[int, Index] | None = None,
        chosen: tuple[int, int, int] | None = None,
        parent: Substitution | None = None,
        renames: bool = False,
    ):
        self.terms = terms
        self.renames = renames
        self.symbols = symbols
        self.variables = variables or {}
        self.chosen = chosen
        self.parent = parent
        self.mask = 0
        for symbol in (*symbols, *self.variables):
            self.mask |= terms.mask[symbol]
        if chosen is not None:
            self.mask |= terms.case_bit(chosen[0])
        self._memo = dict(symbols)
        self._opened: dict[int, tuple[int, list[int]]] = {}

    def add(self, symbol: int, term: int) -> None:
        """One more symbol. No term that it is free in has been given to this substitution yet."""
        self.symbols[symbol] = self._memo[symbol] = term
        self.mask |= self.terms.mask[symbol]

    def _inside(self, binder: int, names: dict[int, int]) -> Substitution:
        """This substitution under a binder whose names are replaced too."""
        chosen = self.chosen
        if chosen is not None and self.terms.mask[chosen[0]] & 3 << 2 * binder:
            chosen = None  # those are another binder's names, and don't occur in here
        return Substitution(self.terms, names, chosen=chosen, parent=self, renames=True)

    def __call__(self, term: int) -> int:
        memo, terms = self._memo, self.terms
        stack = [term]
        while stack:
            now = stack[-1]
            if now in memo:
                stack.pop()
                continue
            if not terms.mask[now] & self.mask:
                memo[now] = self.parent(now) if self.parent else now
                stack.pop()
                continue
            needed = self._needed(now)
            missing = [child for child in needed if child not in memo]
            if missing:
                stack += missing
                continue
            made = memo[now] = self._rebuilt(now, [memo[child] for child in needed])
            stack.pop()
            if now in terms.source:
                terms.source.setdefault(made, terms.source[now])
        return memo[term]

    def _needed(self, term: int) -> tuple[int, ...]:
        """The children that are to be replaced before a term is."""
        kind, children = self.terms.kind(term), self.terms.children[term]
        if self._only_renames(term):
            return (
                children[:1] if kind == "at" else () if kind in ("integer", "index") else children
            )
        if kind == "case" and self._is_chosen(term):
            assert self.chosen is not None
            return (children[1 + self.chosen[1]],)
        if kind in ("at", "integer", "index", "last", "function", "system"):
            return ()
        return children

    def _only_renames(self, term: int) -> bool:
        return self.renames and (
            self.parent is None
            or not self.terms.mask[term] & self.parent._all_masks()
            or self.parent._only_renames(term)
        )

    def _is_chosen(self, term: int) -> bool:
        children = self.terms.children[term]
        return self.chosen is not None and (
            (children[0], len(children) - 1) == (self.chosen[0], self.chosen[2])
        )

    def _rebuilt(self, term: int, children: list[int]) -> int:
        terms = self.terms
        kind = terms.kind(term)
        if self._only_renames(term):
            if kind == "at":
                return terms.at(children[0], terms.data(term)[0], self._index(term))
            if kind == "integer":
                return terms.integer(terms.type(term), self._index(term))
            return terms.intern(terms.head[term], tuple(children))
        if kind == "case" and self._is_chosen(term):
            return children[0]
        if kind == "at":
            return self._at(term)
        if kind == "integer":
            return terms.integer(terms.type(term), self._index(term))
        if kind == "last":
            return self._last(term)
        if kind == "function":
            return self._function(term)
        assert kind != "system", "a system is read at an index"
        return terms.make(terms.head[term], tuple(children))

    def _index(self, term: int) -> Index:
        """The index that a term is at, with its variable replaced."""
        index = self.terms.index(term)
        assert index is not None
        if index.variable in self.variables:
            scale, offset, variable = self.variables[index.variable]
            scaled = index.scale * scale
            return Index(scaled, index.scale * offset + index.offset, variable if scaled else -1)
        if index.variable in self.symbols:
            return index._replace(variable=self.symbols[index.variable])
        if index.variable >= 0 and self.parent is not None:
            return self.parent._index(term)
        return index

    def _at(self, term: int) -> int:
        terms = self.terms
        system, *_ = terms.children[term]
        position = terms.data(term)[0]
        index = self._index(term)
        if not terms.mask[system] & self._all_masks():
            return terms.at(system, position, index)
        if system not in self._opened:
            self._opened[system] = self._open(system)
        variable, streams = self._opened[system]
        return Substitution(terms, {}, {variable: index})(streams[position])

    def _all_masks(self) -> int:
        return self.mask | (self.parent._all_masks() if self.parent else 0)

    def _open(self, system: int) -> tuple[int, list[int]]:
        """A system's streams with what is free in it replaced, over a variable of their own."""
        from hlo_remat.validation.streams import streams

        terms = self.terms
        head = terms.heads[terms.head[system]]
        children = terms.children[system]
        with terms.scope(head.types) as (bit, symbols):
            variable = terms.variable(bit, head.data[1])
            names = terms.previous_of(head.binder, symbols)
            names[terms.bound_variable(head.binder)] = variable
            inside = self._inside(head.binder, names)
            starts = [self(child) for child in children[::2]]
            steps = [inside(child) for child in children[1::2]]
            found = streams(terms, variable, head.data[1], symbols, starts, steps)
        return variable, found

    def _last(self, term: int) -> int:
        terms = self.terms
        binder = terms.heads[terms.head[term]].binder
        with terms.scope(()) as (bit, _):
            variable = terms.variable(bit, None)
            inside = self._inside(binder, {terms.bound_variable(binder): variable})
            stream, condition = (inside(child) for child in terms.children[term])
            return terms.last(variable, stream, condition)

    def _function(self, term: int) -> int:
        terms = self.terms
        head = terms.heads[terms.head[term]]
        with terms.scope(head.data[2]) as (_, symbols):
            inside = self._inside(head.binder, terms.previous_of(head.binder, symbols))
            results = [inside(child) for child in terms.children[term]]
            return terms.function(head.data[1], symbols, results)


def limits(element: ir.IntegerType) -> tuple[int, int]:
    """The least and the greatest integer of a type."""
    is_signed = not element.is_unsigned and element.width > 1
    low = -(1 << element.width - 1) if is_signed else 0
    return low, low + (1 << element.width) - 1
