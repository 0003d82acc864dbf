#include "tier/tier.h"

#include <algorithm>

#include "base/clock.h"
#include "plan/continues.h"
#include "tier/persistence.h"
#include "tier/verification.h"

namespace xc {

using namespace tier;

namespace {

/// The plan's symbols that are dims of operands by themselves.
std::vector<uint32_t> symbols_of(const Plan& plan, const StepSpec& spec) {
  std::vector<uint32_t> out;
  for (uint32_t k = 0; k < plan.symbols.size(); ++k) {
    const auto is_it = [&](const Dim& dim) { return dim.as_symbol() == plan.symbols[k].name; };
    const auto has = [&](const Operand& o) {
      return std::any_of(o.dims.begin(), o.dims.end(), is_it);
    };
    if (std::any_of(spec.inputs.begin(), spec.inputs.end(), has) ||
        std::any_of(spec.outputs.begin(), spec.outputs.end(), has))
      out.push_back(k);
  }
  return out;
}

/// Elements of the innermost loop of a region, about: its row, or all of a cell.
Dim innermost(const Region& region) {
  const size_t axes = region.space.size();
  Dim out(1);
  for (size_t a = 0; a < axes; ++a) {
    const bool inside = region.blocks            ? a + 1 == axes
                        : region.row_axes.none() ? true
                                                 : region.row_axes.has(a);
    if (inside) out = out * region.space[a];
  }
  return out;
}

}  // namespace

Tier::Tier(std::unique_ptr<RegionCompiler> compiler, const Config& config, TierFaults faults)
    : core_(std::move(compiler), config, std::move(faults),
            [this](Program& p, ProgramState& s) { take_out_condemned(p, s); }) {}

Tier::~Tier() {
  core_.queue.stop();
}

// ---- programs and jobs --------------------------------------------------------------------------

void Tier::added(const std::shared_ptr<Program>& program) {
  if (core_.queue.lost()) return;
  auto state = std::make_shared<ProgramState>();
  state->program = program;
  state->added_ns = steady_ns();
  state->frozen = program->frozen();
  program->tier_state = state;
  core_.queue.add(*program, state);
  // With a persistent cache recall() comes first: it must not find the background thread at work.
  if (!core_.caches.of(*program)) prepare_in_background(*program, state);
}

/// Packs weights, where a step of the base plan wants that.
void Tier::prepare_in_background(const Program& program, const StatePtr& state) {
  if (program.config().jit != static_cast<int64_t>(JitMode::kAuto)) return;
  for (const auto& step : program.base_plan()->steps)
    if (step->kernel && step->kernel->wants_prepare())
      return core_.queue.post(
          state, [this](Program& p, ProgramState& s) { prepare_weights(p, s); }, Charge::kNone);
}

void Tier::removed(Program& program) {
  if (core_.queue.lost()) return;
  // One by one: a session that ends asks for no memory.
  for (size_t k = 0; const auto child = program.child(k); ++k) removed(*child);
  core_.queue.remove(program);
}

bool Tier::wait_idle(Program& program, std::chrono::milliseconds timeout) {
  const StatePtr state = core_.queue.state_of(program);
  return !state || core_.queue.wait_idle(state, timeout);
}

void Tier::freeze(Program& program) {
  const StatePtr state = core_.queue.state_of(program);
  if (!state) return;
  const Work work(*state, program);
  {
    std::lock_guard data(state->data);
    if (std::exchange(state->frozen, true)) return;
    for (const auto& group : state->groups)
      if (group->state == RegionState::kQueued) group->state = RegionState::kCandidate;
  }
  core_.queue.drop_compiles(state);
  end_trial(program, *state, false);
  let_go_of_zeros(program, *state);
  core_.emit(*state, program, {.kind = EventKind::kFrozen});
}

std::string Tier::op_names(const Graph& graph, std::span<const NodeId> nodes) {
  std::string out;
  size_t shown = 0;
  for (NodeId n : nodes) {
    if (graph.node(n).op->view) continue;
    if (++shown > 6) return out + "+...";
    out += (out.empty() ? "" : "+") + std::string(graph.node(n).op->name);
  }
  return out;
}

void Tier::record(Program& program, Event event) {
  if (const StatePtr state = core_.queue.state_of(program))
    core_.emit(*state, program, std::move(event));
  else
    program.engine().emit(event);
}

// ---- hooks on running threads -------------------------------------------------------------------

void Tier::first_bound(Program& program, SignatureEntry& entry) {
  if (core_.queue.lost()) return;
  // A kernel may have been found wrong between the entry's bind and its place in the table, where
  // condemn() looks for those that run it.
  const auto known = shared_state(program);
  if (known && known->any_wrong) replace_wrong(program, *known, entry);
  recall(program, entry);
  const auto mode = static_cast<JitMode>(program.config().jit);
  // In mode freeze no one follows up: what an earlier process learnt of these sizes is used now.
  const bool recalled = mode == JitMode::kFreeze && entry.segment > 0;
  if ((mode != JitMode::kSync && !recalled) || program.config().fusion) return;
  const StatePtr state = core_.queue.state_of(program);
  if (!state) return;
  const Work work(*state, program);
  if (state->frozen) return;
  if (recalled) {
    if (state->analysed) bind_anew_or_settle(program, *state, entry);
    return;
  }
  if (!state->analysed) {
    const double start = thread_cpu_seconds();
    prepare_weights(program, *state);
    analyse(program, *state);
    for (size_t k = 0; k < state->groups.size(); ++k) {  // a refusal may add groups
      Group& group = *state->groups[k];
      group.asked_by = entry.weak_from_this();
      if (!compile(program, *state, group)) continue;
      std::lock_guard data(state->data);
      group.policy.always();
      settle_state(group);
      ++state->swapped;
    }
    std::lock_guard data(state->data);
    state->spent_s += thread_cpu_seconds() - start;
  }
  if (core_.faults.specials) specialise_at_once(program, *state, entry);
  bind_anew_or_settle(program, *state, entry);
}

namespace {

/// Memory that nobody needs any longer once this is gone.
struct ForgottenAtEnd {
  Tensor constant;
  explicit ForgottenAtEnd(Tensor c) : constant(std::move(c)) {}
  ForgottenAtEnd(const ForgottenAtEnd&) = delete;
  ForgottenAtEnd& operator=(const ForgottenAtEnd&) = delete;
  ~ForgottenAtEnd() { constant.forget(); }
};

}  // namespace

// ---- jobs ---------------------------------------------------------------------------------------

void Tier::prepare_weights(Program& program, ProgramState& state) {
  std::vector<const Step*> prepared;
  const int64_t begin = steady_ns();
  for (const auto& step : program.base_plan()->steps)
    if (step->kernel && step->kernel->wants_prepare()) {
      step->kernel->prepare();
      prepared.push_back(step.get());
    }
  if (prepared.empty()) return;
  for (const auto& entry : program.entries())
    if (program.base_of(*entry))
      program.set_base(*entry, std::make_shared<Version>(program.bind(*entry, program.base_plan(),
                                                                      {.background = true})));
  // Runs have read the weights where they lie, while they were packed too, and some still do.
  for (const Step* step : prepared)
    for (const Operand& operand : step->spec.inputs)
      if (operand.constant)
        program.epochs().retire(std::make_shared<const ForgottenAtEnd>(operand.constant));
  core_.queue.reclaim(program);
  Event event;
  event.kind = EventKind::kPrepared;
  event.detail = "weights packed";
  event.wall_ms = ms_since(begin);
  core_.emit(state, program, std::move(event));
  add_zeros_to_come(program, state);
}

FusionOptions Tier::fusion_options(Program& program) {
  FusionOptions options;
  options.numerics = program.planner().options().numerics;
  if (const HostSpeed* host = calibrated_host_speed()) options.host = *host;
  options.taken = absorbed_nodes(*program.base_plan());
  options.in_place = program.base_plan()->in_place;
  options.barriers = segment_ends(*program.base_plan());
  std::shared_ptr<SignatureEntry> entry;  // of the last segment reached: it knows the most sizes
  for (const auto& latest : program.latest_entries())
    if (latest) entry = latest;
  if (entry)
    options.sizes = [plan = program.base_plan(), entry](const std::string& symbol) {
      return symbol_value(*plan, entry->symbols, symbol);
    };
  return options;
}

void Tier::analyse(Program& program, ProgramState& state) {
  if (state.analysed || state.frozen) return;  // restored or frozen meanwhile
  (void)host_speed();  // measured at its first call, which a restart that knows it is spared
  const double start = thread_cpu_seconds();
  const int64_t begin = steady_ns();
  FusionReport considered;
  watch_zeros(program, state);
  const std::vector<Event> found =
      find_groups(program, state, fusion_options(program), &considered, nullptr);
  Event event;
  event.kind = EventKind::kSearched;
  event.wall_ms = ms_since(begin);
  {
    std::lock_guard data(state.data);  // with the groups, or it is done once more
    state.analysed = true;
    state.considered = std::move(considered);
    state.restore_s += thread_cpu_seconds() - start;
    event.places = static_cast<int64_t>(state.groups.size());
  }
  for (const Event& candidate : found) core_.emit(state, program, candidate);
  core_.emit(state, program, std::move(event));
}

std::vector<Event> Tier::find_groups(Program& program, ProgramState& state,
                                     const FusionOptions& options, FusionReport* considered,
                                     const Group* part_of) {
  try {
    std::vector<Region> regions = find_regions(program.graph(), options, considered);
    if (part_of)
      std::erase_if(regions, [&](const Region& region) {
        return !std::all_of(region.nodes.begin(), region.nodes.end(),
                            [&](NodeId n) { return part_of->nodes.count(n) > 0; });
      });
    return add_groups(program, state, std::move(regions), part_of);
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) throw;
    return {search_refused(error)};
  }
}

