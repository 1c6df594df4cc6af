"""What a federation costs: time a round, messages and bytes a model, accuracy of parties' noise.

    python -m bench.federation rounds traffic accuracy

All parties live in one process, one after the other: times are of all ends together. `rounds` asks
for 10,000 sums again and again, of tables so small that adding up takes no time; the least of the
turns counts, and the processor's time beside it, since the machine may be busy. `traffic` counts
all messages of a fit, both ways. `accuracy` is AUC on Adult's test rows.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from bench.runner import summarise, write
from privboost import (
    BoostedAdaSSPClassifier,
    BudgetStore,
    DPXGBClassifier,
    Federation,
    LazyBBClassifier,
    Party,
    PrivBoostClassifier,
    SarusXGBClassifier,
    SBDTClassifier,
)
from privboost.datasets import load_adult
from privboost.engine.queries import CellSums
from privboost.engine.updates import Start
from privboost.trees.cell_map import CellMap

SUMS = 10_000
DELTA = 1e-6
QUORUMS = {3: (1, 0), 10: (2, 1), 30: (5, 3), 100: (10, 10)}
"""Parties, and how many of them may collude and be lost."""
FITS: dict[str, Any] = {
    "privboost": PrivBoostClassifier(1.0, DELTA),
    "privboost, at_once=8": PrivBoostClassifier(1.0, DELTA, at_once=8, interactions=False),
    "sbdt": SBDTClassifier(1.0, DELTA),
    "sbdt, batch_size=10": SBDTClassifier(1.0, DELTA, batch_size=10),
    "dpxgb": DPXGBClassifier(1.0, DELTA, accountant="rdp"),
    "sarus": SarusXGBClassifier(1.0, 0.0),
    "lazybb": LazyBBClassifier(1.0, 0.0),
    "adassp": BoostedAdaSSPClassifier(1.0, DELTA),
}
"""Every recipe with its defaults, and two that ask for more at once."""
TREES = {"n_estimators": 60, "learning_rate": 0.3}
"""Few enough rounds for a hundred parties in one process."""


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["rounds", "traffic", "accuracy"])
    parser.add_argument("--parties", type=int, nargs="*", default=list(QUORUMS))
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    for what in given.what:
        {"rounds": rounds, "traffic": traffic, "accuracy": accuracy}[what](given)


def federate(rows: Any, parties: int, trust: str) -> Federation:
    """Divide rows among parties, one by one."""
    colluders, dropouts = QUORUMS[parties]
    store = BudgetStore(Path(mkdtemp()) / "store.db")
    kind: dict[str, Any] = {"filter": "renyi", "relation": "replace-one"}  # takes every recipe
    made = [
        Party(
            f"p{k}",
            rows[k::parties],
            store.open(f"p{k}", 1e4, 1e-3, **kind),
            tell_rows=True,
            trust_server=trust == "server",
        )
        for k in range(parties)
    ]
    return Federation.of(made, colluders, dropouts, trust)


def rounds(given: argparse.Namespace, turns: int = 24) -> None:
    """Time rounds of 10,000 sums."""
    adult = load_adult()
    results = []
    for parties in given.parties:
        for trust in ("server", "distributed"):
            federation = federate(adult.train.to_pandas()[:1000], parties, trust)
            model = SBDTClassifier(1.0, DELTA, adult.domain, n_estimators=turns + 1, init_share=0)
            start = time.perf_counter()
            run = model.set_params(calibration_share=0)._prepare(federation, None, None).run()
            backend = run.load.source.open_backend([])
            opening = time.perf_counter() - start
            backend.apply(Start(run.plan.loss, 1))
            layout = run.plan.encoder.layout.n_codes
            maps = [
                CellMap.of_feature(f, (np.arange(layout[f]) % size), size)
                for f, size in ((0, 50), (2, 100))
            ]
            query = CellSums(CellMap.joint(maps))
            assert query.shape == (SUMS // 2, 2)
            wall, processor = [], []
            backend.sum(query, run.plan.leaf)  # which warms up
            for _ in range(turns):
                clocks = time.perf_counter(), time.process_time()
                backend.sum(query, run.plan.leaf)
                wall.append(time.perf_counter() - clocks[0])
                processor.append(time.process_time() - clocks[1])
            sent = federation.last.traffic  # type: ignore[union-attr]
            results.append(
                {
                    "parties": parties,
                    "trust": trust,
                    "opening_ms": round(1e3 * opening, 1),
                    "least_ms": round(1e3 * min(wall), 2),
                    "mean_ms": round(1e3 * float(np.mean(wall)), 2),
                    "mean_processor_ms": round(1e3 * float(np.mean(processor)), 2),
                    "messages_a_round": round(sent.messages / (turns + 1), 1),
                    "bytes_a_round_and_party": round(sent.bytes_ / (turns + 1) / parties),
                }
            )
            print(results[-1], flush=True)
    write("federation_rounds", {"sums": SUMS, "turns": turns}, results)


def traffic(given: argparse.Namespace) -> None:
    """Count messages and bytes of whole fits; they depend on no row."""
    adult = load_adult()
    results = []
    for name, model in FITS.items():
        federation = federate(adult.train.to_pandas()[:3000], 10, "server")
        start = time.perf_counter()
        model.set_params(domain=adult.domain).fit(federation)
        sent = federation.last.traffic  # type: ignore[union-attr]
        results.append(
            {
                "fit": name,
                "parties": 10,
                "releases": sum(release.count for release in model.privacy_.releases),
                "messages": sent.messages,
                "bytes": sent.bytes_,
                "seconds": round(time.perf_counter() - start, 1),
            }
        )
        print(results[-1], flush=True)
    write("federation_traffic", {"epsilon": 1.0, "delta": DELTA}, results)


def accuracy(given: argparse.Namespace) -> None:
    """Compare AUC of parties' noise with that of a trusted server, which is one machine's."""
    adult = load_adult()
    train, test = adult.train.to_pandas(), adult.test.to_pandas()
    truth = (test["income"] == adult.domain.target.classes[1]).to_numpy()
    results = []
    for epsilon in (0.1, 1.0):
        model = SBDTClassifier(epsilon, DELTA, adult.domain, **TREES)
        for parties in (1, *given.parties):
            runs = given.runs * (3 if parties == 1 else 1)
            found = []
            for _ in range(runs):
                rows = train if parties == 1 else federate(train, parties, "distributed")
                scores = model.fit(rows).decision_function(test)
                found.append(float(roc_auc_score(truth, scores)))
            who = "server" if parties == 1 else "distributed"
            quorum = QUORUMS.get(parties, (0, 0))
            results.append(
                {"epsilon": epsilon, "trust": who, "parties": parties, "c, d": quorum}
                | summarise(found)
            )
            print(results[-1], flush=True)
    write("federation_accuracy", {"delta": DELTA, **TREES}, results)


if __name__ == "__main__":
    main()
