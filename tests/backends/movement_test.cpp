#include <doctest/doctest.h>

#include "backends/cpu/copy.h"
#include "backends/cpu/vector/transpose_fn.h"
#include "backends/step_harness.h"

namespace xc {
namespace {

using namespace test;

Tensor ints(const std::vector<int64_t>& values) {
  return Tensor::of(values);
}

Problem problem(const char* op, std::vector<Tensor> inputs, Attrs attrs = {}, size_t outputs = 1) {
  Problem p;
  p.op = &get_op(op);
  p.inputs = std::move(inputs);
  p.attrs = std::move(attrs);
  p.outputs = outputs;
  return p;
}
template <class T>
Attrs attr(const char* name, T value) {
  Attrs out;
  out.set(name, std::move(value));
  return out;
}

/// Steering inputs as constants and as run-time values.
void check_both(const char* row, Problem p) {
  check_row(row, p, {});
  p.constant.assign(p.inputs.size(), true);
  p.constant[0] = false;
  check_row(row, p, {});
}

TEST_CASE("backends/copy: transposition of every type and rank") {
  Generator g(31);
  for (DType type :
       {DType::kF32, DType::kF64, DType::kI8, DType::kF16, DType::kBool, DType::kC128}) {
    if (type == DType::kC128) continue;
    check_row("xc.copy", problem("Transpose", {g.tensor(type, {37, 50})}), {});
    check_row("xc.copy",
              problem("Transpose", {g.tensor(type, {3, 17, 4, 33})},
                      attr("perm", std::vector<int64_t>{0, 2, 1, 3})),
              {});
    check_row("xc.copy",
              problem("Transpose", {g.tensor(type, {3, 17, 4, 33})},
                      attr("perm", std::vector<int64_t>{0, 3, 1, 2})),
              {});
    check_row("xc.copy",
              problem("Transpose", {g.tensor(type, {2, 130, 16, 18})},
                      attr("perm", std::vector<int64_t>{0, 2, 3, 1})),
              {});
    check_row("xc.copy", problem("Transpose", {g.tensor(type, {5, 0, 2})}), {});
    check_row("xc.copy", problem("Transpose", {g.tensor(type, {})}), {});
  }
  check_row("xc.copy", problem("Transpose", {g.tensor(DType::kF32, {700, 900})}), {});
}

TEST_CASE("backends/copy: reshapes through any strides") {
  Generator g(32);
  const Tensor x = g.tensor(DType::kF32, {4, 6, 5});
  check_both("xc.copy", problem("Reshape", {x, ints({8, 15})}));
  check_both("xc.copy", problem("Reshape", {x, ints({2, 2, 3, 2, 5})}));
  check_row("xc.copy", problem("Flatten", {x}, attr("axis", int64_t{2})), {});
  check_both("xc.copy", problem("Unsqueeze", {x, ints({1})}));
  check_both("xc.copy", problem("Squeeze", {g.tensor(DType::kI64, {4, 1, 5}), ints({1})}));
  check_row("xc.copy", problem("Identity", {x}), {});
}

TEST_CASE("backends/copy: concat, split, slice, expand, tile, depth and space") {
  Generator g(33);
  for (int64_t axis : {0, 1, 2, -1}) {
    Dims a{3, 4, 5}, b{3, 4, 5};
    b[static_cast<size_t>(axis < 0 ? 2 : axis)] = 7;
    check_row(
        "xc.copy",
        problem("Concat",
                {g.tensor(DType::kF32, a), g.tensor(DType::kF32, b), g.tensor(DType::kF32, a)},
                attr("axis", axis)),
        {});
  }
  // Runs of any length side by side, each part of which takes its turn.
  for (DType type : {DType::kU8, DType::kBF16, DType::kF32, DType::kF64})
    for (const auto& [first, second] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 2}, {3, 5}, {7, 8}, {15, 17}, {31, 64}, {65, 130}, {600, 3}})
      check_row("xc.copy",
                problem("Concat",
                        {g.tensor(type, {300, first}, 0, 9), g.tensor(type, {300, second}, 0, 9),
                         g.tensor(type, {300, first}, 0, 9)},
                        attr("axis", int64_t{1})),
                {});
  check_both("xc.copy", problem("Split", {g.tensor(DType::kF32, {6, 9}), ints({2, 3, 4})},
                                attr("axis", int64_t{1}), 3));
  Problem even = problem("Split", {g.tensor(DType::kF32, {6, 9})}, attr("axis", int64_t{0}), 2);
  even.attrs.set("num_outputs", int64_t{2});
  check_row("xc.copy", even, {});
  const Tensor x = g.tensor(DType::kF32, {9, 10, 11});
  check_both("xc.copy", problem("Slice", {x, ints({1, -3}), ints({7, 100}), ints({0, 2})}));
  check_both("xc.copy",
             problem("Slice", {x, ints({-1, 8}), ints({-100, 1}), ints({1, 0}), ints({-1, -3})}));
  check_both("xc.copy", problem("Slice", {x, ints({5}), ints({5}), ints({0})}));
  check_both("xc.copy", problem("Slice", {x, ints({0, 2, 1}), ints({INT64_MAX, 9, 11}), Tensor(),
                                          ints({1, 1, INT64_MAX})}));
  check_both("xc.copy", problem("Expand", {g.tensor(DType::kF32, {3, 1, 5}), ints({2, 1, 4, 1})}));
  check_both("xc.copy", problem("Tile", {g.tensor(DType::kI16, {2, 3, 1}), ints({2, 1, 4})}));
  for (const char* mode : {"DCR", "CRD"}) {
    Attrs attrs = attr("blocksize", int64_t{2});
    attrs.set("mode", std::string(mode));
    check_row("xc.copy", problem("DepthToSpace", {g.tensor(DType::kF32, {2, 12, 3, 4})}, attrs),
              {});
  }
  check_row(
      "xc.copy",
      problem("SpaceToDepth", {g.tensor(DType::kF32, {2, 3, 4, 6})}, attr("blocksize", int64_t{2})),
      {});
}

