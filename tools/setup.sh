#!/usr/bin/env bash
# Installs what xc is built from. Idempotent: run it as often as you like; it takes a moment when there
# is nothing to do.
#
#   tools/setup.sh            compiler, libraries, oneDNN, a Python environment in .venv
#   tools/setup.sh --dev      also clang, lld, clang-format and clang-tidy
#   tools/setup.sh --no-python  leaves the Python environment out
#
# System packages come through apt (as root, or with sudo when some are missing). oneDNN comes from the
# distribution when it has version 3, otherwise from its published wheels, unpacked into .deps/onednn.
# Nothing outside the checkout is touched except by apt.
set -euo pipefail
cd "$(dirname "$0")/.."

with_python=1
packages=(g++ cmake ninja-build ccache pkg-config
          llvm-19-dev zlib1g-dev libzstd-dev
          libkissfft-dev libre2-dev libutf8proc-dev
          libjpeg-dev libpng-dev libwebp-dev libtiff-dev libopenjp2-7-dev
          nlohmann-json3-dev libprotozero-dev libcli11-dev libminizip-dev libfmt-dev libxxhash-dev doctest-dev
          python3 python3-venv python3-dev python3-pip)
for argument in "$@"; do
  case "$argument" in
    --dev) packages+=(clang-19 libclang-rt-19-dev lld-19 clang-format-19 clang-tidy-19) ;;
    --no-python) with_python=0 ;;
    *) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# --- system packages ---------------------------------------------------------------------------------

missing_packages() {
  local installed package
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
  for package in "${packages[@]}"; do
    grep -qx "$package installed" <<<"$installed" || echo "$package"
  done
}

# Runs a command as root, or says what root would have to run.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    sudo "$@"
  else
    fail "neither root nor sudo here. Ask an administrator to run:
  apt-get install --no-install-recommends ${missing[*]}"
  fi
}

install_packages() {
  mapfile -t missing < <(missing_packages)
  if [ ${#missing[@]} = 0 ]; then
    say "system packages: all there"
    return
  fi
  say "system packages: installing ${missing[*]}"
  as_root apt-get update -q
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}" ||
    fail "apt could not install all of: ${missing[*]}
  Debian 12 and 13 and Ubuntu 24.04 have every one of them; elsewhere add a source for the missing ones
  (LLVM: apt.llvm.org)."
}

if command -v apt-get >/dev/null; then
  # Debian 13 and later have oneDNN 3.
  dnnl_candidate=$(apt-cache policy libdnnl-dev 2>/dev/null | sed -n 's/ *Candidate: *//p')
  if dpkg --compare-versions "${dnnl_candidate:-0}" ge 3 2>/dev/null &&
     [ "$dnnl_candidate" != "(none)" ]; then
    packages+=(libdnnl-dev)
  fi
  install_packages
else
  say "no apt here; make sure that these (Debian's names) are installed: ${packages[*]}"
fi

# --- Python ------------------------------------------------------------------------------------------

# The first python3 that can make an environment and compile extensions.
find_python() {
  local candidate
  for candidate in "${XC_PYTHON_EXECUTABLE:-python3}" /usr/bin/python3; do
    if "$candidate" -c '
import ensurepip, os, sysconfig, sys, venv
sys.exit(sys.version_info < (3, 10) or not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  fail "no usable python3 (3.10 or newer, with venv and its headers)"
}

# make_venv DIR: an environment with pip.
make_venv() {
  [ -x "$1/bin/pip" ] || "$(find_python)" -m venv "$1"
}

# Succeeds when the stamp FILE was written for the current content of REQUIREMENTS.
is_current() { [ -f "$1" ] && cmp -s "$1" "$2"; }

# --- oneDNN ------------------------------------------------------------------------------------------

install_onednn() {
  local requirements=tools/requirements/onednn.txt dir=.deps/onednn
  if is_current $dir/stamp $requirements; then
    say "oneDNN: in $dir"
    return
  fi
  [ "$(uname -m)" = x86_64 ] ||
    fail "oneDNN 3 is neither in this distribution nor published for $(uname -m).
  Build it (github.com/oneapi-src/oneDNN) and configure with -Ddnnl_DIR=<prefix>/lib/cmake/dnnl."
  say "oneDNN: fetching into $dir"
  make_venv .venv
  rm -rf $dir
  .venv/bin/pip install -q --disable-pip-version-check --no-deps --require-hashes \
    --prefix "$PWD/$dir" -r $requirements
  # The wheels hold each of the library's three names as a copy of its own.
  ln -sf libdnnl.so.3.2 $dir/lib/libdnnl.so.3
  ln -sf libdnnl.so.3 $dir/lib/libdnnl.so
  cp $requirements $dir/stamp
}

if [[ " ${packages[*]} " == *" libdnnl-dev "* ]]; then
  say "oneDNN: from the distribution"
else
  install_onednn
fi

# --- Python environment ------------------------------------------------------------------------------

if [ $with_python = 1 ]; then
  if is_current .venv/stamp tools/requirements/python.txt; then
    say "Python environment: in .venv"
  else
    say "Python environment: installing into .venv"
    make_venv .venv
    .venv/bin/pip install -q --disable-pip-version-check -r tools/requirements/python.txt
    cp tools/requirements/python.txt .venv/stamp
  fi
fi
say "done"
