// Products with small weights whose left side is rounded to bytes, block by block: instructions
// against plain sums, rounding against its rule, whole steps against the reference.
#include <doctest/doctest.h>

#include <cmath>

#include "backends/cpu/panel_weights.h"
#include "backends/step_harness.h"
#include "ops/rounded_blocks.h"

namespace xc {
namespace {

using namespace test;

struct Variant {
  const char* name;
  bool there;
  const cpu::ByteFns& (*fns)();
  bool whole_bytes;
};

std::vector<Variant> variants() {
  [[maybe_unused]] const CpuInfo& info = cpu_info();
  return {
#if defined(__x86_64__)
      {"avx2", info.isa >= Isa::kAvx2, cpu::avx2::byte_fns, false},
      {"avx512", info.isa >= Isa::kAvx512, cpu::avx512::byte_fns, false},
      {"vnni", info.avx512_vnni, cpu::avx512::byte_fns_vnni, true},
#endif
  };
}

/// A panel in groups with the numbers it is made of.
struct Packed {
  int64_t k, block, blocks;
  bool four_bits;
  std::vector<uint8_t> codes;  ///< [k][64]
  std::vector<uint8_t> data, zeros;
  std::vector<float> scales;

  Packed(Generator& g, int64_t k, int64_t block, bool four_bits)
      : k(k), block(block), blocks((k + block - 1) / block), four_bits(four_bits) {
    const int most = four_bits ? 15 : 255;
    const auto numbers = [&](int64_t count) {
      const Tensor t = g.tensor(DType::kU8, {count}, 0, most);
      return std::vector<uint8_t>(t.as<uint8_t>(), t.as<uint8_t>() + count);
    };
    codes = numbers(k * 64);
    std::fill_n(codes.begin(), std::min<int64_t>(k, 40) * 64, static_cast<uint8_t>(most));
    zeros = numbers(blocks * 64);
    const Tensor s = g.tensor(DType::kF32, {blocks * 64}, 0.01, 0.1);
    scales.assign(s.as<float>(), s.as<float>() + s.count());
    const int64_t rows = four_bits ? 8 : 4;
    data.resize(static_cast<size_t>((k + rows - 1) / rows * 256));
    for (int64_t d = 0; d < k; ++d)
      for (int64_t j = 0; j < 64; ++j)
        data[static_cast<size_t>(d / rows * 256 + j * 4 + d % 4)] |=
            static_cast<uint8_t>(codes[static_cast<size_t>(d * 64 + j)] << (d % rows >= 4 ? 4 : 0));
  }
  cpu::BytePanel panel() const {
    return {data.data(), four_bits, k, block, scales.data(), zeros.data()};
  }
};

TEST_CASE("backends/byte_matmul: every instruction set's sums are exact") {
  Generator g(3);
  for (const Variant& variant : variants())
    for (const auto& [k, block] : std::vector<std::pair<int64_t, int64_t>>{
             {16, 16}, {100, 16}, {96, 32}, {300, 64}, {1030, 256}, {1, 32}, {36, 64}, {39, 128}})
      for (const bool four_bits : {true, false})
        for (const int64_t rows : {1, 2, 3, 4}) {
          if (!variant.there || (!four_bits && !variant.whole_bytes)) continue;
          const Packed w(g, k, block, four_bits);
          const int64_t stride = (k + 63) / 64 * 64;
          const Tensor bytes = g.tensor(DType::kI8, {rows, stride}, -127, 127);
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t d = 0; d < stride; ++d) {
              if (d >= k) bytes.as<int8_t>()[r * stride + d] = 0;
              if (d < 40 && d < k) bytes.as<int8_t>()[r * stride + d] = r % 2 == 0 ? 127 : -127;
            }
          const Tensor scales = g.tensor(DType::kF32, {rows, w.blocks}, 0.5, 2);
          Tensor sums(DType::kF32, {rows, w.blocks}), y(DType::kF32, {rows, 64});
          std::vector<double> want(static_cast<size_t>(rows * 64)), most(want.size());
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t b = 0; b < w.blocks; ++b) {
              int total = 0;
              std::array<int64_t, 64> dots{};
              for (int64_t d = b * block; d < std::min(k, (b + 1) * block); ++d) {
                const int x = bytes.as<int8_t>()[r * stride + d];
                total += x;
                for (size_t j = 0; j < 64; ++j)
                  dots[j] += x * (w.codes[static_cast<size_t>(d) * 64 + j] -
                                  w.zeros[static_cast<size_t>(b) * 64 + j]);
              }
              sums.as<float>()[r * w.blocks + b] = static_cast<float>(total);
              for (size_t j = 0; j < 64; ++j) {
                const double part = static_cast<double>(dots[j]) *
                                    w.scales[static_cast<size_t>(b) * 64 + j] *
                                    scales.as<float>()[r * w.blocks + b];
                want[static_cast<size_t>(r) * 64 + j] += part;
                most[static_cast<size_t>(r) * 64 + j] += std::fabs(part);
              }
            }
          variant.fns().multiply(
              w.panel(),
              {bytes.as<int8_t>(), stride, scales.as<float>(), sums.as<float>(), w.blocks, rows},
              y.as<float>(), 64);
          INFO(variant.name << " " << k << " by " << block << ", " << rows << " rows, 4 bits "
                            << four_bits);
          for (size_t i = 0; i < want.size(); ++i) {
            CAPTURE(i);
            REQUIRE(std::fabs(y.as<float>()[i] - want[i]) <= 1e-6 * most[i]);
          }
        }
}

