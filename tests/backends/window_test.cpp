#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "backends/cpu/axis_sources.h"
#include "backends/cpu/vector/lines_fn.h"
#include "backends/cpu/vector/pool_fn.h"
#include "backends/step_harness.h"

namespace xc {
namespace {

using namespace test;
using Ints = std::vector<int64_t>;

TEST_CASE("backends/pool: windows, orders, padding") {
  Generator g(71);
  struct Case {
    Dims x;
    Ints kernel, strides, pads, dilations;
    bool ceil = false;
  };
  for (const Case& c : std::vector<Case>{{{2, 5, 9, 11}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {}},
                                         {{1, 70, 8, 8}, {2, 2}, {2, 2}, {}, {}},
                                         {{1, 3, 7, 9}, {3, 2}, {1, 3}, {1, 0, 2, 1}, {}, true},
                                         {{1, 4, 12}, {3}, {2}, {}, {2}},
                                         {{1, 2, 5, 6, 7}, {2, 2, 2}, {1, 2, 1}, {}, {}},
                                         {{1, 64, 30, 30}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {}},
                                         // Overlapping so much that rows are folded first.
                                         {{2, 40, 9, 10}, {5, 5}, {1, 1}, {2, 2, 2, 2}, {}},
                                         {{1, 101, 6, 13}, {3, 4}, {1, 1}, {0, 3, 2, 1}, {2, 3}},
                                         {{1, 34, 7, 9}, {7, 5}, {3, 2}, {6, 4, 6, 4}, {}, true},
                                         {{1, 19, 4, 5, 6}, {3, 3, 3}, {1, 1, 1}, {}, {}}})
    for (const char* op : {"MaxPool", "AveragePool"})
      for (int64_t include : {0, 1}) {
        const bool average = std::string_view(op) == "AveragePool";
        if (include && (!average || c.ceil)) continue;
        Problem p;
        p.op = &get_op(op);
        p.inputs = {g.tensor(DType::kF32, c.x)};
        p.attrs.set("kernel_shape", c.kernel);
        p.attrs.set("strides", c.strides);
        if (!c.pads.empty()) p.attrs.set("pads", c.pads);
        if (!c.dilations.empty()) p.attrs.set("dilations", c.dilations);
        p.attrs.set("ceil_mode", int64_t{c.ceil});
        if (average) p.attrs.set("count_include_pad", include);
        INFO(op << to_text(c.x) << include);
        check_row("xc.pool", p, average ? Bounds{1e-6, 1e-6} : Bounds{});
      }
  for (const char* op : {"GlobalMaxPool", "GlobalAveragePool"})
    for (const Dims& dims : {Dims{2, 7, 5, 6}, Dims{1, 300, 7, 7}, Dims{3, 4, 100}}) {
      Problem p;
      p.op = &get_op(op);
      p.inputs = {g.tensor(DType::kF32, dims)};
      check_row("xc.reduce", p, {1e-6, 1e-6});
    }
}

TEST_CASE("backends/pool: rows of every length, strides, dilations and padding, NaN among them") {
  Generator g(78);
  for (int round = 0; round < 120; ++round) {
    const Ints kernel{g.integer(1, 4), g.integer(1, 6)},
        dilations{g.integer(1, 2), g.integer(1, 3)};
    const Ints strides{g.integer(1, 3), g.integer(1, 10)};
    const int64_t tall = (kernel[0] - 1) * dilations[0], wide = (kernel[1] - 1) * dilations[1];
    const Ints pads{g.integer(0, tall), g.integer(0, wide), g.integer(0, tall), g.integer(0, wide)};
    // Planes of few rows, of which several go at once, and of more rows than are described at once.
    const int64_t most_rows = round % 10 == 0 ? 900 : 20;
    Problem p;
    p.op = &get_op(round % 2 ? "MaxPool" : "AveragePool");
    Tensor x =
        g.tensor(DType::kF32, {g.integer(1, 2), g.integer(1, 5), tall + g.integer(1, most_rows),
                               wide + g.integer(1, round % 3 == 0 ? 200 : 40)});
    if (round % 4 == 1)
      for (int64_t i = 0; i < x.count(); i += g.integer(1, 60))
        store_double(x.data(), DType::kF32, i, g.integer(0, 1) ? NAN : -INFINITY);
    p.inputs = {x};
    p.attrs.set("kernel_shape", kernel);
    p.attrs.set("strides", strides);
    p.attrs.set("pads", pads);
    p.attrs.set("dilations", dilations);
    if (round % 2 == 0) p.attrs.set("count_include_pad", g.integer(0, 1));
    INFO(round << " " << to_text(x.dims()));
    check_row("xc.pool", p, round % 2 ? Bounds{} : Bounds{1e-6, 1e-6});
    if (round % 8 < 2) check_threads("xc.pool", p);
  }
}

TEST_CASE("backends/pool: windows longer than a vector, of every stride, NaN among the elements") {
  Generator g(77);
  for (int round = 0; round < 40; ++round) {
    const Ints kernel{g.integer(1, 3), g.integer(16, 130)};
    Problem p;
    p.op = &get_op(round % 4 ? "MaxPool" : "AveragePool");
    Tensor x = g.tensor(DType::kF32, {2, 3, g.integer(3, 6), kernel[1] + g.integer(0, 300)});
    if (round % 4 == 1)
      for (int64_t i = 0; i < x.count(); i += g.integer(1, 90))
        store_double(x.data(), DType::kF32, i, g.integer(0, 1) ? NAN : -INFINITY);
    p.inputs = {x};
    p.attrs.set("kernel_shape", kernel);
    p.attrs.set("strides", Ints{1, g.integer(1, 9)});
    p.attrs.set("pads", Ints{0, g.integer(0, 20), 0, g.integer(0, kernel[1] - 1)});
    INFO(round << " " << to_text(x.dims()) << " by " << kernel[1]);
    check_row("xc.pool", p, round % 4 ? Bounds{} : Bounds{1e-6, 1e-6});
    if (round % 8 < 2) check_threads("xc.pool", p);
  }
}

TEST_CASE("backends/pool: lines are the same on every instruction set") {
  Generator g(79);
  for (int round = 0; round < 300; ++round) {
    const bool largest = round % 2 == 0;
    const bool wide = round % 3 == 0;
    const cpu::LineWindow window =
        wide ? cpu::LineWindow{g.integer(14, 70), g.integer(1, 8) / 8 + 1, g.integer(1, 4)}
             : cpu::LineWindow{g.integer(1, 5), g.integer(1, 3), g.integer(1, 10)};
    const int64_t input = g.integer(1, 90), pad = g.integer(0, 20), output = g.integer(1, 90);
    const int64_t inside = (pad + 15) / 16 * 16;
    const int64_t needed =
        std::max(inside + input + 16,
                 inside - pad + (output + 16) * window.stride + window.kernel * window.dilation);
    const float padding = largest ? -INFINITY : 0.0f;
    std::vector<float> x(600), columns(static_cast<size_t>(output));
    for (float& v : x)
      v = g.integer(0, 30) == 0 && largest ? NAN : static_cast<float>(g.real(-2, 2));
    for (float& v : columns) v = static_cast<float>(g.integer(1, 5));
    const Ints taps{g.integer(0, 100), 150 + g.integer(0, 100), 300 + g.integer(0, 200)};
    const std::vector<cpu::PoolLine> lines{{taps.data(), 3, 0, 3.0f},
                                           {taps.data() + 1, 1, output, 2.0f},
                                           {taps.data(), 0, 2 * output, 1}};
    // Plain loops, in the same order.
    std::vector<float> want;
    for (const cpu::PoolLine& line : lines) {
      const auto fold = [&](float a, float b) {
        return !largest ? a + b : std::isnan(a) || a > b ? a : b;
      };
      const auto element = [&](int64_t i) {
        if (i < pad || i >= pad + input) return padding;
        float v = x[static_cast<size_t>(line.taps[0] + i - pad)];
        for (int64_t k = 1; k < line.count; ++k)
          v = fold(v, x[static_cast<size_t>(line.taps[k] + i - pad)]);
        return v;
      };
      for (int64_t o = 0; o < output; ++o) {
        float v = element(o * window.stride);
        for (int64_t k = 1; k < window.kernel; ++k)
          v = fold(v, element(o * window.stride + k * window.dilation));
        if (!largest) v = v / (columns[static_cast<size_t>(o)] * line.rows);
        want.push_back(line.count == 0 ? padding : v);
      }
    }
    for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
      if (isa > cpu_info().isa) continue;
      const int64_t pitch = (needed + 15) / 16 * 16;
      std::vector<float> buffer(static_cast<size_t>(3 * pitch), padding), y(want.size() + 1, 7.0f);
      const cpu::PoolLines all{window, input, output,  inside - pad,
                               inside, pitch, padding, buffer.data()};
      const cpu::PoolFns& fns = cpu::pool_fns(isa);
      if (largest)
        fns.max_lines(x.data(), y.data(), lines.data(), 3, all);
      else
        fns.average_lines(x.data(), y.data(), lines.data(), 3, all, columns.data());
      INFO(round);
      CHECK(y.back() == 7.0f);
      for (size_t i = 0; i < want.size(); ++i)
        CHECK((y[i] == want[i] || (std::isnan(y[i]) && std::isnan(want[i]))));
    }
  }
}

TEST_CASE("backends/pool: where the largest elements are, among equals and NaN") {
  Generator g(76);
  struct Case {
    Dims x;
    Ints kernel, strides, pads, dilations;
    bool ceil = false;
  };
  for (const Case& c : std::vector<Case>{{{2, 5, 9, 11}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {}},
                                         {{1, 70, 8, 8}, {2, 2}, {2, 2}, {}, {}},
                                         {{1, 3, 7, 9}, {3, 2}, {1, 3}, {1, 0, 2, 1}, {}, true},
                                         {{1, 4, 12}, {3}, {2}, {}, {2}},
                                         {{3, 1, 70}, {5}, {1}, {4, 4}, {}},
                                         {{1, 2, 5, 6, 7}, {2, 2, 2}, {1, 2, 1}, {}, {}},
                                         {{1, 64, 30, 50}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {}},
                                         {{1, 101, 6, 13}, {3, 4}, {1, 1}, {0, 3, 2, 1}, {2, 3}},
                                         // Windows over padding alone.
                                         {{1, 2, 2, 3}, {2, 2}, {1, 1}, {3, 3, 3, 3}, {4, 4}},
                                         {{1, 20, 2, 3}, {2, 2}, {1, 1}, {3, 3, 3, 3}, {4, 4}},
                                         {{2, 3, 0, 4}, {2, 2}, {1, 1}, {1, 1, 1, 1}, {}}})
    for (const int64_t order : {0, 1})
      for (const DType type : {DType::kF32, DType::kF64, DType::kI8, DType::kU8}) {
        Tensor x = g.tensor(type, c.x, type == DType::kU8 ? 0 : -3, 3);
        if (is_float(type))
          for (int64_t i = 0; i < x.count(); ++i) {
            const int64_t pick = g.integer(0, 40);
            const double v = pick == 0   ? NAN
                             : pick <= 2 ? -INFINITY
                                         : std::round(load_double(x.data(), type, i));
            store_double(x.data(), type, i, v);
          }
        Problem p;
        p.op = &get_op("MaxPool");
        p.inputs = {x};
        p.outputs = 2;
        p.attrs.set("kernel_shape", c.kernel);
        p.attrs.set("strides", c.strides);
        if (!c.pads.empty()) p.attrs.set("pads", c.pads);
        if (!c.dilations.empty()) p.attrs.set("dilations", c.dilations);
        p.attrs.set("ceil_mode", int64_t{c.ceil});
        p.attrs.set("storage_order", order);
        INFO(name(type) << to_text(c.x) << " order " << order);
        check_row("xc.max_pool", p, {});
        CHECK(chosen_row(p) == "xc.max_pool");
        p.outputs = 1;
        check_row("xc.max_pool", p, {});
        CHECK(chosen_row(p) == (type == DType::kF64 ? "xc.max_pool" : "xc.pool"));
        if (type != DType::kF64) check_row("xc.pool", p, {});
      }
}

TEST_CASE("backends/pool: the search for the largest is the same on every instruction set") {
  Generator g(77);
  for (int round = 0; round < 300; ++round) {
    const auto number = [&] {
      const int64_t pick = g.integer(0, 12);
      return pick == 0 ? NAN : pick < 3 ? -INFINITY : static_cast<float>(g.integer(0, 4));
    };
    const int64_t n = g.integer(1, 70), taps = g.integer(1, 5);
    const auto step = static_cast<int32_t>(g.integer(0, 1));
    const cpu::LineWindow window{g.integer(1, 4), g.integer(1, 3), g.integer(1, 3)};
    const auto size = static_cast<size_t>(n);
    std::vector<float> x(500), row((size + 16) * 3 + 12);
    for (auto* values : {&x, &row})
      for (float& v : *values) v = number();
    std::vector<int32_t> where(row.size()), places;
    for (int32_t& place : where)
      place = g.integer(0, 9) == 0 ? cpu::kNowhere : static_cast<int32_t>(g.integer(0, 999));
    Ints offsets;
    for (int64_t k = 0; k < taps; ++k) {
      offsets.push_back(k * 90 + g.integer(0, 20));
      places.push_back(static_cast<int32_t>(k) * 100);
    }
    // Plain loops: a candidate wins that is larger, or as large and nearer.
    const auto better = [](float v, int32_t at, float best, int32_t place) {
      if (std::isnan(v) != std::isnan(best)) return std::isnan(v);
      return v > best || (at < place && (v == best || std::isnan(v)));
    };
    std::vector<float> largest(size), along(size);
    std::vector<int32_t> first(size), nearest(size);
    for (size_t i = 0; i < size; ++i)
      for (size_t k = 0; k < offsets.size(); ++k) {
        const float v = x[static_cast<size_t>(offsets[k]) + i];
        const int32_t at = places[k] + static_cast<int32_t>(i) * step;
        if (k > 0 && !better(v, at, largest[i], first[i])) continue;
        largest[i] = v;
        first[i] = at;
      }
    for (size_t i = 0; i < size; ++i)
      for (int64_t k = 0; k < window.kernel; ++k) {
        const auto from =
            i * static_cast<size_t>(window.stride) + static_cast<size_t>(k * window.dilation);
        if (k > 0 && !better(row[from], where[from], along[i], nearest[i])) continue;
        along[i] = row[from];
        nearest[i] = where[from];
      }
    for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
      if (isa > cpu_info().isa) continue;
      const cpu::PoolFns& fns = cpu::pool_fns(isa);
      std::vector<float> value(size + 1, 7);
      std::vector<int32_t> place(size + 1, 7);
      const auto same = [&](const std::vector<float>& v, const std::vector<int32_t>& at) {
        for (size_t i = 0; i < size; ++i)
          if (place[i] != at[i] ||
              !(value[i] == v[i] || (std::isnan(value[i]) && std::isnan(v[i]))))
            return false;
        return value[size] == 7 && place[size] == 7;
      };
      fns.find_max(x.data(), offsets.data(), places.data(), taps, step,
                   {value.data(), place.data()}, n);
      CHECK(same(largest, first));
      fns.find_max_line({row.data(), where.data()}, window, {value.data(), place.data()}, n);
      CHECK(same(along, nearest));
    }
  }
}

