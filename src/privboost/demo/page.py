"""The demonstration as one HTML page that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from privboost.demo.pictures import draw_curve, draw_importance, draw_shapes
from privboost.demo.results import DELTA, PrivateResult, Result
from privboost.explanations.shapes import Shape

_SHAPES = 4
"""Of so many features shapes are drawn: those that the last model finds most important."""

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
       color: #1a1a1a; background: #fff; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
h3 { font-size: 1rem; margin: 1rem 0 0; }
table { border-collapse: collapse; font-size: .95rem; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid #ddd; text-align: right; }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
.beside { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: 1rem; }
.scroll { overflow-x: auto; }
figure { margin: 0; break-inside: avoid; } figcaption { font-weight: 600; font-size: .9rem; }
svg { width: 100%; height: auto; } svg text { fill: #333; }
iframe { width: 100%; height: 34rem; border: 1px solid #ddd; }
summary { cursor: pointer; padding: .3rem 0; }
"""


def demo_page(
    majority: Result, private: Sequence[PrivateResult], limit: Result, rows: tuple[int, int]
) -> str:
    """Return the page.

    Parameters
    ----------
    majority, private, limit : results
        What is compared: the majority class, private models by growing ε, one without privacy.
    rows : (int, int)
        How many rows the training part and the test part have.
    """
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>privboost: what each ε buys on Adult</title>
<style>{_STYLE}</style></head><body>
<h1>What each ε buys</h1>
<p>Adult, a table of the 1994 census: does a person earn more than 50,000 dollars a year? The models
were trained on {rows[0]:,} rows and tried on {rows[1]:,} others. The noise is drawn afresh in every
run, so that another one gives figures a little different from these.</p>
{_comparison(majority, private, limit)}
<div class="beside">{_curves(majority, private, limit)}</div>
<h2>What the models have learned</h2>
<p>All of it follows from what was released: it costs no more privacy. The smaller ε, the more
noise: a model sees less detail, or is less sure of it. Parts of what moves the score, with one
standard error of the noise:</p>
<div class="beside">{_importances(private)}</div>
<p>What a value adds to the log-odds of an income above 50,000 dollars, with two standard errors
(what features do only together is not in these pictures):</p>
{_shapes(private)}
<h2>What to look at</h2>
<p>Found in released values alone.</p>
{_findings(private)}
<h2>What was promised</h2>
{_promises(private)}
</body></html>
"""


def _comparison(majority: Result, private: Sequence[PrivateResult], limit: Result) -> str:
    odds = ["", *(f"× {_odds(own.epsilon)}" for own in private), "no limit"]
    lines = "".join(
        f"<tr><td>{escape(own.name)}</td><td>{own.auc:.4f}</td><td>{own.accuracy:.4f}</td>"
        f"<td>{own.seconds:.2f}</td><td>{change}</td></tr>"
        for own, change in zip([majority, *private, limit], odds, strict=True)
    )
    return f"""<div class="scroll"><table>
<tr><th></th><th>AUC</th><th>accuracy</th><th>seconds</th><th>odds change by at most</th></tr>
{lines}</table></div>
<p>The last column: by how much the model may change anybody's odds on whether a certain person is
in the table, δ = 10<sup>{math.log10(DELTA):.0f}</sup> aside. “Without privacy” is scikit-learn's
HistGradientBoostingClassifier with 40 steps on one thread, which promises nothing.</p>"""


def _odds(epsilon: float) -> str:
    """Write exp(ε), rounded up: a promise must not sound better than it is."""
    return f"{math.ceil(math.exp(epsilon) * 100) / 100:g}"


def _curves(majority: Result, private: Sequence[PrivateResult], limit: Result) -> str:
    areas = [(own.epsilon, own.auc) for own in private]
    accuracies = [(own.epsilon, own.accuracy) for own in private]
    drawn = (
        draw_curve(areas, "AUC", majority.auc, limit.auc),
        draw_curve(accuracies, "accuracy", majority.accuracy, limit.accuracy),
    )
    return "".join(f"<figure>{picture}</figure>" for picture in drawn)


def _importances(private: Sequence[PrivateResult]) -> str:
    return _figures(private, [draw_importance(own.explanation.importance) for own in private])


def _shapes(private: Sequence[PrivateResult]) -> str:
    """Draw the main features' shapes, those of all models side by side."""
    main = private[-1].explanation.importance
    parts = []
    for k in main.ranked[:_SHAPES]:
        feature = main.features[k]
        shapes: list[Shape] = [own.explanation.shape(feature) for own in private]
        parts.append(
            f'<h3>{escape(feature)}</h3><div class="beside">'
            f"{_figures(private, draw_shapes(shapes))}</div>"
        )
    return "".join(parts)


def _figures(private: Sequence[PrivateResult], pictures: Sequence[str]) -> str:
    return "".join(
        f"<figure><figcaption>ε = {own.epsilon:g}</figcaption>{picture}</figure>"
        for own, picture in zip(private, pictures, strict=True)
    )


def _findings(private: Sequence[PrivateResult]) -> str:
    return "".join(
        f"<h3>ε = {own.epsilon:g}</h3><ul>"
        + "".join(f"<li>{escape(str(finding))}</li>" for finding in own.explanation.findings)
        + "</ul>"
        for own in private
        if own.explanation.findings
    )


def _promises(private: Sequence[PrivateResult]) -> str:
    """Embed the privacy reports, each in a frame of its own, with its own style."""
    together = private[0].privacy
    for own in private[1:]:
        together = together + own.privacy
    frames = "".join(
        f"<details><summary>ε = {own.epsilon:g}: {escape(own.privacy.guarantee)}</summary>"
        f'<iframe title="privacy report" srcdoc="{escape(own.privacy.to_html())}"></iframe>'
        "</details>"
        for own in private
    )
    return f"""<p>Each model by itself is as private as its report says. Budgets add up: who
publishes all of them on the same rows promises {escape(together.guarantee)}.</p>
{frames}"""
