// How a region's code is called, as text: regions of random graphs and of each template, written
// and read; damage.
#include "tier/region_record.h"

#include <doctest/doctest.h>

#include "backends/backend.h"
#include "ir/text.h"
#include "loop/text.h"
#include "ops/infer.h"
#include "plan/planner.h"
#include "support/random_graph.h"

using namespace xc;

namespace {

struct Lowered {
  StepSpec spec;
  RegionCode code;
};

struct Fused {
  std::shared_ptr<Graph> graph;
  std::unique_ptr<Planner> planner;
  std::vector<Lowered> regions;

  explicit Fused(Graph from) : graph(std::make_shared<Graph>(std::move(from))) {
    infer_types(*graph);
    planner = std::make_unique<Planner>(graph, cpu_backend(), PlannerOptions{});
    FusionOptions options;
    options.in_place = planner->build()->in_place;
    for (const Region& region : find_regions(*graph, options)) {
      Lowered one{planner->region_spec(region), {}};
      if (lower_region(*graph, region, one.spec, {}, one.code).yes())
        regions.push_back(std::move(one));
    }
  }
};

/// What a bind asks of a phase's loops, at sizes of 0 to 40.
std::vector<int64_t> asked(const RegionPhase& phase) {
  std::vector<int64_t> out;
  for (const int64_t size : {0, 1, 7, 40}) {
    const std::vector<int64_t> dims(phase.kernel.dims.size(), size);
    const auto range = loop::parallel_range(phase.kernel, dims);
    out.insert(out.end(), {range ? range->begin : -1, range ? range->end : -1,
                           loop::scratch_bytes(phase.kernel, dims)});
  }
  return out;
}

void check_round_trip(const Lowered& region, std::map<std::string, int>& seen) {
  const std::string text = encode_region_code(region.code);
  INFO(text);
  const auto read = decode_region_code(text, region.spec);
  REQUIRE(read);
  CHECK(encode_region_code(*read) == text);
  REQUIRE(read->phases.size() == region.code.phases.size());
  for (size_t k = 0; k < read->phases.size(); ++k) {
    CHECK(asked(read->phases[k]) == asked(region.code.phases[k]));
    CHECK(read->phases[k].kernel.name == region.code.phases[k].kernel.name);
    CHECK(read->phases[k].matrix_units == region.code.phases[k].matrix_units);
  }
  CHECK(read->picks == region.code.picks);
  CHECK(read->repeats == region.code.repeats);
  const auto count = [&](const char* what, bool there) { seen[what] += there ? 1 : 0; };
  count("regions", true);
  count("temps", !read->temps.empty());
  count("sums", !read->sums.empty());
  count("picks", !read->picks.empty());
  count("repeats", !read->repeats.empty());
  count("strides", !read->phases[0].strides.empty());
}

}  // namespace

TEST_CASE("tier/region_record: what regions need to be called is read as it was written") {
  std::map<std::string, int> seen;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    CAPTURE(seed);
    for (const Lowered& region : Fused(test::random_problem(seed).graph).regions)
      check_round_trip(region, seen);
  }
  // Sums over the tasks of products by blocks.
  const Fused products(parse_graph(R"(graph g(%x: f32[n, 100], %v: f32[100, 1]) -> (%y) {
  %p = MatMul(%x, %v)
  %t = Transpose(%x) {perm = [1, 0]}
  %y = MatMul(%t, %p)
})"));
  for (const Lowered& region : products.regions) {
    check_round_trip(region, seen);
    Lowered rounded = region;
    rounded.code.phases[0].matrix_units = true;
    check_round_trip(rounded, seen);
  }
  for (const auto& [what, count] : seen) CHECK_MESSAGE(count > 0, what);
}

TEST_CASE("tier/region_record: what was not written for these operands is refused") {
  const Fused fused(parse_graph(R"(graph g(%x: f32[n, 100], %y: f32[n, 100]) -> (%s) {
  %a = Mul(%x, %y)
  %s = ReduceSum(%a) {keepdims = 0}
})"));
  REQUIRE(fused.regions.size() == 1);
  const Lowered& region = fused.regions[0];
  const std::string text = encode_region_code(region.code);
  for (size_t cut = 0; cut < text.size(); ++cut)
    CHECK_MESSAGE(!decode_region_code(text.substr(0, cut), region.spec), "cut at ", cut);
  StepSpec fewer = region.spec;
  fewer.inputs.pop_back();
  CHECK(!decode_region_code(text, fewer));
  StepSpec flat = region.spec;
  for (Operand& operand : flat.inputs) operand.dims.clear();
  CHECK(!decode_region_code(text, flat));
  // Every byte made another, every number large, negative or none: refused, or another number
  // within its range.
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char* other : {"99999", "-1", "1.5", "", " ", "\n", "\\", "\xff"}) {
      std::string changed = text;
      changed.replace(at, 1, other);
      const auto read = decode_region_code(changed, region.spec);
      if (!read) continue;
      const size_t operands = region.spec.inputs.size() + region.spec.outputs.size();
      for (const RegionPhase& phase : read->phases) {
        for (const uint32_t buffer : phase.buffers) CHECK(buffer < operands + read->temps.size());
        for (const OperandDims& dims : phase.dims)
          for (const OperandDims::Ref& ref : dims.factors) CHECK(ref.operand < operands);
      }
    }
  }
}