TEST_CASE("backends/unpool: MaxUnpool puts values back, into the image or a larger one") {
  Generator g(78);
  struct Case {
    Dims x;
    Ints kernel, strides, pads, shape;
  };
  for (const Case& c : std::vector<Case>{{{2, 3, 4, 5}, {2, 2}, {2, 2}, {}, {}},
                                         {{1, 4, 9}, {3}, {2}, {1, 0}, {}},
                                         {{1, 2, 3, 2, 4}, {2, 2, 2}, {2, 2, 2}, {}, {}},
                                         {{2, 3, 4, 5}, {2, 2}, {2, 2}, {}, {2, 3, 9, 13}},
                                         {{0, 3, 4, 5}, {2, 2}, {2, 2}, {}, {}}})
    for (const DType type : {DType::kF32, DType::kF64, DType::kF16}) {
      int64_t elements = c.x[0] * c.x[1];
      for (size_t i = 0; i < c.kernel.size(); ++i)
        elements *= (c.x[i + 2] - 1) * c.strides[i] + c.kernel[i] -
                    (c.pads.empty() ? 0 : c.pads[i] + c.pads[i + c.kernel.size()]);
      Problem p;
      p.op = &get_op("MaxUnpool");
      p.attrs.set("kernel_shape", c.kernel);
      p.attrs.set("strides", c.strides);
      if (!c.pads.empty()) p.attrs.set("pads", c.pads);
      // Some of the indices meet: the last one counts.
      p.inputs = {
          g.tensor(type, c.x),
          g.tensor(DType::kI64, c.x, 0, static_cast<double>(std::max<int64_t>(elements, 1) - 1))};
      if (!c.shape.empty()) p.inputs.push_back(Tensor::of(c.shape));
      p.constant = {false, false, true};
      INFO(name(type) << to_text(c.x));
      check_row("xc.unpool", p, {});
      CHECK(chosen_row(p) == "xc.unpool");
      if (elements == 0) continue;
      p.inputs[1].as<int64_t>()[3] = elements;
      CHECK_THROWS_AS(run_row(find_row("xc.unpool", "MaxUnpool"), p), Error);
      p.inputs[1].as<int64_t>()[3] = -1;
      CHECK_THROWS_AS(run_row(find_row("xc.unpool", "MaxUnpool"), p), Error);
    }
}

