#!/usr/bin/env bash
# Installs the build into a fresh prefix, builds a C program through pkg-config and every sample through
# find_package(xc), and runs them with nothing of the build tree in reach.
#
#   install_test.sh BUILD_DIR [CMAKE [LIBDIR]]
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
build=$1
cmake=${2:-cmake}
libdir=${3:-lib}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
"$cmake" --install "$build" --prefix "$prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
# Moving it shows that no path was baked in.
mv "$prefix" "$work/moved"
prefix=$work/moved
"$source_dir/tools/check/runpath.py" --relocatable "$prefix/$libdir"/libxcrt*.so.*.*.* "$prefix"/bin/*

# The sonames say what xc/version.h and find_package() promise: before 1.0 a minor version.
abi=$(sed -n 's/^Version: \(.*\)\.[0-9]*$/\1/p' "$prefix/$libdir/pkgconfig/xc.pc")
[ "${abi%%.*}" = 0 ] || abi=${abi%%.*}
for library in "$prefix/$libdir"/libxcrt*.so.*.*.*; do
  wanted=$(basename "${library%%.so.*}").so.$abi
  readelf -d "$library" | grep -qF "[$wanted]" || { echo "the soname of $library is not $wanted"; exit 1; }
done

if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
  read -ra flags <<<"$(pkg-config --cflags --libs xc)"
  "${CC:-cc}" -std=c99 -pedantic -Wall -Wextra -Werror "$source_dir/tests/install/version.c" -o "$work/version" \
    "${flags[@]}" "-Wl,-rpath,$prefix/$libdir"
  "$work/version"
else
  echo "skipped: no pkg-config here"
fi

# Each sample is a CMake project of its own; those with tests run them.
while IFS= read -r list; do
  sample=$(dirname "$list")
  name=${sample#"$source_dir"/samples/}
  out=$work/samples/$name
  echo "--- samples/$name"
  "$cmake" -S "$sample" -B "$out" -G Ninja -DCMAKE_BUILD_TYPE=Release "-DCMAKE_PREFIX_PATH=$prefix" \
    >"$work/log" || { cat "$work/log"; exit 1; }
  "$cmake" --build "$out" >"$work/log" || { cat "$work/log"; exit 1; }
  "$(dirname "$(command -v "$cmake")")/ctest" --test-dir "$out" --output-on-failure >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
  tail -n 3 "$work/log"
done < <(find "$source_dir/samples" -name CMakeLists.txt 2>/dev/null | sort)

if [ -x "$prefix/bin/xc" ]; then
  "$prefix/bin/xc" --version
  # The library finds the code generator beside itself.
  if compgen -G "$prefix/$libdir/libxcrt-jit.so*" >/dev/null; then
    printf 'graph g(%%x: f32[n, 64]) -> (%%y) { %%a = Tanh(%%x) %%b = Mul(%%a, %%x) %%y = Add(%%b, %%x) }\n' >"$work/g.xct"
    "$prefix/bin/xc" bench "$work/g.xct" --shape x=64x64 --jit sync --seconds 0.1 --json >"$work/bench.json"
    grep -q '"compiled_regions": [1-9]' "$work/bench.json" || { cat "$work/bench.json"; exit 1; }
  fi
fi
echo "install: ok"
