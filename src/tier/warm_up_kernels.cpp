#include "tier/warm_up_kernels.h"

#include <fmt/format.h>

#include <set>

#include "loop/builder.h"

namespace xc {

loop::Kernel softmax_of_rows() {
  loop::KernelBuilder builder("warm_up");
  const loop::DimParam n = builder.dim("n"), m = builder.dim("m");
  const loop::StrideParam stride = builder.stride("s");
  const loop::Buffer x = builder.input("x", DType::kF32, {stride, 1});
  const loop::Buffer y = builder.output("y", DType::kF32, {stride, 1});
  builder.loop("i", 0, n, [&](loop::Var i) {
    const loop::Acc top = builder.acc("top", loop::AccOp::kMax, DType::kF32);
    builder.loop("j", 0, m, [&](loop::Var j) { builder.accumulate(top, x(i, j)); });
    const loop::Acc sum = builder.acc("sum", loop::AccOp::kSum, DType::kF32);
    builder.loop("k", 0, m, [&](loop::Var k) {
      const loop::Expr e = builder.let("e", loop::exp(x(i, k) - top.value()));
      builder.store(y(i, k), e);
      builder.accumulate(sum, e);
    });
  });
  return loop::schedule_default(builder.finish(), {});
}

std::string product_tiles(const loop::TargetWidth& width) {
  const int lanes = loop::product_tile(width).lanes;
  std::string text = fmt::format(
      "kernel warm_up_tiles(n; s) {{\n"
      "  in x: f32[s, 1]\n  out y: f32[s, 1]\n  scratch t: f32[{0}; {1}, 1]\n"
      "  vector(16) r = 0 .. {1} {{\n    for j = 0 .. 64 {{\n      t[j, r] = x[r, j]\n    }}\n  "
      "}}\n",
      64 * lanes, lanes);
  // For any number of columns, for a multiple of 64 (which heads of attention have), and the rest.
  const std::set<int> tiles = {loop::product_tile(width).columns,
                               loop::product_tile(width, 64).columns, 1};
  int id = 0;
  for (const bool adds : {false, true}) {
    for (const int columns : tiles) {
      ++id;
      std::string sums, feeds, stores;
      for (int c = 0; c < columns; ++c) {
        const std::string out = fmt::format("y[{0}*g{1} + {2}, r{1}]", columns, id, c);
        sums += fmt::format("      acc s{}_{}: f32 dot seq{}\n", id, c, adds ? " = " + out : "");
        feeds += fmt::format("        s{0}_{1} <- t[k{0}, r{0}], x[{2}*g{0} + {1}, k{0}]\n", id, c,
                             columns);
        stores += fmt::format("      {} = s{}_{}\n", out, id, c);
      }
      text += fmt::format(
          "  for g{0} = 0 .. n {{\n    vector({1}) r{0} = 0 .. min({1}, (n * {2})) {{\n{3}"
          "      for k{0} = 0 .. 64 {{\n{4}      }}\n{5}    }}\n  }}\n",
          id, lanes, loop::kReductionLanes, sums, feeds, stores);
    }
  }
  return text + "}\n";
}

}  // namespace xc