TEST_CASE("backends/unpool: Col2Im adds blocks up, of any stride, dilation and number of axes") {
  Generator g(79);
  struct Case {
    int64_t images, channels;
    Ints image, block, strides, pads, dilations;
  };
  for (const Case& c : std::vector<Case>{{2, 3, {9, 11}, {3, 3}, {}, {}, {}},
                                         {1, 2, {9, 11}, {3, 2}, {2, 3}, {1, 0, 2, 1}, {}},
                                         {1, 5, {40, 50}, {5, 4}, {1, 1}, {2, 2, 2, 2}, {2, 3}},
                                         {2, 1, {70}, {8}, {4}, {3, 3}, {}},
                                         {1, 2, {4, 5, 6}, {2, 2, 3}, {1, 2, 1}, {}, {}},
                                         {0, 2, {9, 11}, {3, 3}, {}, {}, {}}})
    for (const DType type : {DType::kF32, DType::kF64, DType::kI32, DType::kU8}) {
      const size_t rank = c.image.size();
      int64_t block = 1, positions = 1;
      for (size_t i = 0; i < rank; ++i) {
        const int64_t stride = c.strides.empty() ? 1 : c.strides[i],
                      dilation = c.dilations.empty() ? 1 : c.dilations[i],
                      pads = c.pads.empty() ? 0 : c.pads[i] + c.pads[i + rank];
        block *= c.block[i];
        positions *= (c.image[i] + pads - (c.block[i] - 1) * dilation - 1) / stride + 1;
      }
      Problem p;
      p.op = &get_op("Col2Im");
      if (!c.strides.empty()) p.attrs.set("strides", c.strides);
      if (!c.pads.empty()) p.attrs.set("pads", c.pads);
      if (!c.dilations.empty()) p.attrs.set("dilations", c.dilations);
      p.inputs = {g.tensor(type, {c.images, c.channels * block, positions}, 0, 200),
                  Tensor::of(c.image), Tensor::of(c.block)};
      const Bounds bounds = is_float(type) ? Bounds{1e-6, 1e-6} : Bounds{};
      INFO(name(type) << to_text(c.image));
      p.constant = {false, true, true};
      check_row("xc.unpool", p, bounds);
      CHECK(chosen_row(p) == "xc.unpool");
      p.constant = {false, false, true};  // an image of the run
      check_row("xc.unpool", p, bounds);
      p.constant = {};
      CHECK(chosen_row(p) == "reference");
    }
}

