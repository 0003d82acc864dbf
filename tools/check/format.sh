#!/usr/bin/env bash
# Checks the layout of all C and C++ files against .clang-format; --fix rewrites them.
set -euo pipefail
cd "$(dirname "$0")/../.."
mode=(--dry-run --Werror)
[ "${1:-}" != --fix ] || mode=(-i)
git ls-files '*.h' '*.hpp' '*.c' '*.cpp' | xargs -r "${CLANG_FORMAT:-clang-format-19}" "${mode[@]}"
