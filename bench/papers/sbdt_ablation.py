"""What each part of S-BDT is worth: its table 2, figure 4 and figure 6."""

from __future__ import annotations

from bench.papers.figure import Point
from bench.papers.sbdt_points import EXACT, ROWS, How, as_coded, others, ours
from privboost.recipes.sbdt import COUNT_EPSILON, DELTA

WITHOUT_START = {"init_epsilon": None, "init_count_epsilon": None, "init_clip": None}
FIGURE4: dict[str, How] = {
    "abalone": {
        "preset": "S-BDT_abalone_0.1",
        "epsilon": 0.1 + COUNT_EPSILON,
        "n_estimators": 150,
        "subsample": 0.1,
        "gradient_clip": 0.1,
        "hessian_share": 0.2,
    },
    "adult": {
        "preset": "S-BDT_adult_0.02",
        "n_estimators": 200,
        "max_depth": 5,
        "subsample": 0.005,
        "gradient_clip": 0.5,
        "hessian_share": 0.1,
    },
}
"""The settings of the figure's caption; λ, which it leaves out, is that of all results."""

LAMBDA = {"abalone": 15.0, "adult": 10.0}
BUDGET = {name: {"epsilon": e, "delta": DELTA} for name, e in (("abalone", 0.105), ("adult", 0.02))}


def table2(name: str, published: tuple[float, ...]) -> tuple[Point, ...]:
    """Return the lines of the table, each with one part more, and below them what is ours."""
    whole, even = FIGURE4[name], {"hessian_share": 0.5}
    lines = {"+ leaf-balanced noise": whole, "+ subsampling": whole | even}
    if name == "abalone":
        lines |= {"+ initial score": whole | even, "+ subsampling": whole | even | WITHOUT_START}
    lines["Maddock et al."] = lines["+ subsampling"] | {"subsample": 1.0}
    order = ("Maddock et al.", "+ subsampling", "+ initial score", "+ leaf-balanced noise")
    theirs = f"{ROWS[name]}:sbdt"
    points = [
        ours("S-BDT", line, theirs, lines[line], figure)
        for line, figure in zip([o for o in order if o in lines], published, strict=True)
    ]
    if name == "adult":
        points += [
            ours("S-BDT, noise of their code", line, theirs, how | as_coded(0.02, share))
            for line, how in lines.items()
            for share in [how["hessian_share"]]
        ]
    exact = whole | EXACT
    points += [
        ours("here", "sums below 0 as 0", theirs, whole | {"negative_hessian": "floor"}),
        ours("here", "exact accounting", theirs, exact),
        ours("here", "all rows, λ/γ", theirs, exact | _scaled(name, 1.0)),
        ours("here", "defaults", ROWS[name], BUDGET[name]),
        others("here", "PrivBoost", name, "PrivBoost", BUDGET[name]),
    ]
    return tuple(points)


def _scaled(name: str, rate: float) -> How:
    """Return a sampling rate, and the λ that is as large a part of a sample as the published."""
    lam = LAMBDA[name] * rate / FIGURE4[name]["subsample"]
    return {"subsample": rate, "reg_lambda": lam}


def figure4_shares(name: str, ends: dict[float, float]) -> tuple[Point, ...]:
    """Return points by r₁, the Hessian's share: theirs, and our defaults with the same share."""
    points = []
    for share in (0.04, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        how = {"hessian_share": share}
        theirs = FIGURE4[name] | how
        points.append(ours("S-BDT", share, f"{ROWS[name]}:sbdt", theirs, ends.get(share)))
        points.append(ours("defaults", share, ROWS[name], BUDGET[name] | how))
    return tuple(points)


def figure4_rates(name: str, whole: float) -> tuple[Point, ...]:
    """Return points by γ: with the published λ, and with one that follows γ."""
    used = FIGURE4[name]["subsample"]
    points = []
    for rate in (0.005, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0):
        data = f"{ROWS[name]}:sbdt"
        published = whole if rate == used else None
        how = FIGURE4[name] | {"subsample": rate}
        points.append(ours("S-BDT", rate, data, how, published))
        points.append(
            ours("S-BDT, λ by γ", rate, data, FIGURE4[name] | _scaled(name, rate), published)
        )
    return tuple(points)


def figure4_starts() -> tuple[Point, ...]:
    """Return points by ε_init/ε, of labels clipped to m*."""
    points = []
    for clip in (0.5, 1.0):
        for ratio in (0.0, 0.1, 0.2, 0.3, 0.5, 0.7):
            own = {"init_epsilon": 0.1 * ratio, "init_clip": clip}
            how = FIGURE4["abalone"] | (own if ratio else WITHOUT_START)
            published = 2.745 if (clip, ratio) == (0.5, 0.1) else None
            points.append(ours(f"m* = {clip:g}", ratio, "abalone:sbdt", how, published))
    return tuple(points)


def figure6(name: str) -> tuple[Point, ...]:
    """Return points by extra trees, with the best clip and with twice that."""
    start = {"init_epsilon": 0.1 * (0.1 if name == "abalone" else 0.02)}
    theirs = FIGURE4[name] | start | {"init_count_epsilon": COUNT_EPSILON}
    if name == "adult":
        theirs["epsilon"] = 0.02 + COUNT_EPSILON  # the published ε leaves ε_ds out
    every = theirs | _scaled(name, 1.0) | EXACT
    trees = FIGURE4[name]["n_estimators"]
    points = []
    for times in (1, 2):
        clip = {"gradient_clip": times * FIGURE4[name]["gradient_clip"]}
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            more = clip | {"extra_estimators": round(share * trees)}
            panel = f"g* = {clip['gradient_clip']:g}"
            for arm, how in (("S-BDT", theirs), ("all rows, λ/γ, exact", every)):
                points.append(ours(arm, share, f"{ROWS[name]}:sbdt", how | more, panel=panel))
    return tuple(points)
