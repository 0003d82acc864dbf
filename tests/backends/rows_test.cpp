#include <doctest/doctest.h>

#include "backends/cpu/side_by_side.h"
#include "backends/cpu/vector/rows_fn.h"
#include "backends/step_harness.h"
#include "support/evaluate.h"

namespace xc {
namespace {

using namespace test;

TEST_CASE("backends/reduce: every reduction over axes, types, strides") {
  Generator g(41);
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin",
                         "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum"}) {
    for (DType type : {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kF16}) {
      for (const Dims& dims : {Dims{5}, Dims{3, 70}, Dims{4, 3, 33}, Dims{2, 5, 3, 150},
                               Dims{1000, 3}, Dims{9, 40, 11}, Dims{0, 3}, Dims{3000}}) {
        std::vector<std::vector<int64_t>> lists = {{}, {0}};
        if (dims.size() > 1) lists.push_back({-1});
        if (dims.size() > 2) lists.push_back({0, 2});
        if (dims.size() > 3) lists.push_back({2, 3});
        for (const auto& axes : lists) {
          if (type != DType::kF32 && dims.size() > 3) continue;
          if (type != DType::kF32 && type != DType::kF64 && dims[0] == 0) continue;
          Problem p;
          p.op = &get_op(op);
          const bool log = std::string_view(op) == "ReduceLogSum",
                     prod = std::string_view(op) == "ReduceProd";
          if ((log || prod) && (!is_float(type) || dims[0] == 3000)) continue;
          p.attrs.set("keepdims", int64_t{axes.size() % 2 == 0});
          p.inputs = {g.tensor(type, dims, log ? 1 : prod ? 0.97 : -4, prod ? 1.03 : 4)};
          if (!axes.empty()) p.inputs.push_back(Tensor::of(axes));
          const double n = static_cast<double>(element_count(dims));
          INFO(op << " " << name(type) << to_text(dims) << " " << axes.size());
          const bool exact = std::string_view(op).substr(0, 8) == "ReduceMa" ||
                             std::string_view(op).substr(0, 8) == "ReduceMi";
          const Bounds bounds = exact                 ? Bounds{}
                                : type == DType::kF16 ? Bounds{2e-3, 1e-2}
                                : type == DType::kF64 ? Bounds{1e-12, 1e-12}
                                : is_float(type)      ? Bounds{1e-5, 1e-6 * n}
                                                      : Bounds{};
          check_row("xc.reduce", p, bounds);
          p.constant = {false, true};
          if (!axes.empty()) check_row("xc.reduce", p, bounds);
        }
      }
    }
  }
}

TEST_CASE("backends/reduce: means and roots of integers are of sums in 64 bits") {
  const auto made = [](const char* op, const Tensor& x) {
    Problem p;
    p.op = &get_op(op);
    p.inputs = {x, Tensor::of<int64_t>({1}, {1})};
    check_row("xc.reduce", p, {});
    return run_row(find_row("xc.reduce", op), p, {})[0].to_int64s();
  };
  using Ints = std::vector<int64_t>;
  const Tensor large = Tensor::of<int32_t>({INT32_MAX, INT32_MAX, INT32_MAX - 4, -7, 0, 0}, {2, 3});
  CHECK(made("ReduceMean", large) == Ints{INT32_MAX - 2, -2});  // towards zero
  CHECK(made("ReduceL2", Tensor::of<int32_t>({60000, 80000, 3, 5}, {2, 2})) == Ints{100000, 5});
  CHECK(made("ReduceLogSum", Tensor::of<int64_t>({20, 3, 1000000, 1000001}, {2, 2})) ==
        Ints{3, 14});
  CHECK(made("ReduceMean", Tensor::of<uint8_t>({255, 254, 1, 0}, {2, 2})) == Ints{254, 0});
  CHECK(made("ReduceMean", Tensor::of<int8_t>({-128, -127, 127, 126}, {2, 2})) == Ints{-127, 126});
}

TEST_CASE("backends/reduce: sums of nothing but -0 are 0, over rows and columns") {
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceL1"})
    for (const Dims& dims : {Dims{3, 70}, Dims{70, 3}, Dims{2, 3, 50}, Dims{2000, 3}})
      for (int64_t axis = 0; axis < static_cast<int64_t>(dims.size()); ++axis) {
        Problem p;
        p.op = &get_op(op);
        Tensor x(DType::kF32, dims);
        std::fill_n(x.as<float>(), x.count(), -0.0f);
        p.inputs = {x, Tensor::of<int64_t>({axis}, {1})};
        INFO(op << to_text(dims) << axis);
        for (const double v : run_row(find_row("xc.reduce", op), p, {})[0].to_doubles())
          CHECK((v == 0 && !std::signbit(v)));
      }
}

