"""BoostedAdaSSP (Rho et al.): boosted linear models beside trees, by ε and by rounds.

The rows are the paper's: Adult's canonical parts; of cod-rna the 271,617 rows of LIBSVM's test part
to learn from, and the other part to score (the paper counts 271,617 rows of each, more than there
are); random 80/20 splits of the rest. δ = 10⁻⁶. All of its curves are pictures, so that no point
has a published figure. At which four ε the paper shows rounds, its text does not say.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import f1_score, roc_auc_score

from bench.papers import peers
from bench.papers.figure import Figure, Point
from bench.papers.protocol import make, split, table
from privboost import Domain, PrivacyWarning

DATA = ("cod_rna", "adult", "creditcard_fraud", "telco_churn", "cardio")
EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
LEVELS = (0.01, 0.1, 1.0, 10.0)
ROUNDS = (1, 10, 100, 1000)
LOSSES = ("squared", "logistic", "hinge")
METRICS = ("F1", "AUROC")
DELTA = 1e-6
LINEAR = "BoostedAdaSSPClassifier"
SARUS = "DP-XGBoost (Sarus recipe)"
NO_NOISE = {"epsilon": math.inf, "public_rows": True}


def parts(data: str, seed: int) -> tuple[pd.DataFrame, pd.DataFrame, Domain]:
    """Return rows to learn from, rows to score, and their domain."""
    frame, domain = table(data)
    if "split" not in frame:
        return *split(frame, seed, 0.8), domain
    learned = frame["split"] == ("train" if data == "adult" else "test")
    return frame[learned], frame[~learned], domain


def scores(data: str, estimator: str, how: dict[str, Any], seed: int) -> dict[str, float]:
    """Return F1 and AUROC of one fit of one of our estimators."""
    rows, rest, domain = parts(data, seed)
    model = _fit(estimator, how, rows, domain, seed)
    return _scores(model.decision_function(rest), rest, domain)


def of_peer(data: str, peer: str, how: dict[str, Any], seed: int) -> dict[str, float]:
    """Return F1 and AUROC of one fit of a peer."""
    rows, rest, domain = parts(data, seed)
    model = peers.fit(peer, how, rows, domain, seed)
    return _scores(model.decision_function(rest), rest, domain)


def boosted(data: str, estimator: str, how: dict[str, Any], seed: int) -> dict[str, float]:
    """Return F1, AUROC and training loss of one linear model, and its F1 over that of one round.

    To both F1 a hundredth is added, since one round may find no row of a rare class.
    """
    rows, rest, domain = parts(data, seed)
    model = _fit(estimator, how, rows, domain, seed)
    one = _fit(estimator, how | {"n_estimators": 1}, rows, domain, seed)
    found = _scores(model.decision_function(rest), rest, domain)
    before = _scores(one.decision_function(rest), rest, domain)["F1"]
    sign = np.where(_own(rows, domain), 1.0, -1.0)
    loss = _loss(how["loss"], sign, model.decision_function(rows))
    return found | {"loss": loss, "gain": (found["F1"] + 0.01) / (before + 0.01)}


def _fit(estimator: str, how: dict[str, Any], rows: pd.DataFrame, domain: Domain, seed: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return make(estimator, dict(how), domain, seed).fit(rows)


def _own(rows: pd.DataFrame, domain: Domain) -> np.ndarray:
    return (rows[domain.target.name] == domain.target.ordered[1]).to_numpy()  # type: ignore[union-attr]


def _scores(found: np.ndarray, rows: pd.DataFrame, domain: Domain) -> dict[str, float]:
    own = _own(rows, domain)
    return {"F1": float(f1_score(own, found > 0)), "AUROC": float(roc_auc_score(own, found))}


def _loss(loss: str, sign: np.ndarray, score: np.ndarray) -> float:
    """Return the mean loss; the logistic one takes labels of 0 and 1, others of −1 and 1."""
    if loss == "squared":
        return float(((sign - score) ** 2).mean() / 2)
    if loss == "logistic":
        return float(np.logaddexp(0, -sign * score).mean())
    return float(np.maximum(0, 1 - sign * score).mean())


def _algorithm(data: str, loss: str, rounds: int, **budget: Any) -> dict[str, Any]:
    """Return the printed algorithm; Adult's numbers are cut in five, as in LIBSVM's a9a."""
    own = {"preset": "Algorithm2", "loss": loss, "n_estimators": rounds} | budget
    own |= {"bins": 5} if data == "adult" else {}
    return {"data": data, "estimator": LINEAR, "how": own}


def _others(data: str, epsilon: float) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return what stands beside the printed algorithm at one ε: our defaults, trees, peers."""
    budget = {"epsilon": epsilon, "delta": DELTA}
    ours = {
        "AdaSSP": (LINEAR, {"preset": "AdaSSP"} | ({"bins": 5} if data == "adult" else {})),
        "our defaults": (LINEAR, {}),
        "our defaults, balanced": (LINEAR, {"class_weight": "balanced"}),
        "our defaults, 8 bins": (LINEAR, {"bins": 8}),
        "flagship": ("PrivBoostClassifier", {}),
        "S-BDT, our defaults": ("SBDTClassifier", {}),
    }
    measured = {
        arm: (scores, {"data": data, "estimator": kind, "how": how | budget})
        for arm, (kind, how) in ours.items()
    }
    theirs = {"data": data, "peer": "dp_ebm", "how": budget}
    return measured | {"DP-EBM, its defaults": (of_peer, theirs)}