TEST_CASE("backends/roi_pool: regions in and beyond the image, bins without pixels, NaN") {
  Generator g(80);
  for (const double scale : {1.0, 0.5, 3.0})
    for (const auto& [down, across] :
         std::vector<std::pair<int64_t, int64_t>>{{2, 3}, {7, 7}, {1, 1}}) {
      Problem p;
      p.op = &get_op("MaxRoiPool");
      p.attrs.set("pooled_shape", Ints{down, across});
      p.attrs.set("spatial_scale", scale);
      Tensor rois = g.tensor(DType::kF32, {9, 5}, -4, 25);
      for (int64_t r = 0; r < 9; ++r) {
        float* roi = rois.as<float>() + r * 5;
        roi[0] = static_cast<float>(r % 2);
        if (r < 6)
          for (int k : {1, 2}) roi[k + 2] = roi[k] + std::fabs(roi[k + 2]) / 2;
      }
      p.inputs = {g.tensor(DType::kF32, {2, 5, 19, 23}), rois};
      for (int64_t i = 0; i < p.inputs[0].count(); i += 7) p.inputs[0].as<float>()[i] = NAN;
      INFO(scale << " " << down << "x" << across);
      check_row("xc.roi_pool", p, {});
      CHECK(chosen_row(p) == "xc.roi_pool");
      rois.as<float>()[0] = 2;
      CHECK_THROWS_AS(run_row(find_row("xc.roi_pool", "MaxRoiPool"), p), Error);
    }
}

TEST_CASE("backends/fill: AffineGrid over two and three axes") {
  Generator g(81);
  for (const int64_t align : {0, 1})
    for (const Ints& size : std::vector<Ints>{{2, 3, 5, 7},
                                              {1, 1, 1, 1},
                                              {1, 2, 40, 1},
                                              {3, 1, 4, 5, 6},
                                              {1, 1, 1, 5, 1},
                                              {0, 1, 3, 4}}) {
      const auto axes = static_cast<int64_t>(size.size()) - 2;
      Problem p;
      p.op = &get_op("AffineGrid");
      p.attrs.set("align_corners", align);
      p.inputs = {g.tensor(DType::kF32, {size[0], axes, axes + 1}), Tensor::of(size)};
      INFO(align << to_text(size));
      check_row("xc.fill", p, {1e-6, 1e-6});
      CHECK(chosen_row(p) == "xc.fill");
      p.inputs[0] = g.tensor(DType::kF32, {size[0] + 1, axes, axes + 1});
      CHECK_THROWS_AS(run_row(find_row("xc.fill", "AffineGrid"), p), Error);
    }
}

TEST_CASE("backends/mapped: every mode of Pad, with constant and run-time pads") {
  Generator g(72);
  for (const char* mode : {"constant", "reflect", "edge", "wrap"})
    for (DType type : {DType::kF32, DType::kI64, DType::kU8})
      for (const auto& [dims, pads] :
           std::vector<std::pair<Dims, Ints>>{{{3, 4}, {1, 2, 2, 3}},
                                              {{5, 40}, {0, 9, 0, 30}},
                                              {{4, 3, 6}, {0, -1, 2, 1, 0, -2}},
                                              {{6}, {-2, -1}},
                                              {{33}, {40, 100}},
                                              {{2, 12, 3}, {0, 5, 0, 1, 20, 0}},
                                              {{3, 9, 1}, {2, -1, 0, 0, 15, 0}},
                                              {{1, 2}, {3, 11, 0, 12}},
                                              // Whole rows, as of channels that lie innermost.
                                              {{9, 10, 16}, {2, 3, 0, 4, 1, 0}},
                                              {{2, 20, 5}, {0, 7, 0, 1, 9, 0}},
                                              {{3, 12, 130}, {1, -2, 0, 0, 5, 0}}}) {
        Problem p;
        p.op = &get_op("Pad");
        p.attrs.set("mode", std::string(mode));
        p.inputs = {g.tensor(type, dims, 0, 50), Tensor::of(pads)};
        INFO(mode << to_text(dims));
        check_row("xc.mapped", p, {});
        p.constant = {false, true};
        check_row("xc.mapped", p, {});
        p.inputs.push_back(g.tensor(type, {}, 1, 9));
        check_row("xc.mapped", p, {});
      }
}

TEST_CASE("backends/mapped: pieces of an axis say what the elements said") {
  Generator g(74);
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> sources;
    for (int64_t part = g.integer(1, 4); part-- > 0;) {
      const int64_t length = g.integer(1, 20), step = g.integer(-2, 2), from = g.integer(40, 60);
      const bool random = g.integer(0, 2) == 0;
      for (int64_t i = 0; i < length; ++i)
        sources.push_back(random ? g.integer(0, 100) : from + i * step);
    }
    if (g.integer(0, 4) == 0)
      for (size_t i = 0; i < sources.size(); ++i) sources[i] = static_cast<int64_t>(7 + i / 3);
    cpu::AxisSources axis(sources);
    REQUIRE(axis.size() == static_cast<int64_t>(sources.size()));
    size_t piece = 0;
    for (int turn = 0; turn < 50; ++turn) {
      const auto i = g.integer(0, axis.size() - 1);
      CHECK(axis.at(i, piece) == sources[static_cast<size_t>(i)]);
    }
    // Each element as three adjacent ones of the source.
    cpu::AxisSources wide;
    wide.add_filled(2);
    wide.add_strided(axis.size(), 6, 3);
    REQUIRE(wide.absorb(3));
    CHECK(wide.at(5, piece = 0) == cpu::AxisSources::kFill);
    CHECK(wide.at(6, piece) == 6);
    CHECK(wide.at(3 * axis.size() + 5, piece) == 3 * axis.size() + 5);
    if (axis.size() > 1) CHECK(!axis.absorb(1000));
  }
}

