// Products whose operand 0 and result are stored in bf16: the same bits as of f32 operands of the
// same numbers, the result rounded once, behind the last post-op.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "backends/cpu/onednn_common.h"
#include "backends/cpu/vector/casts_fn.h"
#include "backends/cpu/vector/elementwise_fn.h"
#include "backends/step_harness.h"
#include "base/cpu_info.h"
#include "base/function_ref.h"
#include "tensor/half.h"

namespace xc {
namespace {

using namespace test;

Tensor rounded(const Tensor& wide) {
  Tensor out(DType::kBF16, wide.dims());
  cpu::round_rows_to_bf16(wide.to_contiguous().as<float>(), out.data(), 1, wide.count(),
                          wide.count());
  return out;
}

PostOp cast_to_bf16() {
  PostOp out;
  out.op = &get_op("Cast");
  out.attrs.set("to", onnx_number(DType::kBF16));
  return out;
}

/// Chains behind a product: their operands, of the result's dims or one number per channel, are
/// stored in f32 and in bf16.
struct Chain {
  const char* name;
  std::vector<std::pair<const char*, DType>> ops;  ///< kUndefined: of one operand
  bool per_channel = false;
};
const std::vector<Chain> kChains = {
    {"alone", {}},
    {"Relu", {{"Relu", DType::kUndefined}}},
    {"Add in bf16, Relu", {{"Add", DType::kBF16}, {"Relu", DType::kUndefined}}},
    {"Add in f32, Sigmoid", {{"Add", DType::kF32}, {"Sigmoid", DType::kUndefined}}},
    {"Relu, Mul in bf16", {{"Relu", DType::kUndefined}, {"Mul", DType::kBF16}}},
    {"Mul per channel, Swish", {{"Mul", DType::kF32}, {"Swish", DType::kUndefined}}, true},
};

/// `p` (operand 0 in f32, of numbers that bf16 has) with the chain behind it, and the same with
/// operand 0 and the result in bf16.
struct Pair {
  Problem wide, narrow;
};
Pair with_chain(Problem p, const Chain& chain, const Dims& result, int kind, Generator& g) {
  p.attrs.set(std::string(kHeldIn.name), onnx_number(DType::kBF16));
  const auto inputs = static_cast<uint32_t>(p.op->max_inputs);
  p.inputs.resize(inputs);
  if (!p.constant.empty()) p.constant.resize(inputs, false);
  for (const auto& [name, type] : chain.ops) {
    PostOp post;
    post.op = &get_op(name);
    if (type != DType::kUndefined) {
      post.kind = PostOp::Kind::kBinary;
      post.operand = inputs + static_cast<uint32_t>(p.post_inputs.size());
      post.attrs.set(std::string(kHeldIn.name), onnx_number(DType::kBF16));
      const Dims channels{result[1], 1, 1};
      const Tensor other = g.tensor(DType::kF32, chain.per_channel ? channels : result);
      p.post_inputs.push_back(
          g.strided(type == DType::kF32 ? other : rounded(other), chain.per_channel ? 0 : kind));
    }
    p.post_ops.push_back(post);
  }
  Pair out{p, p};
  out.narrow.inputs[0] = g.strided(rounded(p.inputs[0]), kind);
  out.wide.inputs[0] = g.strided(widened(rounded(p.inputs[0])), kind);
  out.narrow.post_ops.push_back(cast_to_bf16());
  return out;
}

/// Where sums may be added up in another order for another type of the result, which can change a
/// rounding: by the library's kernels for AMX.
constexpr Bounds kRounded{0x1p-7, 1e-3};
Bounds roundings() {
  return cpu_info().amx_bf16 ? kRounded : Bounds{0, 0};
}

void check_pair(const std::string& row, const Pair& pair, bool packed, const std::string& where,
                Bounds row_major = roundings()) {
  RunOptions options;
  options.prepare = options.background = packed;
  const Implementation& impl = find_row(row, pair.wide.op->name);
  for (const int kind : {0, 1, 2}) {
    options.output_kind = kind;
    options.threads = 1;
    options.pieces = 1;
    // Weights are not rounded for a result that a packed product cannot write.
    const Tensor want = rounded(run_row(impl, pair.wide, options)[0]);
    Tensor first;
    for (const int threads : {1, 2, 3}) {
      options.threads = threads;
      options.pieces = threads;
      const Tensor have = run_row(impl, pair.narrow, options)[0];
      REQUIRE(have.dtype() == DType::kBF16);
      const std::string text = difference(widened(have.to_contiguous()), widened(want),
                                          kind == 0 ? row_major : roundings());
      CHECK_MESSAGE(text.empty(),
                    where << ", strides " << kind << ", threads " << threads << ": " << text);
      if (threads == 1) first = have;
      CHECK_MESSAGE(same_bits(have, first), where << ", strides " << kind << ", " << threads);
    }
  }
}

struct ConvCase {
  const char* row;
  Dims x, w, y;
  int64_t group, pad;
};

/// Every case with every chain behind it, in two orders of memory.
void with_chains(std::span<const ConvCase> cases, DType weights, Generator& g,
                 FunctionRef<void(const ConvCase&, const Chain&, Pair)> check) {
  for (const ConvCase& c : cases)
    for (const Chain& chain : kChains)
      for (const int kind : {0, 1}) {
        Problem p;
        p.op = &get_op("Conv");
        p.attrs.set("group", c.group);
        p.attrs.set("pads", std::vector<int64_t>(4, c.pad));
        const Tensor x = g.tensor(DType::kF32, c.x), w = g.tensor(DType::kF32, c.w);
        p.inputs = {x, weights == DType::kBF16 ? widened(rounded(w)) : w,
                    g.tensor(DType::kF32, {c.w[0]})};
        p.constant = {false, true, true};
        check(c, chain, with_chain(p, chain, c.y, kind, g));
      }
}

TEST_CASE("backends/stored_halves: convolutions") {
  if (!cpu::has_bf16_products()) return;
  Generator g(81);
  const ConvCase cases[] = {
      {"onednn.conv bf16", {1, 32, 14, 15}, {64, 32, 3, 3}, {1, 64, 14, 15}, 1, 1},
      {"onednn.conv bf16", {2, 64, 40, 40}, {96, 64, 1, 1}, {2, 96, 40, 40}, 1, 0},
      {"onednn.conv bf16", {1, 32, 9, 9}, {48, 16, 3, 3}, {1, 48, 9, 9}, 2, 1},
      {"onednn.conv bf16", {1, 256, 7, 7}, {512, 256, 1, 1}, {1, 512, 7, 7}, 1, 0},
      {"onednn.conv bf16", {1, 24, 20, 21}, {24, 1, 3, 3}, {1, 24, 20, 21}, 24, 1},
      {"onednn.conv bf16", {1, 3, 20, 21}, {16, 3, 3, 3}, {1, 16, 20, 21}, 1, 1},
  };
  with_chains(cases, DType::kBF16, g, [](const ConvCase& c, const Chain& chain, Pair pair) {
    const std::string where = to_text(c.x) + " " + chain.name;
    if (c.group > 1 && c.w[1] < 16 && cpu_info().amx_bf16) {  // vectors multiply f32 faster
      CHECK(chosen_row(pair.narrow) == "onednn.conv");
      return check_pair("onednn.conv", pair, false, where);
    }
    // Short sums are of bf16 only where operand 0 is stored so.
    const bool refused = c.w[1] < 8;
    CHECK((chosen_row(pair.wide) == c.row) == !refused);
    if (refused) pair.wide.inputs[0] = pair.narrow.inputs[0];
    if (chain.ops.empty()) {
      const Tensor have = run_row(find_row(c.row, "Conv"), pair.wide)[0];
      const Tensor want = run_reference(node_of(pair.wide), pair.wide.inputs)[0];
      const std::string text = difference(have.to_contiguous(), want, {1e-5, 1e-4});
      CHECK_MESSAGE(text.empty(), where << " against the reference: " << text);
    }
    check_pair(c.row, pair, false, where);
  });
}

TEST_CASE("backends/stored_halves: results of convolutions of f32") {
  Generator g(82);
  const ConvCase cases[] = {
      {"xc.conv", {2, 3, 30, 31}, {20, 3, 3, 3}, {2, 20, 30, 31}, 1, 1},
      {"onednn.conv", {1, 24, 20, 21}, {24, 1, 3, 3}, {1, 24, 20, 21}, 24, 1},
      {"onednn.conv", {1, 16, 20, 21}, {40, 16, 1, 1}, {1, 40, 20, 21}, 1, 0},
  };
  with_chains(cases, DType::kF32, g, [](const ConvCase& c, const Chain& chain, Pair pair) {
    pair.narrow.inputs[0] = pair.wide.inputs[0];
    for (Problem* each : {&pair.wide, &pair.narrow}) each->attrs.erase(std::string(kHeldIn.name));
    // With AVX2 the library has 1x1 kernels of its own for rows, which bf16 is never written by.
    const bool pointwise = c.w[2] == 1 && cpu_info().isa < Isa::kAvx512;
    // Few channels that lie plane by plane are added up in planes, into f32 alone.
    const bool planes = std::string_view(c.row) == "xc.conv";
    check_pair(c.row, pair, false, std::string(c.row) + " " + to_text(c.x) + " " + chain.name,
               pointwise || planes ? kRounded : roundings());
  });
}

TEST_CASE("backends/stored_halves: matrix products") {
  if (!cpu::has_bf16_products()) return;
  Generator g(83);
  for (const Dims& x : {Dims{1, 96}, Dims{4, 97}, Dims{5, 96}, Dims{70, 96}, Dims{2, 30, 96}})
    for (const int64_t n : {40, 200})
      for (const Chain& chain : kChains)
        for (const int kind : {0, 1, 2})
          for (const bool packed : {false, true}) {
            if (chain.per_channel) continue;
            Problem p;
            p.op = &get_op("MatMul");
            p.inputs = {g.tensor(DType::kF32, x), g.tensor(DType::kF32, {x.back(), n})};
            p.constant = {false, true};
            Dims y = x;
            y.back() = n;
            check_pair("onednn.matmul bf16", with_chain(p, chain, y, kind, g), packed,
                       fmt::format("{} by {}, packed {}, {}", to_text(x), n, packed, chain.name));
          }
}

TEST_CASE("backends/stored_halves: Relu of halves as they lie, and their rounding from f32") {
  constexpr int kAll = 1 << 16;
  std::vector<uint16_t> bits(kAll), got(kAll);
  for (int i = 0; i < kAll; ++i) bits[static_cast<size_t>(i)] = static_cast<uint16_t>(i);
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > cpu_info().isa) continue;
    for (const DType type : {DType::kF16, DType::kBF16}) {
      cpu::elementwise_fn(cpu::Fn::kRelu, type,
                          isa)({{bits.data()}, {1}, got.data(), kAll, nullptr});
      int wrong = 0;
      for (size_t i = 0; i < bits.size(); ++i) {
        const double x = load_double(&bits[i], type, 0);
        wrong += got[i] != (std::isnan(x) || x > 0 ? bits[i] : 0);
      }
      CHECK_MESSAGE(wrong == 0, name(type) << " " << name(isa));
    }
    // Every exponent and sign, denormals and NaN among them, with ends that round down, to even and
    // up.
    for (const uint32_t end : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      std::vector<uint32_t> wide(kAll);
      for (size_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<uint32_t>(i) << 16 | end;
      cpu::cast_fn(DType::kF32, DType::kBF16, isa)({{wide.data()}, {1}, got.data(), kAll, nullptr});
      int wrong = 0;
      for (size_t i = 0; i < wide.size(); ++i)
        wrong += got[i] != float_to_bf16(std::bit_cast<float>(wide[i]));
      CHECK_MESSAGE(wrong == 0, name(isa) << " ends in " << end);
    }
  }
}

TEST_CASE("backends/stored_halves: the largest of a window") {
  Generator g(84);
  for (const Dims& x : {Dims{1, 70, 9, 11}, Dims{2, 3, 8, 8}, Dims{1, 1, 7, 9}, Dims{1, 40, 30}}) {
    Problem p;
    p.op = &get_op("MaxPool");
    const size_t axes = x.size() - 2;
    p.attrs.set("kernel_shape", std::vector<int64_t>(axes, 3));
    p.attrs.set("strides", std::vector<int64_t>(axes, 2));
    p.attrs.set("pads", std::vector<int64_t>(2 * axes, 1));
    Tensor data = rounded(g.tensor(DType::kF32, x));
    // Both zeros, infinities, denormals, NaN of either sign.
    constexpr uint16_t kSpecial[] = {0x8000, 0x0000, 0x7f80, 0xff80, 0x0001,
                                     0x8001, 0x7fc0, 0xffc0, 0xff81, 0x7f7f};
    for (int64_t i = 0; i < data.count(); i += 7)
      data.as<uint16_t>()[i] = kSpecial[static_cast<size_t>(g.integer(0, 9))];
    p.inputs = {data};
    check_row("xc.pool", p, {0, 0});
  }
}

}  // namespace
}  // namespace xc
