#include <doctest/doctest.h>

#include <cmath>

#include "backends/cpu/vector/byte_product_fn.h"
#include "backends/step_harness.h"
#include "base/checked.h"
#include "base/cpu_info.h"
#include "ops/matmul.h"
#include "ops/rounded_blocks.h"
#include "tensor/half.h"

namespace xc {
namespace {

using namespace test;

TEST_CASE("backends/recurrent: cells, directions, layouts, lengths, states") {
  Generator g(61);
  for (const char* op : {"LSTM", "GRU", "RNN"}) {
    const bool lstm = std::string_view(op) == "LSTM";
    const int64_t gates = lstm ? 4 : std::string_view(op) == "GRU" ? 3 : 1;
    for (const char* direction : {"forward", "reverse", "bidirectional"})
      for (int64_t layout : {0, 1})
        for (int variant = 0; variant < 6; ++variant) {
          const int64_t dirs = std::string_view(direction) == "bidirectional" ? 2 : 1;
          const int64_t batch = variant == 1   ? 1
                                : variant == 5 ? 7
                                               : 3,
                        time = 5, input = variant == 2 ? 20 : 6;
          // 32 units: LSTM weights fill one panel.
          const int64_t hidden = variant == 3 || variant == 1 ? 32 : variant == 5 ? 128 : 5;
          const Dims state = layout ? Dims{batch, dirs, hidden} : Dims{dirs, batch, hidden};
          Problem p;
          p.op = &get_op(op);
          p.outputs = lstm ? 3 : 2;
          p.attrs.set("direction", std::string(direction));
          p.attrs.set("layout", layout);
          p.attrs.set("hidden_size", hidden);
          if (gates == 3 && variant % 2) p.attrs.set("linear_before_reset", int64_t{1});
          p.inputs = {
              g.tensor(DType::kF32, layout ? Dims{batch, time, input} : Dims{time, batch, input}),
              g.tensor(DType::kF32, {dirs, gates * hidden, input}, -0.5, 0.5),
              g.tensor(DType::kF32, {dirs, gates * hidden, hidden}, -0.3, 0.3)};
          if (variant != 0)
            p.inputs.push_back(g.tensor(DType::kF32, {dirs, 2 * gates * hidden}));
          else
            p.inputs.push_back(Tensor());
          if (variant >= 2) {
            p.inputs.push_back(variant == 4
                                   ? g.tensor(DType::kI32, {batch}, 0, static_cast<double>(time))
                                   : Tensor());
            p.inputs.push_back(g.tensor(DType::kF32, state));
            if (lstm) p.inputs.push_back(g.tensor(DType::kF32, state));
          }
          p.constant.assign(p.inputs.size(), false);
          p.constant[1] = p.constant[2] = variant != 4;
          p.constant[3] = variant != 4 && variant != 0;
          INFO(op << " " << direction << " layout " << layout << " variant " << variant);
          check_row("xc.recurrent", p, {2e-5, 2e-5});
        }
  }
}

TEST_CASE("backends/recurrent: long sequences run in spans") {
  Generator g(62);
  Problem p;
  p.op = &get_op("LSTM");
  p.outputs = 3;
  p.attrs.set("direction", std::string("bidirectional"));
  p.inputs = {g.tensor(DType::kF32, {700, 1, 3}), g.tensor(DType::kF32, {2, 512, 3}, -0.5, 0.5),
              g.tensor(DType::kF32, {2, 512, 128}, -0.1, 0.1)};
  p.constant = {false, true, true};
  check_row("xc.recurrent", p, {1e-4, 1e-4});
}

TEST_CASE("backends/recurrent: no steps, no samples, one unit, no optional operands") {
  Generator g(64);
  struct Sizes {
    int64_t time, batch, input, hidden;
  };
  for (const char* op : {"LSTM", "GRU", "RNN"})
    for (Sizes s : {Sizes{0, 2, 3, 4}, Sizes{3, 0, 3, 4}, Sizes{1, 1, 1, 1}, Sizes{4, 16, 40, 65}})
      for (bool minimal : {false, true}) {
        const bool lstm = std::string_view(op) == "LSTM";
        const int64_t gates = lstm ? 4 : std::string_view(op) == "GRU" ? 3 : 1;
        const Dims state{2, s.batch, s.hidden};
        Problem p;
        p.op = &get_op(op);
        p.outputs = lstm ? 3 : 2;
        p.attrs.set("direction", std::string("bidirectional"));
        p.inputs = {g.tensor(DType::kF32, {s.time, s.batch, s.input}),
                    g.tensor(DType::kF32, {2, gates * s.hidden, s.input}, -0.5, 0.5),
                    g.tensor(DType::kF32, {2, gates * s.hidden, s.hidden}, -0.3, 0.3)};
        p.constant = {false, true, true};
        if (!minimal) {
          p.inputs.push_back(g.tensor(DType::kF32, {2, 2 * gates * s.hidden}));
          p.inputs.push_back(Tensor());
          p.inputs.push_back(g.tensor(DType::kF32, state));
          if (lstm) p.inputs.push_back(g.tensor(DType::kF32, state));
          p.constant.resize(p.inputs.size(), false);
        }
        INFO(op << " " << s.time << "x" << s.batch << (minimal ? " minimal" : ""));
        check_row("xc.recurrent", p, {2e-5, 2e-5});
      }
}

TEST_CASE("backends/recurrent: threads share units and samples, with the same bits") {
  Generator g(65);
  struct Sizes {
    const char* op;
    int64_t time, batch, input, hidden;
  };
  for (const Sizes s :
       {Sizes{"LSTM", 40, 1, 30, 160}, Sizes{"LSTM", 9, 5, 130, 100}, Sizes{"GRU", 30, 1, 20, 260},
        Sizes{"GRU", 8, 3, 20, 200}, Sizes{"RNN", 30, 1, 20, 400}, Sizes{"LSTM", 7, 33, 10, 20},
        Sizes{"LSTM", 4, 1, 20, 400}})
    for (const bool both : {false, true})
      for (const int variant : {0, 1, 2}) {
        const bool lstm = std::string_view(s.op) == "LSTM";
        const int64_t gates = lstm ? 4 : std::string_view(s.op) == "GRU" ? 3 : 1;
        const int64_t dirs = both ? 2 : 1;
        Problem p;
        p.op = &get_op(s.op);
        p.outputs = lstm ? 3 : 2;
        p.attrs.set("direction", std::string(both ? "bidirectional" : "reverse"));
        if (gates == 3 && variant == 1) p.attrs.set("linear_before_reset", int64_t{1});
        const float spread = 1.0f / std::sqrt(static_cast<float>(s.hidden));
        p.inputs = {g.tensor(DType::kF32, {s.time, s.batch, s.input}),
                    g.tensor(DType::kF32, {dirs, gates * s.hidden, s.input}, -spread, spread),
                    g.tensor(DType::kF32, {dirs, gates * s.hidden, s.hidden}, -spread, spread),
                    g.tensor(DType::kF32, {dirs, 2 * gates * s.hidden}),
                    variant == 2 ? g.tensor(DType::kI32, {s.batch}, 0, static_cast<double>(s.time))
                                 : Tensor()};
        p.constant = {false, variant != 1, variant != 1, false, false};
        const auto& row = find_row("xc.recurrent", s.op);
        const std::vector<Tensor> want = run_reference(node_of(p), p.inputs);
        std::vector<Tensor> first;
        for (const int threads : {1, 2, 3, 8})
          for (const bool at_once : {false, true}) {
            INFO(s.op << " of " << s.hidden << ", variant " << variant << ", " << threads
                      << (at_once ? " at once" : " one by one"));
            RunOptions options;
            options.threads = threads;
            options.pieces = 0;
            options.at_once = at_once;
            const std::vector<Tensor> got = run_row(row, p, options);
            for (size_t i = 0; i < got.size(); ++i)
              CHECK(difference(got[i], want[i], {5e-5, 5e-5}) == "");
            if (first.empty()) first = got;
            for (size_t i = 0; i < got.size(); ++i) CHECK(same_bits(got[i], first[i]));
          }
      }
}

/// An operator over both directions, with weights that keep its state small.
Problem both_directions(Generator& g, std::string_view op, int64_t batch, int64_t time,
                        int64_t hidden) {
  const bool lstm = op == "LSTM";
  const int64_t gates = lstm ? 4 : op == "GRU" ? 3 : 1, input = 6;
  const Dims state{2, batch, hidden};
  Problem p;
  p.op = &get_op(op);
  p.outputs = lstm ? 3 : 2;
  p.attrs.set("direction", std::string("bidirectional"));
  const double spread = 1 / std::sqrt(static_cast<double>(hidden));
  p.inputs = {g.tensor(DType::kF32, {time, batch, input}),
              g.tensor(DType::kF32, {2, gates * hidden, input}, -0.3, 0.3),
              g.tensor(DType::kF32, {2, gates * hidden, hidden}, -spread / 2, spread / 2),
              g.tensor(DType::kF32, {2, 2 * gates * hidden}, -0.5, 0.5),
              Tensor(),
              g.tensor(DType::kF32, state, -0.5, 0.5)};
  if (lstm) p.inputs.push_back(g.tensor(DType::kF32, state, -0.5, 0.5));
  p.constant = {false, true, true, true};
  return p;
}

TEST_CASE("backends/recurrent: every activation, with its parameters, per direction") {
  Generator g(66);
  using Names = std::vector<std::string>;
  using Numbers = std::vector<double>;
  struct Functions {
    Names names;  ///< taken in turn by what an operator has
    Numbers alpha, beta;
  };
  for (const Functions& f :
       {Functions{{"Relu", "Sigmoid", "Softsign"}, {}, {}},
        Functions{{"HardSigmoid", "Elu", "ScaledTanh"}, {}, {}},
        Functions{{"HardSigmoid", "Elu", "ScaledTanh"}, {0.3, 0.7, 1.2, 0.25}, {0.4, 0.6}},
        Functions{{"Affine", "LeakyRelu", "ThresholdedRelu"}, {0.5, 0.2, 0.1}, {0.125}},
        Functions{{"softplus", "TANH", "Affine"}, {0.75}, {}},
        Functions{{"Sigmoid", "Tanh", "Relu", "Tanh"}, {}, {}}})
    for (const char* op : {"LSTM", "GRU", "RNN"})
      for (const int64_t hidden : {5, 37})
        for (const double clip : {0.0, 0.4}) {
          Problem p = both_directions(g, op, 3, 4, hidden);
          const size_t wanted = std::string_view(op) == "LSTM" ? 6 : p.op->name == "GRU" ? 4 : 2;
          Names names;
          for (size_t i = 0; i < wanted; ++i) names.push_back(f.names[i % f.names.size()]);
          p.attrs.set("activations", names);
          if (!f.alpha.empty()) p.attrs.set("activation_alpha", f.alpha);
          if (!f.beta.empty()) p.attrs.set("activation_beta", f.beta);
          if (clip > 0) p.attrs.set("clip", clip);
          if (p.op->name == "GRU" && hidden == 37) p.attrs.set("linear_before_reset", int64_t{1});
          INFO(op << " " << f.names[0] << " of " << hidden << ", clip " << clip);
          check_row("xc.recurrent", p, {5e-5, 5e-5});
          CHECK(chosen_row(p) == "xc.recurrent");
        }
}

TEST_CASE("backends/recurrent: activations far out and of NaN") {
  const std::vector<std::string> all{"Sigmoid",         "Tanh",       "Relu",        "Affine",
                                     "LeakyRelu",       "ScaledTanh", "HardSigmoid", "Elu",
                                     "ThresholdedRelu", "Softsign",   "Softplus"};
  for (const std::string& name : all) {
    Problem p;
    p.op = &get_op("RNN");
    p.outputs = 2;
    p.attrs.set("activations", std::vector<std::string>{name});
    p.inputs = {
        Tensor::of(
            std::vector<float>{-1e30f, -200, -20, -1e-6f, 0, 1e-6f, 20, 200, 1e30f, INFINITY, NAN},
            {1, 11, 1}),
        Tensor::of(std::vector<float>{1}, {1, 1, 1}), Tensor::of(std::vector<float>{0}, {1, 1, 1})};
    p.constant = {false, true, true};
    INFO(name);
    check_row("xc.recurrent", p, {1e-5, 1e-12});
  }
}

TEST_CASE("backends/recurrent: peepholes and coupled gates, constant and of the run") {
  Generator g(67);
  for (const int64_t hidden : {5, 37})
    for (const bool coupled : {false, true})
      for (const bool peepholes : {false, true})
        for (const bool lengths : {false, true}) {
          Problem p = both_directions(g, "LSTM", 3, 5, hidden);
          p.attrs.set("input_forget", int64_t{coupled});
          if (peepholes) p.inputs.push_back(g.tensor(DType::kF32, {2, 3 * hidden}, -1, 1));
          if (lengths) p.inputs[4] = g.tensor(DType::kI32, {3}, 0, 5);
          for (const bool constant : {false, true}) {
            p.constant.assign(p.inputs.size(), false);
            p.constant[1] = p.constant[2] = true;
            if (peepholes) p.constant[7] = constant;
            INFO(hidden << (coupled ? " coupled" : "") << (peepholes ? " peepholes" : "")
                        << (lengths ? " lengths" : ""));
            check_row("xc.recurrent", p, {2e-5, 2e-5});
          }
        }
}

TEST_CASE("backends/recurrent: chosen functions have the same bits for any number of threads") {
  Generator g(68);
  Problem p = both_directions(g, "LSTM", 5, 9, 200);
  p.attrs.set("activations", std::vector<std::string>{"HardSigmoid", "Softsign", "Elu", "Sigmoid",
                                                      "Tanh", "Relu"});
  p.attrs.set("clip", 2.0);
  p.inputs.push_back(g.tensor(DType::kF32, {2, 600}, -1, 1));
  const std::vector<Tensor> want = run_reference(node_of(p), p.inputs);
  std::vector<Tensor> first;
  for (const int threads : {1, 2, 3, 8}) {
    RunOptions options;
    options.threads = threads;
    options.pieces = 0;
    options.at_once = true;
    const auto got = run_row(find_row("xc.recurrent", "LSTM"), p, options);
    if (first.empty()) first = got;
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK(difference(got[i], want[i], {5e-5, 5e-5}) == "");
      CHECK(same_bits(got[i], first[i]));
    }
  }
}

/// A layer over both directions whose weights are integers of 8 bits times a scale per row: more
/// than caches near the core hold.
Problem of_bytes(Generator& g, std::string_view op, int64_t units, int64_t batch, int64_t time,
                 bool per_row) {
  Problem p = both_directions(g, op, batch, time, units);
  for (const size_t i : {1, 2}) {
    Tensor& w = p.inputs[i];
    const int64_t rows = w.dims()[1], k = w.dims()[2];
    const double most = i == 1 ? 0.3 : 0.5 / std::sqrt(static_cast<double>(units));
    for (int64_t row = 0; row < 2 * rows; ++row) {
      const double part = per_row ? 1 + static_cast<double>(row % 7) / 8 : 2;
      const auto scale = static_cast<float>(most / (127 * part));
      float* const weights = w.as<float>() + row * k;
      for (int64_t j = 0; j < k; ++j) {
        const float code = std::nearbyint(weights[j] * static_cast<float>(120 / most));
        weights[j] = (row == 3 ? 0 : code) * scale;
      }
    }
  }
  return p;
}

/// Units of a layer whose R exceeds half of the second-level cache.
int64_t many_units(std::string_view op) {
  const double gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1;
  const double cache = static_cast<double>(cpu_info().l2_bytes);
  return static_cast<int64_t>(std::sqrt(cache / 2 / 4 / gates)) + 21;
}

TEST_CASE("backends/recurrent: weights that are bytes and a scale per row stay so") {
  Generator g(71);
  for (const char* op : {"LSTM", "GRU", "RNN"})
    for (const int64_t batch : {1, 3, 13}) {
      INFO(op << " of " << batch);
      Problem p = of_bytes(g, op, many_units(op), batch, 3, batch != 3);
      if (batch == 3 && p.op->name == "GRU") p.attrs.set("linear_before_reset", int64_t{1});
      check_row("xc.recurrent", p, {2e-5, 2e-5});
      check_threads("xc.recurrent", p);
      const auto& row = find_row("xc.recurrent", op);
      const std::vector<Tensor> narrow = run_row(row, p);
      if (cpu_info().isa < Isa::kAvx2) continue;
      // Weights that are packed in the run are floats; so are all in strict numerics, and where one
      // is no such product.
      Problem wide = p;
      wide.constant = {false, false, false, true};
      const std::vector<Tensor> floats = run_row(row, wide);
      CHECK(!same_bits(narrow[0], floats[0]));
      RunOptions strict;
      strict.numerics = Numerics::kStrict;
      CHECK(same_bits(run_row(row, p, strict)[0], floats[0]));
      p.inputs[2] = p.inputs[2].clone();
      p.inputs[2].as<float>()[5] = 0.0123457f;
      wide.inputs[2] = p.inputs[2];
      CHECK(same_bits(run_row(row, p)[0], run_row(row, wide)[0]));
    }
}

/// h after each step and sample of an LSTM over one direction whose products' left sides are
/// rounded to bytes, row by row.
std::vector<double> rounded_lstm(const Problem& p) {
  const Dims x = p.inputs[0].dims();
  const int64_t time = x[0], batch = x[1], input = x[2], units = p.inputs[2].dims()[2];
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const auto rounded = [](std::vector<float> row) {
    round_blocks(row.data(), std::ssize(row), std::ssize(row));
    return row;
  };
  const auto dot = [](const std::vector<float>& a, const float* b) {
    double sum = 0;
    for (const float v : a) sum += static_cast<double>(v) * static_cast<double>(*b++);
    return sum;
  };
  std::vector<double> out(static_cast<size_t>(time * batch * units));
  for (int64_t n = 0; n < batch; ++n) {
    std::vector<float> h(static_cast<size_t>(units));
    std::vector<double> c(h.size());
    for (int64_t t = 0; t < time; ++t) {
      const float* const from = p.inputs[0].as<float>() + (t * batch + n) * input;
      const std::vector<float> xs = rounded({from, from + input}), hs = rounded(h);
      for (int64_t j = 0; j < units; ++j) {
        const auto gate = [&](int64_t which) {
          const int64_t row = which * units + j;
          return static_cast<double>(p.inputs[3].as<float>()[row]) +
                 static_cast<double>(p.inputs[3].as<float>()[4 * units + row]) +
                 dot(xs, p.inputs[1].as<float>() + row * input) +
                 dot(hs, p.inputs[2].as<float>() + row * units);
        };
        double& cell = c[static_cast<size_t>(j)];
        cell = sigmoid(gate(2)) * cell + sigmoid(gate(0)) * std::tanh(gate(3));
        const double y = sigmoid(gate(1)) * std::tanh(cell);
        h[static_cast<size_t>(j)] = static_cast<float>(y);
        out[static_cast<size_t>((t * batch + n) * units + j)] = y;
      }
    }
  }
  return out;
}

TEST_CASE("backends/recurrent: rows are rounded to bytes where the model lets them be") {
  Generator g(72);
  if (!cpu::byte_fns(cpu_info(), false)) return;
  const int64_t many = align_up(many_units("LSTM"), 64);
  // Units that fill panels, and such that gates share one; more rows than are rounded at a time.
  for (const auto& [units, batch] :
       {std::pair{many, int64_t{1}}, {many, 5}, {many + 11, 1}, {many + 11, 15}}) {
    INFO(units << " units of " << batch);
    Problem p = of_bytes(g, "LSTM", units, batch, 3, true);
    p.attrs.set(std::string(kLeftInBytes.name), int64_t{1});
    check_threads("xc.recurrent", p);
    check_row("xc.recurrent", p, {2e-2, 2e-2});
    // One way, from nothing. A row with an element beyond what is rounded stays as it is.
    p.attrs.set("direction", std::string("forward"));
    p.inputs.resize(4);
    for (const size_t i : {1, 2, 3}) {
      Dims dims = p.inputs[i].dims();
      dims[0] = 1;
      const Tensor first(DType::kF32, dims);
      std::copy_n(p.inputs[i].as<float>(), first.count(), first.as<float>());
      p.inputs[i] = first;
    }
    p.inputs[0].as<float>()[batch * 6 + 2] = 1e30f;
    const std::vector<double> want = rounded_lstm(p);
    const auto& row = find_row("xc.recurrent", "LSTM");
    RunOptions strict;
    strict.numerics = Numerics::kStrict;
    const Tensor got = run_row(row, p)[0], exact = run_row(row, p, strict)[0];
    double off = 0, rounding = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      off = std::max(off, std::abs(static_cast<double>(got.as<float>()[i]) - want[i]));
      rounding = std::max(rounding, std::abs(static_cast<double>(exact.as<float>()[i]) - want[i]));
    }
    CHECK(off < 2e-5);
    CHECK(rounding > 1e-4);
  }
}

