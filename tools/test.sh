#!/usr/bin/env bash
# Sets up, builds and runs all tests.
#
#   tools/test.sh [CTEST OPTION...]   release build, every test, the Python tests among them
#   tools/test.sh --asan [...]        the tests labelled asan under address and undefined-behaviour sanitizers
#   tools/test.sh --tsan [...]        the tests labelled tsan under the thread sanitizer
#
# XC_JOBS sets how many compile or test at once (default: the number of cores). A test that fails is run once
# more with nothing beside it: what passes then is listed as such and does not fail the run, for a machine that
# others use can starve a test of its time; what fails twice does.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
case "${1:-}" in
  --asan | --tsan) preset=${1#--}; shift ;;
  -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
jobs=${XC_JOBS:-$(nproc)}

configure=(cmake --preset "$preset")
ctest=(ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$jobs")
target=all
if [ "$preset" = release ]; then
  tools/setup.sh
  if [ -f bindings/python/CMakeLists.txt ]; then
    configure+=(-DXC_PYTHON=ON "-DPython_EXECUTABLE=$PWD/.venv/bin/python")
  fi
else
  tools/setup.sh --no-python
  ctest+=(-L "$preset")
  target=xc_tests_$preset
  # Half of gcc's time for instrumented code, and a second compiler that reads everything (setup.sh --dev).
  if [ ! -f "build/$preset/CMakeCache.txt" ] && command -v clang++-19 > /dev/null; then
    configure+=(-DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19)
  fi
  suppressions=$PWD/tools/sanitize
  export ASAN_OPTIONS="detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1:${ASAN_OPTIONS:-}"
  export LSAN_OPTIONS="suppressions=$suppressions/lsan.supp:print_suppressions=0:${LSAN_OPTIONS:-}"
  export UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}"
  export TSAN_OPTIONS="suppressions=$suppressions/tsan.supp:second_deadlock_stack=1:${TSAN_OPTIONS:-}"
  # gcc's thread sanitizer cannot place its shadow memory under the widest address randomisation.
  if [ "$preset" = tsan ] && setarch "$(uname -m)" -R true 2>/dev/null; then
    ctest=(setarch "$(uname -m)" -R "${ctest[@]}")
  fi
fi

"${configure[@]}"
cmake --build "build/$preset" --target "$target" -j "$jobs"
"${ctest[@]}" "$@" && exit

failed=build/$preset/Testing/Temporary/LastTestsFailed.log
[ -s "$failed" ] || exit 1
first=$(cut -d: -f2 "$failed")
printf '\n=== failed in company, once more alone:\n%s\n' "$first"
"${ctest[@]}" "$@" --rerun-failed -j 1
printf '=== passed alone, failed in company (look into them):\n%s\n' "$first"
