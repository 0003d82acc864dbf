// The C table, failures, and targets this machine does not run.
#include <doctest/doctest.h>

#include <unistd.h>
#include <cstdio>
#include <cstdlib>

#include <fstream>
#include <thread>

#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/jit.h"
#include "loop/schedule.h"
#include "loop/text.h"
#include "support/kernel_run.h"
#include "support/loop_kernels.h"
#include "support/paths.h"

using namespace xc;
using namespace xc::loop;

namespace {

std::vector<Kernel> examples() {
  std::vector<Kernel> out;
  for (const Kernel& kernel :
       {test::gelu_chain(), test::norm_chain(), test::masked_softmax(),
        test::row_arg(AccOp::kArgMax), test::flat_relu(), test::column_sum(), test::gather_rows(),
        test::random_kernel(3, true), test::random_kernel(4, false), test::random_kernel(8, true)})
    out.push_back(schedule_default(kernel, {}));
  return out;
}

}  // namespace

TEST_CASE("codegen/api: the table answers to its version only") {
  CHECK(xc_jit_api(XC_JIT_VERSION + 1) == nullptr);
  const xc_jit_table* table = xc_jit_api(XC_JIT_VERSION);
  REQUIRE(table);
  CHECK(table->version == XC_JIT_VERSION);
  CHECK(std::string(table->revision()).find("llvm-19") == 0);
  CHECK(table->compile(nullptr, nullptr, nullptr, 0) ==
        static_cast<int32_t>(Status::kInvalidArgument));
  xc_jit_image image{};
  table->release(&image);
  table->release(nullptr);
}

TEST_CASE("codegen/api: failures are a status and a message, cut to fit") {
  const auto bad_text = test::jit("kernel a(", "host");
  CHECK(bad_text.status == static_cast<int32_t>(Status::kFormat));
  CHECK(bad_text.error == "loop text 1:10: expected a name, found the end");
  const auto bad_target = test::jit(print(test::flat_relu()), "pdp-11");
  CHECK(bad_target.status == static_cast<int32_t>(Status::kUnsupported));
  CHECK(bad_target.error == "code generation: unknown target pdp-11");
  const auto unscheduled = test::jit(print(test::norm_chain()), "host");
  CHECK(unscheduled.status == static_cast<int32_t>(Status::kInvalidArgument));
  CHECK(unscheduled.error.find("rule lanes") != std::string::npos);
  char small[8];
  const std::string text = "kernel";
  const xc_jit_request request{text.data(), text.size(), "host", 0};
  xc_jit_image image{};
  CHECK(xc_jit_api(XC_JIT_VERSION)->compile(&request, &image, small, sizeof(small)) != 0);
  CHECK(std::string(small) == "loop te");
}

TEST_CASE("codegen/api: partial results on the stack have a limit") {
  // Sums of f64 take 512 bytes each where the rest of their loop is scalar; loops share them.
  const auto sums = [](int loops, int each) {
    std::string text = "kernel sums(n) {\n  in x: f64[1]\n  out y: f64[1]\n";
    text += "  parallel b = 0 .. 1 {\n";
    for (int l = 0; l < loops; ++l) {
      for (int k = 0; k < each; ++k) text += fmt::format("    acc a{}_{}: f64 sum lanes\n", l, k);
      text += fmt::format("    vector(16) j{} = 0 .. n {{\n", l);
      for (int k = 0; k < each; ++k)
        text += fmt::format("      a{}_{} <- (x[j{}] * {}:f64)\n", l, k, l, k + 1);
      text += "    }\n";
      for (int k = 0; k < each; ++k)
        text += fmt::format("    y[{}] = a{}_{}\n", l * each + k, l, k);
    }
    return text + "  }\n}\n";
  };
  const auto fits = test::jit(sums(3, 8), "x86-64-v2");
  CHECK(fits.error == "");
  CHECK(fits.status == 0);
  const auto refused = test::jit(sums(1, 9), "x86-64-v2");
  CHECK(refused.status == static_cast<int32_t>(Status::kUnsupported));
  CHECK(refused.error.find("partial results of a loop take over 4096 bytes") != std::string::npos);
}

TEST_CASE("codegen/api: what would take seconds to compile is declined") {
  std::string text =
      "kernel large(n) {\n  in x: f64[1]\n  out y: f64[1]\n  parallel b = 0 .. 1 {\n"
      "    vector(16) j = 0 .. n {\n";
  for (int k = 0; k < 200; ++k) text += fmt::format("      y[j + n] = tanh((x[j] * {}:f64))\n", k);
  text += "    }\n  }\n}\n";
  const auto large = test::jit(text, "x86-64-v2");
  CHECK(large.status == static_cast<int32_t>(Status::kUnsupported));
  CHECK(large.error.find("operations, of 30000 at most") != std::string::npos);
}

