"""Writes what was measured, with all that is needed to measure it again."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
_PACKAGES = (
    *("privboost", "numpy", "numba", "scikit-learn", "pyarrow", "pandas"),
    *("lightgbm", "xgboost", "interpret-core"),
)


def summarise(values: list[float]) -> dict[str, Any]:
    """Return the mean and its standard error, beside the single runs."""
    runs = np.array(values, dtype=float)
    error = float(runs.std(ddof=1) / np.sqrt(len(runs))) if len(runs) > 1 else None
    return {"mean": float(runs.mean()), "standard_error": error, "runs": runs.tolist()}


def write(name: str, settings: dict[str, Any], results: Any) -> Path:
    """Write one measurement as JSON and return where."""
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    form = {
        "name": name,
        "machine": {
            "system": platform.system(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
        },
        "versions": {package: release(package) for package in _PACKAGES},
        "settings": settings,
        "results": results,
    }
    path.write_text(json.dumps(form, indent=1) + "\n", encoding="utf-8")
    return path


def release(package: str) -> str | None:
    """Return the version of a package; None where it is not installed (a bare source tree)."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), "")