TEST_CASE("backends/mapped: Resize, nearest and interpolating") {
  Generator g(73);
  for (const char* mode : {"nearest", "linear", "cubic"})
    for (const char* coordinates :
         {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"})
      for (bool by_scale : {true, false})
        for (const auto& [dims, scales] :
             std::vector<std::pair<Dims, std::vector<float>>>{{{1, 3, 6, 8}, {1, 1, 2, 2}},
                                                              {{2, 2, 7, 5}, {1, 1, 0.6f, 1.7f}},
                                                              {{4, 9}, {2.5f, 1}}}) {
          Problem p;
          p.op = &get_op("Resize");
          p.attrs.set("mode", std::string(mode));
          p.attrs.set("coordinate_transformation_mode", std::string(coordinates));
          p.attrs.set("nearest_mode", std::string("floor"));
          p.inputs = {g.tensor(DType::kF32, dims), Tensor()};
          Ints sizes;
          for (size_t i = 0; i < dims.size(); ++i)
            sizes.push_back(static_cast<int64_t>(static_cast<float>(dims[i]) * scales[i]));
          if (by_scale)
            p.inputs.push_back(Tensor::of(scales));
          else {
            p.inputs.push_back(Tensor());
            p.inputs.push_back(Tensor::of(sizes));
          }
          p.constant = {false, true, true, true};
          INFO(mode << coordinates << to_text(dims) << by_scale);
          const bool nearest = std::string_view(mode) == "nearest";
          check_row(nearest ? "xc.mapped" : "xc.resize", p,
                    nearest ? Bounds{} : Bounds{1e-5, 1e-5});
          p.constant = {};  // scales of the run
          check_row(nearest ? "xc.mapped" : "xc.resize", p,
                    nearest ? Bounds{} : Bounds{1e-5, 1e-5});
        }
}

TEST_CASE("backends/mapped: nearest elements of rows of every length and scale") {
  Generator g(80);
  for (int round = 0; round < 150; ++round) {
    // Short rows, of which several go at once, and long ones; scales of a third to five.
    const int64_t most = round % 3 == 0 ? 150 : 20;
    const Ints from{g.integer(1, 2), g.integer(1, 4), g.integer(1, 12), g.integer(1, most)};
    Ints to = from;
    for (size_t axis = 2; axis < 4; ++axis)
      to[axis] = std::max<int64_t>(1, round % 4 == 0 ? from[axis] * g.integer(1, 5)
                                                     : g.integer(from[axis] / 3, from[axis] * 3));
    if (round % 7 == 0) to[1] = from[1] * 2;
    Problem p;
    p.op = &get_op("Resize");
    p.attrs.set("mode", std::string("nearest"));
    p.attrs.set("coordinate_transformation_mode",
                std::string(round % 2 ? "asymmetric" : "half_pixel"));
    if (round % 2) p.attrs.set("nearest_mode", std::string("floor"));
    const DType type = round % 5 == 4 ? DType::kI64 : round % 5 == 3 ? DType::kI32 : DType::kF32;
    p.inputs = {g.tensor(type, from), Tensor(), Tensor(), Tensor::of(to)};
    p.constant = {false, true, true, true};
    INFO(round << to_text(from) << to_text(to));
    check_row("xc.mapped", p, {});
    if (round % 10 == 0) check_threads("xc.mapped", p);
  }
}

TEST_CASE("backends/mapped: rows are picked alike on every instruction set") {
  Generator g(81);
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > cpu_info().isa) continue;
    const cpu::LineFns& fns = cpu::line_fns(isa);
    if (fns.picks == 0) continue;
    for (int round = 0; round < 200; ++round) {
      const int64_t lanes = fns.picks, n = g.integer(1, 5 * lanes);
      const int64_t readable = n < lanes && round % 2 ? g.integer(1, lanes) : lanes;
      const bool two = readable == lanes && g.integer(0, 1);
      std::vector<int32_t> x(300), index, y(static_cast<size_t>(3 * (n + 2)), -1), want(y);
      for (int32_t& v : x) v = static_cast<int32_t>(g.integer(0, 1 << 30));
      Ints from;
      const Ints rows{g.integer(0, 50), 60, 60};
      for (int64_t i = 0; i < n; i += lanes) {
        from.push_back(g.integer(0, 100));
        from.push_back(g.integer(0, 100));
        const int64_t begin = std::max<int64_t>(0, std::min(i, n - lanes));
        for (int64_t lane = 0; lane < lanes; ++lane) {
          const int64_t at = g.integer(0, (two ? 2 * lanes : readable) - 1);
          index.push_back(static_cast<int32_t>(at));
          for (int64_t r = 0; r < 3 && begin + lane < n; ++r)
            want[static_cast<size_t>(r * (n + 2) + begin + lane)] =
                x[static_cast<size_t>(rows[static_cast<size_t>(r)] +
                                      from[from.size() - (at < lanes ? 2 : 1)] + at % lanes)];
        }
      }
      const cpu::PickedLine line{from.data(), index.data(), n, readable, two};
      fns.picked(x.data(), rows.data(), 3, line, y.data(), n + 2);
      CHECK(y == want);
    }
  }
}

TEST_CASE("backends/resize: blocks, lines of every kind, more taps") {
  Generator g(75);
  struct Case {
    Dims from, to;
  };
  // The last axis alone, pixels of 1 to 9 channels at the end, rows in blocks, three axes, one
  // kept.
  const std::vector<Case> cases{{{5, 3000}, {5, 1234}},
                                {{2, 3, 300, 400}, {2, 3, 90, 131}},
                                {{1, 300, 200, 3}, {1, 90, 75, 3}},
                                {{1, 90, 75, 2}, {1, 300, 100, 2}},
                                {{1, 40, 50, 9}, {1, 80, 100, 9}},
                                {{1, 64, 300, 4}, {1, 100, 30, 4}},
                                {{1, 2, 9, 40, 30}, {1, 2, 20, 13, 60}},
                                {{3, 20, 1, 7}, {3, 20, 5, 7}},
                                {{1, 2, 5, 7}, {1, 2, 5, 7}}};
  for (const auto& [from, to] : cases)
    for (const auto& [mode, antialias] :
         std::vector<std::pair<std::string, int64_t>>{{"linear", 0}, {"linear", 1}, {"cubic", 0}}) {
      Problem p;
      p.op = &get_op("Resize");
      p.attrs.set("mode", mode);
      p.attrs.set("antialias", antialias);
      p.inputs = {g.tensor(DType::kF32, from), Tensor(), Tensor(), Tensor::of(Ints(to))};
      INFO(mode << antialias << to_text(from) << to_text(to));
      p.constant = {false, true, true, true};
      check_row("xc.resize", p, Bounds{1e-5, 1e-5});
      p.constant = {};  // sizes of the run: those of the result, which are known
      check_row("xc.resize", p, Bounds{1e-5, 1e-5});
    }
}

TEST_CASE("backends/resize: bytes, at scales whose weights f32 holds") {
  Generator g(76);
  for (const auto& [from, to] : std::vector<std::pair<Dims, Dims>>{{{2, 3, 20, 30}, {2, 3, 40, 60}},
                                                                   {{1, 40, 24, 3}, {1, 20, 48, 3}},
                                                                   {{1, 1, 7, 9}, {1, 1, 7, 36}}})
    for (const char* mode : {"linear", "cubic"}) {
      // f32 holds the products of linear weights; of cubic ones not all, which may cut off one
      // less.
      const double apart = std::string_view(mode) == "linear" ? 0 : 1;
      Problem p;
      p.op = &get_op("Resize");
      p.attrs.set("mode", std::string(mode));
      p.inputs = {g.tensor(DType::kU8, from, 0, 255), Tensor(), Tensor(), Tensor::of(Ints(to))};
      INFO(mode << to_text(from) << to_text(to));
      p.constant = {false, true, true, true};
      check_row("xc.resize", p, {0, apart});
      p.constant = {};
      check_row("xc.resize", p, {0, apart});
    }
}

