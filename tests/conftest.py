"""What all tests share: golden files.

    def test_the_drawing(golden):
        golden("tf32.txt", drawn)       # compares with golden/tf32.txt beside the test's file

`pytest --update-golden` writes the files instead; read the difference before you commit it.
"""

from pathlib import Path

import pytest


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write the golden files")


@pytest.fixture
def golden(request):
    folder = Path(request.path).parent / "golden"

    def check(name, text):
        path = folder / name
        if request.config.getoption("--update-golden"):
            folder.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing: run pytest --update-golden, read it, commit it"
        hint = f"{path} differs: run pytest --update-golden and read the difference"
        assert text == path.read_text("utf-8"), hint

    return check
