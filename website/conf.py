"""How Sphinx builds the site from the pages that `website/pages.py` has put together."""

import inspect
import re

from privboost import __version__

project = "privboost"
author = copyright = "The privboost authors"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "privboost"
html_copy_source = False
html_show_sphinx = False

myst_heading_anchors = 3  # links name headings as they do where Markdown is shown by itself

default_role = "code"  # docstrings write `names` as Markdown does
autodoc_typehints = "none"  # docstrings say what parameters are
autodoc_class_signature = "mixed"
napoleon_custom_sections = ["Privacy"]
napoleon_use_rtype = False
napoleon_use_param = False
suppress_warnings = ["ref.python"]  # words of types are no links


def setup(app):
    """Read docstrings as they are meant, and leave out what scikit-learn documents itself."""
    app.connect("autodoc-skip-member", _is_of_sklearn)
    app.connect("autodoc-process-docstring", _escape_bars)
    app.connect("autodoc-process-signature", _signature_of_constructor)


def _is_of_sklearn(app, kind, name, member, skip, options):
    module = getattr(member, "__module__", None) or ""
    return True if module.startswith("sklearn.") else None


def _escape_bars(app, kind, name, member, options, lines):
    """An |x| of a docstring is an absolute value, not a substitution."""
    lines[:] = [re.sub(r"\|(\w+)\|", r"\\|\1\\|", line) for line in lines]


def _signature_of_constructor(app, kind, name, member, options, signature, returned):
    """Estimators check their arguments in `__new__`, which takes any; `__init__` names them."""
    if kind != "class" or not hasattr(member, "get_params"):
        return None
    found = inspect.signature(member)
    plain = [each.replace(annotation=each.empty) for each in found.parameters.values()]
    return str(inspect.Signature(plain)), None
