"""Completion of names with colons in bash, which parts words at them.

    $ regweave layout mma.m16n8k8.tf32:<TAB>        bash's words: layout, mma.m16n8k8.tf32, :

cyclopts writes a script for the words that bash hands over; what is put behind it joins them again, lets that
script answer, and takes from the answers what bash already holds to be typed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cyclopts import App
from cyclopts.completion.install import create_install_completion_command

_WHOLE_WORDS = """
_regweave_whole_words() {
  local -a words=()
  local word last joining=0
  for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
    last=$((${#words[@]} - 1))
    if [[ $last -gt 0 && ($word == :* || $joining == 1) ]]; then
      words[last]+=$word
    else
      words+=("$word")
    fi
    joining=0
    [[ $word == *: ]] && joining=1
  done
  local -a COMP_WORDS=("${words[@]}")
  local COMP_CWORD=$((${#words[@]} - 1))
  _regweave "$@"
  word=${words[COMP_CWORD]}
  if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*:}"}"}")
  fi
}

complete -F _regweave_whole_words regweave
"""


def installer(app: App) -> Callable[..., None]:
    """The command that installs the completion of `app`."""

    def install(**options: Any) -> Path:
        path = app.install_completion(**options)
        script = path.read_text("utf-8")
        if "complete -F _regweave regweave" in script:
            path.write_text(script + _WHOLE_WORDS, "utf-8")
        return path

    return create_install_completion_command(install, add_to_startup=True)
