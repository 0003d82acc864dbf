// LSTM, GRU and RNN. Equations and gate orders as in the ONNX standard: LSTM i, o, f, c; GRU z, r,
// h.

#include "ops/matmul.h"
#include "ops/recurrent.h"
#include "ops/registry.h"

namespace xc {

namespace {

const CellKind& lstm_kind() {
  static const CellKind kind{4, {"Sigmoid", "Tanh", "Tanh"}, true};
  return kind;
}
const CellKind& gru_kind() {
  static const CellKind kind{3, {"Sigmoid", "Tanh"}, false};
  return kind;
}
const CellKind& rnn_kind() {
  static const CellKind kind{1, {"Tanh"}, false};
  return kind;
}

void infer_lstm(InferContext& ctx) {
  infer_recurrent(ctx, lstm_kind());
}
void infer_gru(InferContext& ctx) {
  infer_recurrent(ctx, gru_kind());
}
void infer_rnn(InferContext& ctx) {
  infer_recurrent(ctx, rnn_kind());
}

void reference_lstm(const ReferenceContext& ctx) {
  const bool coupled = ctx.attrs().get_int("input_forget", 0) != 0;
  run_recurrent(ctx, lstm_kind(), [&](const CellStep& s, auto& h, auto& c) {
    const std::vector<double> before = h;
    enum Gate { kInput, kOutput, kForget, kCell };
    const auto peek = [&](int64_t which, int64_t j, double cell) {
      return s.peephole ? s.peephole[which * s.hidden + j] * cell : 0.0;
    };
    const auto sum = [&](Gate gate, int64_t j) { return s.in(gate, j) + s.dot(gate, j, before); };
    for (int64_t j = 0; j < s.hidden; ++j) {
      double &cell = c[static_cast<size_t>(j)], &out = h[static_cast<size_t>(j)];
      const double i = s.activate(0, sum(kInput, j) + peek(0, j, cell));
      const double f = coupled ? 1 - i : s.activate(0, sum(kForget, j) + peek(2, j, cell));
      cell = f * cell + i * s.activate(1, sum(kCell, j));
      const double o = s.activate(0, sum(kOutput, j) + peek(1, j, cell));
      out = o * s.activations[2](cell);
    }
  });
}

void reference_gru(const ReferenceContext& ctx) {
  const bool reset_after = ctx.attrs().get_int("linear_before_reset", 0) != 0;
  run_recurrent(ctx, gru_kind(), [&](const CellStep& s, auto& h, auto&) {
    const std::vector<double> before = h;
    const auto size = before.size();
    std::vector<double> update(size), reset(size), gated(size);
    for (size_t j = 0; j < size; ++j) {
      const auto unit = static_cast<int64_t>(j);
      update[j] = s.activate(0, s.in(0, unit) + s.dot(0, unit, before));
      reset[j] = s.activate(0, s.in(1, unit) + s.dot(1, unit, before));
      gated[j] = reset[j] * before[j];
    }
    for (size_t j = 0; j < size; ++j) {
      const auto unit = static_cast<int64_t>(j);
      const double recurrent =
          reset_after ? reset[j] * s.dot(2, unit, before) : s.dot(2, unit, gated);
      const double hidden = s.activate(1, s.in(2, unit) + recurrent);
      h[j] = (1 - update[j]) * hidden + update[j] * before[j];
    }
  });
}

void reference_rnn(const ReferenceContext& ctx) {
  run_recurrent(ctx, rnn_kind(), [](const CellStep& s, auto& h, auto&) {
    const std::vector<double> before = h;
    for (int64_t j = 0; j < s.hidden; ++j)
      h[static_cast<size_t>(j)] = s.activate(0, s.in(0, j) + s.dot(0, j, before));
  });
}

OpDef recurrent(std::string_view name, InferFn infer, ReferenceFn reference) {
  OpDef op;
  op.name = name;
  op.min_inputs = 3;
  op.max_inputs = 6;
  op.min_outputs = 0;
  op.max_outputs = 2;
  op.attrs = recurrent_attr_specs();
  op.infer = infer;
  op.reference = reference;
  op.flops = recurrent_flops;
  op.tolerance = Tolerance::kContraction;
  return op;
}

}  // namespace

const CellKind& cell_kind(std::string_view op) {
  return op == "LSTM" ? lstm_kind() : op == "GRU" ? gru_kind() : rnn_kind();
}

void register_rnn(OpList& ops) {
  OpDef lstm = recurrent("LSTM", infer_lstm, reference_lstm);
  lstm.max_inputs = 8;
  lstm.max_outputs = 3;
  lstm.attrs.push_back({"input_forget", AttrKind::kInt, false, 0, 1});
  lstm.attrs.push_back(kLeftInBytes);
  ops.push_back(std::move(lstm));

  OpDef gru = recurrent("GRU", infer_gru, reference_gru);
  gru.attrs.push_back({"linear_before_reset", AttrKind::kInt});
  ops.push_back(std::move(gru));

  ops.push_back(recurrent("RNN", infer_rnn, reference_rnn));
}

}  // namespace xc