TEST_CASE("backends/copy: elements some steps apart, rows of every length") {
  Generator g(35);
  for (int round = 0; round < 120; ++round) {
    const DType type = round % 6 == 5 ? DType::kI64 : round % 6 == 4 ? DType::kF16 : DType::kF32;
    const int64_t step = g.integer(2, 10), begin = g.integer(0, 3);
    const Tensor x =
        g.tensor(type, {g.integer(1, 3), g.integer(1, 9), begin + g.integer(1, 400)}, 0, 99);
    INFO(round << to_text(x.dims()) << " every " << step << " from " << begin);
    const Problem p =
        problem("Slice", {x, ints({begin}), ints({INT64_MAX}), ints({2}), ints({step})});
    check_both("xc.copy", p);
    const int64_t block = g.integer(2, 9);
    const Tensor image = g.tensor(
        type, {g.integer(1, 2), g.integer(1, 4), block * g.integer(1, 5), block * g.integer(1, 40)},
        0, 99);
    INFO("blocks of " << block << " of " << to_text(image.dims()));
    const Problem blocks = problem("SpaceToDepth", {image}, attr("blocksize", block));
    check_row("xc.copy", blocks, {});
    if (round % 10 == 0) check_threads("xc.copy", blocks);
  }
}

TEST_CASE("backends/copy: an element spread over rows of any length") {
  Generator g(36);
  for (DType type : {DType::kI8, DType::kF16, DType::kF32, DType::kF64})
    for (int64_t n : {0, 1, 15, 16, 17, 31, 33, 63, 64, 65, 129, 4097, 20001}) {
      CAPTURE(n);
      check_row("xc.copy", problem("Expand", {g.tensor(type, {3, 1}), ints({3, n})}), {});
      Tensor zero(type, {1});
      check_row("xc.copy", problem("Expand", {zero, ints({n})}), {});
    }
}

