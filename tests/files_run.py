"""Files of the package whose code runs in what users do: `python -m tests.files_run`.

Functions that are called count, in every thread; what runs while a module is imported does not,
and neither do compiled kernels, which Python does not see. With `--names` the files are printed.
"""

from __future__ import annotations

import sys
import threading
import warnings
from importlib.util import find_spec
from inspect import CO_OPTIMIZED
from pathlib import Path

import privboost
from privboost import PrivBoostClassifier, SBDTClassifier
from privboost.mechanisms.curator import Curator
from tests.federated.parties import federate
from tests.tables import make_domain, make_frame

SOURCE = Path(privboost.__file__).parent
HOW = {"domain": make_domain(), "random_state": 0}


class Watch:
    """Collects the files of the functions that are called while it is open."""

    def __init__(self):
        self.found = set()

    def __enter__(self):
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame, event, _):
        if event == "call" and frame.f_code.co_flags & CO_OPTIMIZED:  # a function, not a module
            self.found.add(frame.f_code.co_filename)

    @property
    def files(self):
        paths = (Path(name) for name in self.found)
        return sorted(str(p.relative_to(SOURCE)) for p in paths if p.is_relative_to(SOURCE))


def watched(act):
    """Return the files that an action runs: the second time, when all is imported and cached."""
    act()
    with Watch() as watch:
        act()
    return watch.files


def flagship():
    return PrivBoostClassifier(3.0, 1e-6, n_estimators=12, **HOW).fit(make_frame(1000))


def of_fit():
    return watched(flagship)


def of_predict_proba():
    model, rows = flagship(), make_frame(100, 1)
    return watched(lambda: model.predict_proba(rows))


def of_second_partial_fit():
    def first():
        model = SBDTClassifier(1.0, 1e-6, n_estimators=4, max_depth=3, **HOW)
        return model.partial_fit(make_frame(200))

    first().partial_fit(make_frame(200, 1))
    model, rows = first(), make_frame(200, 1)
    with Watch() as watch:
        model.partial_fit(rows)
    return watch.files


def of_dask_fit():
    """In threads of this process, so that the code of workers counts."""
    import dask.dataframe as dd
    import distributed

    rows = dd.from_pandas(make_frame(400), npartitions=3, sort=False)

    def fit():
        with (
            distributed.LocalCluster(n_workers=1, processes=False) as workers,
            distributed.Client(workers),
        ):
            PrivBoostClassifier(3.0, 1e-6, n_estimators=4, **HOW).fit(rows)

    return watched(fit)


def of_federated_release():
    """The last of a fit across three parties, at both ends."""
    release, last, watching = Curator.sums, [], []

    def watch_release(curator, *query):
        if watching:  # a party's own curator
            return release(curator, *query)
        watching.append(curator)
        with Watch() as watch:
            answer = release(curator, *query)
        watching.clear()
        last[:] = watch.files
        return answer

    model = SBDTClassifier(1.0, 1e-6, n_estimators=4, max_depth=3, calibration_share=0.0, **HOW)
    Curator.sums = watch_release
    try:
        model.fit(federate(make_frame(300), 3))
    finally:
        Curator.sums = release
    return last


ACTIONS = {
    "fit": of_fit,
    "predict_proba": of_predict_proba,
    "second partial_fit": of_second_partial_fit,
    "Dask fit": of_dask_fit,
    "federated release": of_federated_release,
}


def possible(name):
    """Return whether what an action needs is installed."""
    return name != "Dask fit" or find_spec("distributed") is not None


def main():
    for name, action in ACTIONS.items():
        if possible(name):
            files = action()
            print(f"{name:20} {len(files):4}", flush=True)
            if "--names" in sys.argv:
                print(*(f"    {file}" for file in files), sep="\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
