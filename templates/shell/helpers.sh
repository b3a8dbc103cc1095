say() { printf '%s\n' "$*" >&2; }

# demand_host ID VERSION MACHINE FILE NAME: stop on a host that the plan is not for; "" is any.
demand_host() {
    found=$(
        [ -r /etc/os-release ] || exit 0
        # shellcheck source=/dev/null
        . /etc/os-release
        printf '%s %s' "${ID:-unknown}" "${VERSION_ID:-}"
    ) || found=
    machine=$(uname -m)
    fits=yes
    [ -z "$1" ] || [ "${found%% *}" = "$1" ] || fits=no
    case "${found#* }" in "$2" | "$2".*) ;; *) [ -z "$2" ] || fits=no ;; esac
    [ -z "$3" ] || [ "$machine" = "$3" ] || fits=no
    [ -z "$4" ] || [ -e "$4" ] || fits=no
    [ "$fits" = yes ] || {
        say "error: this plan is for $5; this host is ${found:-a system without os-release} on $machine: nothing was changed"
        exit 4
    }
}

# show WORD...: a command as it can be typed; a control character is shown as ^X, a byte beyond ASCII as M-X.
show() {
    printf '+'
    for word in "$@"; do
        case "$word" in
            '' | *[!A-Za-z0-9_./:=@%,+-]*)
                word=$(printf '%s.' "$word" | sed "s/'/'\\\\''/g" | cat -vt)
                printf " '%s'" "${word%.}"
                ;;
            *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
}

# run WORD...: run a command, or show it where nothing is to be changed.
run() {
    if [ "$dry_run" = yes ]; then show "$@"; else "$@"; fi
}

# begin TITLE: the step that is at work.
begin() {
    title=$1
    say "--- $title"
}

# as_planned: the step has nothing left to do.
as_planned() { say "    is as planned"; }

# work: the step changes something; marks of other versions of this script say nothing any more.
work() {
    changed=$((changed + 1))
    [ "$dry_run" = yes ] && return 0
    for other in "${state%/*}"/script-*; do
        [ "$other" = "$state" ] || rm -rf -- "$other"
    done
}

# again STEP...: these steps rest on what changes, and have to be done again.
again() {
    [ "$dry_run" = yes ] && return 0
    for step in "$@"; do rm -f -- "$state/$step"; done
}

# mark STEP: remember that a step has run whose result cannot be tested.
mark() {
    [ "$dry_run" = yes ] || { mkdir -p -- "$state" && : >"$state/$1"; }
}

# is_marked STEP
is_marked() { [ -f "$state/$1" ]; }

boot_id() { cat /proc/sys/kernel/random/boot_id 2>/dev/null || echo unknown; }

# needs_reboot: the changes of the step take effect only after a reboot.
needs_reboot() {
    [ "$dry_run" = yes ] || { mkdir -p -- "$state" && boot_id >"$state/reboot"; }
    reboot_ahead=yes
}

# runs_other_module VERSION: whether a module of another version is loaded.
runs_other_module() {
    [ -r /sys/module/nvidia/version ] && [ "$(cat /sys/module/nvidia/version)" != "$1" ]
}

# wait_for_reboot [VERSION]: stop until the machine has rebooted, if that is needed.
wait_for_reboot() {
    if [ "$dry_run" = yes ]; then
        if [ "$reboot_ahead" = yes ]; then
            say "    here the script stops: reboot, then start it again"
        else
            say "    is not needed"
        fi
        return 0
    fi
    if [ -f "$state/reboot" ]; then
        if [ "$(cat -- "$state/reboot")" = "$(boot_id)" ]; then stop_for_reboot; fi
        rm -f -- "$state/reboot"
        say "    was done"
    elif [ $# -gt 0 ] && runs_other_module "$1"; then
        stop_for_reboot
    else
        say "    is not needed"
    fi
}

stop_for_reboot() {
    say "reboot now, then start this script again: it continues with the next step"
    exit 5
}

# has_sum FILE SHA256
has_sum() {
    [ -f "$1" ] || return 1
    if command -v sha256sum >/dev/null 2>&1; then
        sum=$(sha256sum -- "$1") || return 1
        sum=${sum#\\}
    else
        sum=$(openssl dgst -sha256 -r -- "$1") || return 1
    fi
    [ "${sum%% *}" = "$2" ]
}

# check_sum FILE SHA256: remove the file and stop when it is another one.
check_sum() {
    [ "$dry_run" = yes ] || has_sum "$1" "$2" || {
        rm -f -- "$1"
        say "error: $1 is not the file that was planned: its sha256 differs"
        exit 1
    }
}

# put FILE MODE: write standard input to FILE, whole or not at all.
put() {
    if [ "$dry_run" = yes ]; then
        show write "$1"
        cat >/dev/null
        return 0
    fi
    mkdir -p -- "$(dirname -- "$1")"
    cat >"$1.gpustack-new"
    chmod "$2" "$1.gpustack-new"
    mv -f -- "$1.gpustack-new" "$1"
}

# deb NAME: the version of an installed Debian package.
deb() {
    found=$(dpkg-query --show --showformat '${db:Status-Status} ${Version}\n' "$1" 2>/dev/null) || return 1
    case "$found" in 'installed '*) printf '%s\n' "${found#* }" ;; *) return 1 ;; esac
}

