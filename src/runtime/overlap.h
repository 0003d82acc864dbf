#pragma once
// Memory that a caller gives for results, or receives.

#include <map>
#include <optional>
#include <span>

#include "runtime/tensor_handle.h"

namespace xc {

class Graph;

/// Whether a given output (not null) lies exactly where a row-major input does. Fails with
/// kInvalidArgument, naming it as `graph` does, when one shares memory with an input otherwise,
/// with strings, or with another output: a run writes results while it still reads inputs.
bool shares_inputs(const Graph& graph, std::span<const TensorView> inputs,
                   std::span<xc_tensor* const> outputs);

/// Results of one run that its steps own, as a caller receives them: none shares memory with
/// another, elements of containers included, for the caller may write into each. Keys of maps may
/// be shared: nobody writes them.
class HandedOut {
 public:
  /// Copies what lies in memory of an earlier result, or of this one. Returns the bytes copied.
  int64_t separate(Tensor& result, const Type& type);

 private:
  std::optional<Tensor> copy_of_shared(const Tensor& value, const Type& type);

  int64_t copied_ = 0;
  std::map<const std::byte*, const std::byte*> taken_;  ///< begin to end; they do not overlap
};

}  // namespace xc
