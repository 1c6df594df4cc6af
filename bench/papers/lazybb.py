"""LazyBB (Salamatian's thesis): votes of rules by ε, what δ adds, and how few features they use.

Accuracy on Adult's canonical test part, and by tenths of cod-rna's first part, of mushroom and, in
figures 5.3 and 5.4, of Adult's training part: run k leaves out tenth k. Settings are those of the
thesis' appendix B for each ε.

"Printed constants" means that a choice is as noisy as the thesis has it: it charges 4ηζ where 2ηζ
are proved, and composes by the advanced theorem where δ is above 0. That is the noise of our pure
recipe at a smaller ε, which such a point is fitted with. Its rivals DP-LR (of diffprivlib), DP-Bag
and DPBoost cannot be had here; boosted linear models stand in for the first.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd

from bench.papers import peers
from bench.papers.figure import Figure, Point
from bench.papers.protocol import make, score, table
from privboost import Domain, PrivacyWarning
from privboost.recipes.lazybb import PRESETS, PUBLISHED

DELTA = 1e-5
VOTES = "LazyBBClassifier"
ACCURACY = {
    ("adult", 0.4): 0.82,
    ("adult", 1.0): 0.83,
    ("cod_rna", 1.0): 0.86,
    ("mushroom", 1.0): 0.98,
}
"""What the text says of the curves of figure 5.2, and tables 5.3 and 5.4."""
FEATURES = {
    "adult": (4.6, 4.8, 3.8, 3.6, 7, 13.8, 7.6, 6.4, 19.2, 12.8, 30.6, 72.8, 49.8),
    "cod_rna": (6, 12.4, 19.6, 16.8, 11.2, 10.2, 26.4, 19.8, 34.4, 25.4, 54.2, 44.2, 32),
    "mushroom": (4.6, 7.2, 5.8, 8.6, 6.2, 5.6, 9, 9.8, 9.4, 11.8, 14.4, 28.8, 11.8),
}
"""Mean numbers of features used, for each ε: table 5.2 and tables A.1 to A.3."""
SHARES = {
    "adult": (2.83, 2.96, 2.34, 2.22, 4.32, 8.51, 4.69, 3.95, 11.85, 7.9, 18.88, 44.93, 30.74),
    "cod_rna": (7.5, 15.5, 24.5, 21, 14, 12.75, 33, 24.75, 43, 31.75, 67.75, 55.25, 40),
    "mushroom": (3.93, 6.15, 4.95, 7.35, 5.29, 4.78, 7.69, 8.37, 8.03, 10.08, 12.03, 24.61, 10.08),
}
"""The same in % of all, as printed; one-hot coding makes 162, 80 and 117 features there."""
CARD = {
    "Married": ("marital-status", "is Married-civ-spouse", 3),
    "no gain": ("capital-gain", "≤ ", -2),
    "Exec": ("occupation", "is Exec-managerial", 1),
    "Prof": ("occupation", "is Prof-specialty", 1),
    "Masters": ("education-num", "> 13.5", 1),
    "youngest": ("age", "≤ ", -1),
}
"""The lines of table 5.3: a feature, how its value begins on our card, and the printed votes."""
ALONE = {"calibration_share": 0.0}
"""Votes alone: nothing is counted by them."""
SHARP = {
    0.0: ALONE | {"density": 0.15, "learning_rate": 2.0, "n_estimators": 15},
    DELTA: ALONE | {"density": 0.1, "learning_rate": 0.45, "n_estimators": 25},
}
"""The best of some eighty settings for mushroom at ε = 1, on the same tenths: the thesis' way."""


def parts(data: str, seed: int, tenths: bool) -> tuple[pd.DataFrame, pd.DataFrame, Domain]:
    """Return rows to learn from, rows to score, and their domain."""
    frame, domain = table(data)
    first = frame["split"] == "train" if "split" in frame else np.full(len(frame), True)
    if data == "adult" and not tenths:
        return frame[first], frame[~first], domain
    frame = frame[first]
    tenth = np.random.default_rng(0).permutation(len(frame)) % 10
    return frame[tenth != seed % 10], frame[tenth == seed % 10], domain


def accuracy(
    data: str, estimator: str, how: dict[str, Any], seed: int, tenths: bool = False
) -> float:
    """Return the accuracy of one fit of one of our estimators."""
    rows, rest, domain = parts(data, seed, tenths)
    return score(_fit(estimator, how, rows, domain, seed), rest, domain, "accuracy")


def of_peer(data: str, peer: str, seed: int, tenths: bool = False) -> float:
    """Return the accuracy of one fit of a peer, with its defaults."""
    rows, rest, domain = parts(data, seed, tenths)
    return score(peers.fit(peer, {}, rows, domain, seed), rest, domain, "accuracy")