# has_deb NAME
has_deb() { deb "$1" >/dev/null; }

# is_held NAME: whether upgrades leave a Debian package alone.
is_held() { [ "$(dpkg-query --show --showformat '${db:Status-Want}' "$1" 2>/dev/null)" = hold ]; }

# no_deb NAME: whether no Debian package of that name (or pattern) is installed.
no_deb() { ! dpkg-query --show --showformat '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed; }

# has_rpm WORD: whether an rpm is installed: a name, a name with its version, or something that an rpm provides.
has_rpm() { rpm --query --quiet "$1" >/dev/null 2>&1 || rpm --query --quiet --whatprovides "$1" >/dev/null 2>&1; }

# no_rpm NAME: whether no rpm of that name (or pattern) is installed.
no_rpm() { [ -z "$(rpm --query --all "$1")" ]; }

# is_locked NAME: whether zypper leaves a package alone.
is_locked() { grep -qxF "solvable_name: $1" /etc/zypp/locks 2>/dev/null; }

# has_upstream_deb NAME VERSION: whether it is installed in VERSION, in any revision of the packaging.
has_upstream_deb() {
    found=$(deb "$1") || return 1
    case "${found#*:}" in "$2" | "$2"[-+.~]*) return 0 ;; *) return 1 ;; esac
}

# has_upstream_rpm NAME VERSION: whether it is installed in VERSION, in any release of the packaging.
has_upstream_rpm() {
    rpm --query --quiet "$1-$2" >/dev/null 2>&1 && return 0
    found=$(rpm --query --queryformat '%{VERSION}\n' "$1" 2>/dev/null) || return 1
    case "$found" in "$2" | "$2"[-+.~]*) return 0 ;; *) return 1 ;; esac
}

# is_path PATH
is_path() { [ -e "$1" ] || [ -L "$1" ]; }

# is_link PATH TARGET
is_link() { [ -L "$1" ] && [ "$(readlink -- "$1")" = "$2" ]; }

# check TITLE COMMAND WORD...: one check on a host without gpustack.
check() {
    checked=$1
    shift
    if [ "$dry_run" = yes ]; then
        say "    would check: $checked"
    elif "$@"; then
        say "    passed: $checked"
    else
        say "    FAILED: $checked"
        failed=$((failed + 1))
    fi
}

# check_part COMPONENT COMMAND WORD...: whether a part of a component is there; the words name it.
check_part() {
    part=$1
    test=$2
    shift 2
    check "$part: $*" "$test" "$@"
}

# end_checks NOTE: say what the checks do not prove; stop where one has failed.
end_checks() {
    say "    $1"
    [ "$failed" -eq 0 ] || {
        say "error: $failed of the checks failed"
        exit 1
    }
}

# cannot_check NOTE: nothing can be checked, which is not success.
cannot_check() {
    say "error: $1"
    [ "$dry_run" = yes ] || exit 1
}

# driver_answers VERSION: whether the driver answers, for every GPU in this version.
driver_answers() {
    answers=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null) || return 1
    [ -n "$answers" ] && ! printf '%s\n' "$answers" | grep -qvxF -e "$1"
}

# compiler_answers RELEASE: whether nvcc is of this release of CUDA.
compiler_answers() {
    nvcc=/usr/local/cuda-$1/bin/nvcc
    [ -x "$nvcc" ] || nvcc=nvcc
    "$nvcc" --version 2>/dev/null | grep -qF "release $1,"
}