TEST_CASE("backends/byte_matmul: every instruction set rounds by the one rule") {
  Generator g(4);
  for (const Variant& variant : variants())
    for (const int64_t k : {1, 15, 16, 100, 257})
      for (const int64_t block : {16, 32, 128})
        for (const double size : {1.0, 1e-3, 1e15, 1e-30, 1e30, 0.0}) {
          if (!variant.there) continue;
          const Tensor x = g.tensor(DType::kF32, {k}, -size, size);
          // Ties: halves of the scale that 127 gives.
          if (size == 1 && k > 4) {
            x.as<float>()[0] = 127;
            for (int64_t i = 1; i < std::min<int64_t>(k, block); ++i)
              x.as<float>()[i] = static_cast<float>(i) / 2 - 4;
          }
          std::vector<float> want(x.as<float>(), x.as<float>() + k);
          round_blocks(want.data(), k, block);
          const int64_t blocks = (k + block - 1) / block;
          std::vector<int8_t> out(static_cast<size_t>(k + 63) / 64 * 64, int8_t{99});
          std::vector<float> scales(static_cast<size_t>(blocks)), sums(scales.size());
          const bool rounded =
              variant.fns().round(x.as<float>(), k, block, out.data(), scales.data(), sums.data());
          INFO(variant.name << " " << k << " by " << block << ", up to " << size);
          CHECK(rounded == (size != 1e-30 && size != 1e30));
          if (!rounded) {
            CHECK(std::equal(want.begin(), want.end(), x.as<float>()));
            continue;
          }
          std::vector<float> totals(scales.size());
          for (size_t i = 0; i < out.size(); ++i) {
            const size_t b = std::min(i / static_cast<size_t>(block), scales.size() - 1);
            const auto whole = static_cast<float>(out[i]);
            REQUIRE((i < want.size() ? whole * scales[b] : whole) ==
                    (i < want.size() ? want[i] : 0.0f));
            totals[b] += whole;
          }
          CHECK(totals == sums);
        }
}

TEST_CASE("backends/byte_matmul: a row that is not finite is not rounded") {
  for (const Variant& variant : variants())
    for (const float odd : {INFINITY, -INFINITY, std::nanf("")})
      for (const size_t at : {0u, 17u, 39u}) {
        if (!variant.there) continue;
        std::vector<float> x(40, 1.25f), scales(3), sums(3);
        x[at] = odd;
        std::vector<int8_t> out(64);
        CHECK_FALSE(variant.fns().round(x.data(), 40, 16, out.data(), scales.data(), sums.data()));
        std::vector<float> same = x;
        round_blocks(same.data(), 40, 16);
        CHECK(std::memcmp(same.data(), x.data(), 40 * sizeof(float)) == 0);
      }
}