TEST_CASE("backends/reduce: results of no elements, many of them") {
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin",
                         "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum"})
    for (DType type : {DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kBF16})
      for (const Dims& dims : {Dims{0, 3000}, Dims{3000, 0}, Dims{5, 0, 700}, Dims{40, 3, 0}}) {
        const bool needs_elements = !is_float(type) && std::string_view(op) != "ReduceSum" &&
                                    std::string_view(op) != "ReduceProd" &&
                                    std::string_view(op) != "ReduceSumSquare";
        if (needs_elements) continue;
        Problem p;
        p.op = &get_op(op);
        int64_t axis = 0;
        while (dims[static_cast<size_t>(axis)] != 0) ++axis;
        p.inputs = {Tensor(type, dims), Tensor::of<int64_t>({axis}, {1})};
        INFO(op << name(type) << to_text(dims));
        check_row("xc.reduce", p, {});
        p.constant = {false, true};
        check_row("xc.reduce", p, {});
      }
}

TEST_CASE("backends/reduce: short rows of halves have the bits that each has alone") {
  Generator g(47);
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2"})
    for (DType type : {DType::kF16, DType::kBF16, DType::kI8})
      for (int64_t n : {1, 2, 7, 64, 80, 100, 768, 1024, 1025}) {
        if (type == DType::kI8 && std::string_view(op) != "ReduceSum") continue;
        const int64_t rows = 37, gap = 3;
        Problem many;
        many.op = &get_op(op);
        many.inputs = {g.tensor(type, {rows, n}, -4, 4), Tensor::of<int64_t>({1}, {1})};
        INFO(op << name(type) << " " << n);
        const auto& row = find_row("xc.reduce", op);
        if (!row.supports(spec_of(many, node_of(many), {})).yes()) continue;
        const Tensor together = run_row(row, many)[0];
        Tensor apart(type, {rows, n + gap});
        const auto size = static_cast<size_t>(n * element_size(type));
        for (int64_t r = 0; r < rows; ++r)
          std::memcpy(apart.as<std::byte>() + r * (n + gap) * element_size(type),
                      many.inputs[0].as<std::byte>() + r * n * element_size(type), size);
        Problem spread = many;
        spread.inputs[0] = Tensor(apart.buffer(), 0, type, {rows, n}, {n + gap, 1});
        CHECK(same_bits(run_row(row, spread)[0], together));
        for (int64_t r = 0; r < rows; ++r) {
          Problem alone = many;
          alone.inputs[0] =
              Tensor(many.inputs[0].buffer(), r * n * element_size(type), type, {1, n});
          const Tensor one(together.buffer(), r * element_size(type), type, {1, 1});
          CHECK(same_bits(run_row(row, alone)[0], one));
        }
      }
}

TEST_CASE("backends/reduce: rounding does not pile up over millions of elements") {
  struct Sum {
    Dims dims;
    std::vector<int64_t> axes;
    double bound;  ///< relative; columns are added up in order
  };
  const std::vector<Sum> sums = {{{3000000}, {0}, 1e-5},
                                 {{2, 1500000}, {1}, 1e-5},
                                 {{1500000, 2}, {0}, 1e-4},
                                 {{3, 300, 2, 700}, {1, 3}, 1e-5},
                                 {{300, 2, 1000, 3}, {0, 2}, 1e-4}};
  for (const DType type : {DType::kF32, DType::kBF16})
    for (const Sum& sum : sums)
      for (const char* op : {"ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL1"}) {
        Problem p;
        p.op = &get_op(op);
        Tensor x(type, sum.dims);
        for (int64_t i = 0; i < x.count(); ++i) store_double(x.data(), type, i, 0.7);
        const double v = load_double(x.data(), type, 0);
        p.inputs = {x, Tensor::of(sum.axes)};
        p.constant = {false, true};
        const Tensor y = run_row(find_row("xc.reduce", op), p, {})[0];
        const auto count = static_cast<double>(x.count() / y.count());
        const double want = std::string_view(op) == "ReduceMean"        ? v
                            : std::string_view(op) == "ReduceSumSquare" ? count * v * v
                                                                        : count * v;
        const double bound = type == DType::kF32 ? sum.bound : 1.0 / 256;
        for (const double have : y.to_doubles())
          CHECK_MESSAGE(std::fabs(have / want - 1) <= bound,
                        op << to_text(sum.dims) << name(type) << ": " << have << " not " << want);
      }
}