TEST_CASE(
    "codegen/api: what statements have in common is computed once, stores in between or not") {
  const auto kernel = [](const char* more) {
    return fmt::format(
        "kernel shares(n) {{\n  in x: f32[1]\n  out y: f32[1]\n  out z: f32[1]\n"
        "  parallel b = 0 .. 1 {{\n    vector(16) j = 0 .. n {{\n"
        "      y[j] = exp(x[j])\n{}    }}\n  }}\n}}\n",
        more);
  };
  const auto fmas = [&](const char* more) {
    const std::string ir = test::jit(kernel(more), "x86-64-v3", XC_JIT_WANT_IR).ir;
    size_t count = 0;
    for (size_t at = 0; (at = ir.find("call <16 x float> @llvm.fma", at)) != std::string::npos;
         ++at)
      ++count;
    return count;
  };
  const size_t once = fmas("");
  CHECK(once > 0);
  CHECK(fmas("      z[j] = (exp(x[j]) + 1:f32)\n") == once);
  CHECK(fmas("      z[j] = exp((x[j] + 1:f32))\n") == 2 * once);
}

TEST_CASE(
    "codegen/api: with AVX2 guards that are not known are never left to LLVM's masked accesses") {
  // What it makes of them in seeds 1200246 and 1301493 of tiering/graph_fuzz reads behind rows.
  const std::string text = R"(
    kernel guarded(n) {
      in x: f32[100, 1]
      in w: f64[1]
      out y: f32[100, 1]
      out z: f64[1]
      parallel i = 0 .. n {
        vector(16) j = 0 .. 7 {
          y[i, j] = (x[i, j - 3] if ((i < 2) & (j >= 3))) if (x[i, j] < 1:f32)
          z[j] = (w[j] if (w[0] < 1:f64)) if (w[j] < 1:f64)
        }
      }
    })";
  const auto masks = [](const std::string& ir) {  // not known ones
    size_t count = 0;
    for (const char* call : {"@llvm.masked.load.", "@llvm.masked.store."})
      for (size_t at = 0; (at = ir.find(call, at)) != std::string::npos; ++at)
        if (ir.rfind("call ", at) > ir.rfind('\n', at) &&
            ir.substr(at, ir.find('\n', at) - at).find("i1> %") != std::string::npos)
          ++count;
    return count;
  };
  const std::string avx2 = test::jit(text, "x86-64-v3", XC_JIT_WANT_IR).ir;
  CHECK(avx2.find("@llvm.x86.avx2.maskload.d.256") != std::string::npos);
  CHECK(avx2.find("@llvm.x86.avx2.maskstore.d.256") != std::string::npos);
  CHECK(avx2.find("@llvm.x86.avx2.maskstore.q.256") != std::string::npos);
  CHECK(masks(avx2) == 0);
  CHECK(masks(test::jit(text, "x86-64-v4", XC_JIT_WANT_IR).ir) > 0);
}

TEST_CASE("codegen/api: assembly and IR on demand") {
  const std::string text = print(schedule_default(test::gelu_chain(), {}));
  const auto plain = test::jit(text, "x86-64-v3");
  CHECK((plain.status == 0 && plain.assembly.empty() && plain.ir.empty()));
  const auto full = test::jit(text, "x86-64-v3", XC_JIT_WANT_ASSEMBLY | XC_JIT_WANT_IR);
  CHECK(full.assembly.find("vfmadd") != std::string::npos);
  CHECK(full.ir.find("@gelu_chain(") != std::string::npos);
  CHECK(full.code == plain.code);  // asking for text changes nothing
}

TEST_CASE("codegen/api: compiling is deterministic, also from several threads at once") {
  const std::vector<Kernel> kernels = examples();
  std::vector<std::vector<uint8_t>> codes[2];
  const auto compile_all = [&](std::vector<std::vector<uint8_t>>& out) {
    for (const Kernel& kernel : kernels) out.push_back(test::jit(print(kernel), "host").code);
  };
  std::thread other([&] { compile_all(codes[1]); });
  compile_all(codes[0]);
  other.join();
  CHECK(codes[0] == codes[1]);
  for (const auto& code : codes[0]) CHECK(!code.empty());
}

