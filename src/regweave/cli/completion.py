"""Completion of names with colons in bash, which parts words at them.

    $ regweave layout mma.m16n8k8.tf32:<TAB>        bash's words: layout, mma.m16n8k8.tf32, :

cyclopts writes a script for the words that bash hands over; what is put behind it joins them again, lets that
script answer, and takes from the answers what bash already holds to be typed.
"""

from __future__ import annotations

from typing import Any

from cyclopts import App

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


class CompletingApp(App):
    """The program, with a script for bash that completes names with colons."""

    def generate_completion(self, **options: Any) -> str:
        """The script for a shell; what cyclopts raises."""
        script = super().generate_completion(**options)
        return script + _WHOLE_WORDS if "complete -F _regweave regweave" in script else script