TEST_CASE("backends/affine: quantisation and batch normalisation") {
  Generator g(74);
  for (DType type : {DType::kI8, DType::kU8, DType::kI16, DType::kU16})
    for (int axis : {-1, 1, 2}) {
      Problem p;
      p.op = &get_op("QuantizeLinear");
      const Dims dims{2, 5, 30};
      const Dims scale = axis < 0 ? Dims{} : Dims{dims[static_cast<size_t>(axis)]};
      if (axis >= 0) p.attrs.set("axis", int64_t{axis});
      const bool sign = is_signed(type);
      p.inputs = {g.tensor(DType::kF32, dims, -400, 400), g.tensor(DType::kF32, scale, 0.5, 2),
                  g.tensor(type, scale, sign ? -9 : 0, 9)};
      float* x = p.inputs[0].as<float>();
      x[0] = NAN;  // the least number
      x[1] = INFINITY;
      x[2] = -INFINITY;
      check_row("xc.quantize", p, {});
      Problem q;
      q.op = &get_op("DequantizeLinear");
      q.attrs = p.attrs;
      q.inputs = {g.tensor(type, dims, sign ? -100 : 0, 100), p.inputs[1], p.inputs[2]};
      check_row("xc.quantize", q, {1e-6, 0});
      q.inputs[2] = Tensor();
      check_row("xc.quantize", q, {1e-6, 0});
    }
  for (const Dims& dims : {Dims{2, 6, 5, 7}, Dims{3, 40}, Dims{1, 4, 9}}) {
    Problem p;
    p.op = &get_op("BatchNormalization");
    const Dims c{dims[1]};
    p.inputs = {g.tensor(DType::kF32, dims), g.tensor(DType::kF32, c), g.tensor(DType::kF32, c),
                g.tensor(DType::kF32, c), g.tensor(DType::kF32, c, 0.1, 2)};
    check_row("xc.batch_norm", p, {1e-5, 1e-5});
  }
}

TEST_CASE("backends/affine: quantisation of halves") {
  Generator g(77);
  for (const DType real : {DType::kF16, DType::kBF16})
    for (const DType type : {DType::kI8, DType::kU8, DType::kI16, DType::kU16})
      for (const int axis : {-1, 1, 2}) {
        const Dims dims{2, 5, 30};
        const Dims scale = axis < 0 ? Dims{} : Dims{dims[static_cast<size_t>(axis)]};
        Problem p;
        p.op = &get_op("QuantizeLinear");
        if (axis >= 0) p.attrs.set("axis", int64_t{axis});
        p.inputs = {g.tensor(real, dims, -40, 40), g.tensor(real, scale, 0.1, 2),
                    g.tensor(type, scale, is_signed(type) ? -9 : 0, 9)};
        store_double(p.inputs[0].data(), real, 0, NAN);
        store_double(p.inputs[0].data(), real, 1, INFINITY);
        INFO(name(real) << name(type) << axis);
        check_row("xc.quantize", p, {});
        p.inputs[1] = g.tensor(DType::kF32, scale, 0.1, 2);  // its precision
        check_row("xc.quantize", p, {});
        Problem q;
        q.op = &get_op("DequantizeLinear");
        q.attrs = p.attrs;
        q.inputs = {g.tensor(type, dims, is_signed(type) ? -100 : 0, 100),
                    g.tensor(real, scale, 0.1, 2), p.inputs[2]};
        check_row("xc.quantize", q, {});
      }
}

TEST_CASE("backends/affine: quantisation by a scale per block") {
  Generator g(78);
  for (const DType real : {DType::kF32, DType::kF16})
    for (const auto& [axis, scales] :
         {std::pair{0, Dims{2, 6, 30}}, {1, Dims{4, 2, 30}}, {2, Dims{4, 6, 10}}}) {
      Problem p;
      p.op = &get_op("QuantizeLinear");
      p.attrs.set("axis", int64_t{axis});
      p.attrs.set("block_size", int64_t{axis == 0 ? 2 : 3});
      p.inputs = {g.tensor(real, {4, 6, 30}, -40, 40), g.tensor(real, scales, 0.1, 2),
                  g.tensor(DType::kI8, scales, -9, 9)};
      INFO(name(real) << axis);
      check_row("xc.quantize", p, {});
      Problem q;
      q.op = &get_op("DequantizeLinear");
      q.attrs = p.attrs;
      q.inputs = {g.tensor(DType::kI8, {4, 6, 30}, -100, 100), p.inputs[1], p.inputs[2]};
      check_row("xc.quantize", q, {1e-6, 0});
      q.inputs.pop_back();
      check_row("xc.quantize", q, {1e-6, 0});
    }
}

TEST_CASE("backends/indexed: caches that grow, or are as long already") {
  Generator g(76);
  for (DType type : {DType::kF32, DType::kF16})
    for (const int64_t axis : {1, 2})
      for (const auto& [old, entries, length] : {std::array<int64_t, 3>{5, 1, 6},
                                                 {5, 2, 3},
                                                 {8, 3, 8},
                                                 {0, 4, 4},
                                                 {3, 1, 40},
                                                 {6, 0, 9}}) {
        CAPTURE(old);
        CAPTURE(length);
        Dims cache{3, 4, 7}, update{3, 4, 7};
        cache[static_cast<size_t>(axis)] = old;
        update[static_cast<size_t>(axis)] = entries;
        Problem p;
        p.op = &get_op("UpdateCache", "xc");
        p.attrs.set("axis", axis);
        const int64_t last = std::max(old, length) - entries;
        p.inputs = {g.tensor(type, cache), g.tensor(type, update),
                    Tensor::of(Ints{0, last / 2, last}), Tensor::of(Ints{length})};
        check_row("xc.scatter", p, {});
      }
}

