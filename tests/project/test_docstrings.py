"""Module docstrings: one idea each, in the module's own words."""

import ast
import re

import pytest

from tests.project.test_layers import MODULES, SOURCE

MOST_PARAGRAPHS = 5


def docstring_of(module):
    return ast.get_docstring(ast.parse(MODULES[module].read_text(encoding="utf-8")))


@pytest.mark.parametrize("module", MODULES)
def test_no_module_refers_to_itself(module):
    package, _, name = module.rpartition(".")
    names = rf"(privboost\.)?{re.escape(package)}\.{name}" if package else rf"privboost\.{name}"
    path = re.escape(str(MODULES[module].relative_to(SOURCE)))
    found = re.search(rf"`({names}|({path}))[`.]", docstring_of(module))
    assert found is None, found and found[0]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_docstring_is_of_few_paragraphs(module):
    paragraphs = docstring_of(module).split("\n\n")
    assert len(paragraphs) <= MOST_PARAGRAPHS
    assert len(set(paragraphs)) == len(paragraphs)