TEST_CASE("backends/reduce: a root has the range of its elements, not that of their squares") {
  Generator g(43);
  for (const double size : {1e30, 1e-30, 0.0})
    for (const Dims& dims : {Dims{}, Dims{70}, Dims{3, 70}, Dims{70, 130}, Dims{4, 5, 33},
                             Dims{20000}, Dims{3, 20000}, Dims{5000, 3}})
      for (const std::vector<int64_t>& axes :
           {std::vector<int64_t>{}, std::vector<int64_t>{0}, std::vector<int64_t>{-1}}) {
        if (dims.empty() && !axes.empty()) continue;
        Problem p;
        p.op = &get_op("ReduceL2");
        // Beside ordinary results: every third element of the last axis.
        Tensor x = g.tensor(DType::kF32, dims, 1, 2);
        for (int64_t i = 0; i < x.count(); ++i)
          if (dims.size() < 2 || i % 3 == 0)
            x.as<float>()[i] = static_cast<float>(x.as<float>()[i] * size);
        p.inputs = {x};
        if (!axes.empty()) p.inputs.push_back(Tensor::of(axes));
        INFO(to_text(dims) << " " << axes.size() << " " << size);
        check_row("xc.reduce", p, {1e-4, 0});
        const Tensor y = run_row(find_row("xc.reduce", "ReduceL2"), p, {})[0];
        for (const double v : y.to_doubles()) CHECK(std::isfinite(v));
      }
}

TEST_CASE("backends/rows: canonical order of a sum, on every instruction set") {
  Generator g(42);
  for (int64_t n : {0, 1, 5, 16, 63, 64, 65, 200, 1000}) {
    const Tensor x = g.tensor(DType::kF32, {n}, -1e3, 1e3);
    const float* v = x.as<float>();
    // As loop/kernel.h defines it.
    float p[64];
    for (float& q : p) q = -0.0f;
    for (int64_t t = 0; t < n; ++t) p[t % 64] += v[t];
    float q[16];
    for (int l = 0; l < 16; ++l) q[l] = (p[l] + p[l + 16]) + (p[l + 32] + p[l + 48]);
    for (int w = 8; w >= 1; w /= 2)
      for (int l = 0; l < w; ++l) q[l] += q[l + w];
    const float want = 0.0f + q[0];
    for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
      if (isa > cpu_info().isa) continue;
      const cpu::FoldFns fns = cpu::fold_fns(cpu::Fold::kSum, DType::kF32, isa);
      float partials[64], got;
      fns.start(partials, 64);
      fns.rows(v, 1, 0, n, partials);
      fns.finish(partials, &got);
      CHECK(std::memcmp(&got, &want, 4) == 0);
    }
  }
}

TEST_CASE("backends/rows: many short rows at once have the bits of each alone") {
  using cpu::Fold;
  Generator g(48);
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512})
    for (Fold fold :
         {Fold::kSum, Fold::kSumSquares, Fold::kSumAbs, Fold::kProd, Fold::kMax, Fold::kMin})
      for (DType type : {DType::kF32, DType::kI32, DType::kF64, DType::kI64})
        for (int64_t n : {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13,  14, 15,
                          16, 17, 18, 28, 32, 33, 40, 48, 49, 63, 64, 65, 127, 130})
          for (int64_t gap : {0, 3})
            for (int64_t rows : {1, 3, 7, 16, 50}) {
              if (isa > cpu_info().isa) continue;
              const int64_t stride = n + gap, size = (rows - 1) * stride + n;
              // Of exactly the size, so that a read beyond it is one beyond an allocation.
              Tensor x = g.tensor(type, {size}, -3, 3);
              if (type == DType::kF32) {
                x.as<float>()[size / 2] = std::nanf("");
                x.as<float>()[size / 3] = -0.0f;
              }
              if (type == DType::kF64) x.as<double>()[size / 2] = std::nan("");
              const cpu::FoldFns fns = cpu::fold_fns(fold, type, isa);
              const auto bytes = static_cast<size_t>(element_size(type));
              uint64_t partials[64], got[50];
              fns.each(x.data(), rows, stride, n, got);
              for (int64_t r = 0; r < rows; ++r) {
                uint64_t want;
                fns.start(partials, 64);
                fns.rows(static_cast<const std::byte*>(x.data()) +
                             static_cast<size_t>(r * stride) * bytes,
                         1, 0, n, partials);
                fns.finish(partials, &want);
                INFO(static_cast<int>(fold) << " " << n << " " << gap << " " << rows << " " << r);
                const auto* each = reinterpret_cast<const std::byte*>(got);
                CHECK(std::memcmp(each + static_cast<size_t>(r) * bytes, &want, bytes) == 0);
              }
            }
}

