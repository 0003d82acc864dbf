#!/usr/bin/env bash
# Sets up, builds and shows the main job: a model that answers at once and gets faster while it runs.
#
#   tools/demo.sh            the digit classifier of samples/digits
#   tools/demo.sh MODEL      a model of yours (.onnx or .xcg)
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
# A relative MODEL is meant from where the user stands.
[ $# = 0 ] || set -- "$(cd "$OLDPWD" && realpath -- "$1")" "${@:2}"

tools/setup.sh --no-python
cmake --preset release
cmake --build build/release --target xc_demo_digits xc -j "${XC_JOBS:-$(nproc)}"
exec build/release/bin/xc_demo_digits "$@"
