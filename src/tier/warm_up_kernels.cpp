#include "tier/warm_up_kernels.h"

#include <fmt/format.h>

#include "loop/builder.h"
#include "loop/schedule.h"

namespace xc {

loop::Kernel vector_doubled() {
  loop::KernelBuilder builder("warm_up");
  const loop::DimParam n = builder.dim("n");
  const loop::Buffer x = builder.input("x", DType::kF32, {1});
  const loop::Buffer y = builder.output("y", DType::kF32, {1});
  builder.loop("i", 0, n, [&](loop::Var i) { builder.store(y(i), x(i) + x(i)); });
  return loop::schedule_default(builder.finish(), {});
}

std::string products_of_rows() {
  std::string text =
      "kernel warm_up_products(n, m; s) {\n"
      "  in x: f32[s, 1]\n  out y: f32[s, 1]\n  scratch t: f32[4096; 64, 1]\n"
      "  vector(16) r = 0 .. 64 {\n    for j = 0 .. 64 {\n      t[j, r] = x[r, j]\n    }\n  }\n";
  for (const bool adds : {false, true})
    text += fmt::format(
        "  for j{0} = 0 .. m {{\n    vector(64) r{0} = 0 .. min(64, (n * 16)) {{\n"
        "      acc s{0}: f32 dot seq{1}\n"
        "      for k{0} = 0 .. 64 {{\n        s{0} <- t[k{0}, r{0}], x[j{0}, k{0}]\n      }}\n"
        "      y[j{0}, r{0}] = s{0}\n    }}\n  }}\n",
        adds ? "b" : "a", adds ? " = y[jb, rb]" : "");
  return text + "}\n";
}

}  // namespace xc