TEST_CASE("codegen/api: what one compile leaves to the next changes nothing") {
  // Each kernel twice, others in between, a failed compile too; for machines and for a GPU.
  for (const std::string target :
       {"x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "nvptx:sm_80"}) {
    CAPTURE(target);
    std::vector<test::JitResult> before;
    std::vector<std::string> texts;
    for (const Kernel& kernel : {examples()[0], examples()[1], examples()[3], examples()[6]}) {
      texts.push_back(print(kernel));
      before.push_back(test::jit(texts.back(), target));
      CHECK(before.back().status == 0);
    }
    CHECK(test::jit(texts[0].substr(0, texts[0].size() / 2), target).status != 0);
    for (size_t k = texts.size(); k-- > 0;) {
      const test::JitResult again = test::jit(texts[k], target, XC_JIT_WANT_ASSEMBLY);
      CHECK(again.code == before[k].code);
      CHECK(again.entry == before[k].entry);
      if (target.starts_with("nvptx")) CHECK(again.assembly == before[k].assembly);
    }
  }
}

TEST_CASE("codegen/api: kernels for AArch64 link to self-contained images") {
  for (const Kernel& kernel : examples()) {
    const auto result = test::jit(print(kernel), "aarch64");
    INFO(kernel.name << ": " << result.error);
    CHECK(result.status == 0);
    CHECK(!result.code.empty());
  }
}

TEST_CASE("codegen/api: PTX assembles") {
  if (test::ptxas().empty()) {
    std::printf("skipped: no ptxas\n");
    return;
  }
  char path[] = "/tmp/xc_ptx_XXXXXX";
  const int file = ::mkstemp(path);
  REQUIRE(file >= 0);
  ::close(file);
  for (const Kernel& kernel :
       {schedule_default(test::norm_chain(), {}), schedule_default(test::gather_rows(), {}),
        schedule_default(test::row_arg(AccOp::kArgMax), {}),
        schedule_default(test::random_kernel(8, true), {})}) {
    const auto result = test::jit(print(kernel), "nvptx:sm_80");
    INFO(kernel.name << ": " << result.error);
    REQUIRE(result.status == 0);
    CHECK(result.code.empty());
    CHECK(result.assembly.find(".entry " + kernel.name) != std::string::npos);
    std::ofstream(path) << result.assembly;
    const std::string command = test::ptxas() + " -arch=sm_80 -O1 " + path + " -o /dev/null";
    CHECK(std::system(command.c_str()) == 0);
  }
  std::remove(path);
}

TEST_CASE("codegen/api: a gather reports indices out of range and reads nothing for them") {
  const Kernel kernel = schedule_default(test::gather_rows(), {});
  for (const std::string& target : test::runnable_targets()) {
    CAPTURE(target);
    const test::Compiled compiled(kernel, target);
    const int64_t rows = 4, m = 37;
    test::GuardedMemory table(static_cast<size_t>(rows * m) * 4), ids(3 * 8), y(3 * 37 * 4);
    auto* values = reinterpret_cast<float*>(table.data());
    for (int64_t i = 0; i < rows * m; ++i) values[i] = static_cast<float>(i);
    auto* index = reinterpret_cast<int64_t*>(ids.data());
    void* buffers[] = {table.data(), ids.data(), y.data()};
    const int64_t dims[] = {3, m, rows}, strides[] = {m, m};
    const xc_kargs args{XC_KERNEL_ABI_VERSION, 0, buffers, dims, strides, nullptr, 0, 3};
    index[0] = 3;
    index[1] = 0;
    index[2] = 1;
    CHECK(compiled(args) == XC_KERNEL_OK);
    const auto* out = reinterpret_cast<const float*>(y.data());
    CHECK((out[36] == 147 && out[37] == 0 && out[110] == 73));
    for (const int64_t bad : {int64_t{-1}, int64_t{4}, INT64_MIN, INT64_MAX}) {
      index[1] = bad;
      CHECK(compiled(args) == XC_KERNEL_RANGE_ERROR);
    }
  }
}

TEST_CASE(
    "codegen/api: gathers and scatters by lane, guarded and checked, have the interpreter's bits") {
  const Kernel kernel = parse(R"(
    kernel lanes(n; s) {
      in x: f32[s]
      in k: i32[1]
      in h: f16[2]
      out y: f32[3]
      out z: f16[1]
      out g: f32[1]
      parallel t = 0 .. 1 {
        vector(16) i = 0 .. n {
          y[i] = (x[check(k[i], n)] + x[i])
          z[i] = (h[i] * 2:f32) if (i != 3)
          g[i] = (x[check(k[i], 2)] if (k[i] < 2:i32))
        }
      }
    })");
  for (const std::string& target : test::runnable_targets()) {
    CAPTURE(target);
    const test::Compiled compiled(kernel, target);
    for (const int64_t n : {1, 15, 16, 17, 50}) {
      CAPTURE(n);
      test::Problem problem;
      problem.dims = {n};
      problem.strides = {2};
      const auto count = static_cast<size_t>(n);
      problem.elements = {2 * count - 1, count, 2 * count - 1, 3 * count - 2, count, count};
      test::Buffers want(kernel, problem, 5, false), got(kernel, problem, 5, false);
      for (const test::Buffers* buffers : {&want, &got})
        for (size_t i = 0; i < count; ++i)
          reinterpret_cast<int32_t*>(buffers->data(1))[i] = static_cast<int32_t>((i * 7) % count);
      CHECK(interpret(kernel, want.args(0, 1)) == 0);
      CHECK(compiled(got.args(0, 1)) == 0);
      CHECK(test::difference(kernel, got, want) == "");
    }
  }
}

TEST_CASE("codegen/api: known masks are written as lanes") {
  // The rest of 42 elements, of which 40 lie in one buffer and two in another.
  const Kernel kernel = parse(R"(kernel two() {
      in a: bf16[1]
      in b: bf16[1]
      out y: bf16[1]
      vector(16) i = 0 .. 42 {
        y[i] = select((i < 40), (a[i] if (i < 40)), (b[i - 40] if (i >= 40)))
      }
    })");
  // LLVM spills a KMOVB from mask to mask as if it kept the bits it clears.
  for (const std::string& target : test::runnable_targets()) {
    const auto full = test::jit(print(kernel), target, XC_JIT_WANT_ASSEMBLY | XC_JIT_WANT_IR);
    REQUIRE(full.status == 0);
    CHECK(full.ir.find("bitcast (") == std::string::npos);
    CHECK(full.assembly.find("kmovb\t%k") == std::string::npos);
  }
}

