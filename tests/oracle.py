"""Fingerprints of everything that a seed determines, to compare two versions of the source.

    python -m tests.oracle > before.txt      # in one environment,
    python -m tests.oracle > after.txt       # then again with the other source
    diff before.txt after.txt

One line for each artefact: model files, reports, exports, streams, queries and updates as they
travel, the layout of federated messages, domains that were learned, evaluations. Hashes are not
stored: a new scipy or numpy may move the last bit of a calibration.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from privboost import Domain, SBDTClassifier, evaluate, export_model
from privboost._core import codec
from tests.federated.parties import federate
from tests.fits import ALL, fit_stream, refusal
from tests.hostile import HostileBackend
from tests.tables import CLASSES, FEATURES, NUMBER, make_domain, make_frame


@contextmanager
def recorded():
    """Collect what is written with the codec: magic bytes, value and bytes."""
    dump, found = codec.dump, []

    def record(value, magic):
        data = dump(value, magic)
        found.append((magic, value, data))
        return data

    codec.dump = record
    try:
        yield found
    finally:
        codec.dump = dump


def layout(value):
    """Describe a message without its random content."""
    if isinstance(value, dict):
        return {key: layout(own) for key, own in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [layout(each) for each in value]
    return str(value.dtype) if isinstance(value, np.ndarray) else type(value).__name__


def say(name, what):
    """Print a fingerprint."""
    data = what if isinstance(what, bytes) else str(what).encode()
    print(f"{name}: {hashlib.sha256(data).hexdigest()[:20]} {len(data)}", flush=True)


def artefacts(name, fitted, folder):
    """Fingerprint the model file, the report, exports, predictions, explanations."""
    model = fitted.model_
    model.save(folder / "model.pvb")
    say(f"{name}: model", (folder / "model.pvb").read_bytes())
    say(f"{name}: report", fitted.privacy_.to_json())
    for ending in (".sql", ".onnx"):
        try:
            export_model(model, folder / f"model{ending}")
            say(f"{name}: export {ending}", (folder / f"model{ending}").read_bytes())
        except (ValueError, ImportError) as error:
            say(f"{name}: export {ending}", type(error).__name__)
    rows = make_frame(200, seed=5)
    say(f"{name}: predictions", np.asarray(model.decision_function(rows)).tobytes())
    say(f"{name}: explanation", model.explain_global().to_json())


def main() -> None:
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    with TemporaryDirectory() as where:
        folder = Path(where)
        for name, fit in ALL.items():
            if only not in name or refusal(name):
                continue
            artefacts(name, fit(n_jobs=2), folder)
            with recorded() as found:
                fit(backend=HostileBackend).model_.save(folder / "hostile.pvb")
            sent = [data for magic, _, data in found if magic.startswith(b"PVBMSG")]
            say(f"{name}: hostile model", (folder / "hostile.pvb").read_bytes())
            say(f"{name}: commands", b"".join(sorted(set(sent))))
        if only in "stream":
            model = fit_stream(0.3)
            model.save_stream(folder / "stream")
            say("stream", (folder / "stream").read_bytes())
            artefacts("stream", model, folder)
        if only in "learned domain":
            form = {"version": 1, "features": FEATURES | {"gain": {"kind": "numeric"}}}
            learned = Domain.learn(
                make_frame(2000), CLASSES["name"], 1.0, 1e-6, given=form, random_state=3
            )
            say("learned domain", json.dumps(learned.to_dict(), sort_keys=True))
        if only in "evaluation":
            for name, target in (("two classes", CLASSES), ("numbers", NUMBER)):
                fit = ALL[f"privboost, {name}"]._replace(weighted=False)
                model = fit(epsilon=1.0)
                scored = evaluate(
                    model.model_,
                    make_frame(500, 2, target),
                    epsilon=1.0,
                    delta=1e-6,
                    random_state=4,
                )
                say("evaluation", scored.to_json())
                say("evaluation: report", scored.privacy.to_json())
        if only in "federation":
            fit = SBDTClassifier(1.0, 1e-6, make_domain(), n_estimators=3, random_state=7)
            with recorded() as found:
                fit.fit(federate(make_frame(300), 3))
            artefacts("federation", fit, folder)
            kinds = {json.dumps(layout(v)) for m, v, _ in found if m.startswith(b"PVBFED")}
            say("federation: messages", "\n".join(sorted(kinds)))
            sent = [data for magic, _, data in found if magic.startswith(b"PVBMSG")]
            say("federation: commands", b"".join(sorted(set(sent))))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