TEST_CASE("backends/rows: softmax along any axis") {
  Generator g(43);
  for (const char* op : {"Softmax", "LogSoftmax"})
    for (const Dims& dims :
         {Dims{7}, Dims{3, 100}, Dims{4, 5, 17}, Dims{2, 3, 20, 64}, Dims{3, 0}, Dims{300, 128}})
      for (int64_t axis = -1; axis < static_cast<int64_t>(dims.size()); ++axis) {
        Problem p;
        p.op = &get_op(op);
        p.attrs.set("axis", axis);
        p.inputs = {g.tensor(DType::kF32, dims, -20, 20)};
        INFO(op << to_text(dims) << axis);
        check_row("xc.rows", p, {1e-5, 1e-6});
      }
}

TEST_CASE("backends/rows: lines that lie side by side go to tasks in groups") {
  for (const auto& [count, row] : std::vector<std::pair<int64_t, int64_t>>{
           {16, 16}, {64, 64}, {100, 100}, {6 * 70, 70}, {30, 3}, {5, 1}, {0, 0}})
    for (const int64_t tasks : {1, 7, 64}) {
      INFO(count << " in rows of " << row << ", " << tasks << " tasks");
      const cpu::LineGroups groups(count, row);
      CHECK(groups.of_task(0, tasks) == 0);
      CHECK(groups.of_task(tasks, tasks) == count);
      for (int64_t task = 1; task < tasks; ++task) {
        const int64_t first = groups.of_task(task, tasks);
        CHECK(first >= groups.of_task(task - 1, tasks));
        CHECK(first % std::max<int64_t>(row, 1) % 32 == 0);
      }
    }
  // Down few columns: one task, or some columns each.
  Generator g(44);
  for (const int64_t columns : {16, 64, 70}) {
    const Tensor x = g.tensor(DType::kF32, {3000, columns}, -20, 20);
    Problem p;
    p.attrs.set("axis", int64_t{0});
    p.inputs = {x};
    for (const char* op : {"Softmax", "LogSoftmax", "ArgMax", "ArgMin"}) {
      p.op = &get_op(op);
      check_threads(op[0] == 'A' ? "xc.axis" : "xc.rows", p);
    }
    p.op = &get_op("Softmax");
    CHECK(bind_row(find_row("xc.rows", "Softmax"), p)->tasks <= ceil_div(columns, 32));
    Problem sums;
    sums.op = &get_op("CumSum");
    sums.inputs = {x, Tensor::scalar<int64_t>(0)};
    check_threads("xc.axis", sums);
  }
}

TEST_CASE("backends/rows: LpNormalization along any axis, of numbers without a square in f32") {
  Generator g(45);
  for (const DType type : {DType::kF32, DType::kF64, DType::kF16})
    for (const Dims& dims : {Dims{7}, Dims{3, 100}, Dims{4, 5, 65}, Dims{2, 3, 20, 64}, Dims{3, 0}})
      for (int64_t axis = -1; axis < static_cast<int64_t>(dims.size()); ++axis)
        for (const int64_t power : {1, 2}) {
          Problem p;
          p.op = &get_op("LpNormalization");
          p.attrs.set("axis", axis);
          p.attrs.set("p", power);
          p.inputs = {g.tensor(type, dims, -20, 20)};
          INFO(name(type) << to_text(dims) << axis);
          check_row("xc.axis", p, {type == DType::kF16 ? 1e-3 : 1e-6, 0});
          check_threads("xc.axis", p);
        }
  Problem p;
  p.op = &get_op("LpNormalization");
  p.inputs = {Tensor::of<float>({3e30f, -4e30f})};
  const Tensor large = run_row(find_row("xc.axis", "LpNormalization"), p)[0];
  CHECK(large.as<float>()[0] == doctest::Approx(0.6).epsilon(1e-6));
  CHECK(large.as<float>()[1] == doctest::Approx(-0.8).epsilon(1e-6));
  p.inputs = {Tensor::of<float>({0.0f, 0.0f, 0.0f})};
  CHECK(run_row(find_row("xc.axis", "LpNormalization"), p)[0].as<float>()[2] == 0.0f);
}

