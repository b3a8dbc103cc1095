#!/bin/sh
# The steps of action.yml: its inputs are variables of the environment, so that no shell interprets them.
set -eu
environment=$RUNNER_TEMP/gpustack

install() {
    [ -x "$environment/bin/gpustack" ] && return
    "$GPUSTACK_PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
        printf '%s\n' "::error title=gpustack::$GPUSTACK_PYTHON is missing or older than Python 3.10: set the input python"
        exit 2
    }
    "$GPUSTACK_PYTHON" -m venv "$environment"
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check "$GITHUB_ACTION_PATH"
}

verify() {
    mkdir -p -- "$GPUSTACK_REPORTS"
    set -f # names are separated by spaces, and no pattern
    set -- --level "$GPUSTACK_LEVEL"
    for name in $GPUSTACK_REQUIRE; do set -- "$@" --require "$name"; done
    [ -z "$GPUSTACK_LOCK" ] || set -- "$@" --lock "$GPUSTACK_LOCK"
    [ -z "$GPUSTACK_CHECKS" ] || set -- "$@" --checks "$GPUSTACK_CHECKS"
    for pair in junit:xml sarif:sarif html:html json:json; do
        set -- "$@" --format "${pair%:*}" --output "$GPUSTACK_REPORTS/gpustack.${pair#*:}"
    done
    set -- "$@" --format github --
    for name in $GPUSTACK_COMPONENTS; do set -- "$@" "$name"; done
    code=0
    "$environment/bin/gpustack" verify "$@" || code=$?
    printf 'exit-code=%s\n' "$code" >>"$GITHUB_OUTPUT"
    exit "$code"
}

"$1"