TEST_CASE("backends/gather: every form, negative indices, range errors") {
  Generator g(34);
  for (DType type : {DType::kF32, DType::kI64, DType::kU8})
    for (int64_t axis : {0, 1, 2}) {
      const Tensor x = g.tensor(type, {6, 6, 6}, 0, 100);
      check_row("xc.gather",
                problem("Gather", {x, g.tensor(DType::kI64, {2, 5}, -6, 5)}, attr("axis", axis)),
                {});
      check_row("xc.gather",
                problem("Gather", {x, g.tensor(DType::kI32, {}, 0, 5)}, attr("axis", axis)), {});
      check_row("xc.gather",
                problem("GatherElements", {x, g.tensor(DType::kI64, {4, 6, 3}, -6, 5)},
                        attr("axis", axis)),
                {});
    }
  check_row(
      "xc.gather",
      problem("GatherND", {g.tensor(DType::kF32, {4, 5, 6}), g.tensor(DType::kI64, {7, 2}, -4, 3)}),
      {});
  check_row("xc.gather",
            problem("GatherND",
                    {g.tensor(DType::kF32, {4, 5, 6}), g.tensor(DType::kI64, {4, 3, 1}, -5, 4)},
                    attr("batch_dims", int64_t{1})),
            {});
  Tensor words(DType::kString, {3, 2});
  for (int64_t i = 0; i < 6; ++i) words.as<std::string>()[i] = std::string(i * 5, 'x') + "end";
  for (const int64_t axis : {0, 1}) {
    const Tensor picks = ints({1, -1, 0, 1});
    const Tensor got = run_row(find_row("xc.gather texts", "Gather"),
                               problem("Gather", {words, picks}, attr("axis", axis)))[0];
    bool same = got.dims() == (axis == 0 ? Dims{4, 2} : Dims{3, 4});
    for (int64_t i = 0; same && i < got.count(); ++i) {
      const int64_t row = axis == 0 ? i / 2 : i / 4, column = axis == 0 ? i % 2 : i % 4;
      const int64_t pick = picks.as<int64_t>()[axis == 0 ? row : column];
      const int64_t size = axis == 0 ? 3 : 2, at = pick < 0 ? pick + size : pick;
      same = got.as<std::string>()[i] ==
             words.as<std::string>()[axis == 0 ? at * 2 + column : row * 2 + at];
    }
    CHECK(same);
  }
  CHECK_THROWS_AS(
      run_row(find_row("xc.gather texts", "Gather"), problem("Gather", {words, ints({0, 3})})),
      Error);
  const auto& row = find_row("xc.gather", "Gather");
  for (int64_t bad : {6, -7}) {
    const Problem p = problem("Gather", {g.tensor(DType::kF32, {6, 2}), ints({0, bad})});
    CHECK_THROWS_AS(run_row(row, p), Error);
  }
}

TEST_CASE("backends/gather: many picks of single elements, in any number of tasks") {
  Generator g(35);
  for (const auto& [outer, n, picks] :
       std::vector<std::array<int64_t, 3>>{{2, 50, 200000}, {64, 1000, 10000}, {3000, 7, 90}}) {
    Tensor indices(DType::kI64, {picks});
    for (int64_t i = 0; i < picks; ++i) indices.as<int64_t>()[i] = g.integer(-n, n - 1);
    const Problem p =
        problem("Gather", {g.tensor(DType::kF32, {outer, n}), indices}, attr("axis", int64_t{1}));
    const auto& row = find_row("xc.gather", "Gather");
    Tensor want(DType::kF32, {outer, picks});
    for (int64_t i = 0; i < want.count(); ++i) {
      const int64_t at = p.inputs[1].as<int64_t>()[i % picks];
      want.as<float>()[i] = p.inputs[0].as<float>()[i / picks * n + (at < 0 ? at + n : at)];
    }
    for (const int64_t pieces : {1, 3, 0}) {
      RunOptions options;
      options.pieces = pieces;
      CHECK(same_bits(run_row(row, p, options)[0], want));
    }
    // No task looks up what is another's.
    const auto bound = bind_row(row, p);
    CHECK(bound->tasks > 1);
    CHECK(bound->scratch_bytes <= 64 << 10);
  }
}

