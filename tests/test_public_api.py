"""The names that people import: they exist, they are documented, and importing them is cheap."""

import ast
import importlib
import inspect
import pathlib
import pkgutil
import re
import subprocess
import sys

import pytest

import regweave

HEAVY = ("torch", "onnxruntime", "onnx", "llvmlite", "openvino", "cuda", "numpy", "rich", "cyclopts")
SOURCES = sorted(pathlib.Path(regweave.__file__).parent.rglob("*.py"))
TESTS = pathlib.Path(__file__).parent


def packages():
    modules = pkgutil.walk_packages(regweave.__path__, "regweave.")
    return ["regweave", *(name for _, name, is_package in modules if is_package)]


@pytest.mark.parametrize("package", packages())
def test_every_public_name_exists_and_is_documented(package):
    module = importlib.import_module(package)
    assert (module.__doc__ or "").strip(), f"{package} has no docstring"
    assert sorted(module.__all__) == sorted(set(module.__all__))
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isroutine(value) or inspect.isclass(value):
            words = (value.__doc__ or "").strip()
            # a dataclass without a docstring gets its own signature for one
            assert words, f"{package}.{name} has no docstring"
            assert not words.startswith(f"{name}("), f"{package}.{name} has no docstring"


def test_every_public_function_is_tested():
    """By name; classes and constants may be tested through the functions that hand them out."""
    text = "\n".join(path.read_text("utf-8") for path in TESTS.rglob("*.py"))
    words = set(re.findall(r"\w+", text))
    untested = [
        f"{package}.{name}"
        for package in packages()
        for name in importlib.import_module(package).__all__
        if name not in words
        if package == "regweave" or inspect.isroutine(getattr(importlib.import_module(package), name))
    ]
    assert untested == []


def test_every_module_says_what_it_is_for():
    silent = [str(path) for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text("utf-8")))]
    assert silent == []


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'fuze'"):
        regweave.fuze  # noqa: B018
    assert set(regweave.__all__) <= {*dir(regweave)}


@pytest.mark.parametrize("statement", ["import regweave", "import regweave.cli.app"])
def test_importing_loads_nothing_heavy(statement):
    allowed = () if statement == "import regweave" else ("rich", "cyclopts")
    code = f"import sys; {statement}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in run.stdout.split() if name not in allowed] == []


def test_no_public_function_shares_a_name_with_a_folder():
    folders = {name.rsplit(".", 1)[1] for name in packages() if "." in name}
    assert folders.isdisjoint(regweave.__all__)


def test_files_stay_small():
    long = {str(path): n for path in SOURCES if (n := len(path.read_text("utf-8").splitlines())) > 600}
    assert long == {}
