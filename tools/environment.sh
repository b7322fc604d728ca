#!/bin/sh
# Make the environment VENV that the Makefile's commands run in, or bring it up to date.
#
#     tools/environment.sh VENV [PYTHON [LOCKED]]
#
# Where LOCKED is 1 it gets the wheels of the lock file for its Python, by hash, and no others.
#
# Files in VENV say what it is. `ready`: whole, and installed from nothing newer than itself. `made_by_make`: made
# here, so it may be removed and made anew, when another PYTHON is asked for, when its own starts no more, or when an
# earlier attempt did not come to its end. `locked_by.txt`: a copy of its lock file. An environment of the user's own
# is only installed into.
set -eu
cd "$(dirname -- "$0")/.."
venv=$1
wanted=${2:-}
locked=${3:-}

refuse() {
    echo "make: $*" >&2
    exit 2
}

# The minor versions that pyproject.toml allows.
# shellcheck disable=SC2046 # two words
set -- $(sed -n 's/^requires-python = ">=3\.\([0-9]*\),<3\.\([0-9]*\)"$/\1 \2/p' pyproject.toml)
oldest=$1
newest=$(($2 - 1))

# Print the version of a Python, such as 3.11, or nothing where it does not start.
version_of() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true
}

is_supported() {
    minor=${1#3.}
    [ "$minor" != "$1" ] && [ "$minor" -ge "$oldest" ] && [ "$minor" -le "$newest" ]
}

# Set `python` to the one that was asked for, or else to the first that will do.
choose_python() {
    if [ -n "$wanted" ]; then
        python=$wanted
        version=$(version_of "$python")
        [ -n "$version" ] || refuse "PYTHON=$python does not start; name a Python 3.$oldest to 3.$newest"
        is_supported "$version" ||
            refuse "PYTHON=$python is Python $version; name a Python 3.$oldest to 3.$newest, as in PYTHON=python3.$newest"
        return
    fi
    minor=$newest
    names=python3
    while [ "$minor" -ge "$oldest" ]; do
        names="$names python3.$minor"
        minor=$((minor - 1))
    done
    for python in $names; do
        version=$(version_of "$python")
        if is_supported "$version"; then return; fi
    done
    refuse "no Python 3.$oldest to 3.$newest found; name one, as in PYTHON=/usr/bin/python3.$newest"
}

make_anew() {
    [ -n "${python:-}" ] || choose_python
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        refuse "$python ($version) cannot make environments; apt-get install python3-venv, or name another with PYTHON="
    if [ -e "$venv" ]; then
        [ -e "$venv/made_by_make" ] || rmdir "$venv" 2>/dev/null ||
            refuse "$venv has no working Python $version and was not made here; remove it, or name another with VENV="
        rm -rf "$venv"
    fi
    echo "making $venv with $python, Python $version: a minute or two"
    mkdir -p "$venv"
    touch "$venv/made_by_make"
    "$python" -m venv "$venv"
}

is_locked() {
    cmp -s "$lock" "$venv/locked_by.txt"
}

install_locked() {
    pip="$venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps"
    grep '^pip==' "$lock" | $pip --require-hashes -r /dev/stdin
    $pip --require-hashes -r "$lock"
    PYTHONWARNINGS="ignore:Editable installation" $pip --no-build-isolation --editable .
    "$venv/bin/python" -m mxtrain.doctor >/dev/null # says on stderr why it cannot train
    cp "$lock" "$venv/locked_by.txt"
}

install() {
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null
    pip="$venv/bin/python -m pip install --quiet --disable-pip-version-check"
    # The parts in C, while pip looks for packages on one core; its own build takes them, or makes them where this cannot.
    "$venv/bin/python" setup.py --quiet build_ext --inplace >/dev/null 2>&1 &
    $pip --upgrade "pip>=23"
    # setuptools warns that a folder named mxtrain would hide this one, wherever a checkout is installed.
    PYTHONWARNINGS="ignore:Editable installation" $pip --editable ".[cpu,dev]"
    "$venv/bin/python" -m mxtrain.doctor --install cpu
}

present=$(version_of "$venv/bin/python")
[ -d "$venv/lib/python$present" ] || present= # the system's Python was replaced by a newer one
if [ -n "$wanted" ]; then choose_python; else version=$present; fi
if [ -n "$locked" ]; then
    [ -n "$version" ] || choose_python
    lock=locks/python$version-dev.txt
    [ -e "$lock" ] || refuse "LOCKED=1: there is no $lock; name a Python of locks/ with PYTHON=, or make one: make lock"
fi
if [ -z "$present" ] || [ "$present" != "$version" ]; then
    make_anew
elif [ ! -e "$venv/ready" ] && [ -e "$venv/made_by_make" ]; then
    make_anew
elif [ -n "$locked" ] && [ -e "$venv/made_by_make" ] && ! is_locked; then
    make_anew
elif ! is_supported "$present"; then
    refuse "$venv has Python $present, and 3.$oldest to 3.$newest will do; name another environment with VENV="
elif [ -e "$venv/ready" ] && { [ -z "$locked" ] || is_locked; } &&
    [ -z "$(find pyproject.toml setup.py mxtrain/native/*.[ch] -newer "$venv/ready")" ]; then
    exit 0
fi
rm -f "$venv/ready" "$venv/locked_by.txt"
if [ -n "$locked" ]; then install_locked; else install; fi
touch "$venv/ready"
