"""Edits of commands that branch by architecture, in all the ways that can be understood from the text.

Does not belong here: what only looks that way (`hazards`).
"""

from __future__ import annotations

from typing import Final

from tests.oracle.kinds.tables import Table

KINDS: Final = Table(
    {
        "if_then": 'RUN if [ "<probe>" = <amd64> ]; then echo @ > /f; fi',
        "if_other": 'RUN if [ "<probe>" = <arm64> ]; then echo @ > /f; fi',
        "if_else": 'RUN if [ "<probe>" = <amd64> ]; then echo a > /f; else echo @ > /f; fi',
        "elif": (
            'RUN if [ "<probe>" = <amd64> ]; then echo a > /f; elif [ "<probe>" = <arm64> ]; '
            "then echo @ > /f; fi"
        ),
        "elif_else": (
            'RUN if [ "<probe>" = <s390x> ]; then echo a > /f; elif [ "<probe>" = <arm64> ]; '
            "then echo b > /f; else echo @ > /f; fi"
        ),
        "elif_added": (
            'RUN if [ "<probe>" = <amd64> ]; then echo a > /f; fi',
            (
                'RUN if [ "<probe>" = <amd64> ]; then echo a > /f; elif [ "<probe>" = <s390x> ]; '
                "then echo b > /f; fi"
            ),
        ),
        "case": "RUN case <probe> in <amd64>) echo a > /f;; <arm64>) echo @ > /f;; esac",
        "case_quoted": 'RUN case "<probe>" in "<amd64>") echo @ > /f;; <arm64>) echo a > /f;; esac',
        "case_default": 'RUN case "<probe>" in <amd64>) echo a > /f;; *) echo @ > /f;; esac',
        "case_alternatives": (
            'RUN case "<probe>" in <amd64>|<s390x>) echo @ > /f;; <arm64>|<ppc64le>) echo a > /f;; esac'
        ),
        "case_added": (
            'RUN case "<probe>" in <amd64>) echo a > /f;; esac',
            'RUN case "<probe>" in <amd64>) echo a > /f;; <ppc64le>) echo b > /f;; esac',
        ),
        "case_glob": 'RUN case "$(uname -m)" in x86*) echo @ > /f;; aarch*) echo a > /f;; esac',
        "case_swapped": (
            'RUN case "<probe>" in <amd64>) echo a > /f;; <arm64>) echo b > /f;; esac',
            'RUN case "<probe>" in <arm64>) echo b > /f;; <amd64>) echo a > /f;; esac',
        ),
        "case_parentheses": 'RUN case "<probe>" in (<amd64>) echo @ > /f ;; (<arm64>) echo a > /f ;; esac',
        "and": 'RUN [ "<probe>" = <arm64> ] && echo @ > /f || true',
        "and_status": 'RUN [ "<probe>" = <arm64> ] && echo @ > /f; echo $? > /g',
        "or": 'RUN [ "<probe>" = <amd64> ] || echo @ > /f',
        "not_equal": 'RUN if [ "<probe>" != <amd64> ]; then echo @ > /f; fi',
        "negated": 'RUN if ! [ "<probe>" = <amd64> ]; then echo @ > /f; fi',
        "and_in_if": 'RUN if [ "<probe>" = <arm64> ] && [ -e /etc/passwd ]; then echo @ > /f; fi',
        "or_in_if": 'RUN if [ "<probe>" = <arm64> ] || [ "<probe>" = <s390x> ]; then echo @ > /f; fi',
        "test": 'RUN if test "<probe>" = <arm64>; then echo @ > /f; fi',
        "alias_variable": 'RUN ARCH=$(uname -m); if [ "$ARCH" = aarch64 ]; then echo @ > /f; fi',
        "alias_variable_and": (
            'RUN ARCH="$(dpkg --print-architecture)" && if [ "$ARCH" = arm64 ]; then echo @ > /f; fi'
        ),
        "alias_of_alias": 'RUN A=<probe>; B="$A"; case "$B" in <arm64>) echo @ > /f;; esac',
        "variable_by_case": 'RUN case "<probe>" in <amd64>) T=a;; <arm64>) T=@;; esac; echo "$T" > /f',
        "variable_by_if": 'RUN T=a; if [ "<probe>" = <arm64> ]; then T=@; fi; echo "$T" > /f',
        "set_e": 'RUN set -eu; if [ "<probe>" = <arm64> ]; then echo @ > /f; fi; echo done > /g',
        "nested": ('RUN if [ -e /etc/passwd ]; then if [ "<probe>" = <arm64> ]; then echo @ > /f; fi; fi'),
        "nested_case": (
            'RUN for i in 1 2; do case "<probe>" in <arm64>) echo @$i >> /f;; *) echo $i >> /f;; esac; done'
        ),
        "subshell": 'RUN ( if [ "<probe>" = <arm64> ]; then echo @ > /f; fi )',
        "braces": 'RUN { [ "<probe>" = <arm64> ] && echo @ > /f; } || true',
        "dpkg": 'RUN [ "$(dpkg --print-architecture)" != arm64 ] || echo @ > /f',
        "rpm": "RUN if [ \"$(rpm --eval '%{_arch}')\" = aarch64 ]; then echo @ > /f; fi",
        "apk": 'RUN if [ "$(apk --print-arch)" = aarch64 ]; then echo @ > /f; fi',
        "arch": 'RUN if [ "$(arch)" = aarch64 ]; then echo @ > /f; fi',
        "backquotes": 'RUN if [ "`uname -m`" = aarch64 ]; then echo @ > /f; fi',
        "platform": 'RUN if [ "$TARGETPLATFORM" = linux/arm64 ]; then echo @ > /f; fi',
        "joined_words": 'RUN if [ "x$TARGETARCH" = "xarm64" ]; then echo @ > /f; fi',
        "one_word": 'RUN if [ "linux-$(uname -m)-gnu" = linux-aarch64-gnu ]; then echo @ > /f; fi',
        "env": 'ENV WHERE=on-$TARGETARCH\nRUN if [ "$WHERE" = on-arm64 ]; then echo @ > /f; fi',
        "argument": 'ARG FLAVOUR=small\nRUN if [ "$FLAVOUR" = large ]; then echo @ > /f; fi',
        "emptiness": 'ARG NOTHING=\nRUN if [ -n "$NOTHING" ]; then echo @ > /f; else echo a > /f; fi',
        "status_kept": 'RUN if [ "<probe>" = <arm64> ]; then echo @ > /f; else false; fi; echo $? > /g',
        "exit_at_the_end": 'RUN if [ "<probe>" = <arm64> ]; then echo @ > /f; exit 0; fi; echo a > /f',
        "used_constant": 'RUN echo "<probe>" > /g; if [ "<probe>" = <arm64> ]; then echo @ > /f; fi',
        "bash_brackets": 'RUN if [[ "<probe>" == <arm64> ]]; then echo @ > /f; fi',
        "bash_brackets_glob": 'RUN if [[ "$(uname -m)" == aarch* ]]; then echo @ > /f; fi',
        "bash_brackets_or": 'RUN if [[ "<probe>" == <s390x> || "<probe>" == <arm64> ]]; then echo @ > /f; fi',
        "double_equals": 'RUN if [ "<probe>" == <arm64> ]; then echo @ > /f; fi',
        "exec_form": 'RUN ["/bin/sh", "-c", "if [ \\"$TARGETARCH\\" = arm64 ]; then echo @ > /f; fi"]',
        "exec_form_bash": (
            'RUN ["/bin/bash", "-euo", "pipefail", "-c", "if [[ $TARGETARCH == arm64 ]]; '
            'then echo @ > /f; fi"]'
        ),
        "sh_inside": "RUN sh -c 'if [ \"$TARGETARCH\" = arm64 ]; then echo @ > /f; fi'",
        "spacing": (
            'RUN if [ "<probe>" = <arm64> ]; then echo a > /f; fi',
            'RUN if   [ "<probe>"  =  <arm64> ] ;  then  echo a >/f ; fi',
        ),
        "quoting": (
            'RUN if [ "<probe>" = <arm64> ]; then echo a > /f; fi',
            "RUN if [ \"<probe>\" = '<arm64>' ]; then echo a > /f; fi",
        ),
    }
)
