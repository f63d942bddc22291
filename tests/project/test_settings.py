"""A setting is declared once: a walk over the source that fails on a second declaration."""

import ast
import inspect
from collections import Counter
from typing import NamedTuple

import pytest

from boundrec import registry

MODELS = [entry.load() for entry in registry.MODELS]
#: Every class that a model inherits from, itself included, as far as it is ours.
CLASSES = {one for model in MODELS for one in model.__mro__ if one.__module__.startswith("boundrec.")}


class Declared(NamedTuple):
    """A setting, as a class declares it."""

    name: str
    meaning: str


def declarations(source):
    """The settings that the source of a class declares: ``name: type = setting(..., meaning=...)``."""
    (definition,) = ast.parse(source).body
    for line in definition.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.value, ast.Call) and line.value.func.id == "setting":
            (meaning,) = [one.value for one in line.value.keywords if one.arg == "meaning"]
            yield Declared(line.target.id, ast.literal_eval(meaning))


DECLARED = {one: list(declarations(inspect.getsource(one))) for one in CLASSES}


def repeated(found):
    return [one for one, count in Counter(found).items() if count > 1]


def test_no_setting_is_declared_twice():
    assert repeated(one for found in DECLARED.values() for one in found) == []


@pytest.mark.parametrize("model", MODELS)
def test_a_models_settings_are_those_that_its_classes_declare_and_no_class_redeclares_one(model):
    names = [one.name for base in model.__mro__ for one in DECLARED.get(base, ())]
    assert repeated(names) == []
    assert sorted(names) == sorted(model().get_params())


def test_the_walk_sees_a_declaration_with_its_meaning():
    source = 'class A(B, defaults={"c": 1}):\n    d: int = setting(default=1, meaning="How many.")\n    e = 2\n'
    assert list(declarations(source)) == [Declared("d", "How many.")]
