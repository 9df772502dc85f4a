"""Edits of commands that must not be decided from their text alone.

In each, a reader who takes the text at its word finds that an architecture cannot reach the word that changes, and
the shell reaches it; or it looks unsafe in that way. Does not belong here: plain branches (`branches`), and what no
reader can see, such as a program called `uname` out of a package or an archive: that probes are real is an assumption
(DESIGN §4.3).
"""

from __future__ import annotations

from typing import Final

from tests.oracle.kinds.tables import Table

KINDS: Final = Table(
    {
        # Names that do not mean what they say
        "function_uname": "RUN uname() { echo aarch64; }; <if-aarch64>",
        "function_keyword": "RUN function uname { echo aarch64; }; <if-aarch64>",
        "function_bracket": (
            'RUN ["/bin/bash", "-c", "function [ { true; }; if [ $TARGETARCH = arm64 ]; then echo @ > /f; fi"]'
        ),
        "function_test": 'RUN test() { true; }; if test "$TARGETARCH" = arm64; then echo @ > /f; fi',
        "function_true": "RUN true() { echo @ > /f; }; true",
        "function_in_arm": 'RUN if [ "$TARGETARCH" = amd64 ]; then uname() { echo aarch64; }; fi; <if-aarch64>',
        "function_sets": "RUN f() { TARGETARCH=arm64; }; f; <if-arm64>",
        "path_edited": "COPY --chmod=755 shim/uname /lies/uname\nRUN PATH=/lies:$PATH; <if-aarch64>",
        "path_edited_for_export": (
            "COPY --chmod=755 shim/uname /lies/uname\nRUN export PATH=/lies:$PATH && <if-aarch64>"
        ),
        "path_by_env": "COPY --chmod=755 shim/uname /lies/uname\nENV PATH=/lies:$PATH\nRUN <if-aarch64>",
        "path_by_argument": (
            "COPY --chmod=755 shim/uname /lies/uname\nARG PATH=/lies:/usr/bin:/bin\nRUN <if-aarch64>"
        ),
        "uname_by_copy": "COPY shim/uname /usr/local/bin/uname\nRUN <if-aarch64>",
        "uname_by_folder_copy": "COPY shim /usr/local/bin\nRUN <if-aarch64>",
        "uname_by_glob_copy": "COPY shim/un* /usr/local/bin/\nRUN <if-aarch64>",
        "uname_by_run": (
            "RUN printf '#!/bin/busybox sh\\necho aarch64\\n' > /usr/local/bin/uname; "
            "chmod 755 /usr/local/bin/uname\nRUN <if-aarch64>"
        ),
        "uname_by_same_run": (
            "RUN printf '#!/bin/busybox sh\\necho aarch64\\n' > /usr/local/bin/uname; "
            "chmod 755 /usr/local/bin/uname; <if-aarch64>"
        ),
        "uname_linked": (
            "RUN ln -s /usr/bin/uname /usr/local/bin/arch; rm /usr/bin/uname; "
            "echo 'echo aarch64' > /usr/bin/uname; chmod 755 /usr/bin/uname\nRUN <if-aarch64>"
        ),
        "uname_removed": (
            'RUN rm /usr/bin/uname\nRUN if [ "$(uname -m)" = x86_64 ]; then echo a > /f; else echo @ > /f; fi'
        ),
        "shell_replaced": (
            "RUN rm /bin/sh; printf '#!/bin/bash\\nTARGETARCH=arm64; eval \"$2\"\\n' > /bin/sh; "
            "chmod 755 /bin/sh\nRUN <if-arm64>"
        ),
        "uname_moved": "COPY shim/program /x\nRUN cd /usr/local/bin && cp /x uname\nRUN <if-aarch64>",
        "arch_moved": "COPY shim/program /x\nRUN cd /usr/local/bin && cp /x arch\n"
        'RUN if [ "$(arch)" = aarch64 ]; then echo @ > /f; else echo a > /f; fi',
        "apk_linked": "COPY shim/program /x\nRUN cd /usr/local/bin; ln -s /x apk\n"
        'RUN if [ "$(apk --print-arch)" = aarch64 ]; then echo @ > /f; else echo a > /f; fi',
        "rpm_by_copy": "COPY shim/program /usr/local/sbin/rpm\n"
        'RUN if [ "$(rpm --eval %_arch)" = aarch64 ]; then echo @ > /f; else echo a > /f; fi',
        "shell_copied": "COPY shim/shell /bin/sh\nRUN <if-arm64>",
        "shell_linked": "COPY shim/shell /x\nRUN ln -sf /x /bin/sh\nRUN <if-arm64>",
        "uname_mounted": "RUN --mount=type=bind,source=shim,target=/usr/local/bin <if-aarch64>",
        "hashed_uname": (
            "COPY --chmod=755 shim/uname /lies/uname\nRUN hash -p /lies/uname uname 2>/dev/null; <if-aarch64>"
        ),
        "alias": "RUN alias uname='echo aarch64; true'; eval '<if-aarch64>'",
        "disabled_builtin": (
            "COPY --chmod=755 shim/uname /usr/local/bin/test\n"
            'RUN enable -n test; if test "$TARGETARCH" = arm64; then echo @ > /f; fi'
        ),
        "other_option": 'RUN if [ "$(uname)" = Linux ]; then echo @ > /f; fi',
        "command_not_found_handle": "RUN command_not_found_handle() { echo @ > /f; }; nothing_like_this || true",
        # What runs before the text
        "bash_env": (
            "COPY shim/env.sh /env.sh\n"
            "ENV BASH_ENV=/env.sh\n"
            'RUN ["/bin/bash", "-c", "if [ \\"$TARGETARCH\\" = arm64 ]; then echo @ > /f; '
            'else echo a > /f; fi"]'
        ),
        "bash_env_by_argument": (
            "COPY shim/env.sh /env.sh\n"
            "ARG BASH_ENV=/env.sh\n"
            'RUN ["/bin/bash", "-c", "if [ \\"$TARGETARCH\\" = arm64 ]; then echo @ > /f; '
            'else echo a > /f; fi"]'
        ),
        "bash_env_for_child": "COPY shim/env.sh /env.sh\nENV BASH_ENV=/env.sh\nRUN bash -c '<if-arm64>'",
        "exported_function": "RUN env 'BASH_FUNC_uname%%=() { echo aarch64; }' bash -c '<if-aarch64>'",
        "function_by_env": 'ENV BASH_FUNC_uname%%="() { echo aarch64; }"\nRUN <if-aarch64>',
        "shellopts_by_env": (
            "ENV SHELLOPTS=noglob\n"
            'RUN echo /etc/pass* > /g; if [ "$TARGETARCH" = arm64 ]; then echo a > /f; '
            "else echo @ > /f; fi"
        ),
        "posixly_correct": "ENV POSIXLY_CORRECT=1\nRUN TARGETARCH=arm64 : ; <if-arm64>",
        # What the words come to
        "ifs": "RUN IFS=6; if [ $TARGETARCH = arm64 ]; then echo a > /f; else echo @ > /f; fi",
        "ifs_by_env": "ENV IFS=6\nRUN if [ $TARGETARCH = arm64 ]; then echo a > /f; else echo @ > /f; fi",
        "ifs_joins": 'RUN IFS=m; set -- ar 64; if [ "$*" = arm64 ]; then echo @ > /f; fi',
        "nocasematch": 'RUN shopt -s nocasematch; if [[ "$TARGETARCH" == AMD64 ]]; then echo @ > /f; fi',
        "nocasematch_case": 'RUN shopt -s nocasematch; case "$TARGETARCH" in AMD64) echo @ > /f;; esac',
        "extglob": 'RUN shopt -s extglob; if [[ "$TARGETARCH" == !(arm64) ]]; then echo @ > /f; fi',
        "nullglob": (
            "RUN shopt -s nullglob; if [ x$TARGETARCH* = y ]; then echo a > /f; else echo @ > /f; fi"
        ),
        "glob_unquoted": "RUN cd /; touch arm64; T='a*64'; if [ $T = arm64 ]; then echo @ > /f; fi",
        "unquoted_split": 'RUN T="x = x -o $TARGETARCH"; if [ $T = arm64 ]; then echo @ > /f; fi',
        "literal_quoted_apart": 'RUN if [ "$TARGETARCH" = am"d"\'6\'4 ]; then echo @ > /f; fi',
        "pattern_class": 'RUN case "$TARGETARCH" in [a]md6[0-9]) echo @ > /f;; esac',
        "pattern_question": 'RUN case "$TARGETARCH" in ?md64) echo @ > /f;; esac',
        "pattern_quoted_star": 'RUN case "$TARGETARCH" in "am*") echo a > /f;; am*) echo @ > /f;; esac',
        "pattern_by_variable": "RUN P='a*'; case \"$TARGETARCH\" in $P) echo @ > /f;; esac",
        "pattern_with_effect": (
            'RUN case "$TARGETARCH" in $(echo @ > /g; echo arm64)) echo a > /f;; *) echo b > /f;; esac'
        ),
        "brackets_regex": 'RUN if [[ "$TARGETARCH" =~ ^a.*4$ ]]; then echo @ > /f; fi',
        "brackets_less": 'RUN if [[ "$TARGETARCH" < b ]]; then echo @ > /f; fi',
        "brackets_unquoted_pattern": "RUN P='a*'; if [[ $TARGETARCH == $P ]]; then echo @ > /f; fi",
        "test_or": 'RUN if [ "$TARGETARCH" = arm64 -o "$TARGETARCH" = amd64 ]; then echo @ > /f; fi',
        "test_and": 'RUN if [ "$TARGETARCH" = amd64 -a -e /etc/passwd ]; then echo @ > /f; fi',
        "test_greater": 'RUN if [ "$TARGETARCH" \\< b ]; then echo @ > /f; fi',
        "test_redirected": 'RUN if [ "$TARGETARCH" > /arm64 ]; then echo @ > /f; fi',
        "test_bang_is_word": 'RUN X=!; if [ "$X" = "$TARGETARCH" ]; then echo a > /f; else echo @ > /f; fi',
        "test_missing_bracket": 'RUN if [ "$TARGETARCH" = amd64; then echo a > /f; else echo @ > /f; fi',
        "test_no_blanks": 'RUN if [ "$TARGETARCH"=arm64 ]; then echo @ > /f; fi',
        "test_too_many": 'RUN if [ "$TARGETARCH" = amd64 x ]; then echo a > /f; else echo @ > /f; fi',
        "test_numeric": 'RUN if [ "${#TARGETARCH}" -eq 5 ]; then echo @ > /f; fi',
        "double_equals_by_shell": 'RUN if [ "$TARGETARCH" == amd64 ]; then echo @ > /f; else echo b@ > /f; fi',
        "brackets_by_shell": 'RUN if [[ "$TARGETARCH" == amd64 ]]; then echo @ > /f; else echo b@ > /f; fi',
        "substring": 'RUN if [ "${TARGETARCH%64}" = amd ]; then echo @ > /f; fi',
        "indirect": 'RUN N=TARGETARCH; eval "V=\\$$N"; if [ "$V" = amd64 ]; then echo @ > /f; fi',
        "undeclared": 'RUN if [ "$TARGETOS" = linux ]; then echo a > /f; else echo @ > /f; fi',
        "declared_later": (
            'RUN if [ "$TARGETOS" = linux ]; then echo a > /f; else echo @ > /f; fi\nARG TARGETOS'
        ),
        "hidden_by_env": "ENV TARGETARCH=arm64\nRUN <if-arm64>",
        "hidden_by_later_env": "RUN true\nENV TARGETARCH=arm64\nRUN <if-arm64>",
        "default_not_ignored": (
            'ARG TARGETVARIANT=v8\nRUN if [ "$TARGETVARIANT" = v8 ]; then echo @ > /f; else echo b@ > /f; fi'
        ),
        # Assignments that hide
        "prefix_of_colon": "RUN TARGETARCH=arm64 :; <if-arm64>",
        "prefix_of_export": "RUN TARGETARCH=arm64 export X=1; <if-arm64>",
        "prefix_of_command": 'RUN TARGETARCH=arm64 true; if [ "$TARGETARCH" = amd64 ]; then echo @ > /f; fi',
        "prefix_of_function": "RUN f() { :; }; TARGETARCH=arm64 f; <if-arm64>",
        "posix_mode": "RUN set -o posix; TARGETARCH=arm64 :; <if-arm64>",
        "quoted_eval": "RUN e'v'al TARGETARCH=arm64; <if-arm64>",
        "eval": "RUN eval TARGETARCH=arm64; <if-arm64>",
        "variable_command": "RUN E=eval; $E TARGETARCH=arm64; <if-arm64>",
        "escaped_command": "RUN \\eval TARGETARCH=arm64; <if-arm64>",
        "command_builtin": "RUN command eval TARGETARCH=arm64; <if-arm64>",
        "source": "COPY shim/env.sh /env.sh\nRUN . /env.sh; <if-arm64>",
        "default_assigns": "RUN unset TARGETARCH; : ${TARGETARCH:=arm64}; <if-arm64>",
        "default_assigns_in_word": 'RUN TARGETARCH=; echo "${TARGETARCH:=arm64}" > /g; <if-arm64>',
        "default_assigns_in_test": (
            'RUN X=; if [ "${X:=arm64}" = y ]; then :; fi; if [ "$X" = arm64 ]; then echo @ > /f; fi'
        ),
        "arithmetic_assigns": 'RUN X=5; : $((X=6)); if [ "$X" = 6 ]; then echo @ > /f; fi',
        "arithmetic_command": 'RUN X=5; ((X++)); if [ "$X" = 6 ]; then echo @ > /f; fi',
        "let": 'RUN X=5; let X=6; if [ "$X" = 6 ]; then echo @ > /f; fi',
        "arithmetic_of_string": "RUN X='Y=6'; Y=5; : $((X)); if [ \"$Y\" = 6 ]; then echo @ > /f; fi",
        "read": "RUN echo arm64 > /g; read TARGETARCH < /g; <if-arm64>",
        "read_in_pipe": (
            'RUN echo arm64 | read TARGETARCH; if [ "$TARGETARCH" = arm64 ]; '
            "then echo @ > /f; else echo b@ > /f; fi"
        ),
        "printf_v": "RUN printf -v TARGETARCH arm64; <if-arm64>",
        "getopts": 'RUN set -- -a; X=b; getopts ab X; if [ "$X" = a ]; then echo @ > /f; fi',
        "mapfile": 'RUN echo arm64 > /g; mapfile -t X < /g; if [ "$X" = arm64 ]; then echo @ > /f; fi',
        "declare": "RUN declare TARGETARCH=arm64; <if-arm64>",
        "declare_upper": (
            'RUN declare -u TARGETARCH; TARGETARCH=amd64; if [ "$TARGETARCH" = AMD64 ]; then echo @ > /f; fi'
        ),
        "declare_integer": 'RUN declare -i X; X=2+3; if [ "$X" = 5 ]; then echo @ > /f; fi',
        "declare_nameref": "RUN declare -n N=TARGETARCH; N=arm64; <if-arm64>",
        "readonly": "RUN readonly TARGETARCH=arm64; <if-arm64>",
        "readonly_refused": "RUN (readonly X=1; X=2; echo @ > /g) 2>/dev/null; echo a@ > /f",
        "export": "RUN export TARGETARCH=arm64; <if-arm64>",
        "unset": (
            'RUN unset TARGETARCH; if [ "$TARGETARCH" = amd64 ]; then echo a > /f; else echo @ > /f; fi'
        ),
        "appended": 'RUN TARGETARCH+=x; if [ "$TARGETARCH" = amd64x ]; then echo @ > /f; fi',
        "array": "RUN TARGETARCH[0]=arm64; <if-arm64>",
        "array_compound": "RUN TARGETARCH=(arm64 x); <if-arm64>",
        "loop_variable": (
            'RUN for TARGETARCH in arm64 amd64; do if [ "$TARGETARCH" = arm64 ]; then echo @ > /f; fi; done'
        ),
        "loop_carries": 'RUN X=a; for i in 1 2; do if [ "$X" = b ]; then echo @ > /f; fi; X=b; done',
        "while_condition_assigns": 'RUN X=a; while X=b; do break; done; if [ "$X" = b ]; then echo @ > /f; fi',
        "assigned_in_condition": 'RUN X=a; if X=b; then :; fi; if [ "$X" = b ]; then echo @ > /f; fi',
        "assigned_after_and": 'RUN X=a; [ -e /etc/passwd ] && X=b; if [ "$X" = b ]; then echo @ > /f; fi',
        "assigned_in_braces": 'RUN X=a; { X=b; }; if [ "$X" = b ]; then echo @ > /f; fi',
        "assigned_in_subshell": 'RUN X=a; (X=b); if [ "$X" = a ]; then echo @ > /f; fi',
        "assigned_in_substitution": 'RUN X=a; Y=$(X=b; echo c); if [ "$X" = a ]; then echo @ > /f; fi',
        "assigned_in_background": 'RUN X=a; X=b & wait; if [ "$X" = a ]; then echo @ > /f; fi',
        "assigned_in_pipe": 'RUN X=a; true | X=b; if [ "$X" = a ]; then echo @ > /f; fi',
        "lastpipe": 'RUN shopt -s lastpipe; X=a; true | X=b; if [ "$X" = b ]; then echo @ > /f; fi',
        "assigned_two_ways": (
            "RUN if [ -e /nothing ]; then TARGETARCH=amd64; else TARGETARCH=arm64; fi; <if-arm64>"
        ),
        "select_variable": (
            'RUN X=b; select X in a; do break; done <<< 1 2>/dev/null; if [ "$X" = a ]; then echo @ > /f; fi'
        ),
        "redirected_variable": 'RUN X=a; exec {X}>/g; if [ "$X" != a ]; then echo @ > /f; fi',
        "trap": "RUN trap 'TARGETARCH=arm64' USR1; kill -USR1 $$; <if-arm64>",
        "trap_exit": ("RUN trap 'echo @ > /f' EXIT; if [ \"$TARGETARCH\" = arm64 ]; then exit 0; fi; exit 0"),
        "trap_debug": "RUN trap 'TARGETARCH=arm64' DEBUG; <if-arm64>",
        # The text looks at itself
        "exec_trace": 'RUN exec 2> /log; set -x; if [ "$TARGETARCH" = @ ]; then echo a > /f; fi',
        "trace_redirected": 'RUN { set -x; [ "$TARGETARCH" = @ ] || true; } 2> /log',
        "trace_by_option": 'RUN ["/bin/sh", "-xc", "exec 2> /log; [ \\"$TARGETARCH\\" = @ ] || true"]',
        "verbose": "RUN exec 2> /log; set -v; eval 'if [ \"$TARGETARCH\" = @ ]; then echo a > /f; fi'",
        "line_number": (
            (
                'RUN ["/bin/bash", "-c", "if [ $TARGETARCH = arm64 ]; '
                'then\\n echo a\\nfi\\necho $LINENO > /f"]'
            ),
            ('RUN ["/bin/bash", "-c", "if [ $TARGETARCH = arm64 ]; then echo a\\nfi\\necho $LINENO > /f"]'),
        ),
        "dollar_zero": 'RUN echo "$0" > /f; if [ "$0" = /bin/sh ]; then echo @ > /g; fi',
        "own_command_line": 'RUN cat /proc/$$/cmdline > /g; if [ "$TARGETARCH" = arm64 ]; then echo @ > /f; fi',
        "bash_command": (
            "RUN trap 'echo $BASH_COMMAND >> /log' DEBUG; if [ \"$TARGETARCH\" = @ ]; then echo a > /f; fi"
        ),
        "execution_string": (
            'RUN echo "$BASH_EXECUTION_STRING" > /g; if [ "$TARGETARCH" = arm64 ]; then echo @ > /f; fi'
        ),
        "declared_functions": 'RUN f() { if [ "$TARGETARCH" = arm64 ]; then echo @; fi; }; declare -f f > /g; f',
        "last_argument": 'RUN test "$TARGETARCH" = @; echo "$_" > /f',
        "status_of_if": 'RUN false; if [ "$TARGETARCH" = arm64 ]; then echo a@ > /f; fi; echo $?@ > /g',
        # Blanks that are more than a gap between two words
        "blanks_listed": ("RUN set  | grep EXECUTION > /f || true", "RUN set | grep EXECUTION > /f || true"),
        "blanks_listed_by_variable": (
            "ENV LIST=set\nRUN $LIST  | grep EXECUTION > /f || true",
            "ENV LIST=set\nRUN $LIST | grep EXECUTION > /f || true",
        ),
        "blanks_listed_when_exported": (
            "ENV N=BASH_EXECUTION_STRING\nRUN export $N;  env | grep EXECUTION > /f || true",
            "ENV N=BASH_EXECUTION_STRING\nRUN export $N; env | grep EXECUTION > /f || true",
        ),
        "blanks_declared": (
            "RUN 2> /g declare -p  | grep EXECUTION > /f || true",
            "RUN 2> /g declare -p | grep EXECUTION > /f || true",
        ),
        "blanks_escaped": ("RUN echo a\\  b > /f", "RUN echo a\\ b > /f"),
        "blanks_in_index": (
            'RUN declare -A X; X[a  b]=1; echo "${!X[*]}" > /f',
            'RUN declare -A X; X[a b]=1; echo "${!X[*]}" > /f',
        ),
        "blanks_in_default": ('RUN echo "${NONE:-a  b}" > /f', 'RUN echo "${NONE:-a b}" > /f'),
        "blanks_in_eval": ("RUN eval 'echo \"a  b\"' > /f", "RUN eval 'echo \"a b\"' > /f"),
        "blanks_in_command_line": (
            "RUN true  && cat /proc/$$/cmdline > /f",
            "RUN true && cat /proc/$$/cmdline > /f",
        ),
        "blanks_between_quotes": ("RUN echo 'a'  'b'\"  c\" > /f", "RUN echo 'a' 'b'\" c\" > /f"),
        "blanks_after_a_mark": ("RUN echo a#b  c > /f # d  e", "RUN echo a#b c > /f # d e"),
        # What ends a script, and what does not
        "exit_in_arm": 'RUN if [ "$TARGETARCH" = amd64 ]; then exit 0; fi; echo @ > /f',
        "exit_in_subshell": 'RUN (exit 0); if [ "$TARGETARCH" = amd64 ]; then echo @ > /f; fi',
        "exit_in_substitution": 'RUN X=$(exit 0); if [ "$TARGETARCH" = amd64 ]; then echo @ > /f; fi',
        "exit_in_function": 'RUN f() { exit 0; }; if [ "$TARGETARCH" = arm64 ]; then f; fi; echo @ > /f',
        "exit_behind_pipe": "RUN exit 0 | true; echo @ > /f",
        "exit_in_background": "RUN exit 0 & wait; echo @ > /f",
        "return_in_function": 'RUN f() { if [ "$TARGETARCH" = amd64 ]; then return 0; fi; echo @ > /f; }; f',
        "break_in_loop": (
            'RUN for i in 1 2; do if [ "$TARGETARCH" = amd64 ]; then break; fi; echo @ > /f; done'
        ),
        "set_u": 'RUN (set -u; if [ "$NONE" = x ]; then :; fi; echo @ > /f) 2>/dev/null; true',
        "set_u_default": 'RUN set -u; if [ "${NONE:-}" = x ]; then echo a > /f; else echo @ > /f; fi',
        "errexit": 'RUN (set -e; [ "$TARGETARCH" = amd64 ]; echo @ > /f); true',
        "errexit_and": 'RUN (set -e; [ "$TARGETARCH" = arm64 ] && echo a > /g; echo @ > /f); true',
        "errexit_last_and": (
            'RUN (set -e; f() { [ "$TARGETARCH" = arm64 ] && echo a > /g; }; f; echo @ > /f); true'
        ),
        "errexit_suppressed": "RUN f() { set -e; false; echo @ > /f; }; if f; then :; fi",
        "errexit_negated": 'RUN set -e; ! [ "$TARGETARCH" = amd64 ]; echo @ > /f',
        "errexit_in_substitution": "RUN (set -e; X=$(false; echo y); echo @$X > /f); true",
        "pipe_status": 'RUN set -o pipefail; [ "$TARGETARCH" = arm64 ] | cat; echo $?@ > /f',
        "fall_through": 'RUN case "$TARGETARCH" in amd64) echo a > /g;& arm64) echo @ > /f;; esac',
        "go_on_testing": 'RUN case "$TARGETARCH" in amd64) echo a > /g;;& a*) echo @ > /f;; esac',
        "noexec": "RUN (set -n; echo a > /g; <if-arm64>); echo done@ > /h",
        "and_or_without_precedence": 'RUN [ "$TARGETARCH" = amd64 ] || true && echo @ > /f',
        "negated_list": 'RUN ! [ "$TARGETARCH" = arm64 ] && echo @ > /f || true',
        "not_a_test": 'RUN if [ "$TARGETARCH" = arm64 ] | true; then echo @ > /f; fi',
        "background_test": 'RUN if [ "$TARGETARCH" = arm64 ] & then echo @ > /f; fi; wait',
        "redirection_of_if": 'RUN if [ "$TARGETARCH" = arm64 ]; then echo a; fi > /@',
        "redirection_of_test": 'RUN if [ "$TARGETARCH" = arm64 ] > /@; then echo a; fi',
        "redirection_fails": (
            'RUN if [ "$TARGETARCH" = amd64 ] < /nothing; then echo a > /f; else echo @ > /f; fi; true'
        ),
        "substitution_in_test": 'RUN if [ "$(echo @ > /g; uname -m)" = aarch64 ]; then echo a > /f; fi',
        "substitution_of_pipe": 'RUN if [ "$(uname -m | sed s/x86_64/aarch64/)" = aarch64 ]; then echo @ > /f; fi',
        "comment_in_text": 'RUN if [ "$TARGETARCH" = arm64 ]; then echo a > /f; fi # ; else echo @ > /f; fi',
        "here_string": 'RUN if grep -q amd64 <<< "$TARGETARCH"; then echo @ > /f; fi',
        "positional": 'RUN set -- "$TARGETARCH"; if [ "$1" = amd64 ]; then echo @ > /f; fi',
        "time_keyword": 'RUN time [ "$TARGETARCH" = amd64 ] && echo @ > /f || true',
        "coprocess": 'RUN coproc X { cat; }; if [ "$X" != a ]; then echo @ > /f; fi',
        "exec_form_is_no_shell": (
            'RUN ["/bin/sh", "-c", "if [ \\"$1\\" = amd64 ]; then echo @ > /f; fi", "x", "amd64"]'
        ),
        "other_shell": (
            'RUN ["/bin/busybox", "sh", "-c", "if [ \\"$TARGETARCH\\" = amd64 ]; then echo @ > /f; fi"]'
        ),
    }
)
