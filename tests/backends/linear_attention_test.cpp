#include <doctest/doctest.h>

#include <cmath>

#include "backends/cpu/vector/linear_attention_fn.h"
#include "backends/step_harness.h"
#include "support/worst.h"

namespace xc {
namespace {

using namespace test;

struct Sizes {
  int64_t batch, steps, heads, group, keys, values;
};

/// Decays are logarithms of what is kept; with keys of about length one, the delta rule is stable.
Problem problem_of(Generator& g, const Sizes& s, const std::string& rule, bool per_row, bool shared,
                   bool past) {
  const bool gated = rule.starts_with("gated"), delta = rule.ends_with("delta");
  const double reach = 1.5 / std::sqrt(static_cast<double>(s.keys));
  const auto tensor = [&](int64_t width, double low, double high) {
    return g.tensor(DType::kF32, {s.batch, s.steps, width}, low, high);
  };
  Problem p;
  p.op = &get_op("LinearAttention");
  p.attrs.set("kv_num_heads", s.heads);
  p.attrs.set("q_num_heads", s.heads * s.group);
  p.attrs.set("update_rule", rule);
  p.inputs = {tensor(s.heads * s.group * s.keys, -1, 1), tensor(s.heads * s.keys, -reach, reach),
              tensor(s.heads * s.values, -1, 1)};
  p.inputs.push_back(past ? g.tensor(DType::kF32, {s.batch, s.heads, s.keys, s.values}, -1, 1)
                          : Tensor());
  p.inputs.push_back(gated ? tensor(per_row ? s.heads * s.keys : s.heads, -2, 0) : Tensor());
  p.inputs.push_back(delta ? tensor(shared ? 1 : s.heads, 0, 1) : Tensor());
  p.outputs = 2;
  return p;
}

TEST_CASE("backends/linear_attention: every rule over heads, groups, steps and widths") {
  Generator g(301);
  int round = 0;
  for (const char* rule : {"linear", "gated", "delta", "gated_delta"})
    for (const Sizes& s : {Sizes{1, 1, 1, 1, 1, 1},
                           {2, 3, 2, 1, 8, 16},
                           {1, 7, 3, 2, 17, 33},
                           {1, 1, 2, 1, 64, 64},
                           {2, 5, 1, 3, 5, 130},
                           {1, 20, 1, 1, 16, 70},
                           {1, 4, 1, 1, 33, 15}})
      for (const bool past : {false, true}) {
        const bool per_row = ++round % 2 == 0, shared = round % 3 == 0;
        Problem p = problem_of(g, s, rule, per_row, shared, past);
        if (round % 4 == 0) p.outputs = 1;
        if (round % 5 == 0) p.attrs.set("scale", 0.25);
        INFO(rule << " " << s.steps << " steps, " << s.keys << "x" << s.values
                  << (past ? "" : ", new"));
        CHECK(chosen_row(p) == "xc.linear_attention");
        check_row("xc.linear_attention", p, {1e-5, 2e-5});
      }
}

TEST_CASE("backends/linear_attention: no steps hand the state on, no samples do nothing") {
  Generator g(304);
  const Implementation& row = find_row("xc.linear_attention", "LinearAttention");
  for (const bool past : {false, true}) {
    const Problem some = problem_of(g, {2, 3, 2, 1, 4, 6}, "gated_delta", true, false, past);
    const Node node = node_of(some);
    const auto kernel = row.create(spec_of(some, node, {}));
    for (const Sizes& s : {Sizes{2, 0, 2, 1, 4, 6}, {0, 3, 2, 1, 4, 6}}) {
      const Problem p = problem_of(g, s, "gated_delta", true, false, past);
      const auto got = run_kernel(*kernel, p, {});
      const auto want = run_reference(node, p.inputs);
      for (size_t k : {0, 1}) CHECK(difference(got[k], want[k], {}) == "");
    }
  }
}

TEST_CASE("backends/linear_attention: rows that are parts of longer ones are read where they lie") {
  Generator g(305);
  Problem p = problem_of(g, {2, 5, 2, 2, 8, 20}, "gated_delta", true, false, true);
  const auto want = run_reference(node_of(p), p.inputs);
  for (const size_t i : {0, 1, 2, 4}) {
    const Dims dims = p.inputs[i].dims();
    const int64_t row = dims[2] + 7 + static_cast<int64_t>(i);
    Tensor apart(Buffer::allocate(dims[0] * dims[1] * row * 4), 0, DType::kF32, dims,
                 {dims[1] * row, row, 1});
    copy_elements(p.inputs[i].view(), apart.view());
    p.inputs[i] = apart;
  }
  const auto got = run_row(find_row("xc.linear_attention", "LinearAttention"), p, {});
  for (size_t k : {0, 1}) CHECK(difference(got[k], want[k], {1e-5, 2e-5}) == "");
}

TEST_CASE("backends/linear_attention: a state handed on gives what one run of all steps gives") {
  Generator g(302);
  const Sizes all{1, 9, 2, 2, 12, 40};
  const Problem whole = problem_of(g, all, "gated_delta", true, false, true);
  const Implementation& row = find_row("xc.linear_attention", "LinearAttention");
  const std::vector<Tensor> want = run_row(row, whole, {});
  Tensor state = whole.inputs[3];
  for (int64_t t = 0; t < all.steps; ++t) {
    Problem one = whole;
    for (size_t i : {0, 1, 2, 4, 5}) {
      const int64_t width = whole.inputs[i].dims()[2];
      one.inputs[i] = Tensor(DType::kF32, {1, 1, width});
      std::copy_n(whole.inputs[i].as<float>() + t * width, width, one.inputs[i].as<float>());
    }
    one.inputs[3] = state;
    const std::vector<Tensor> got = run_row(row, one, {});
    const int64_t width = got[0].count();
    for (int64_t j = 0; j < width; ++j)
      CHECK(got[0].as<float>()[j] == want[0].as<float>()[t * width + j]);
    state = got[1];
  }
  CHECK(same_bits(state, want[1]));
}

TEST_CASE("backends/linear_attention: every instruction set agrees with sums in f64") {
  Generator g(303);
  for (const int64_t columns : {1, 5, 16, 31, 64})
    for (const int64_t rows : {1, 7, 16, 33}) {
      constexpr int64_t kSteps = 6;
      const auto filled = [&](int64_t count, double low, double high) {
        return g.tensor(DType::kF32, {count}, low, high);
      };
      const double reach = 1.5 / std::sqrt(static_cast<double>(rows));
      const Tensor query = filled(kSteps * rows, -1, 1), key = filled(kSteps * rows, -reach, reach),
                   value = filled(kSteps * columns, -1, 1), decay = filled(kSteps * rows, -1, 0),
                   rate = filled(kSteps, 0, 1), past = filled(rows * columns, -1, 1);
      std::vector<double> state(static_cast<size_t>(rows * columns)), want;
      for (int64_t i = 0; i < rows * columns; ++i)
        state[static_cast<size_t>(i)] = static_cast<double>(past.as<float>()[i]);
      const auto at = [](const Tensor& of, int64_t i) {
        return static_cast<double>(of.as<float>()[i]);
      };
      for (int64_t t = 0; t < kSteps; ++t)
        for (int64_t j = 0; j < columns; ++j) {
          const auto s = [&](int64_t i) -> double& {
            return state[static_cast<size_t>(i * columns + j)];
          };
          double recalled = 0, sum = 0;
          for (int64_t i = 0; i < rows; ++i) {
            s(i) *= std::exp(at(decay, t * rows + i));
            recalled += s(i) * at(key, t * rows + i);
          }
          const double change = at(rate, t) * (at(value, t * columns + j) - recalled);
          for (int64_t i = 0; i < rows; ++i) {
            s(i) += at(key, t * rows + i) * change;
            sum += at(query, t * rows + i) * s(i);
          }
          want.push_back(0.5 * sum);
        }
      for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
        if (isa > cpu_info().isa) continue;
        const cpu::LinearAttentionFns& fns = cpu::linear_attention_fns(isa);
        const Tensor room(DType::kF32, {fns.room(rows)});
        Tensor y(DType::kF32, {kSteps, columns}), present(DType::kF32, {rows, columns});
        for (int64_t first = 0; first < columns; first += fns.columns)
          fns.walk({.steps = kSteps,
                    .rows = rows,
                    .columns = std::min(fns.columns, columns - first),
                    .query = query.as<float>(),
                    .query_step = rows,
                    .group = 1,
                    .key = key.as<float>(),
                    .key_step = rows,
                    .value = value.as<float>() + first,
                    .value_step = columns,
                    .y = y.as<float>() + first,
                    .y_step = columns,
                    .y_head = columns,
                    .decay = decay.as<float>(),
                    .decay_step = rows,
                    .decay_per_row = true,
                    .delta = true,
                    .rate = rate.as<float>(),
                    .rate_step = 1,
                    .scale = 0.5f,
                    .past = past.as<float>() + first,
                    .present = present.as<float>() + first,
                    .state_step = columns,
                    .room = room.as<float>()});
        INFO(name(isa) << " " << rows << "x" << columns);
        double worst = 0;
        for (int64_t i = 0; i < y.count(); ++i)
          worst = worst_of(worst, std::abs(at(y, i) - want[static_cast<size_t>(i)]));
        for (int64_t i = 0; i < present.count(); ++i)
          worst = worst_of(worst, std::abs(at(present, i) - state[static_cast<size_t>(i)]));
        CHECK(worst < 1e-5);
      }
    }
}

}  // namespace
}  // namespace xc