TEST_CASE("backends/indexed: arg-reductions, running totals, TopK, scatter, fills") {
  Generator g(75);
  const auto run = [&](const char* row, const char* op, std::vector<Tensor> inputs,
                       Attrs attrs = {}, size_t outputs = 1, Bounds bounds = {}) {
    Problem p;
    p.op = &get_op(op);
    p.inputs = std::move(inputs);
    p.attrs = std::move(attrs);
    p.outputs = outputs;
    INFO(op);
    check_row(row, p, bounds);
  };
  for (const int64_t n : {1, 2, 3, 4, 5, 8, 11, 16, 17, 31, 33, 48, 63, 64, 70, 100, 128,
                          300}) {  // rows, short and long, with ties and NaN
    Tensor x = g.tensor(DType::kF32, {40, n});
    for (int64_t i = 0; i < x.count(); ++i) {
      float& v = x.as<float>()[i];
      v = g.integer(0, 2 * n) == 0 ? NAN : std::round(v);
    }
    Attrs a;
    a.set("axis", int64_t{1});
    run("xc.axis", "ArgMax", {x}, a);
    run("xc.axis", "ArgMin", {x}, a);
  }
  // Few and many of a line, and all of it: ties, NaN, infinities, zeros of both signs; lines that
  // rise, so that every element is the best so far.
  for (DType type : {DType::kF32, DType::kF64, DType::kI64, DType::kI32, DType::kF16})
    for (const int64_t n : {70, 1000})
      for (const int64_t k : {int64_t{1}, int64_t{10}, int64_t{64}, int64_t{66}, n / 4, n - 1, n})
        for (const int64_t axis : {0, 1}) {
          const int64_t lines = n == 70 ? 21 : 3;  // some of them ranked together
          Tensor x = g.tensor(type, axis == 0 ? Dims{n, lines} : Dims{lines, n}, -250, 250);
          if (type == DType::kF32) {
            for (int64_t i = 0; i < x.count(); i += 2)
              x.as<float>()[i] = std::round(x.as<float>()[i] / 8);
            for (int64_t i = 0; i < x.count(); i += 31)
              x.as<float>()[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? -INFINITY : -0.0f;
            for (int64_t i = 0; i < n && axis == 1; ++i) x.as<float>()[i] = static_cast<float>(i);
          }
          for (const int64_t largest : {0, 1}) {
            Attrs top;
            top.set("axis", axis);
            top.set("largest", largest);
            run("xc.axis", "TopK", {x, Tensor::of(Ints{k})}, top, 2);
          }
        }
  for (DType type : {DType::kF32, DType::kI64, DType::kU8, DType::kF16})
    for (int64_t axis : {0, 1, 2}) {
      const Tensor x = g.tensor(type, {4, 30, 5}, 0, 6);
      Attrs a;
      a.set("axis", axis);
      a.set("keepdims", axis % 2);
      a.set("select_last_index", axis / 2);
      run("xc.axis", "ArgMax", {x}, a);
      run("xc.axis", "ArgMin", {x}, a);
      Attrs cumulative;
      cumulative.set("reverse", axis % 2);
      cumulative.set("exclusive", axis / 2);
      run("xc.axis", "CumSum", {x, Tensor::scalar<int64_t>(axis)}, cumulative, 1, {1e-6, 0});
      Attrs top;
      top.set("axis", axis);
      top.set("largest", axis % 2);
      run("xc.axis", "TopK", {x, Tensor::of(Ints{3})}, top, 2);
      Attrs by;
      by.set("axis", axis);
      run("xc.scatter", "ScatterElements",
          {x, g.tensor(DType::kI64, {1, 1, 1}, -4, 3), g.tensor(type, {1, 1, 1}, 0, 5)}, by);
      run("xc.scatter", "ScatterND",
          {x, Tensor::of(Ints{1, 2, 3, -1}, {2, 2}), g.tensor(type, {2, 5}, 0, 5)});
      for (const char* how : {"add", "mul", "max", "min"}) {
        // Indices that meet again, and an index for a whole line.
        Attrs reduced = by;
        reduced.set("reduction", std::string(how));
        const Tensor many = g.tensor(DType::kI64, {4, 9, 5}, -4, 3);
        run("xc.scatter", "ScatterElements", {x, many, g.tensor(type, {4, 9, 5}, 0, 3)}, reduced, 1,
            {1e-5, 0});
        const Tensor line(g.tensor(DType::kI64, {4, 9}, -4, 3).buffer(), 0, DType::kI64, {4, 9, 5},
                          {9, 1, 0});
        run("xc.scatter", "ScatterElements", {x, line, g.tensor(type, {4, 9, 5}, 0, 3)}, reduced, 1,
            {1e-5, 0});
        Attrs nd;
        nd.set("reduction", std::string(how));
        for (const int64_t depth : {1, 2, 3}) {
          Dims updates{40};
          updates.insert(updates.end(), x.dims().begin() + depth, x.dims().end());
          run("xc.scatter", "ScatterND",
              {x, g.tensor(DType::kI64, {40, depth}, -4, 3), g.tensor(type, updates, 0, 3)}, nd, 1,
              {1e-5, 0});
        }
      }
      Dims update = x.dims();
      update[axis == 0 ? 1 : axis] = 2;
      Attrs along;
      along.set("axis", std::max<int64_t>(axis, 1));
      std::vector<int64_t> starts(static_cast<size_t>(x.dims()[0]), 1);
      starts.back() = 0;
      run("xc.scatter", "TensorScatter", {x, g.tensor(type, update, 0, 5), Tensor::of(starts)},
          along);
      along.set("mode", std::string("circular"));
      starts.front() = 3 + x.dims()[axis == 0 ? 1 : axis];
      run("xc.scatter", "TensorScatter", {x, g.tensor(type, update, 0, 5), Tensor::of(starts)},
          along);
      for (int64_t k : {0, 2, -3, 100, -100}) {
        Attrs upper;
        upper.set("upper", axis % 2);
        run("xc.fill", "Trilu", {x, Tensor::scalar<int64_t>(k)}, upper);
      }
    }
  run("xc.fill", "Shape", {g.tensor(DType::kF32, {3, 4, 5})});
  run("xc.fill", "Size", {g.tensor(DType::kF32, {3, 4, 5})});
  run("xc.fill", "Range",
      {Tensor::scalar<int64_t>(3), Tensor::scalar<int64_t>(40), Tensor::scalar<int64_t>(5)});
  for (DType type : {DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32, DType::kU32,
                     DType::kI64, DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64})
    for (const auto& [start, limit, delta] :
         {std::array{3.0, 40.0, 5.0}, {100.0, 2.0, -3.0}, {5.0, 5.0, 1.0}}) {
      if (delta < 0 &&
          (type == DType::kU8 || type == DType::kU16 || type == DType::kU32 || type == DType::kU64))
        continue;
      const auto number = [&](double v) {
        Tensor out(type, {});
        store_double(out.data(), type, 0, v);
        return out;
      };
      run("xc.fill", "Range", {number(start), number(limit), number(delta)});
    }
  run("xc.fill", "Range", {Tensor::scalar(0.5f), Tensor::scalar(9.0f), Tensor::scalar(0.75f)});
  Attrs value;
  value.set("value", Tensor::of(Ints{7}));
  run("xc.fill", "ConstantOfShape", {Tensor::of(Ints{3, 2, 4})}, value);
  run("xc.fill", "ConstantOfShape", {Tensor::of(Ints{3, 2, 4})});
  for (const DType type : {DType::kF32, DType::kI64, DType::kBF16, DType::kBool})
    for (const int64_t k :
         {int64_t{0}, int64_t{3}, int64_t{-2}, int64_t{7}, int64_t{-5}, INT64_MAX, INT64_MIN}) {
      Attrs diagonal;
      diagonal.set("k", k);
      run("xc.fill", "EyeLike", {g.tensor(type, {5, 7})}, diagonal);
      run("xc.fill", "EyeLike", {g.tensor(type, {0, 7})}, diagonal);
    }
}

TEST_CASE("backends/mapped: CenterCropPad crops and pads around the middle") {
  Generator g(95);
  for (const DType type : {DType::kF32, DType::kU8, DType::kI64, DType::kF16})
    for (const auto& [dims, shape] : std::vector<std::pair<Dims, Ints>>{{{9, 12}, {4, 5}},
                                                                        {{9, 12}, {10, 15}},
                                                                        {{3, 40}, {6, 21}},
                                                                        {{3, 40}, {0, 21}},
                                                                        {{0, 4}, {2, 3}},
                                                                        {{1, 1}, {7, 8}}}) {
      Problem p;
      p.op = &get_op("CenterCropPad");
      Dims all = dims;
      all.insert(all.begin(), 2);
      p.attrs.set("axes", Ints{1, -1});
      p.inputs = {g.tensor(type, all, 0, 50), Tensor::of(shape)};
      p.constant = {false, true};
      INFO(to_text(dims));
      CHECK(chosen_row(p) == "xc.mapped");
      check_row("xc.mapped", p, {});
    }
}

TEST_CASE("backends/axis: the best few of lines side by side, on every instruction set") {
  Generator g(96);
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > cpu_info().isa) continue;
    const cpu::LineFns& fns = cpu::line_fns(isa);
    for (const int64_t n : {1, 2, 5, 16, 17, 40, 100})
      for (const int64_t k : {1, 2, 7, 16})
        for (const int64_t lines : {1, 4, 16, 23, 64})
          for (const bool largest : {false, true}) {
            if (k > n) continue;
            const int64_t stride = n + n % 3;  // of rows; of lines side by side one more than these
            Tensor x = g.tensor(DType::kF32, {lines * stride + n * (lines + 1)}, -6, 6);
            float* const v = x.as<float>();
            for (int64_t i = 0; i < x.count(); ++i) {
              v[i] = std::round(v[i]);  // ties
              if (i % 7 == 0) v[i] = std::array{NAN, -INFINITY, INFINITY, -0.0f}[i / 7 % 4];
            }
            int32_t by_lines[cpu::kFewOfLines * cpu::kSideBySide], by_rows[std::size(by_lines)];
            const float* const side = v + lines * stride;
            fns.best_few(side, n, lines + 1, lines, largest, k, by_lines);
            fns.best_few_of_rows(v, n, stride, lines, largest, k, by_rows);
            const auto check = [&](auto element, const int32_t* order, int64_t line) {
              std::vector<int32_t> all(static_cast<size_t>(n));
              std::iota(all.begin(), all.end(), 0);
              // NaN is the largest, so the last of the smallest.
              std::stable_sort(all.begin(), all.end(), [&](int32_t i, int32_t j) {
                const float a = element(i), b = element(j);
                if (std::isnan(a) || std::isnan(b))
                  return std::isnan(largest ? a : b) && !std::isnan(largest ? b : a);
                return largest ? a > b : a < b;
              });
              for (int64_t r = 0; r < k; ++r)
                CHECK(order[r * cpu::kSideBySide + line] == all[static_cast<size_t>(r)]);
            };
            INFO(name(isa) << " " << k << " of " << lines << " lines of " << n);
            for (int64_t line = 0; line < lines; ++line) {
              check([&](int32_t i) { return side[i * (lines + 1) + line]; }, by_lines, line);
              check([&](int32_t i) { return v[line * stride + i]; }, by_rows, line);
            }
          }
  }
}