TEST_CASE("codegen/api: fast selection ends below many calls, and goes on where there are few") {
  // Products of a row and four columns: for each a load and a fused multiplication and addition,
  // which is the call of an intrinsic. Their sums are additions.
  const auto kernel = [](const char* op, const char* form) {
    std::string declared, fed, stored;
    for (int c = 0; c < 4; ++c) {
      declared += fmt::format("acc a{}: f32 {} lanes16\n", c, op);
      fed += fmt::format(fmt::runtime(form), c);
      stored += fmt::format("z[{0}] = a{0}\n", c);
    }
    return fmt::format(R"(kernel reduce() {{
        in x: f32[1]
        in y: f32[1600, 1]
        out z: f32[1]
        {}
        vector(16) k = 0 .. 1600 {{
          let v: f32 = x[k]
          {}
        }}
        {}
      }})",
                       declared, fed, stored);
  };
  const auto fences = [](const std::string& text, const std::string& target) {
    const auto full = test::jit(text, target, XC_JIT_WANT_ASSEMBLY | XC_JIT_WANT_IR);
    REQUIRE(full.error == "");
    CHECK(full.assembly.find("mfence") == std::string::npos);
    const size_t loop = full.ir.find("\nloop:"), end = full.ir.find("label %loop", loop + 1);
    REQUIRE(loop != std::string::npos);
    return full.ir.substr(loop, end - loop).find("fence syncscope") != std::string::npos;
  };
  const std::string products = kernel("dot", "a{0} <- v, y[{0}, k]\n");
  const std::string sums = kernel("sum", "a{0} <- (v + y[{0}, k])\n");
  for (const std::string target : {"x86-64-v3", "x86-64-v4"}) {
    CAPTURE(target);
    CHECK(fences(products, target));
    CHECK_FALSE(fences(sums, target));
  }
  CHECK_FALSE(fences(products, "aarch64"));
}

