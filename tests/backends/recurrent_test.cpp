#include <doctest/doctest.h>

#include <cmath>

#include "backends/step_harness.h"

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

TEST_CASE("backends/recurrent: refusals") {
  Generator g(63);
  Problem p;
  p.op = &get_op("RNN");
  p.inputs = {g.tensor(DType::kF32, {2, 1, 3}), g.tensor(DType::kF32, {1, 4, 3}),
              g.tensor(DType::kF32, {1, 4, 4})};
  p.attrs.set("activations", std::vector<std::string>{"Relu"});
  const Node node = node_of(p);
  CHECK(find_row("xc.recurrent", "RNN").supports(spec_of(p, node, {})).reason == "activation Relu");
  CHECK(chosen_row(p) == "reference");
}

}  // namespace
}  // namespace xc