TEST_CASE("backends/axis: keys and the best of short rows, on every instruction set") {
  Generator g(94);
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > cpu_info().isa) continue;
    const cpu::LineFns& fns = cpu::line_fns(isa);
    Tensor values = g.tensor(DType::kF32, {203}, -9, 9);
    float* v = values.as<float>();
    v[0] = NAN, v[70] = -INFINITY, v[150] = INFINITY, v[201] = 0.0f, v[202] = -0.0f;
    std::vector<uint32_t> keys(203), falling(203);
    fns.ordered_keys(v, 203, false, keys.data());
    fns.ordered_keys(v, 203, true, falling.data());
    for (size_t i = 0; i < 203; ++i)
      for (size_t j = 0; j < 203; ++j)
        CHECK((keys[i] < keys[j]) == (v[i] < v[j] || (std::isnan(v[j]) && !std::isnan(v[i]))));
    for (size_t i = 0; i < 203; ++i) CHECK(falling[i] == ~keys[i]);
    std::vector<uint32_t> few(203, 5);
    CHECK(fns.none_above(few.data(), 203, 5) == 203 / cpu::kKeyBlock * cpu::kKeyBlock);
    for (const size_t at : {size_t{0}, size_t{15}, size_t{16}, size_t{100}}) {
      few[at] = 0x80000000u;  // unsigned
      CHECK(fns.none_above(few.data(), 203, 5) ==
            static_cast<int64_t>(at) / cpu::kKeyBlock * cpu::kKeyBlock);
      few[at] = 5;
    }
    for (int64_t n = 1; n <= cpu::kShortRow; ++n)
      for (const int64_t gap : {0, 3})
        for (const int64_t rows : {1, 17, 50}) {
          Tensor x = g.tensor(DType::kF32, {(rows - 1) * (n + gap) + n}, -3, 3);
          for (int64_t i = 0; i < x.count(); ++i) {
            float& value = x.as<float>()[i];
            value = i % 23 == 22 ? NAN : std::round(value);
          }
          for (const bool largest : {false, true}) {
            int32_t best[50];
            fns.arg_best_of_rows(x.as<float>(), n, n + gap, rows, largest, best);
            for (int64_t r = 0; r < rows; ++r) {
              int32_t want;
              fns.arg_best(x.as<float>() + r * (n + gap), n, 1, 1, largest, &want);
              CHECK(best[r] == want);
            }
          }
        }
  }
}

}  // namespace
}  // namespace xc