template <class T>
void check_matrices() {
  using Strides = std::pair<int64_t, int64_t>;
  std::vector<T> from(4096);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(i * 37);
  for (const int64_t rows : {1, 2, 3, 4, 5, 70})
    for (const int64_t columns : {1, 2, 3, 4, 17})
      for (const auto& [from_row, from_column] :
           {Strides{columns, 1}, Strides{1, rows}, Strides{1, rows + 3}, Strides{0, 3},
            Strides{1, 0}, Strides{2, 2 * rows}})
        for (const auto& [to_row, to_column] : {Strides{columns, 1}, Strides{1, rows},
                                                Strides{columns + 1, 1}, Strides{2 * columns, 2}}) {
          INFO(rows << " x " << columns << " from " << from_row << ", " << from_column << " to "
                    << to_row << ", " << to_column);
          std::vector<T> to(4096, 7), want = to;
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c)
              want[static_cast<size_t>(r * to_row + c * to_column)] =
                  from[static_cast<size_t>(r * from_row + c * from_column)];
          cpu::copy_matrix(
              {rows, columns, from_row, from_column, to_row, to_column, int64_t{sizeof(T)}},
              from.data(), to.data());
          CHECK(to == want);
        }
}
TEST_CASE("backends/movement: a matrix is copied as element by element, whatever its strides") {
  check_matrices<uint8_t>();
  check_matrices<uint16_t>();
  check_matrices<uint32_t>();
  check_matrices<uint64_t>();
}

/// Planes of 2 to 4 channels into pixels and back.
template <class T, class Transpose>
void check_channels(Transpose transpose) {
  for (const int64_t channels : {2, 3, 4})
    for (const int64_t pixels : {5, 15, 16, 17, 64, 100}) {
      const int64_t plane = pixels + 2;  // what lies between planes is left alone
      const auto size = static_cast<size_t>(channels * plane);
      std::vector<T> planes(size), dense(static_cast<size_t>(channels * pixels)), back(size, 7);
      for (size_t i = 0; i < size; ++i) planes[i] = static_cast<T>(i * 31 + 1);
      auto want = dense;
      auto want_back = back;
      for (int64_t p = 0; p < pixels; ++p)
        for (int64_t c = 0; c < channels; ++c) {
          const auto at = static_cast<size_t>(c * plane + p);
          want[static_cast<size_t>(p * channels + c)] = want_back[at] = planes[at];
        }
      INFO(channels << " x " << pixels << " of " << sizeof(T));
      transpose(planes.data(), dense.data(), pixels, channels, plane, channels);
      CHECK(dense == want);
      transpose(want.data(), back.data(), channels, pixels, channels, plane);
      CHECK(back == want_back);
    }
}
TEST_CASE("backends/movement: channels into pixels and back, on every instruction set") {
  check_channels<uint8_t>(cpu::baseline::transpose_1);
  check_channels<uint16_t>(cpu::baseline::transpose_2);
  check_channels<uint32_t>(cpu::baseline::transpose_4);
#if defined(__x86_64__)
  if (cpu_info().isa >= Isa::kAvx2) {
    check_channels<uint8_t>(cpu::avx2::transpose_1);
    check_channels<uint16_t>(cpu::avx2::transpose_2);
    check_channels<uint32_t>(cpu::avx2::transpose_4);
  }
  if (cpu_info().isa >= Isa::kAvx512) {
    check_channels<uint8_t>(cpu::avx512::transpose_1);
    check_channels<uint16_t>(cpu::avx512::transpose_2);
    check_channels<uint32_t>(cpu::avx512::transpose_4);
  }
#endif
}