Problem problem(Generator& g, DType type, const Dims& x, int64_t n, int64_t block, bool zero) {
  Problem p;
  p.op = &get_op("DequantizedMatMul", "xc");
  p.attrs.set("block_size", block);
  p.attrs.set("left_in_bytes", int64_t{1});
  const double low = type == DType::kI8   ? -128
                     : type == DType::kI4 ? -8
                     : type == DType::kI2 ? -2
                                          : 0;
  const double high = type == DType::kI8   ? 127
                      : type == DType::kU8 ? 255
                      : type == DType::kI4 ? 7
                      : type == DType::kU4 ? 15
                      : type == DType::kI2 ? 1
                                           : 3;
  const Dims lines{ceil_div(x.back(), block), n};
  p.inputs = {g.tensor(DType::kF32, x), g.tensor(type, {x.back(), n}, low, high),
              g.tensor(DType::kF32, lines, 0.001, 0.02)};
  if (zero) p.inputs.push_back(g.tensor(type, lines, low, high));
  p.constant.assign(p.inputs.size(), true);
  p.constant[0] = false;
  return p;
}

/// The rows that take a type here: the kernel for bytes where there is one, that for floats always.
std::vector<const char*> rows_for(DType type) {
  if (!cpu::byte_fns(cpu_info(), cpu::has_four_bits(type))) return {"xc.block_matmul"};
  return {"xc.byte_matmul", "xc.block_matmul"};
}

TEST_CASE("backends/byte_matmul: weights of any type, rows, tails and zero points") {
  Generator g(52);
  for (const DType type : {DType::kI8, DType::kU8, DType::kI4, DType::kU4, DType::kI2, DType::kU2})
    for (const auto& [k, n, block] : std::vector<std::array<int64_t, 3>>{
             {64, 64, 32}, {70, 33, 16}, {300, 300, 128}, {1, 5, 16}})
      for (const Dims& x :
           {Dims{1, k}, Dims{3, k}, Dims{2, 9, k}, Dims{40, k}, Dims{k}, Dims{0, k}})
        for (const bool zero : {false, true})
          for (const char* row : rows_for(type)) {
            INFO(row << " " << name(type) << k << "x" << n << " by " << block << to_text(x)
                     << zero);
            check_row(row, problem(g, type, x, n, block, zero),
                      {1e-5, 5e-6 * static_cast<double>(k)});
          }
}

TEST_CASE("backends/byte_matmul: rows that are not rounded, beside others") {
  Generator g(56);
  for (const DType type : {DType::kI4, DType::kU8})
    for (const int64_t rows : {1, 2, 7, 20})
      for (const float value : {INFINITY, std::nanf(""), 3e30f, 1e-30f})
        for (const std::string_view row : rows_for(type)) {
          // Beside a number like that its sums of x by w, less those of x by the zero point, keep
          // no digit of the others.
          if (row == "xc.block_matmul" && value == 3e30f) continue;
          Problem p = problem(g, type, {rows, 64}, 70, 32, true);
          for (int64_t i = 0; i < rows; i += 2) {
            float* const x = p.inputs[0].as<float>() + i * 64;
            if (value < 1) std::fill_n(x, 32, 0.0f);
            x[5] = value;
          }
          INFO(row << " " << name(type) << " " << rows << " rows with " << value);
          check_row(row, p, {1e-5, 1e-3});
        }
}

TEST_CASE(
    "backends/byte_matmul: blocks that fill no vectors, and scales out of range, stay floats") {
  Generator g(58);
  for (const DType type : {DType::kU4, DType::kI4, DType::kU8})
    for (const auto& [k, block] : std::vector<std::pair<int64_t, int64_t>>{
             {48, 1}, {70, 3}, {96, 8}, {96, 24}, {100, 100}, {100, 17}}) {
      const Problem p = problem(g, type, {5, k}, 70, block, true);
      INFO(name(type) << " " << k << " by " << block);
      const std::string row = chosen_row(p);
      CHECK(row == "xc.block_matmul");
      check_row(row, p, {1e-5, 5e-6 * static_cast<double>(k)});
    }
  Problem p = problem(g, DType::kU4, {5, 64}, 70, 32, false);
  if (rows_for(DType::kU4).size() > 1) CHECK(chosen_row(p) == "xc.byte_matmul");
  p.inputs[2].as<float>()[7] = 1e25f;
  CHECK(chosen_row(p) == "xc.block_matmul");
}

TEST_CASE("backends/byte_matmul: the same bits for every number of threads") {
  Generator g(57);
  for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{130, 70}, {300, 300}, {5, 600}}) {
    Problem p = problem(g, DType::kU4, {rows, 300}, n, 32, true);
    p.inputs[0].as<float>()[300 * 3 + 7] = INFINITY;
    for (const char* row : rows_for(DType::kU4)) check_threads(row, p);
  }
}

}  // namespace
}  // namespace xc
