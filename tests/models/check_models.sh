#!/usr/bin/env bash
# Every model of onnxruntime/ beside this file, and every model and small network of the shared material where it is
# there, every case, in one JIT mode and thread count.
# usage: check_models.sh XC SHARED_DIR MODE THREADS REPEAT [fast]
# fast: the small networks alone, with fast numerics, within 0.02 of the value and 0.02; skipped (77) without them.
# Fails when a result differs or a step ran on a reference kernel.
set -uo pipefail
xc=$1 shared=$2 mode=$3 threads=$4 repeat=$5
here=$(cd "$(dirname "$0")" && pwd)
shopt -s nullglob
folders=("$here"/onnxruntime/*/ "$shared"/models/*/ "$shared"/bench/small/*/) options=()
if [ "${6:-}" = fast ]; then
  folders=("$shared"/bench/small/*/) options=(--set numerics=fast --rtol 0.02 --atol 0.02)
  [ ${#folders[@]} -gt 0 ] || { echo "skipped: no networks at $shared"; exit 77; }
fi
[ -d "$shared/models" ] || echo "no models at $shared"
failed=0
for folder in "${folders[@]}"; do
  out=$("$xc" check "$folder/model.onnx" "$folder"/case_*.npz --jit "$mode" --threads "$threads" --repeat "$repeat" "${options[@]}" 2>&1)
  status=$?
  if [ $status != 0 ] || ! grep -q 'reference kernels: none' <<<"$out"; then
    printf '%s (exit %d)\n%s\n' "$folder" $status "$out"
    failed=$((failed + 1))
  fi
done
[ $failed = 0 ] && echo "all agree: $mode, $threads threads, $repeat repeats"
exit $((failed > 0))
