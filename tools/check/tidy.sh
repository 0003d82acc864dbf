#!/usr/bin/env bash
# Runs clang-tidy with the checks of .clang-tidy over the library, or over files that match PATTERN, and
# prints each finding once. Findings are advice: the exit status is 0.
#
#   tools/check/tidy.sh [PATTERN]
set -euo pipefail
cd "$(dirname "$0")/../.."
pattern=${1:-"$PWD/(src|capi)/"}

# A build folder of its own: clang-tidy cannot read gcc's precompiled headers.
cmake --preset dev -B build/tidy -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_C_COMPILER=clang-19 \
  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DXC_TESTS=OFF -DXC_SAMPLES=OFF >/dev/null
run-clang-tidy-19 -p build/tidy -quiet -j "${XC_JOBS:-$(nproc)}" "$pattern" 2>/dev/null |
  awk '/: (warning|error): / { show = !seen[$0]++ } /^(\[|clang-tidy-19 |$)|warnings? generated/ { next } show'
