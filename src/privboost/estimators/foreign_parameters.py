"""Parameters of LightGBM, XGBoost and scikit-learn: what each is called here, or why it is not.

An estimator has no second spelling of a parameter. One of these names is refused with the right
one, or with the reason why there is no private counterpart.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

_P = ParamSpec("_P")
_Own = TypeVar("_Own")
_Result = TypeVar("_Result")


class _Answer(NamedTuple):
    """Answer to some names: parameters that do the same, and what to say of them, or without any.

    The first parameter counts that an estimator has.
    """

    names: str
    own: tuple[str, ...]
    about: str
    without: str


_METHOD = "the estimator's class is the method: docs/recipes.md compares them"

_ANSWERS = (
    _Answer(
        "num_boost_round num_iterations num_iteration num_rounds num_round nrounds n_iter n_rounds "
        "num_trees num_tree n_trees max_iter iterations max_rounds",
        ("n_estimators",),
        "",
        "the number of rounds follows public facts",
    ),
    _Answer(
        "learning_rate eta shrinkage_rate shrinkage",
        ("learning_rate",),
        "",
        "values follow posterior means, so that there is no learning rate",
    ),
    _Answer(
        "max_depth depth num_leaves num_leaf max_leaves max_leaf max_leaf_nodes",
        ("max_depth",),
        ": trees are complete, with 2**max_depth leaves",
        "the size of trees, if there are any, follows public facts and released values",
    ),
    _Answer(
        "subsample subsample_freq bagging_fraction bagging_freq bagging sub_row sample_rate",
        ("subsample",),
        "",
        "every round uses all rows: to sample them saves no noise here",
    ),
    _Answer(
        "reg_lambda lambda lambda_l2 l2_regularization l2_leaf_reg",
        ("reg_lambda", "ridge"),
        "",
        "values are shrunk by the noise, which is known",
    ),
    _Answer(
        "alpha",
        ("quantile",),
        ', the level of loss="quantile"; there is no L1 penalty',
        "there is no L1 penalty, and no quantile; values are shrunk by the noise, which is known",
    ),
    _Answer(
        "quantile_alpha quantile_level",
        ("quantile",),
        ', the level of loss="quantile"',
        "estimators of PrivBoost alone predict quantiles of a number",
    ),
    _Answer(
        "tweedie_variance_power variance_power tweedie_power",
        ("power",),
        ', that of loss="tweedie"',
        "estimators of PrivBoost alone have a Tweedie loss of a number",
    ),
    _Answer(
        "aft_loss_distribution label_lower_bound label_upper_bound",
        (),
        "",
        "times with censoring need PrivBoostSurvival",
    ),
    _Answer(
        "reg_alpha lambda_l1 l1_regularization",
        (),
        "",
        "there is no L1 penalty; values are shrunk by the noise, which is known",
    ),
    _Answer(
        "monotone monotone_constraints monotonic_cst monotone_constraint mc monotonicity",
        ("monotone",),
        ', a mapping from names of features such as {"age": 1, "price": -1}',
        "estimators of PrivBoost and of S-BDT alone take monotone constraints",
    ),
    _Answer(
        "interaction_constraints interaction_cst",
        ("interaction_constraints",),
        ', groups of names of features such as [["age", "income"], ["job"]]',
        "estimators of PrivBoost alone take groups of features that interact",
    ),
    _Answer(
        "exposure",
        ("exposure",),
        "",
        "PrivBoostRegressor alone takes an exposure",
    ),
    _Answer(
        "interactions",
        ("interactions", "products"),
        "",
        "estimators of PrivBoost alone take pairs of features",
    ),
    _Answer(
        "loss objective objective_type app application loss_function",
        ("loss",),
        ", with its own values",
        "the loss follows the target of the domain",
    ),
    _Answer(
        "seed random_seed bagging_seed data_random_seed feature_fraction_seed",
        ("random_state",),
        ": a number makes a run without a privacy guarantee",
        "randomness is secure",
    ),
    _Answer(
        "nthread nthreads num_thread num_threads n_threads thread_count",
        ("n_jobs",),
        "",
        "the number of threads follows the rows",
    ),
    _Answer(
        "colsample_bytree colsample_bylevel colsample_bynode feature_fraction "
        "feature_fraction_bynode sub_feature max_features rsm",
        ("features",),
        ", a number of features for each tree",
        "which features are used follows from released values",
    ),
    _Answer(
        "max_bin max_bins n_bins border_count",
        ("n_candidates", "bins"),
        "",
        "bins follow the domain and what noise allows",
    ),
    _Answer("verbosity verbose_eval silent", ("verbose",), "", "progress is not shown"),
    _Answer(
        "device device_type gpu_id task_type",
        ("backend",),
        ', such as "cuda"',
        "the model does not depend on the device",
    ),
    _Answer(
        "tree_method grow_policy booster boosting_type boosting tree_learner data_sample_strategy",
        (),
        "",
        _METHOD,
    ),
    _Answer(
        "class_weight scale_pos_weight is_unbalance unbalance auto_class_weights",
        ("class_weight",),
        ', public weights such as {"no": 1, "yes": 5}, for counts of classes are private',
        "there are no weights of classes here",
    ),
    _Answer(
        "base_score init boost_from_average",
        ("init_share",),
        ": the initial score is released, with that share of the budget",
        "the initial score cannot be chosen",
    ),
    _Answer(
        "init_score base_margin offset",
        ("exposure", "init_share"),
        ": scores begin at a released mean, and no row has one of its own; the logarithm of an "
        "exposure, with a log link, is the only offset",
        "rows have no scores or offsets of their own at the start",
    ),
    _Answer(
        "early_stopping_rounds early_stopping_round early_stopping early_stopping_tolerance "
        "n_iter_no_change validation_fraction validation_size tol od_wait use_best_model",
        (),
        "",
        "the number of rounds is fixed before a row is read, for every look at rows put aside "
        "would cost privacy; PrivateSearchCV chooses parameters at a stated price",
    ),
    _Answer(
        "min_child_weight min_child_samples min_data_in_leaf min_data min_samples_leaf "
        "min_samples_split min_sum_hessian_in_leaf min_split_gain min_split_loss min_gain_to_split "
        "min_impurity_decrease gamma",
        (),
        "",
        "a test of exact counts or gains would reveal them, and has no private counterpart here; "
        "values of few rows are shrunk instead",
    ),
    _Answer(
        "max_delta_step max_leaf_output poisson_max_delta_step",
        ("leaf_clip",),
        "",
        "values have a fixed bound",
    ),
    _Answer(
        "eval_set eval_metric eval_names eval_sample_weight eval_class_weight eval_init_score "
        "evals valid_sets valid_names sample_weight_eval_set X_val y_val metric metrics feval "
        "callbacks",
        (),
        "",
        "scores on rows put aside cost privacy; privboost.evaluate measures a trained model, and "
        "PrivateSearchCV chooses parameters, both at a stated price",
    ),
    _Answer(
        "warm_start init_model xgb_model process_type",
        (),
        "",
        "a fit spends the whole budget; SBDTClassifier and SBDTRegressor go on with later rows "
        "(partial_fit)",
    ),
    _Answer(
        "categorical_features categorical_feature cat_features cat_feature enable_categorical "
        "feature_name feature_names feature_types missing use_missing zero_as_missing num_class "
        "n_classes privacy_bounds bounds data_norm",
        ("domain",),
        ", which declares features, bounds, categories, missing values and classes",
        "the domain declares them",
    ),
    _Answer(
        "duration_col event_col durations event_observed time_col",
        ("domain",),
        ", whose target names the columns of times and of events, for PrivBoostSurvival",
        "times with censoring need PrivBoostSurvival",
    ),
    _Answer(
        "sample_weight",
        ("sample_weight_bound",),
        ", their public bound; weights themselves go to fit",
        "rows have no weights here",
    ),
    _Answer(
        "aft_loss_distribution_scale",
        ("scale",),
        "",
        "times with censoring need PrivBoostSurvival, which has scale",
    ),
    _Answer(
        "conformal_fraction",
        (),
        "",
        "no units are put aside for intervals: classifiers and regressors of PrivBoost alone have "
        "conformal ones, and survival models predict_survival_function",
    ),
    _Answer("importance_type", (), "", "feature_importances_ has one kind, from released values"),
)

_SPELLINGS = {
    "squared": "reg:squarederror reg:linear regression regression_l2 l2 mean_squared_error mse "
    "l2_root root_mean_squared_error rmse squared_error ls squared_loss",
    "absolute": "reg:absoluteerror regression_l1 l1 mean_absolute_error mae absolute_error lad",
    "quantile": "reg:quantileerror pinball",
    "poisson": "count:poisson",
    "gamma": "reg:gamma",
    "tweedie": "reg:tweedie",
    "logistic": "binary:logistic binary:logitraw reg:logistic binary binary_crossentropy log_loss "
    "logloss deviance cross_entropy xentropy cross_entropy_lambda xentlambda multi:softmax "
    "multi:softprob multiclass softmax multiclass_ova multiclassova ova ovr "
    "categorical_crossentropy",
    "hinge": "binary:hinge",
}
"""How other libraries spell the losses that there are."""

_NO_LOSSES = {
    "survival:aft aft": "times with censoring need PrivBoostSurvival, whose model is this one",
    "survival:cox cox coxph": "a partial likelihood compares each row with all others at risk, "
    "which no sum over single rows does; times with censoring need PrivBoostSurvival",
    "mape mean_absolute_percentage_error": "no loss is in parts of the label: its gradient grows "
    'without a bound where labels are small; loss="gamma" and loss="tweedie" are about factors',
    "huber reg:pseudohubererror fair": "gradients are clipped in any case, which makes the squared "
    "loss Huber's; gradient_clip is its width",
    "reg:squaredlogerror": "declare the target on a log scale in the domain",
    "rank:pairwise rank:ndcg rank:map lambdarank rank_xendcg xendcg": "a ranking compares rows "
    "with each other, which no sum over single rows does",
}
"""Losses of other libraries that have no private counterpart here, and why."""

_OF_CLASSES = ("logistic", "hinge")
_LOSS_OF = {each: own for own, names in _SPELLINGS.items() for each in (own, *names.split())}
_NO_LOSS_OF = {each: why for names, why in _NO_LOSSES.items() for each in names.split()}


def foreign_loss_hint(loss: Any, known: Collection[str]) -> str:
    """Return what another library's spelling of a loss is here, or why it is not; or "".

    Parameters
    ----------
    loss : object
        What was given as a loss.
    known : collection of str
        Losses that there are for the target.
    """
    if not isinstance(loss, str) or loss in known:
        return ""
    own = _LOSS_OF.get(loss.lower())
    if own in known:
        return f'here it is loss="{own}"'
    if own is not None:
        return f'loss="{own}" is for {"classes" if own in _OF_CLASSES else "numbers"}'
    return _NO_LOSS_OF.get(loss.lower(), "")


_OF_NAME = {name: answer for answer in _ANSWERS for name in answer.names.split()}


def foreign_name_hint(
    name: Any,
    known: Collection[str],
    written: Mapping[str, str] | None = None,
    value: Any = None,
) -> str:
    """Return what a name of another library is here, or why it is not; "" for any other name.

    Parameters
    ----------
    name : str
        Name of a parameter that is not among the known ones.
    known : collection of str
        Parameters that there are.
    written : mapping, optional
        How some of them are written elsewhere, such as options of the command line.
    value : object, optional
        What the name was given; that of an objective may be a loss under another name.
    """
    answer = _OF_NAME.get(name)
    if answer is None:
        return ""
    own = next((each for each in answer.own if each in known), None)
    if "loss" in answer.own and isinstance(value, str):
        if why := _NO_LOSS_OF.get(value.lower()):
            return why
        loss = _LOSS_OF.get(value.lower())
        if own is not None and loss is not None:
            return f'here it is loss, and {value!r} is called "{loss}"'
    if own is None:
        return answer.without
    return f"here it is {(written or {}).get(own, own)}{answer.about}"


def answers_foreign_names(
    method: Callable[Concatenate[_Own, _P], _Result],
) -> Callable[Concatenate[_Own, _P], _Result]:
    """Decorate a method of an estimator: it refuses unknown arguments, with reasons if known."""
    arguments = inspect.signature(method).parameters

    @wraps(method)
    def answering(self: _Own, /, *by_place: _P.args, **by_name: _P.kwargs) -> _Result:
        for name in by_name:
            if name in arguments:
                continue
            own: Any = self
            known = own.get_params(deep=False)
            hint = foreign_name_hint(name, known)
            if name in known:
                hint = "it is a parameter of the estimator"
            hint = hint or f"it takes {', '.join(list(arguments)[1:])}"
            raise TypeError(f"{type(self).__name__}.{method.__name__} takes no {name!r}: {hint}")
        return method(self, *by_place, **by_name)

    return answering
