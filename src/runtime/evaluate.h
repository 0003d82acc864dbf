#pragma once
// One node on given tensors, by the kernels a run would take: for passes that compute constants.

#include <memory>
#include <vector>

#include "ir/graph.h"
#include "passes/pass.h"
#include "runtime/engine.h"

namespace xc {

/// The outputs of `node` (undefined tensors for those it does not have); inputs in its order,
/// undefined where absent. No control flow. `options`: of the model's passes, which the node goes
/// through alone, without folding. Nothing is compiled, sampled or published. Fails as a run would.
std::vector<Tensor> evaluate(const std::shared_ptr<Engine>& engine, const Node& node,
                             const std::vector<Tensor>& inputs, PassOptions options);

}  // namespace xc
