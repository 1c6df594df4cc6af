"""Every part of an explanation has a picture, where matplotlib is there."""

import subprocess
import sys

import numpy as np
import pytest

from privboost import evaluate
from privboost.explanations.spans import DAYS, INSTANTS, SECONDS, Spans
from privboost.explanations.terms import Shape
from tests.tables import make_frame


@pytest.fixture
def plt():
    pytest.importorskip("matplotlib")
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    yield plt
    plt.close("all")


FEW = ["privboost three", "sbdt number", "dpxgb three", "lazybb", "adassp without a line"]


@pytest.mark.parametrize("fitted", FEW, indirect=True)
def test_models_are_drawn(fitted, plt):
    axes = fitted.explanation.plot(3)
    parts = fitted.explanation
    there = len(parts.shapes) + len(parts.pairs) + len(parts.trees)
    there += (parts.votes is not None) + (parts.coefficients is not None)
    assert len(axes) == 1 + min(3, there)
    assert axes[0].get_title() == "importance"
    axes[0].figure.canvas.draw()


@pytest.mark.parametrize("fitted", [*FEW, "adassp products"], indirect=True)
def test_every_part_is_drawn_alone(fitted, plt):
    own = fitted.explanation
    parts = [*own.shapes[:1], *own.pairs[:1], *own.trees[:1]]
    parts += [part for part in (own.votes, own.coefficients) if part is not None]
    for part in parts:
        given = plt.subplots()[1]
        assert part.plot(ax=given) is given
        assert given.get_title()
    assert parts[0].plot().get_title()


@pytest.mark.parametrize("fitted", FEW, indirect=True)
def test_a_row_is_drawn_from_the_baseline_to_its_score(fitted, plt):
    local = fitted.local
    ax = local.plot(2)
    score = np.ravel(local.scores[2])[0]
    assert ax.get_title().endswith(f"to {score:.3g}")
    last = ax.patches[-1]
    assert last.get_x() + last.get_width() == pytest.approx(score, abs=1e-6)


@pytest.mark.parametrize("fitted", ["privboost three", "privboost number"], indirect=True)
def test_an_evaluation_is_drawn(fitted, plt):
    target = fitted.estimator.domain_.target
    form = {"name": "income"} | (
        {"classes": ["low", "mid", "high"]}
        if hasattr(target, "classes")
        else {"bounds": list(target.bounds)}
    )
    result = evaluate(fitted.estimator, make_frame(400, 3, form), epsilon=20.0, random_state=1)
    if hasattr(target, "classes"):
        names = [text.get_text() for text in result.plot().get_legend().get_texts()]
        assert set(names) <= {"low", "mid", "high"}
        assert names
    else:
        shown = [tenth for tenth in result.calibration if tenth.known]
        for residuals in (False, True):
            (bars,) = result.plot(residuals=residuals).containers
            points = bars.lines[0].get_xydata().tolist()
            of = "residual" if residuals else "observed"
            assert points == [[own.predicted, getattr(own, of).value] for own in shown]


AXES = {
    "dates": (
        Spans("x", ("a", "b", "missing"), (19722.5, 19800.0, 20088.5), False, DAYS),
        "2024",
        "x",
    ),
    "instants": (
        Spans("x", ("a", "b", "missing"), (1.7040672e9, 1.71e9, 1.735e9), False, INSTANTS),
        "2024",
        "x",
    ),
    "durations": (
        Spans("x", ("a", "b", "missing"), (0.0, 3600.0, 20 * 86400.0), True, SECONDS),
        "10",
        "x (days)",
    ),
    "ranks": (
        Spans("x", ("a", "b", "missing"), (-0.5, 0.5, 1.5), False, "", ("mild", "severe")),
        "severe",
        "x",
    ),
}


@pytest.mark.parametrize(("spans", "written", "label"), AXES.values(), ids=AXES)
def test_axes_say_dates_durations_and_ranks(spans, written, label, plt):
    ax = Shape(spans, (0.1, 0.2, 0.0)).plot()
    ax.figure.canvas.draw()
    ticks = [text.get_text() for text in ax.get_xticklabels()]
    said = " ".join([*ticks, ax.xaxis.get_offset_text().get_text()])
    assert written in said.replace("$", "").replace("\\mathdefault{10^{1}}", "10")
    assert ax.get_xlabel() == label


def test_without_matplotlib_it_is_said_what_to_install(tmp_path):
    code = """
import sys
sys.modules["matplotlib"] = None
from privboost.explanations.terms import Importance
try:
    Importance(("x",), (1.0,), None, True).plot()
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "privboost[plot]" in done.stdout
