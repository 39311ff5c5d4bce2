# SPDX-License-Identifier: Apache-2.0
"""Replacing what is free in terms, under binders too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_remat.validation.affine import Index

if TYPE_CHECKING:
    from hlo_remat.validation.terms import Terms


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