Event Tier::search_refused(const std::exception& error) {
  Event event;
  event.kind = EventKind::kRefused;
  event.detail = std::string("search: ") + error.what();
  return event;
}

/// What is left to win where a region with products is not used: its rows and cells.
void Tier::offer_parts(Program& program, ProgramState& state, Group& group) {
  // The parts of a kernel for some sizes are those of the general one.
  if (!group.places.front().blocks || group.special_of || std::exchange(group.split, true)) return;
  FusionOptions options = fusion_options(program);
  options.blocks = false;
  for (const Event& event : find_groups(program, state, options, nullptr, &group))
    core_.emit(state, program, event);
}

std::unique_ptr<Tier::Group> Tier::make_group(Program& program, const Region& region) {
  auto group = std::make_unique<Group>();
  group->identity = region.identity;
  group->segment = region.segment;
  group->name = fmt::format("{} {} ({} nodes)", region.pattern,
                            op_names(program.graph(), region.nodes), region.nodes.size());
  group->cost = estimate(program.graph(), region);
  group->symbols = symbols_of(*program.base_plan(), program.planner().region_spec(region));
  group->row = innermost(region);
  return group;
}

std::vector<Event> Tier::add_groups(Program& program, ProgramState& state,
                                    std::vector<Region> regions, const Group* part_of) {
  std::vector<Event> events;
  std::map<std::pair<uint32_t, Hash128>, std::unique_ptr<Group>> groups;
  std::vector<Group*> in_order;
  for (Region& region : regions) {
    try {
      region.identity =
          region_identity(program.graph(), region, program.planner().region_spec(region));
      auto& group = groups[{region.segment, region.identity}];
      if (!group) {
        group = make_group(program, region);
        group->part_of = part_of;
        in_order.push_back(group.get());
      }
      group->nodes.insert(region.nodes.begin(), region.nodes.end());
      group->places.push_back(std::move(region));
    } catch (const Error& error) {  // its sizes are too long to write down: the others go on
      if (error.status() != Status::kLimit) throw;
      if (events.empty()) events.push_back(search_refused(error));
    }
  }
  for (const Group* group : in_order)
    for (ValueId v : group->places.front().inputs)
      if (const Value& value = program.graph().value(v); !value.is_constant())
        program.value_facts().watch(v, value.type.dtype);
  const auto latest = program.latest_entries();
  {
    std::lock_guard data(state.data);
    for (Group* group : in_order) {
      const auto& entry = latest[group->segment];  // in use now
      if (entry)
        group->predicted_s = fact_of(*group, *program.base_plan(), entry->symbols).predicted_s;
      Event event = event_of(EventKind::kCandidate, *group);
      if (entry) event.base_us = group->seconds_in(*program.published(*entry)->active) * 1e6;
      event.detail = fmt::format("{} places, {} nodes each", group->places.size(),
                                 group->nodes.size() / group->places.size());
      events.push_back(std::move(event));
    }
    state.groups.reserve(state.groups.size() + in_order.size());
    for (const Group* group : in_order)
      state.groups.push_back(std::move(groups[{group->segment, group->identity}]));
  }
  return events;
}

void Tier::ban(ProgramState& state, Program& program, Group& group, EventKind kind,
               std::string reason) {
  std::shared_ptr<Kernel> code;  // goes when no lock is held
  {
    std::lock_guard data(state.data);
    group.state = RegionState::kBanned;
    group.wrong = true;
    group.mismatch = kind == EventKind::kMismatch;
    group.leaving = false;
    code = std::exchange(group.kernel, nullptr);
    group.reason = reason;
  }
  code.reset();
  Event event = event_now(state, kind, group);
  event.back_off_s = -1;
  event.detail = std::move(reason);
  core_.emit(state, program, std::move(event));
  if (group.mismatch) remember(program, state);
  offer_parts(program, state, group);
}

}  // namespace xc
