set -eu
umask 022
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mkdir -p -- "$prefix"
cache=$(mktemp -d "$prefix/.gpustack.XXXXXX")
trap 'rm -rf -- "$cache"' EXIT
trap 'exit 130' INT TERM
chmod 0755 "$cache"

# begin PATH: whether this release is still missing; then an empty folder waits for its files.
begin() {
    target=$prefix/$1
    staging=$cache/staging
    if [ -e "$target" ]; then
        printf '%s\n' "$1 is there"
        return 1
    fi
    printf '%s\n' "installing $1"
    mkdir -- "$staging" || exit 1
}

# add FILE SHA256: unpack an archive without its first folder.
add() {
    if [ "$(sha256sum <"$1")" != "$2  -" ]; then
        printf '%s\n' "error: $1 is not the planned file: its sha256 differs" >&2
        exit 1
    fi
    tar --extract --file="$1" --directory="$staging" --strip-components=1 --no-same-owner --no-same-permissions
    rm -f -- "$1"
}

# end: a folder is there as a whole, or not at all.
end() {
    [ -e "$staging/lib64" ] || [ ! -d "$staging/lib" ] || ln -s lib "$staging/lib64"
    chmod -R a+rX -- "$staging"
    mkdir -p -- "${target%/*}"
    mv -T -- "$staging" "$target"
}

# offer FILE: put a module file in place, after the files that it names.
offer() {
    mkdir -p -- "$prefix/${1%/*}"
    cp -- "$here/$1" "$cache/module"
    mv -- "$cache/module" "$prefix/$1"
}

finish() {
    printf '%s\n' "done; Lmod: module use $prefix/modulefiles/lmod" \
        "Environment Modules: module use $prefix/modulefiles/tcl"
}
