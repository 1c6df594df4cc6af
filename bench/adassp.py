"""BoostedAdaSSP beside DP-EBM and S-BDT: F1 and AUROC by ε and by rounds, tables and plots.

    python -m bench.adassp telco_churn cardio --runs 5

Random 80/20 splits (cod-rna: its first part), δ = 10⁻⁶, the same rows, splits and public bounds for
all. DP-EBM is `interpret-core` with its defaults. Plots are written beside the tables.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import f1_score, roc_auc_score

from bench import data, runner
from privboost import BoostedAdaSSPClassifier, Domain, SBDTClassifier

DELTA = 1e-6
EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
NAMES = ("cod_rna", "adult", "creditcard_fraud", "telco_churn", "cardio")
ROUNDS = (1, 10, 100, 1000)
LOSSES = ("squared", "logistic", "hinge")

Fit = Callable[..., Callable[[pd.DataFrame], np.ndarray]]
"""From training rows, a domain, ε and a seed to scores of rows, positive for the second class."""


def ours(kind: Any, **how: Any) -> Fit:
    def fit(rows: pd.DataFrame, domain: Domain, epsilon: float, seed: int) -> Any:
        return kind(epsilon, DELTA, domain, random_state=seed, **how).fit(rows).decision_function

    return fit


def dp_ebm(rows: pd.DataFrame, domain: Domain, epsilon: float, seed: int) -> Any:
    from interpret.privacy import DPExplainableBoostingClassifier

    names = list(domain.feature_names)
    numeric = [feature.kind == "numeric" for feature in domain.features]

    def prepare(table: pd.DataFrame) -> pd.DataFrame:
        table = table[names].copy()
        for feature, number in zip(domain.features, numeric, strict=True):
            if number:
                middle = float(np.mean(feature.bounds))
                table[feature.name] = table[feature.name].fillna(middle)
            else:
                table[feature.name] = table[feature.name].astype(str).fillna("missing")
        return table

    model = DPExplainableBoostingClassifier(
        epsilon=epsilon,
        delta=DELTA,
        feature_names=names,
        feature_types=["continuous" if number else "nominal" for number in numeric],
        privacy_bounds={
            k: tuple(map(float, feature.bounds))
            for k, feature in enumerate(domain.features)
            if numeric[k]
        },
        random_state=seed,
    )
    label = rows[domain.target.name].to_numpy() == domain.target.ordered[1]
    model.fit(prepare(rows), label.astype(int))
    return lambda table: model.predict_proba(prepare(table))[:, 1] - 0.5


METHODS: dict[str, Fit] = {
    "AdaSSP": ours(BoostedAdaSSPClassifier, loss="squared", n_estimators=1),
    "squared": ours(BoostedAdaSSPClassifier, loss="squared", n_estimators=10),
    "logistic": ours(BoostedAdaSSPClassifier),
    "hinge": ours(BoostedAdaSSPClassifier, loss="hinge"),
    "balanced": ours(BoostedAdaSSPClassifier, class_weight="balanced"),
    "8 bins": ours(BoostedAdaSSPClassifier, bins=8),
    "S-BDT": ours(SBDTClassifier),
    "DP-EBM": dp_ebm,
}


def rows_of(name: str) -> tuple[pd.DataFrame, Domain]:
    frame, domain = data.load(name)
    if name == "cod_rna":
        frame = frame[frame["split"] == "train"]
    return frame, domain


def measure(
    frame: pd.DataFrame, domain: Domain, fit: Fit, epsilon: float, runs: int
) -> dict[str, Any]:
    """Return F1 and AUROC of the second class."""
    f1, auroc = [], []
    for seed in range(runs):
        order = np.random.default_rng(seed).permutation(len(frame))
        cut = len(frame) * 8 // 10
        train, test = frame.iloc[order[:cut]], frame.iloc[order[cut:]]
        score = fit(train, domain, epsilon, seed)(test)
        truth = test[domain.target.name].to_numpy() == domain.target.ordered[1]
        f1.append(float(f1_score(truth, score > 0)))
        auroc.append(float(roc_auc_score(truth, score)))
    return {"f1": runner.summarise(f1), "auroc": runner.summarise(auroc)}


def by_epsilon(name: str, runs: int) -> dict[str, Any]:
    frame, domain = rows_of(name)
    results: dict[str, Any] = {method: {} for method in METHODS}
    for metric in ("f1", "auroc"):
        print(f"\n{name}, {metric.upper()}" + "".join(f"{method:>10}" for method in METHODS))
        for epsilon in EPSILONS:
            line = f"  {epsilon:<{len(name) + len(metric)}g}"
            for method, fit in METHODS.items():
                if metric == "f1":
                    results[method][epsilon] = measure(frame, domain, fit, epsilon, runs)
                line += f"{results[method][epsilon][metric]['mean']:10.4f}"
            print(line, flush=True)
    ahead = [
        max(results[m][e]["f1"]["mean"] for m in LOSSES) > results["DP-EBM"][e]["f1"]["mean"]
        for e in EPSILONS
    ]
    print(f"  the best of three losses is above DP-EBM in F1 at {sum(ahead)} of {len(ahead)}")
    return results


def by_rounds(name: str, runs: int) -> dict[str, Any]:
    frame, domain = rows_of(name)
    results: dict[str, Any] = {}
    print(f"\n{name}: F1 / AUROC by rounds" + "".join(f"{rounds:>18}" for rounds in ROUNDS))
    for epsilon in (0.1, 1.0):
        for loss in LOSSES:
            make = partial(ours, BoostedAdaSSPClassifier, loss=loss, learning_rate=1.0, tail=0)
            cells = [
                measure(frame, domain, make(n_estimators=rounds), epsilon, runs)
                for rounds in ROUNDS
            ]
            results[f"{epsilon} {loss}"] = cells
            line = "".join(f"{c['f1']['mean']:10.3f} / {c['auroc']['mean']:.3f}" for c in cells)
            print(f"  epsilon {epsilon}, {loss:10}{line}", flush=True)
    return results


def plot(results: dict[str, Any], rounds: dict[str, Any]) -> None:
    """Draw curves by ε, their means, what boosting adds to one round, and curves by rounds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, len(results), figsize=(4 * len(results), 7), squeeze=False)
    for column, (name, methods) in enumerate(results.items()):
        for row, metric in enumerate(("f1", "auroc")):
            for method, cells in methods.items():
                means = [cells[e][metric]["mean"] for e in EPSILONS]
                style = "k--" if method in ("DP-EBM", "S-BDT") else "-"
                marker = "s" if method == "S-BDT" else "o"
                axes[row, column].plot(EPSILONS, means, style, marker=marker, label=method)
            axes[row, column].set(xscale="log", title=name, xlabel="epsilon", ylabel=metric.upper())
    axes[0, 0].legend()
    figure.tight_layout()
    figure.savefig(runner.RESULTS / "adassp_by_epsilon.png", dpi=110)
    figure, axes = plt.subplots(1, 3, figsize=(13, 4))
    for method in METHODS:
        for axis, metric in zip(axes, ("f1", "auroc"), strict=False):
            cells = [
                [results[name][method][e][metric]["mean"] for e in EPSILONS] for name in results
            ]
            axis.plot(EPSILONS, np.mean(cells, axis=0), marker="o", label=method)
            axis.set(xscale="log", xlabel="epsilon", ylabel=f"{metric.upper()}, mean of all data")
    for name, methods in results.items():
        one, ten = (
            np.array([methods[m][e]["f1"]["mean"] for e in EPSILONS]) for m in ("AdaSSP", "squared")
        )
        axes[2].plot(EPSILONS, (ten + 0.01) / (one + 0.01), marker="o", label=name)
    axes[2].set(xscale="log", yscale="log", xlabel="epsilon", ylabel="F1, ten rounds / one")
    axes[0].legend(fontsize=7)
    axes[2].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(runner.RESULTS / "adassp_means.png", dpi=110)
    figure, axes = plt.subplots(2, len(rounds), figsize=(4 * len(rounds), 7), squeeze=False)
    for column, (name, settings) in enumerate(rounds.items()):
        for setting, cells in settings.items():
            for row, metric in enumerate(("f1", "auroc")):
                means = [cell[metric]["mean"] for cell in cells]
                axes[row, column].plot(ROUNDS, means, marker="o", label=setting)
                axes[row, column].set(xscale="log", title=name, xlabel="rounds")
                axes[row, column].set(ylabel=metric.upper())
    axes[0, 0].legend()
    figure.tight_layout()
    figure.savefig(runner.RESULTS / "adassp_by_rounds.png", dpi=110)


def main() -> None:
    warnings.filterwarnings("ignore", module="interpret")
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(NAMES))
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    results = {name: by_epsilon(name, options.runs) for name in options.names}
    rounds = {name: by_rounds(name, options.runs) for name in options.names}
    runner.write(
        "adassp",
        {"runs": options.runs, "delta": DELTA, "rounds": ROUNDS},
        {"by epsilon": results, "by rounds": rounds},
    )
    plot(results, rounds)


if __name__ == "__main__":
    main()