TEST_CASE("backends/rows: short rows have the bits that each has alone") {
  Generator g(35);
  for (const char* op : {"Softmax", "LogSoftmax"})
    for (const int64_t n : {1, 2, 3, 5, 8, 9, 12, 15, 16, 17}) {
      Problem many;
      many.op = &get_op(op);
      many.inputs = {g.tensor(DType::kF32, {37, n}, -20, 20)};
      many.inputs[0].as<float>()[4 * n] = NAN;
      many.inputs[0].as<float>()[6 * n] = INFINITY;
      check_row("xc.rows", many, {1e-5, 1e-6});
      const Tensor together = run_row(find_row("xc.rows", op), many)[0];
      for (int64_t r = 0; r < 37; ++r) {
        Problem alone = many;
        alone.inputs = {Tensor(many.inputs[0].buffer(), r * n * 4, DType::kF32, {1, n})};
        const Tensor row(together.buffer(), r * n * 4, DType::kF32, {1, n});
        CHECK(difference(run_row(find_row("xc.rows", op), alone)[0], row, {}) == "");
      }
    }
}

TEST_CASE("backends/rows: layer, RMS, instance and group normalisation") {
  Generator g(44);
  for (const Dims& dims : {Dims{3, 100}, Dims{4, 5, 17}, Dims{2, 3, 20, 64}, Dims{200, 768}})
    for (int64_t axis : {-1, -2}) {
      const size_t first = dims.size() - static_cast<size_t>(-axis);
      const Dims tail(dims.begin() + static_cast<ptrdiff_t>(first), dims.end());
      Problem p;
      p.op = &get_op("LayerNormalization");
      p.attrs.set("axis", axis);
      p.inputs = {g.tensor(DType::kF32, dims), g.tensor(DType::kF32, tail),
                  g.tensor(DType::kF32, tail)};
      check_row("xc.rows", p, {1e-5, 1e-5});
      p.inputs[2] = Tensor();
      check_row("xc.rows", p, {1e-5, 1e-5});
      p.outputs = 3;
      const auto want = run_reference(node_of(p), p.inputs);
      const auto got = run_row(find_row("xc.rows", "LayerNormalization"), p);
      for (size_t k = 0; k < 3; ++k) CHECK(difference(got[k], want[k], {1e-5, 1e-5}).empty());
      p.outputs = 1;
      p.inputs[1] = g.tensor(DType::kF32, {});
      check_row("xc.rows", p, {1e-5, 1e-5});
      p.op = &get_op("RMSNormalization");
      p.inputs = {g.tensor(DType::kF32, dims), g.tensor(DType::kF32, tail)};
      check_row("xc.rows", p, {1e-5, 1e-5});
    }
}

TEST_CASE("backends/rows: norms of planes, row-major and channels-last") {
  Generator g(45);
  for (const Dims& dims : {Dims{2, 6, 50}, Dims{1, 6, 5, 7}, Dims{3, 1, 4, 4}, Dims{2, 96, 9, 11},
                           Dims{1, 21, 30, 30}, Dims{2, 192, 3, 4, 5}, Dims{1, 3, 1, 1}}) {
    const int64_t channels = dims[1];
    for (const double middle : {0.0, 100.0}) {
      INFO(to_text(dims) << " around " << middle);
      Problem p;
      p.op = &get_op("InstanceNormalization");
      p.inputs = {g.tensor(DType::kF32, dims, middle - 2, middle + 2),
                  g.tensor(DType::kF32, {channels}), g.tensor(DType::kF32, {channels})};
      const double bound = middle == 0 ? 2e-5 : 1e-3;  // x - mean keeps so many digits
      const auto check = [&] {
        check_row("xc.rows", p, {bound, bound});
        Problem last = p;
        last.inputs[0] = g.strided(p.inputs[0], 3);
        RunOptions options;
        options.output_kind = 3;
        const auto& row = find_row("xc.rows", p.op->name);
        const auto whole = run_row(row, last, options);
        for (int64_t pieces : {2, 3, 0}) {
          options.pieces = pieces;
          CHECK(same_bits(run_row(row, last, options)[0], whole[0]));
        }
      };
      check();
      p.op = &get_op("GroupNormalization");
      for (const int64_t groups :
           {channels, channels % 3 == 0 ? channels / 3 : channels, int64_t{1}}) {
        p.attrs.set("num_groups", groups);
        check();
      }
    }
  }
}