def _trees(data: str, rounds: int, epsilon: float) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return the paper's rivals: DP-XGBoost with its best sample, DP-EBM with 100 leaves."""
    budget = {"epsilon": epsilon, "delta": DELTA}
    xgb = {"preset": "DP_XGBoost", "subsample": 0.8, "n_estimators": rounds} | budget
    ebm = {"max_leaves": 100, "max_rounds": rounds} | budget
    return {
        SARUS: (
            scores,
            {"data": data, "estimator": "SarusXGBClassifier", "how": xgb},
        ),
        "DP-EBM, 100 leaves": (of_peer, {"data": data, "peer": "dp_ebm", "how": ebm}),
    }


def _points(
    arms: dict[str, tuple[Any, dict[str, Any]]], x: float, panel: str, metrics: Iterable[str]
) -> list[Point]:
    return [
        Point(arm, x, measure, how, panel=panel.format(metric).strip(), of=metric)
        for metric in metrics
        for arm, (measure, how) in arms.items()
    ]


def _by_epsilon(data: str, panel: str, metrics: Iterable[str] = METRICS) -> list[Point]:
    """All arms at every ε, 100 rounds where they have rounds to choose."""
    found = []
    for epsilon in EPSILONS:
        budget = {"epsilon": epsilon, "delta": DELTA}
        arms: dict[str, Any] = {
            f"Algorithm 2, {loss}": (boosted, _algorithm(data, loss, 100, **budget))
            for loss in LOSSES
        }
        constant = _algorithm(data, "squared", 100, intercept=True, **budget)
        arms["Algorithm 2, squared, constant column"] = (scores, constant)
        arms |= _trees(data, 100, epsilon) | _others(data, epsilon)
        found += _points(arms, epsilon, panel, metrics)
    return found


def _by_rounds(data: str, panel: str, metrics: Iterable[str] = METRICS) -> list[Point]:
    """The printed algorithm and its rivals by rounds at four ε; DP-XGBoost up to 100 rounds."""
    found = []
    for epsilon in LEVELS:
        for rounds in ROUNDS:
            budget = {"epsilon": epsilon, "delta": DELTA}
            arms: dict[str, Any] = {
                loss: (boosted, _algorithm(data, loss, rounds, **budget)) for loss in LOSSES
            }
            trees = _trees(data, rounds, epsilon)
            if rounds > 100:
                del trees[SARUS]
            arms |= trees
            found += _points(arms, rounds, f"ε = {epsilon:g} {panel}", metrics)
    return found


def _without_noise(of: Iterable[str], panel: str) -> tuple[Point, ...]:
    """The printed algorithm without noise, by rounds."""
    return tuple(
        Point(loss, rounds, boosted, how, panel=panel.format(data, metric).strip(), of=metric)
        for metric in of
        for data in DATA
        for loss in LOSSES
        for rounds in ROUNDS
        for how in [_algorithm(data, loss, rounds, **NO_NOISE)]
    )


def _gains(number: int, loss: str) -> Figure:
    """F1 of 10, 100 and 1,000 rounds over that of one, by ε (of 1,000 at four)."""
    points = tuple(
        Point(f"{rounds} rounds", epsilon, boosted, how, panel=data, of="gain")
        for data in DATA
        for rounds in ROUNDS[1:]
        for epsilon in (LEVELS if rounds == ROUNDS[-1] else EPSILONS)
        for how in [_algorithm(data, loss, rounds, epsilon=epsilon, delta=DELTA)]
    )
    return Figure(
        f"adassp.figure{number}",
        f"what rounds add to one, {loss} loss",
        points,
        y="F1 over that of one round",
        log=True,
        runs=2,
    )


def _of_all(points: Any, panel: str) -> tuple[Point, ...]:
    return tuple(point for data in DATA for point in points(data, panel.replace("DATA", data)))


FIGURES: tuple[Figure, ...] = (
    Figure(
        "adassp.figure1",
        "training loss without noise, by rounds",
        _without_noise(["loss"], "{0}"),
        x="rounds",
        y="mean loss",
        log=True,
        runs=1,
    ),
    Figure(
        "adassp.figure2",
        "F1 and AUROC by ε, means of five data sets, 100 rounds",
        _of_all(_by_epsilon, "{}"),
        y="F1 or AUROC",
        log=True,
        runs=3,
        average=True,
    ),
    Figure(
        "adassp.figure3",
        "F1 and AUROC by rounds at four ε, means of five data sets",
        _of_all(_by_rounds, "{}"),
        x="rounds",
        y="F1 or AUROC",
        log=True,
        runs=2,
        average=True,
    ),
    _gains(4, "squared"),
    Figure(
        "adassp.figure6",
        "F1 and AUROC without noise, by rounds",
        _without_noise(METRICS, "{0} {1}"),
        x="rounds",
        y="F1 or AUROC",
        log=True,
        runs=1,
    ),
    Figure(
        "adassp.figure7",
        "F1 and AUROC by ε on each data set, 100 rounds",
        _of_all(_by_epsilon, "DATA {}"),
        y="F1 or AUROC",
        log=True,
        runs=3,
    ),
    Figure(
        "adassp.figure8",
        "F1 and AUROC by rounds at four ε on each data set",
        _of_all(_by_rounds, "DATA {}"),
        x="rounds",
        y="F1 or AUROC",
        log=True,
        runs=2,
    ),
    _gains(9, "logistic"),
    _gains(10, "hinge"),
)