def card(data: str, estimator: str, how: dict[str, Any], seed: int) -> dict[str, float]:
    """Return a vote's accuracy, the one-hot features it uses, and votes of table 5.3's lines."""
    rows, rest, domain = parts(data, seed, tenths=False)
    model = _fit(estimator, how, rows, domain, seed)
    used = model.sparsity()
    found = {"accuracy": score(model, rest, domain, "accuracy"), "features": used["rules"]}
    lines = model.explain().to_pylist()
    votes = {
        name: sum(
            line["votes"]
            for line in lines
            if line["feature"] == feature and line["value"].startswith(value)
        )
        for name, (feature, value, _) in CARD.items()
    }
    return found | {"share": 100 * used["share"]} | votes


def _fit(estimator: str, how: dict[str, Any], rows: pd.DataFrame, domain: Domain, seed: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return make(estimator, dict(how), domain, seed).fit(rows)


def advanced(votes: int, epsilon: float, delta: float) -> float:
    """Return the ε of each choice by the thesis' composition: the better of its two theorems."""
    low, high = 0.0, epsilon
    for _ in range(100):
        each = (low + high) / 2
        spent = each * math.sqrt(2 * votes * math.log(1 / delta)) + votes * each * math.expm1(each)
        low, high = (each, high) if spent <= epsilon else (low, each)
    return max(low, epsilon / votes)


def printed(preset: str, epsilon: float, delta: float = 0.0) -> dict[str, Any]:
    """Return the thesis' settings with the noise of its constants, as pure ε of our recipe."""
    votes = PRESETS[preset]["n_estimators"]
    each = advanced(votes, epsilon, delta) if delta else epsilon / votes
    return {"preset": preset, "epsilon": each * votes / 2}


def _rules(data: str, epsilon: float) -> dict[str, dict[str, Any]]:
    """Return votes of rules at one ε: the thesis' settings, ours, and sharp ones."""
    preset = f"{data}_{epsilon:g}"
    arms = {
        "printed constants": printed(preset, epsilon),
        "corrected": {"preset": preset},
        "our defaults, pure": {"epsilon": epsilon, "delta": 0.0},
        "our defaults, δ": {"epsilon": epsilon, "delta": DELTA},
    }
    if data == "mushroom" and epsilon == 1:
        arms |= {
            f"sharp, δ = {d:g}": {"epsilon": 1.0, "delta": d} | own for d, own in SHARP.items()
        }
    return arms


def _curve(data: str, epsilon: float) -> list[Point]:
    found = [
        Point(
            arm,
            epsilon,
            card,
            {"data": data, "estimator": VOTES, "how": how},
            ACCURACY.get((data, epsilon)) if arm == "printed constants" else None,
            data,
            "accuracy",
        )
        for arm, how in _rules(data, epsilon).items()
    ]
    budget = {"epsilon": epsilon, "delta": DELTA}
    trees = ALONE | {"epsilon": epsilon, "delta": 0.0, "learner": "tree", "density": 0.3}
    others = [
        ("flagship, δ", "PrivBoostClassifier", budget),
        ("linear, δ", "BoostedAdaSSPClassifier", budget),
        *(("trees", VOTES, trees | {"learning_rate": 0.4, "n_estimators": n}) for n in (5, 15)),
    ]
    return found + [
        Point(arm, epsilon, accuracy, {"data": data, "estimator": kind, "how": how}, panel=data)
        for arm, kind, how in others
    ]


def _without_noise(data: str, panel: str, preset: str, tenths: bool = False) -> list[Point]:
    """Non-private baselines, beside the last ε: the thesis' two, and the recipe without noise."""
    ours = {"preset": preset, "epsilon": math.inf, "public_rows": True}
    where = {"data": data, "tenths": tenths}
    return [
        Point(
            "gradient boosting", 5.0, of_peer, where | {"peer": "gradient_boosting"}, None, panel
        ),
        Point("one rule", 5.0, of_peer, where | {"peer": "one_rule"}, None, panel),
        Point(
            "without noise", 5.0, accuracy, where | {"estimator": VOTES, "how": ours}, None, panel
        ),
    ]


def _by_delta(of_each: bool) -> tuple[Point, ...]:
    """Figures 5.3 and 5.4: Adult by tenths, pure and with δ, one setting or one for each ε."""
    found = _without_noise("adult", "", "adult_5" if of_each else "figure_5.3", tenths=True)
    for epsilon in PUBLISHED["adult"]:
        preset = f"adult_{epsilon:g}" if of_each else "figure_5.3"
        own = {"preset": preset, "epsilon": epsilon}
        arms = [
            ("printed, pure", printed(preset, epsilon)),
            ("printed, δ", printed(preset, epsilon, DELTA)),
            ("corrected, pure", own),
            ("corrected, δ", own | {"delta": DELTA}),
        ]
        if of_each:
            arms += [("printed, δ", _more_votes(epsilon, votes)) for votes in (25, 49, 99)]
            arms += [
                ("corrected, δ", own | {"delta": DELTA, "n_estimators": votes})
                for votes in (25, 49, 99)
            ]
            arms += [
                ("our defaults, pure", {"epsilon": epsilon, "delta": 0.0}),
                ("our defaults, δ", {"epsilon": epsilon, "delta": DELTA}),
            ]
        found += [Point(arm, epsilon, accuracy, _on_tenths(how)) for arm, how in arms]
    return tuple(found)


def _more_votes(epsilon: float, votes: int) -> dict[str, Any]:
    each = advanced(votes, epsilon, DELTA)
    own = {"preset": f"adult_{epsilon:g}", "n_estimators": votes}
    return own | {"epsilon": each * votes / 2}


def _on_tenths(how: dict[str, Any]) -> dict[str, Any]:
    return {"data": "adult", "estimator": VOTES, "how": how, "tenths": True}


def _sparsity() -> tuple[Point, ...]:
    found = []
    for data, settings in PUBLISHED.items():
        for k, epsilon in enumerate(settings):
            for arm, how in _rules(data, epsilon).items():
                where = {"data": data, "estimator": VOTES, "how": how}
                own = arm == "printed constants"
                for of, label, known in (
                    ("features", "features", FEATURES),
                    ("share", "%", SHARES),
                ):
                    told = known[data][k] if own else None
                    found.append(Point(arm, epsilon, card, where, told, f"{data}, {label}", of))
    return tuple(found)


def _the_card() -> tuple[Point, ...]:
    """Table 5.3: a model of ε = 0.4, its accuracy, its lines and their votes."""
    known = {"accuracy": 0.82, "features": 6} | {name: votes for name, (*_, votes) in CARD.items()}
    return tuple(
        Point(arm, of, card, {"data": "adult", "estimator": VOTES, "how": how}, value, of=of)
        for arm, how in _rules("adult", 0.4).items()
        if arm in ("printed constants", "corrected")
        for of, value in known.items()
    )


def _worth() -> tuple[Point, ...]:
    """What constants and accountants are worth on Adult, with one density and rate."""
    found = []
    for epsilon, votes in ((0.1, 25), (0.4, 25), (1.0, 39), (1.0, 99)):
        own = ALONE | {"density": 0.35, "learning_rate": 0.45, "n_estimators": votes}
        each = advanced(votes, epsilon, DELTA)
        for arm, budget in (
            ("4ηζ, basic", {"epsilon": epsilon / 2, "delta": 0.0}),
            ("2ηζ, basic", {"epsilon": epsilon, "delta": 0.0}),
            ("4ηζ, advanced", {"epsilon": each * votes / 2, "delta": 0.0}),
            ("2ηζ, advanced", {"epsilon": each * votes, "delta": 0.0}),
            ("2ηζ, game", {"epsilon": epsilon, "delta": DELTA}),
        ):
            how = {"data": "adult", "estimator": VOTES, "how": own | budget}
            found.append(Point(arm, epsilon, accuracy, how, panel=f"{votes} votes"))
    return tuple(found)


FIGURES: tuple[Figure, ...] = (
    Figure(
        "lazybb.figure5.2",
        "accuracy by ε",
        tuple(
            point
            for data, settings in PUBLISHED.items()
            for point in (
                *(point for epsilon in settings for point in _curve(data, epsilon)),
                *_without_noise(data, data, f"{data}_5"),
            )
        ),
        y="accuracy",
        log=True,
        runs=10,
        best=True,
    ),
    Figure(
        "lazybb.figure5.3",
        "Adult by tenths, pure and δ = 1e-5, κ = λ = 1/4 and τ = 99 for every ε",
        _by_delta(of_each=False),
        y="accuracy",
        log=True,
        runs=10,
    ),
    Figure(
        "lazybb.figure5.4",
        "Adult by tenths, pure and δ = 1e-5, settings for each ε, with δ the best of four τ",
        _by_delta(of_each=True),
        y="accuracy",
        log=True,
        runs=10,
        best=True,
    ),
    Figure(
        "lazybb.table5.2",
        "one-hot features used (with tables A.1 to A.3)",
        _sparsity(),
        y="features used, or % of all",
        log=True,
        runs=10,
    ),
    Figure(
        "lazybb.table5.3",
        "a model of ε = 0.4: its accuracy, lines, and the votes of printed lines",
        _the_card(),
        x="",
        y="accuracy, lines, votes",
        runs=10,
    ),
    Figure(
        "lazybb.worth",
        "what constants and accountants are worth on Adult (not in the thesis)",
        _worth(),
        y="accuracy",
        log=True,
        runs=10,
    ),
)