TEST_CASE("backends/recurrent: weights that bf16 holds are kept so, with the same bits") {
  Generator g(72);
  for (const char* op : {"LSTM", "GRU", "RNN"})
    for (const int64_t batch : {1, 13}) {
      INFO(op << " of " << batch);
      Problem p = both_directions(g, op, batch, 3, many_units(op));
      for (const size_t i : {1, 2}) {
        Tensor& w = p.inputs[i];
        const double most = 0.5 / std::sqrt(static_cast<double>(w.dims()[2]));
        for (int64_t j = 0; j < w.count(); ++j) {
          float& weight = w.as<float>()[j];
          weight = bf16_to_float(float_to_bf16(weight * static_cast<float>(most)));
        }
      }
      check_threads("xc.recurrent", p);
      const auto& row = find_row("xc.recurrent", op);
      // Weights that are packed in the run are floats.
      Problem wide = p;
      wide.constant = {false, false, false, true};
      const std::vector<Tensor> halves = run_row(row, p), floats = run_row(row, wide);
      for (size_t k = 0; k < floats.size(); ++k) CHECK(same_bits(halves[k], floats[k]));
      // In fast numerics others are rounded.
      Problem other = p;
      for (const size_t i : {1, 2}) {
        other.inputs[i] = other.inputs[i].clone();
        for (int64_t j = 0; j < other.inputs[i].count(); j += 3) {
          float& weight = other.inputs[i].as<float>()[j];
          weight = std::nextafter(weight, 1.0f);
        }
      }
      RunOptions fast;
      fast.numerics = Numerics::kFast;
      const std::vector<Tensor> rounded = run_row(row, other, fast);
      if (cpu_info().isa >= Isa::kAvx2)
        for (size_t k = 0; k < floats.size(); ++k) CHECK(same_bits(rounded[k], halves[k]));
      CHECK(!same_bits(run_row(row, other)[0], halves[0]));
    }
}

TEST_CASE("backends/recurrent: refusals") {
  Generator g(63);
  Problem p;
  p.op = &get_op("RNN");
  p.inputs = {g.tensor(DType::kF64, {2, 1, 3}), g.tensor(DType::kF64, {1, 4, 3}),
              g.tensor(DType::kF64, {1, 4, 4})};
  const Node node = node_of(p);
  CHECK(find_row("xc.recurrent", "RNN").supports(spec_of(p, node, {})).reason ==
        "operand 0 is f64, not f32");
  CHECK(chosen_row(p) == "reference");
}

}  // namespace
}  // namespace xc
