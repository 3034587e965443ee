"""A hook of mkdocs: README.md, CONTRIBUTING.md and CHANGELOG.md, which stand above docs/, become pages too.

    [docs/images.md](docs/images.md) in README.md      leads to images.md on the site

They stay where people and package indexes look for them; a copy in docs/ would go stale.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages, with their links as seen from docs/, and the licence that they name."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text("utf-8")
        files.append(File.generated(config, page, content=re.sub(r"\]\(docs/", "](", text)))
    files.append(File.generated(config, "LICENSE", content=(ROOT / "LICENSE").read_text("utf-8")))
    return files
