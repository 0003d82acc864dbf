#!/usr/bin/env bash
# Strict numerics: every model and small network gives the same bits in every mode and for every
# number of threads, while plans with and without fused regions take turns.
# usage: check_strict.sh XC SHARED_DIR
# Skipped (77) without the material.
set -uo pipefail
xc=$1 shared=$2
[ -d "$shared/models" ] || { echo "skipped: no models at $shared"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0 compared=0 apart=0
# run OUT MODEL CASE OPTIONS...: the outputs of the last of some runs, in strict mode.
run() {
  local out=$1 model=$2 case=$3
  shift 3
  "$xc" run "$model" --inputs "$case" --outputs "$work/$out.npz" --set numerics=strict "$@" >"$work/log" 2>&1 ||
    { echo "$model $*: $(tail -2 "$work/log")"; return 1; }
}
for folder in "$shared"/models/*/ "$shared"/bench/small/*/; do
  rm -f "$work/want.npz"
  for case in "$folder"/case_0.npz "$folder"/case_1.npz; do
    [ -f "$case" ] || continue
    model=$folder/model.onnx
    [ -f "$work/want.npz" ] && mv "$work/want.npz" "$work/other.npz"
    run want "$model" "$case" --jit off --threads 1 || { failed=$((failed + 1)); continue; }
    # Other inputs have to show.
    [ "$case" = "$folder/case_1.npz" ] && ! cmp -s "$work/want.npz" "$work/other.npz" && apart=$((apart + 1))
    for way in "--jit off --threads 2" "--jit sync --threads 1 --repeat 3" \
               "--jit sync --threads 2 --repeat 5 --set force_swap=1" "--jit auto --threads 2 --repeat 200"; do
      # shellcheck disable=SC2086  # several words
      if ! run got "$model" "$case" $way || ! cmp "$work/want.npz" "$work/got.npz"; then
        echo "$case $way: other bits than mode off"
        failed=$((failed + 1))
      fi
      compared=$((compared + 1))
    done
  done
done
[ $compared -gt 0 ] && [ $apart -gt 0 ] || failed=1
[ $failed = 0 ] && echo "the same bits in $compared comparisons"
exit $((failed > 0))
