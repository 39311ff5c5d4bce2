# SPDX-License-Identifier: Apache-2.0
"""Whether `verify` takes a wrong module for a right one: mutants of modules that are right.

`python test/python/verify/harness.py` makes thousands of them, prints a table of what became of
those of each kind, and all that were wrongly, or perhaps wrongly, proven.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import random
import sys
import time
from collections.abc import Iterable, Iterator

from corpus import Pair, jax_pairs, lit_pairs, own_pairs
from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager
from kinds import EFFECTS, KINDS, Function
from oracle import Oracle

from hlo_remat import _compat
from hlo_remat.passes.dead_carry import DeadCarry
from hlo_remat.passes.pipeline import pipeline_of
from hlo_remat.validation.verify import Verification, verify_operations

# "endless": it computes the same if it ends, and doesn't; the proof says nothing of that.
# "same": wrong nowhere, but for what nothing reads. "equal": the same bits for all inputs tried.
VERDICTS = ("invalid", "rejected", "same", "equal", "endless", "unknown", "hole", "error")
SIMPLIFY = "builtin.module(func.func(stablehlo-legalize-composite-to-call),inline,cse,symbol-dce)"


@dataclasses.dataclass(frozen=True)
class Mutant:
    pair: Pair
    kind: str
    where: str
    verdict: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.verdict}: {self.kind} in {self.pair.name}, {self.where}"


class Mutator:
    """The mutants of the second module of a pair, in one context with the first."""

    def __init__(self, pair: Pair, oracle: Oracle):
        self.pair, self.oracle = pair, oracle
        self.context = _compat.make_context()
        self.context.attach_diagnostic_handler(lambda _: True)
        self.before, self.after = (
            ir.Module.parse(text, self.context) for text in (pair.before, pair.after)
        )
        # What the interpreter and the reports see.
        self.text = str(self.after)
        with self.context, ir.Location.unknown():
            self.simplify = PassManager.parse(SIMPLIFY)
            self.simple = self._simple(self.after.operation.clone().operation)
            functions = _functions(self.after.operation)
            self.places = {
                kind: [
                    (number, n)
                    for number, function in enumerate(functions)
                    for n, _ in enumerate(find(function))
                ]
                for kind, find in KINDS.items()
            }

    def verify(self, mutant: ir.Operation | None = None) -> Verification:
        return verify_operations(self.before.operation, mutant or self.after.operation)

    def mutant(self, kind: str, number: int, n: int) -> Mutant:
        with self.context, ir.Location.unknown():
            module, where = self._changed(kind, number, n)
            verdict, text = self._verdict(kind, module) if module else ("invalid", "")
        return Mutant(self.pair, kind, where, verdict, text)

    def mutated(self, rng: random.Random) -> Pair:
        """A module twice that computes something else than the pair: less tame than the corpus."""
        places = [(kind, *place) for kind, found in self.places.items() for place in found]
        with self.context, ir.Location.unknown():
            for place in rng.sample(places, len(places)):
                module, where = self._changed(*place)
                if module and self.oracle.ends(text := str(module)):
                    return Pair(f"{self.pair.name}, {place[0]} in {where}", text, text)
        raise AssertionError(f"{self.pair.name} has no mutants")

    def _changed(self, kind: str, number: int, n: int) -> tuple[ir.Operation | None, str]:
        """The second module with a change; none where that isn't valid, or changes nothing."""
        module = self.after.operation.clone().operation
        function = _functions(module)[number]
        i, change = next(itertools.islice(KINDS[kind](function), n, None))
        where = f"{function.names[i] if i >= 0 else 'function'} {i}"
        where += f" of {function.op.attributes['sym_name']}"
        try:
            change()
            is_valid = module.verify() and str(module) != self.text
        except (ir.MLIRError, ValueError, RuntimeError, IndexError, TypeError):
            is_valid = False
        return module if is_valid else None, where

    def _verdict(self, kind: str, module: ir.Operation) -> tuple[str, str]:
        try:
            if not self.verify(module):
                return "rejected", ""
        except Exception as error:
            return "error", f"{type(error).__name__}: {error}\n{module}"
        text = str(module)
        if kind in EFFECTS:
            return "hole", text
        verdict = self.oracle.compare(self.text, text)
        if verdict in ("equal", "unknown") and self._simple(module) == self.simple:
            verdict = "same"
        return verdict, text

    def _simple(self, operation: ir.Operation) -> str:
        """Without what nothing reads."""
        self.simplify.run(operation)
        module = ir.Module.parse(str(operation), self.context)
        pipeline_of(DeadCarry()).run(module)
        self.simplify.run(module.operation)
        return str(module)


def _functions(module: ir.Operation) -> list[Function]:
    functions = [
        view.operation
        for view in module.regions[0].blocks[0].operations
        if view.operation.name == "func.func" and len(view.operation.regions[0].blocks)
    ]
    return [Function(function, module, n == 0) for n, function in enumerate(functions)]


def mutants(
    pairs: Iterable[Pair], per_kind: int, seed: int, unproven: list[str]
) -> Iterator[Mutant]:
    """Of each pair up to `per_kind` mutants of each kind, and as many of one of its mutants. Pairs
    that aren't proven go into `unproven`."""
    oracle = Oracle()
    try:
        for pair in pairs:
            rng = random.Random(f"{seed} {pair.name}")
            mutator = Mutator(pair, oracle)
            if not (verification := mutator.verify()):
                unproven.append(f"{pair.name}: {verification}")
                continue
            for each in (mutator, Mutator(mutator.mutated(rng), oracle)):
                for kind, places in each.places.items():
                    for place in rng.sample(places, min(per_kind, len(places))):
                        yield each.mutant(kind, *place)
    finally:
        oracle.close()


def table(found: Iterable[Mutant]) -> str:
    """What became of the mutants of each kind; of those that are known to be wrong and the ones
    that were refused, how many were refused."""
    counts: dict[str, collections.Counter[str]] = {kind: collections.Counter() for kind in KINDS}
    for mutant in found:
        counts[mutant.kind][mutant.verdict] += 1
    total: collections.Counter[str] = collections.Counter()
    lines = [f"{'kind':38}" + "".join(f"{verdict:>10}" for verdict in VERDICTS) + "    killed"]
    for count in counts.values():
        total.update(count)
    for kind, count in [*counts.items(), ("all", total)]:
        wrong = count["rejected"] + count["hole"] + count["error"]
        rate = f"{count['rejected'] / wrong:>10.1%}" if wrong else f"{'-':>10}"
        lines.append(f"{kind:38}" + "".join(f"{count[v]:>10}" for v in VERDICTS) + rate)
    return "\n".join(lines)


def main() -> int:
    start = time.time()
    unproven: list[str] = []
    found = list(mutants([*own_pairs(), *lit_pairs(), *jax_pairs()], 6, 0, unproven))
    for mutant in found:
        if mutant.verdict in ("equal", "endless", "unknown"):
            print(mutant)
    print(*(f"not proven: {name}" for name in unproven), sep="\n")
    bad = [mutant for mutant in found if mutant.verdict in ("hole", "error")]
    for mutant in bad:
        print(f"{mutant}\n{mutant.text}")
    print(table(found))
    print(f"{time.time() - start:.0f} seconds")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
