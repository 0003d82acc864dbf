#pragma once
// What follows from what is known of a program: which groups, and which plan, runs of certain sizes
// use. Verdicts hold for a class of sizes (region_policy.h), so every signature has the plan that
// its sizes choose. Functions of ProgramState alone, without clocks, threads and jobs; whoever
// calls them holds state.data.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "profile/event.h"
#include "tier/program_state.h"

namespace xc::tier {

// ---- sizes --------------------------------------------------------------------------------------

/// Whether a kernel for such sizes serves runs of these; what a run has yet to find out is not
/// asked.
bool serves(std::span<const SizeFact> facts, const Plan& plan, std::span<const int64_t> symbols);
/// What the group would do in runs under the base plan `plan` of these sizes.
GroupFact fact_of(const Group& group, const Plan& plan, std::span<const int64_t> symbols);
/// What all its places are predicted to take there, fused; of no meaning where a run has yet to
/// find out sizes.
double predicted_s(const Group& group, const Plan& plan, std::span<const int64_t> symbols);
/// Facts of all groups of the program.
GroupFacts facts_of(const ProgramState& state, const Plan& plan, std::span<const int64_t> symbols);
/// The same of an entry, which keeps them.
GroupFacts& known_facts(const ProgramState& state, SignatureEntry& entry);
/// The fact of one group; that of a group added since says nothing.
const GroupFact& fact_at(const ProgramState& state, const GroupFacts& facts, const Group& group);
/// Whether the group's kernel serves those sizes.
inline bool applies(const ProgramState& state, const GroupFacts& facts, const Group& group) {
  return fact_at(state, facts, group).applies;
}

// ---- groups -------------------------------------------------------------------------------------

/// Live, ready or banned, from what was decided at the sizes tried.
void settle_state(Group& group);
/// Whether it is tried now: what values decide is not tried on made-up ones.
inline bool may_try(const ProgramState& state, const Group& group) {
  return !group.zeros || state.warming == 0;
}
/// Whether nothing but plans needs its code.
bool evictable(const Group& group);
/// Whether special kernels can be built on this region: its general one exists and is right.
inline bool stands(const Group* general) {
  return general && general->code.kernel && !general->wrong &&
         general->state != RegionState::kVerifying;
}
/// Whether a group, or a kernel for some of its sizes in its stead, is among those.
bool covered_by(const std::vector<const Group*>& groups, const Group& group);
/// The groups that runs of these sizes use fused, larger regions first; `with` in any case,
/// `without` in no case, nor, where asked for, its kernels for special sizes. Those of earlier
/// segments are as the entry found them, those of later ones are left to what comes after it.
std::vector<const Group*> chosen(const ProgramState& state, const SignatureEntry& entry,
                                 const GroupFacts& facts, const Group* with = nullptr,
                                 const Group* without = nullptr, bool without_specials = false);
/// The groups of the trial's other side.
std::vector<const Group*> challenging(const ProgramState& state, const SignatureEntry& entry,
                                      const GroupFacts& facts);

// ---- plans --------------------------------------------------------------------------------------

/// Plans that a program keeps beside those that something runs.
inline constexpr size_t kMaxVariants = 64;
/// The plan of these groups when it was built before, else null.
std::shared_ptr<const Plan> find_plan(ProgramState& state, const std::vector<const Group*>& groups);
/// From now on find_plan() knows it.
void keep_plan(ProgramState& state, const std::vector<const Group*>& groups,
               const std::shared_ptr<const Plan>& plan);
/// The groups of a plan built before; none for the base plan.
const std::vector<const Group*>& groups_in(const ProgramState& state, const Plan& plan);
/// Whether runs under the plan use the group's kernel.
bool uses(const ProgramState& state, const Plan& plan, const Group& group);
/// Whether a kernel of the region for these sizes runs under the plan.
bool uses_special(const ProgramState& state, const Plan& plan, const GroupFacts& facts,
                  const Group& general);
/// Plans with the group are given to no run any more. `wrong`: nor are they to be run.
void drop_variants(ProgramState& state, const Group& group, bool wrong);
/// Whether either side has a kernel found wrong in use.
bool is_wrong(const ProgramState& state, const Published& published);
/// Whether what is published is on the trial that runs.
inline bool is_tried(const ProgramState& state, const Published& published) {
  return state.trial.group && published.trial == state.trial.began_ns;
}
/// Whether a kernel that skips zeros is among what runs.
bool skips_zeros(const ProgramState& state, const Published& published);

// ---- what is told -------------------------------------------------------------------------------

/// "MatMul+Add+Relu": the first few, views apart.
std::string op_names(const Graph& graph, std::span<const NodeId> nodes);
/// What was measured, predicted and spent, into an Event or a RegionSummary.
template <class Out>
void put_measures(const Group& group, Out& out) {
  if (const auto* measured = group.policy.latest()) {
    out.base_us = measured->base_s * 1e6;
    out.fused_us = measured->fused_s * 1e6;
  }
  out.predicted_us = group.predicted_s * 1e6;
  out.compile_ms = group.code.compile_s * 1e3;
  out.code_bytes = group.code.bytes;
  out.worst_error = group.code.worst_error;
}
/// An event about a region, with what is known of it.
Event event_of(EventKind kind, const Group& group);

}  // namespace xc::tier
