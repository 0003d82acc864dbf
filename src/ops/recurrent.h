#pragma once
// What LSTM, GRU and RNN share: dims, attributes, activation functions, and the walk over
// directions, batch and time.
//
// Layout 0: X[seq, batch, input], Y[seq, dirs, batch, hidden], states [dirs, batch, hidden].
// Layout 1: X[batch, seq, input], Y[batch, seq, dirs, hidden], states [batch, dirs, hidden].
// Weights W[dirs, gates*hidden, input], R[dirs, gates*hidden, hidden], B[dirs, 2*gates*hidden].

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op.h"

namespace xc {

struct CellKind {
  int64_t gates;
  std::vector<std::string> activations;  ///< defaults of one direction
  bool has_cell_state;                   ///< LSTM: initial_c is input 6, peepholes are input 7
};

std::vector<AttrSpec> recurrent_attr_specs();
void infer_recurrent(InferContext& ctx, const CellKind& kind);
Dim recurrent_flops(const Graph& graph, const Node& node);

/// "LSTM", "GRU" or "RNN".
const CellKind& cell_kind(std::string_view op);

struct Activation {
  std::string name;  ///< lower case
  double alpha = 0, beta = 0;
  double operator()(double x) const;
};

/// The activations of all directions, one after the other. Values of activation_alpha and
/// activation_beta go, in order, to the functions that have such a parameter. Fails with
/// kInvalidModel for names that are unknown, too few or too many.
std::vector<Activation> activations_of(const Node& node, const CellKind& kind, size_t directions);

/// One time step of one direction and sample. Vectors have `hidden` entries per gate.
struct CellStep {
  int64_t hidden;
  const double* input;            ///< W x + Wb for every gate
  const double* recurrent;        ///< R of this direction
  const double* recurrent_bias;   ///< Rb, null when there is no B
  const double* peephole;         ///< P of this direction (i, o, f), null when absent
  const Activation* activations;  ///< of this direction
  double clip;                    ///< infinite when not set

  /// R[gate] . state + Rb, for hidden unit j.
  double dot(int64_t gate, int64_t j, const std::vector<double>& state) const;
  double in(int64_t gate, int64_t j) const { return input[gate * hidden + j]; }
  double activate(size_t which, double x) const;
};
/// Updates h (and c) by one step.
using CellFn = std::function<void(const CellStep&, std::vector<double>& h, std::vector<double>& c)>;

void run_recurrent(const ReferenceContext& ctx, const CellKind& kind, const CellFn& cell);

}  // namespace xc