TEST_CASE("backends/copy: images of few channels between planes and pixels, cut into tasks") {
  Generator g(37);
  for (DType type : {DType::kU8, DType::kBF16, DType::kF32, DType::kI64})
    for (int64_t channels : {1, 2, 3, 4, 5}) {
      INFO(name(type) << " " << channels);
      const Tensor pixels = g.tensor(type, {2, 150, 301, channels}, 0, 99),
                   planes = g.tensor(type, {2, channels, 150, 301}, 0, 99);
      const Problem split =
          problem("Transpose", {pixels}, attr("perm", std::vector<int64_t>{0, 3, 1, 2}));
      const Problem merge =
          problem("Transpose", {planes}, attr("perm", std::vector<int64_t>{0, 2, 3, 1}));
      check_row("xc.copy", split, {});
      check_row("xc.copy", merge, {});
      check_threads("xc.copy", split);
      check_threads("xc.copy", merge);
    }
}

TEST_CASE("backends/copy: tiles that repeat several axes, cut into tasks") {
  Generator g(39);
  for (DType type : {DType::kU8, DType::kF32})
    for (const Dims& dims : {Dims{40, 8, 9}, Dims{1, 8, 9}, Dims{40, 1, 9}, Dims{40, 8, 1},
                             Dims{3, 40, 200}, Dims{0, 8, 9}})
      for (const auto& times : {std::vector<int64_t>{1, 4, 5},
                                {1, 0, 2},
                                {1, 2, 1},
                                {1, 1, 3},
                                {2, 3, 2},
                                {1, 40, 30}}) {
        const Dims image{2, dims[0], dims[1], dims[2]};
        INFO(name(type) << to_text(dims) << " by " << times[1] << ", " << times[2]);
        const Problem p = problem(
            "Tile", {g.tensor(type, image, 0, 99), ints({1, times[0], times[1], times[2]})});
        check_row("xc.copy", p, {});
        check_threads("xc.copy", p);
      }
}

TEST_CASE("backends/copy: single elements repeated, some rows of them") {
  Generator g(38);
  for (DType type : {DType::kU8, DType::kF16, DType::kF32, DType::kF64})
    for (int64_t times : {2, 3, 4, 5, 8, 16, 17})
      for (const Dims& dims : {Dims{3, 1, 40, 1}, Dims{2, 2, 7, 1}, Dims{1, 1, 3, 1}}) {
        INFO(name(type) << to_text(dims) << " " << times);
        check_row("xc.copy",
                  problem("Expand", {g.tensor(type, dims, 0, 99), ints({dims[0], 2, 1, times})}),
                  {});
      }
}

TEST_CASE("backends/movement: rows of elements some steps apart, on every instruction set") {
  Generator g(36);
  std::vector<uint32_t> from(20000);
  for (uint32_t& v : from) v = static_cast<uint32_t>(g.integer(0, 1 << 30));
  std::vector<bool (*)(const uint32_t*, uint32_t*, const cpu::EveryCopy&)> every{
      cpu::baseline::copy_every_4};
#if defined(__x86_64__)
  if (cpu_info().isa >= Isa::kAvx2) every.push_back(cpu::avx2::copy_every_4);
  if (cpu_info().isa >= Isa::kAvx512) every.push_back(cpu::avx512::copy_every_4);
#endif
  for (const auto copy : every)
    for (int round = 0; round < 300; ++round) {
      const int64_t n = g.integer(1, 70), step = g.integer(2, 9), rows = g.integer(1, 4);
      // The last element is the last one that may be read.
      const int64_t size = (n - 1) * step + 1, from_row = size + g.integer(-1, 5);
      const std::vector<uint32_t> x(from.begin(), from.begin() + (rows - 1) * from_row + size);
      std::vector<uint32_t> y(static_cast<size_t>(rows * (n + 3)), 7), want = y;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < n; ++i)
          want[static_cast<size_t>(r * (n + 3) + i)] =
              x[static_cast<size_t>(r * from_row + i * step)];
      const bool done = copy(x.data(), y.data(), {rows, n, step, from_row, n + 3});
      CHECK((step > 2 || done));
      if (done) CHECK(y == want);
    }
}

}  // namespace
}  // namespace xc
