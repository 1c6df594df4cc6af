"""A fit of the flagship, and the same fit without noise: same questions, same priors.

What noise decides on its way (which features, which cells, how prior variances are weighed, the
number of rows) is kept from the noisy run. The difference is what noise did to the values.
"""

from dataclasses import dataclass, field

import numpy as np

from privboost.mechanisms import curator
from privboost.recipes.common import feature_posteriors, interactions, scale
from privboost.recipes.common import posterior_kernels as posterior_kernels
from privboost.recipes.common.posterior import Effect, StepDamping


@dataclass
class Tape:
    """What a noisy run decided, kind by kind, in order."""

    playing: bool = False
    kept: dict = field(default_factory=dict)

    def follow(self, kind, decide):
        """Decide and keep it; or take what was kept."""
        known = self.kept.setdefault(kind, [])
        if self.playing:
            return known.pop(0)
        known.append(decide())
        return known[-1]


def _record(tape, patch):
    """Let everything that noise decides pass through a tape."""
    known, joint = feature_posteriors.FeaturePosteriors, interactions.Interactions
    ask, trees, pairs = known.next_queries, joint.next_trees, joint.next_pairs
    weigh, leaves, start = (
        posterior_kernels.weigh_variances,
        interactions.leaf_values,
        scale.release_initial_scores,
    )
    damp, noise = StepDamping.damp, curator.SAMPLERS["discrete_gaussian"]
    patch.setattr(
        known, "next_queries", lambda own, *a: tape.follow("questions", lambda: ask(own, *a))
    )
    patch.setattr(joint, "next_trees", lambda own, *a: tape.follow("trees", lambda: trees(own, *a)))

    def pairs_again(own, *a):
        def decide():
            return [(id(pair), pair.cells, pair.effect.prior) for pair in pairs(own, *a)]

        decided = tape.follow("pairs", decide)
        if not tape.playing:
            found = {id(pair): pair for pair in own.pairs.values()}
            return [found[key] for key, _, _ in decided]
        return [
            own.pairs.setdefault(key, interactions.Pair(cells, Effect(prior, own._most, fade=1.0)))
            for key, cells, prior in decided
        ]

    def heed_again(own, ways):
        def decide():
            damp(own, ways)
            return own.part

        own.part = tape.follow("pace", decide)

    def weigh_again(info, pull, prior, least, first, variances, belief, evidence, weights):
        def decide():
            how = (prior, least, first, variances, belief, evidence, weights)
            return weigh(info, pull, *how), weights.copy()

        found, weights[:] = tape.follow("weights", decide)
        if not tape.playing:
            return found
        whole = np.tril(info, -1) + info.T
        own = np.tril(prior, -1) + np.tril(prior).T
        means = [np.linalg.solve(whole + own / variance, pull[:, 0]) for variance in variances]
        return weights @ means

    def leaves_again(gradient, hessian, spread, belief):
        found, weights = tape.follow("leaves", lambda: leaves(gradient, hessian, spread, belief))
        if not tape.playing:
            return found, weights
        only = 1e30 * np.eye(len(weights))
        parts = [leaves(gradient, hessian, spread, one)[0] for one in only]
        return np.tensordot(weights, parts, 1), weights

    def start_again(*a):
        score, counts = start(*a)
        return score, tape.follow("rows", lambda: counts)

    patch.setattr(joint, "next_pairs", pairs_again)
    patch.setattr(StepDamping, "damp", heed_again)
    patch.setattr(posterior_kernels, "weigh_variances", weigh_again)
    patch.setattr(interactions, "leaf_values", leaves_again)
    patch.setattr(scale, "release_initial_scores", start_again)
    patch.setitem(curator.SAMPLERS, "discrete_gaussian", lambda *a: noise(*a) * (not tape.playing))


def fit_twice(monkeypatch, make, *rows):
    """Return the models of a fit with noise, and of the same fit without."""
    with monkeypatch.context() as patch:
        tape = Tape()
        _record(tape, patch)
        noisy = make().fit(*rows).model_
        tape.playing = True
        exact = make().fit(*rows).model_
    assert not any(tape.kept.values())
    return noisy, exact


def covered(noisy, exact, width=2.0):
    """Return for each feature which share of released mass bands of so many errors cover."""
    alone, truth = (getattr(one.scores, "alone", one.scores) for one in (noisy, exact))
    shares = []
    for values, others, mass, noise in zip(
        alone.values, truth.values, alone.mass, alone.noise, strict=True
    ):
        share = np.maximum(mass, 0) / np.maximum(mass, 0).sum(axis=1, keepdims=True)
        apart = values - others.astype(float)
        apart -= (share * apart).sum(axis=1, keepdims=True)
        shares.append((share * (np.abs(apart) <= width * noise + 1)).sum(axis=1).mean())
    return np.array(shares)
