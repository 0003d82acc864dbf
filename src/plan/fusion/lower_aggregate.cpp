#include "loop/schedule.h"
#include "plan/fusion/loop_body.h"
#include "plan/fusion/lower_loops.h"

namespace xc::fusion {
namespace {

using loop::Expr;
using loop::KernelBuilder;
using loop::Var;

/// The only loop of an aggregate and its blocks, and what is reduced.
struct Aggregate {
  const LoopRegion& region;
  const LoopAxis& axis;
  OperandDims blocks;
  std::vector<NodeId> reductions;

  const Node& node(NodeId id) const { return region.graph().node(id); }
};

/// A partial result of each block, and what is stored by element.
RegionPhase partial_results(const Aggregate& a) {
  RegionPhase phase;
  KernelBuilder builder("aggregate_blocks");
  Access access(builder, a.region.spec(), phase);
  LoopBody body(a.region, builder, access, {&a.axis});
  const Expr n = access.extent(a.axis), block_count = access.extent(a.blocks);
  std::vector<loop::Buffer> temps;
  for (size_t k = 0; k < a.reductions.size(); ++k)
    temps.push_back(
        access.temp(static_cast<uint32_t>(k), a.region.acc_type(a.reductions[k]), true));
  builder.loop("b", 0, block_count, [&](Var b) {
    std::vector<loop::Acc> accs;
    for (NodeId id : a.reductions)
      accs.push_back(
          accumulator(a.region, builder, "a" + std::to_string(id), id, loop::AccOrder::kLanes));
    const Expr begin = loop::loop_var(b) * loop::i64(loop::kSumBlock);
    builder.loop("j", begin, loop::min(begin + loop::i64(loop::kSumBlock), n), [&](Var j) {
      body.enter({.at = {loop::Index(j)}});
      for (size_t k = 0; k < a.reductions.size(); ++k) body.accumulate(a.reductions[k], accs[k]);
      for (NodeId id : a.region.graph().order())
        if (const ValueId v = a.node(id).outputs[0];
            !a.node(id).op->reduction && !a.region.outputs_of(v).empty())
          body.store(v);
    });
    for (size_t k = 0; k < a.reductions.size(); ++k) builder.store(temps[k](b), accs[k].value());
  });
  loop::Kernel kernel = builder.finish();
  access.finish();
  phase.kernel = loop::schedule_default(std::move(kernel), {});
  return phase;
}

/// The blocks' partial results put together.
RegionPhase whole_results(const Aggregate& a) {
  RegionPhase phase;
  KernelBuilder builder("aggregate_result");
  Access access(builder, a.region.spec(), phase);
  const Expr n = access.extent(a.axis), block_count = access.extent(a.blocks);
  for (size_t k = 0; k < a.reductions.size(); ++k) {
    const NodeId id = a.reductions[k];
    const loop::Buffer temp = access.temp(static_cast<uint32_t>(k), a.region.acc_type(id), false);
    // One partial per 16,384 elements: too few for lanes to be worth their code.
    const loop::Acc acc =
        accumulator(a.region, builder, "a" + std::to_string(k), id, loop::AccOrder::kSequential);
    builder.loop("b", 0, block_count, [&](Var b) { builder.accumulate(acc, temp(b)); });
    const Expr result = a.region.result_of(id, acc.value(), n);
    for (uint32_t operand : a.region.outputs_of(a.node(id).outputs[0]))
      builder.store(access.buffer(operand, {}).at({}), result);
  }
  loop::Kernel kernel = builder.finish();
  access.finish();
  phase.kernel = loop::schedule_default(std::move(kernel), {});
  return phase;
}

}  // namespace

Verdict lower_aggregate(const LoopRegion& region, RegionCode& out) {
  if (region.iteration().outer.size() != 1)
    return Verdict::no("the operands of an aggregate are not contiguous");
  Aggregate a{region, region.iteration().outer.front(), {}, {}};
  for (NodeId id : region.graph().order()) {
    if (!region.graph().node(id).op->reduction) continue;
    if (region.outputs_of(region.graph().node(id).outputs[0]).empty())
      return Verdict::no("an aggregate that is used inside its region");
    a.reductions.push_back(id);
  }
  a.blocks = a.axis.extent;
  a.blocks.divisor = loop::kSumBlock;
  out.phases.push_back(partial_results(a));
  out.phases.push_back(whole_results(a));
  for (NodeId id : a.reductions) out.temps.push_back({region.acc_type(id), a.blocks});
  return Verdict::ok();
}

}  // namespace xc::fusion