TEST_CASE("backends/rows: functions behind norms of planes, shared by threads") {
  Generator g(46);
  const PostOp swish{PostOp::Kind::kUnary, &get_op("Swish"), {}, 0, true, {}},
      scale{PostOp::Kind::kBinary, &get_op("Mul"), {}, 3, true, {}},
      residual{PostOp::Kind::kBinary, &get_op("Sub"), {}, 4, false, {}};
  for (const Dims& dims : {Dims{2, 6, 50}, Dims{1, 32, 64, 65}, Dims{3, 96, 27, 40},
                           Dims{1, 20, 1, 7000}, Dims{2, 12, 3, 50, 50}, Dims{4, 3, 1, 1}})
    for (const char* op : {"InstanceNormalization", "GroupNormalization"})
      for (const auto& posts : {std::vector<PostOp>{}, {swish}, {scale, residual}})
        for (int kind = 0; kind < Generator::kStrideKinds; ++kind) {
          CAPTURE(op);
          CAPTURE(kind);
          CAPTURE(posts.size());
          INFO(to_text(dims));
          const int64_t channels = dims[1];
          Problem p;
          p.op = &get_op(op);
          if (p.op->name == "GroupNormalization")
            p.attrs.set("num_groups", channels / 2 < 2 ? 1 : 2);
          p.inputs = {g.tensor(DType::kF32, dims, 3, 5), g.tensor(DType::kF32, {channels}),
                      g.tensor(DType::kF32, {channels})};
          // Blocks of pixels have means of their own.
          const int64_t pixels = element_count(dims) / (dims[0] * channels);
          for (int64_t i = 0; i < p.inputs[0].count(); ++i)
            p.inputs[0].as<float>()[i] +=
                static_cast<float>(i % pixels) / static_cast<float>(pixels);
          Dims each(dims.size() - 1, 1);
          each[0] = channels;
          const std::vector<Tensor> others{g.tensor(DType::kF32, each),
                                           g.tensor(DType::kF32, dims)};
          // In f64, an operator after the other.
          Problem alone = p;
          for (Tensor& t : alone.inputs) t = in_f64(t);
          std::vector<Tensor> want = run_reference(node_of(alone), alone.inputs);
          for (const PostOp& post : posts) {
            Problem next;
            next.op = post.op;
            next.inputs = want;
            if (post.kind == PostOp::Kind::kBinary)
              next.inputs.insert(post.anchor_first ? next.inputs.end() : next.inputs.begin(),
                                 in_f64(others[post.operand - 3]));
            want = run_reference(node_of(next), next.inputs);
          }
          p.post_ops = posts;
          if (posts.size() > 1) p.post_inputs = others;
          p.inputs[0] = g.strided(p.inputs[0], kind);
          const Implementation& row = find_row("xc.rows", op);
          RunOptions options;
          options.output_kind = kind;
          std::vector<Tensor> first;
          for (options.threads = 1; options.threads <= 3; ++options.threads)
            for (const bool at_once : {false, true}) {
              options.pieces = at_once ? 0 : 1;
              options.at_once = at_once;
              const std::vector<Tensor> got = run_row(row, p, options);
              if (first.empty()) {
                CHECK(difference(in_f64(got[0]), want[0], {1e-5, 1e-5}) == "");
                first = got;
              }
              CHECK(same_bits(got[0], first[0]));
            }
        }
}

TEST_CASE("backends/rows: a norm of planes does not store halves") {
  Generator g(47);
  PostOp narrow{PostOp::Kind::kUnary, &get_op("Cast"), {}, 0, true, {}};
  narrow.attrs.set("to", int64_t{10});
  Problem p;
  p.op = &get_op("InstanceNormalization");
  p.inputs = {g.tensor(DType::kF32, {1, 4, 3, 5}), g.tensor(DType::kF32, {4}),
              g.tensor(DType::kF32, {4})};
  const Implementation& row = find_row("xc.rows", p.op->name);
  const Node node = node_of(p);
  CHECK(row.supports(spec_of(p, node, {})).yes());
  p.post_ops = {narrow};
  CHECK_FALSE(row.supports(spec_of(p, node, {})).yes());
}

}  // namespace
}  // namespace xc