TEST_CASE("codegen/api: several short rows at a time are fetched ahead, one is not") {
  const auto rows = [](bool two, int64_t length) {
    return fmt::format(R"(kernel rows(n) {{
      in x: f32[{0}, 1]
      in y: f32[1]
      out z: f32[1]
      parallel i = 0 .. n {{
        acc a: f32 dot lanes16
        acc b: f32 dot lanes16
        vector(16) k = 0 .. {0} {{
          a <- x[2*i, k], y[k]
          b <- x[{1}, k], y[k]
        }}
        z[2*i] = a
        z[2*i + 1] = b
      }}
    }})",
                       length, two ? "2*i + 1" : "2*i");
  };
  for (const std::string target : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    CAPTURE(target);
    const auto fetches = [&](const std::string& text) {
      const auto full = test::jit(text, target, XC_JIT_WANT_ASSEMBLY);
      REQUIRE(full.error == "");
      return full.assembly.find("prefetch") != std::string::npos;
    };
    CHECK(fetches(rows(true, 100)));
    CHECK_FALSE(fetches(rows(false, 100)));
    CHECK_FALSE(fetches(rows(true, 1000)));  // a stream each
  }
}

TEST_CASE(
    "codegen/api: streams, and blocks that are read twice, are fetched into the second level") {
  const auto fetches = [](const std::string& text, const std::string& target) {
    const auto full = test::jit(text, target, XC_JIT_WANT_ASSEMBLY);
    REQUIRE(full.error == "");
    return full.assembly.find("prefetcht1") != std::string::npos;
  };
  const std::string streams = R"(kernel streams(n) {
      in x: f32[1]
      in y: f32[1]
      out z: f32[1]
      parallel b = 0 .. ((n + 16383) / 16384) {
        acc a: f32 sum lanes
        vector(16) i = (b * 16384) .. min(((b * 16384) + 16384), n) {
          a <- (x[i] * y[i])
        }
        z[b] = a
      }
    })";
  // `step`: rows between the two of the second pass; 0 = it reads one.
  const auto blocks = [](int64_t block, int64_t step, const char* end = "n", int64_t row = 1000) {
    return fmt::format(R"(kernel blocks(n) {{
      in x: f32[{3}, 1]
      in v: f32[1]
      out y: f32[1]
      scratch t: f32[64; 1]
      vector(16) i = 0 .. 1000 {{
        y[i] = 0:f32
      }}
      for b = 0 .. {2} {{
        for r = 0 .. 4 {{
          acc s: f32 dot lanes16
          acc q: f32 dot lanes16
          vector(16) k = 0 .. 1000 {{
            s <- x[{0}*b + r, k], v[k]
            q <- x[{0}*b + 4 + r, k], v[k]
          }}
          t[r] = s
          t[4 + r] = q
        }}
        for g = 0 .. 4 {{
          vector(16) j = 0 .. 1000 {{
            y[j] = fma(x[{0}*b + {1} + g, j], t[4 + g], fma(x[{0}*b + g, j], t[g], y[j]))
          }}
        }}
      }}
    }})",
                       block, step, end, row);
  };
  for (const std::string target : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    CAPTURE(target);
    CHECK(fetches(streams, target));
    CHECK(fetches(blocks(64, 4), target));
    CHECK_FALSE(fetches(blocks(64, 0), target));
    CHECK_FALSE(fetches(blocks(64, 4, "n", 0), target));  // one row for all
    CHECK_FALSE(fetches(blocks(64, 4, "4"), target));
    CHECK(fetches(blocks(8, 4), target));
    CHECK_FALSE(fetches(blocks(2, 4), target));  // blocks as small as what the hardware looks ahead
  }
}

TEST_CASE("codegen/api: lanes below any limit, the furthest ones too") {
  const Kernel kernel = parse(R"(kernel below(n) {
      in l: i64[1]
      in x: f32[1]
      out y: f32[1]
      vector(16) i = 0 .. n {
        y[i] = (x[i] if (i < l[0]))
      }
    })");
  constexpr int64_t kN = 37;
  for (const std::string& target : test::runnable_targets()) {
    const test::Compiled compiled(kernel, target);
    for (const int64_t limit :
         {INT64_MIN, INT64_MIN + 1, int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{15}, int64_t{16},
          int64_t{17}, int64_t{36}, int64_t{37}, int64_t{38}, INT64_MAX - 1, INT64_MAX}) {
      CAPTURE(target);
      CAPTURE(limit);
      std::vector<int64_t> l{limit};
      std::vector<float> x(kN, 1.0f), y(kN, -1.0f);
      void* buffers[] = {l.data(), x.data(), y.data()};
      const int64_t dims[] = {kN};
      const xc_kargs args{XC_KERNEL_ABI_VERSION, 0, buffers, dims, nullptr, nullptr, 0, 0};
      CHECK(compiled(args) == XC_KERNEL_OK);
      for (int64_t i = 0; i < kN; ++i) CHECK(y[static_cast<size_t>(i)] == (i < limit ? 1 : 0));
    }
  }
}
