#include "runtime/session.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "ops/infer.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "plan/kernel_choice.h"
#include "runtime/executor.h"
#include "runtime/explain.h"
#include "runtime/output_pool.h"
#include "runtime/overlap.h"
#include "runtime/program.h"
#include "runtime/trace.h"

namespace xc {
namespace {

bool is_strict(const Config& config) {
  return config.numerics_mode() == Numerics::kStrict;
}

/// The settings of a session. What the passes of another engine than a strict one did to the
/// model's bits stays done.
Config merged(const Config& base, const Config& overrides) {
  if (is_strict(overrides) && !is_strict(base))
    fail(Status::kInvalidArgument,
         "option numerics: the engine is not strict, and its passes have changed the model: give "
         "strict to the engine");
  return overridden(base, overrides);
}

/// The model's graph, or a copy in which values are stored in bf16 where kernels that run under the
/// session's numerics read them so.
std::shared_ptr<const Graph> graph_for(const Model& model, const Config& config) {
  const std::shared_ptr<const Graph>& graph = model.graph();
  PassOptions options;
  options.reads_bf16 =
      [&backend = model.engine()->backend(), how = planner_options(*model.engine(), config)](
          const Graph& in, const Node& node) { return reads_bf16(backend, how, in, node); };
  if (!may_narrow_values(*graph, options)) return graph;
  auto copy = std::make_shared<Graph>(graph->clone());
  run_pass(*copy, find_pass("narrow-values"), options);
  return copy;
}

/// Each holds weights packed for it, plans and working memory.
constexpr size_t kVariantsKept = 8;
/// Of open ranks, for which the model itself does not run, where more alternate.
constexpr size_t kMostVariants = 64;

int64_t constant_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (size_t v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(static_cast<ValueId>(v));
    if (value.is_constant()) bytes = checked_add(bytes, value.constant.byte_size());
  }
  for (const NodeId id : graph.order())
    for (const auto& body : graph.node(id).subgraphs)
      bytes = checked_add(bytes, constant_bytes(*body));
  return bytes;
}

bool leaves_rank_open(const PortInfo& port) {
  return port.type.kind == Type::Kind::kTensor && !port.type.dims;
}

}  // namespace

Session::Session(std::shared_ptr<const Model> model, const Config& overrides)
    : model_(std::move(model)), config_(merged(model_->engine()->config(), overrides)) {
  open_ranks_ = std::any_of(model_->inputs().begin(), model_->inputs().end(), leaves_rank_open);
  branches_ = OpenBranches(*model_->graph());
  varies_ = open_ranks_ || !branches_.empty();
  program_ = Program::create(model_->engine(), graph_for(*model_, config_), config_,
                             model_->graph()->name, {}, varies_ ? Packing::kLater : Packing::kNow);
  pool_ = std::make_shared<OutputPool>(model_->engine(), model_->outputs().size());
}

std::shared_ptr<Program> Session::program_of(std::span<const TensorView> inputs) {
  if (!varies_) return program_;
  auto variant = program_->variant(inputs, [&] {
    auto made = make_variant(inputs);
    if (made) forget_variants();
    return made;
  });
  if (variant) return variant;
  program_->pack();
  return program_;
}

bool Session::keeps_ifs() const {
  return !open_ranks_ && program_->variants_in_use() >= kVariantsKept;
}

size_t Session::variants_kept() const {
  const size_t in_use = program_->variants_in_use();
  if (!open_ranks_ || in_use < kVariantsKept) return kVariantsKept;
  const int64_t cap = program_->bound_cache()->cap(), each = constant_bytes(program_->graph());
  const auto room = static_cast<size_t>(cap / std::max<int64_t>(1, each));
  return std::clamp(std::min(in_use + 1, room), kVariantsKept, kMostVariants);
}

std::shared_ptr<Program> Session::ready_program_of(std::span<const TensorView> inputs) {
  if (!varies_) return program_;
  if (auto variant = program_->find_variant(inputs)) return variant;
  if (keeps_ifs()) return program_;
  return program_->known_variant(inputs);
}

/// Where ranks are known the passes find what they look for, and steps their kernels.
std::shared_ptr<Program> Session::make_variant(std::span<const TensorView> inputs) const {
  if (keeps_ifs() || (!open_ranks_ && !branches_.any_follows(inputs))) return nullptr;
  std::shared_ptr<const Model> model = model_;
  std::string name;
  if (open_ranks_) {
    Graph graph = model->graph()->clone();
    for (size_t i = 0; i < inputs.size(); ++i) {
      name += fmt::format("{}{}", i == 0 ? "rank " : ", ", inputs[i].rank());
      if (!leaves_rank_open(model->inputs()[i])) continue;
      SymDims dims;
      for (int64_t axis = 0; axis < inputs[i].rank(); ++axis)
        dims.push_back(Dim::symbol(fmt::format("_{}_{}", i, axis)));
      Value& value = graph.value(graph.inputs[i]);
      value.type = Type::tensor(value.type.dtype, std::move(dims));
    }
    infer_types_again(graph);
    model = Model::create(model->engine(), std::move(graph));
  }
  BranchChoice branches;
  try {
    std::shared_ptr<const Model> decided = model;
    Graph graph = decided->graph()->clone();
    while (branches.decide(graph, inputs)) {
      decided = Model::create(model->engine(), std::move(graph));
      graph = decided->graph()->clone();  // behind Ifs that are decided others can be
    }
    model = decided;
  } catch (const Error& error) {
    const Status status = error.status();
    if (status != Status::kInvalidModel && status != Status::kInvalidArgument &&
        status != Status::kUnsupported)
      throw;
    // What does not fit may lie where no run comes to: these outcomes keep their Ifs.
  }
  if (branches.empty() && !open_ranks_) return nullptr;
  if (!branches.empty()) name += (name.empty() ? "if " : ", if ") + branches.text();
  return Program::create(model->engine(), graph_for(*model, config_), config_,
                         program_->name() + "/" + name, std::move(branches), Packing::kNow,
                         program_->bound_cache());
}

namespace {

/// What runs a whole model, not a body.
void add_runs(Program& program, ProfileSummary& out) {
  out.runs += static_cast<int64_t>(program.total_runs());
  out.signatures += static_cast<int64_t>(program.signatures());
}

/// Bodies of control flow have plans and regions of their own.
void add_program(const TierHooks* tier, const Program& program, bool details, ProfileSummary& out) {
  if (tier) tier->summarise(program, out, details);
  for (const auto& child : program.children()) add_program(tier, *child, details, out);
}

}  // namespace

void Session::forget_variants() {
  TierHooks* const tier = model_->engine()->tier();
  const size_t kept = variants_kept();
  while (true) {
    std::shared_ptr<Program> old;
    {
      std::lock_guard lock(forgotten_mutex_);
      old = program_->take_variant(kept - 1);
      if (!old) return;
      add_runs(*old, forgotten_);
      add_program(tier, *old, false, forgotten_);
      forgotten_.code_bytes = forgotten_.queued = 0;  // held no more
    }
    // It may have to wait for a compile; a run that comes here has waited for its program already.
    if (tier) tier->removed(*old);
  }
}

Session::~Session() {
  // The tier lets go first: it must never be the last to hold a program.
  if (TierHooks* tier = model_->engine()->tier(); tier && program_) tier->removed(*program_);
}

void Session::run(std::span<const TensorView> inputs, std::span<xc_tensor*> outputs,
                  const RunOptions& options) {
  if (outputs.size() != model_->outputs().size())
    fail(Status::kInvalidArgument, "the model has {} outputs, {} slots were given",
         model_->outputs().size(), outputs.size());
  if (!varies_) return program_->run(inputs, outputs, pool_, options);
  const auto program = options.no_alloc ? ready_program_of(inputs) : program_of(inputs);
  program->run(inputs, outputs, pool_, options);
}

namespace {

/// A program, then the bodies of its control flow; false ends it.
bool for_each_program(Program& program, const std::function<bool(Program&)>& visit) {
  if (!visit(program)) return false;
  for (const auto& child : program.children())
    if (!for_each_program(*child, visit)) return false;
  return true;
}

}  // namespace

void Session::freeze() {
  program_->set_frozen(true);
  if (TierHooks* tier = model_->engine()->tier())
    for_each_program(*program_, [&](Program& program) {
      tier->freeze(program);
      return true;
    });
}

bool Session::wait_idle(std::chrono::milliseconds timeout) {
  using Clock = std::chrono::steady_clock;
  TierHooks* tier = model_->engine()->tier();
  if (!tier) return true;
  const Clock::time_point end = Clock::now() + timeout;
  return for_each_program(*program_, [&](Program& program) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    return tier->wait_idle(program, std::max(left, std::chrono::milliseconds(0)));
  });
}

namespace {

/// One tensor of zeros per input.
std::vector<Tensor> zeros_of(const std::vector<PortInfo>& ports, const std::vector<Dims>& shapes) {
  std::vector<Tensor> zeros;
  for (size_t k = 0; k < shapes.size(); ++k) {
    const DType dtype = ports[k].type.dtype;
    if (ports[k].type.kind != Type::Kind::kTensor || holds_objects(dtype))
      fail(Status::kUnsupported, "input '{}': only tensors of numbers can be made up",
           ports[k].name);
    zeros.emplace_back(dtype, shapes[k]);
    const int64_t bytes = zeros.back().byte_size();
    if (bytes > 0) std::memset(zeros.back().data(), 0, static_cast<size_t>(bytes));
  }
  return zeros;
}

/// Tells a tier that the runs of its time are there to warm programs up.
class Warming {
 public:
  Warming(TierHooks& tier, std::vector<std::shared_ptr<Program>> programs)
      : tier_(tier), programs_(std::move(programs)) {
    for (const auto& program : programs_) tier_.warm_up(*program, true);
  }
  ~Warming() {
    for (const auto& program : programs_) tier_.warm_up(*program, false);
  }
  Warming(const Warming&) = delete;
  Warming& operator=(const Warming&) = delete;

 private:
  TierHooks& tier_;
  const std::vector<std::shared_ptr<Program>> programs_;
};

/// A program and the bodies of its control flow.
std::vector<std::shared_ptr<Program>> all_programs(Program& program) {
  std::vector<std::shared_ptr<Program>> out;
  for_each_program(program, [&](Program& each) {
    out.push_back(each.shared_from_this());
    return true;
  });
  return out;
}

/// The first segment's.
std::shared_ptr<SignatureEntry> entry_of(Program& program, std::span<const TensorView> inputs) {
  LeaseScope lease(program);
  return program.shared_entry_for(inputs, lease.context());
}

std::chrono::milliseconds left_until(int64_t deadline_ns) {
  return std::chrono::milliseconds(std::max<int64_t>(0, deadline_ns - steady_ns()) / 1'000'000);
}

/// Whether nothing is left to be done for runs of these inputs, after waiting until then at most.
/// `begin_ns`: when such runs began; bodies that none of them came to are not waited for.
bool is_warm(TierHooks& tier, Program& top, std::span<const TensorView> inputs, int64_t begin_ns,
             int64_t deadline_ns) {
  return for_each_program(top, [&](Program& program) {
    const bool idle = tier.wait_idle(program, left_until(deadline_ns));
    auto entries = program.latest_entries();  // of bodies and segments: of the sizes zeros give
    if (&program == &top) entries[0] = entry_of(program, inputs);
    return idle && std::ranges::all_of(entries, [&](const auto& entry) {
             const bool ran = entry && (&program == &top || entry->last_use >= begin_ns);
             return !ran || tier.settled(program, *entry);
           });
  });
}

}  // namespace

bool Session::warm_up(const std::vector<Dims>& shapes, std::chrono::milliseconds timeout) {
  constexpr int kLook = 8;  // runs between looks
  program_->check_shapes(shapes);
  const std::vector<Tensor> zeros = zeros_of(model_->inputs(), shapes);
  std::vector<TensorView> views;
  for (const Tensor& t : zeros) views.push_back(t.view());
  const std::shared_ptr<Program> held = program_of(views);
  Program& program = *held;
  const int64_t begin = steady_ns();
  RunOptions options;
  options.made_up = true;
  options.deadline_ns = begin + std::chrono::nanoseconds(timeout).count();
  const auto runs_in_time = [&](int runs) {
    std::vector<xc_tensor*> slots(model_->outputs().size(), nullptr);
    try {
      for (int k = 0; k < runs; ++k) {
        for_each_program(program, [](Program& each) {
          each.call_attention();  // the tier looks at this run
          return true;
        });
        run(views, slots, options);
        for (xc_tensor*& slot : slots)
          if (xc_tensor* const made = std::exchange(slot, nullptr)) made->release();
      }
    } catch (const Error& error) {
      if (error.status() != Status::kDeadline) throw;
      return false;
    }
    return true;
  };
  TierHooks* const tier = model_->engine()->tier();
  const std::shared_ptr<SignatureEntry> entry = entry_of(program, views);  // the tier knows it now
  // A host that can wait need not do it in its runs.
  if (!program.adapts()) program.settle(*entry);
  if (!runs_in_time(1)) return false;
  if (!program.adapts()) {
    for (const auto& body : all_programs(program))
      for (const auto& known : body->entries())
        if (body != held && known->last_use >= begin) body->settle(*known);
    return !tier || is_warm(*tier, program, views, begin, options.deadline_ns);
  }
  const Warming warming(*tier, all_programs(program));
  while (runs_in_time(kLook)) {
    if (is_warm(*tier, program, views, begin, options.deadline_ns)) return true;
    if (left_until(options.deadline_ns).count() <= 0) return false;
  }
  return false;
}

std::string Session::explain(const std::vector<Dims>& signature, bool json) {
  if (!signature.empty()) program_->check_shapes(signature);
  const ProfileSummary summary = profile();
  const auto has_ranks = [&](const std::shared_ptr<Program>& program) {
    const Graph& graph = program->graph();
    return std::equal(signature.begin(), signature.end(), graph.inputs.begin(), graph.inputs.end(),
                      [&](const Dims& dims, ValueId input) {
                        const auto& known = graph.value(input).type.dims;
                        return !known || known->size() == dims.size();
                      });
  };
  const auto variants = program_->variants();
  const auto asked = std::find_if(variants.begin(), variants.end(), [&](const auto& variant) {
    return has_ranks(variant) && (signature.empty() || variant->branches().may_hold(signature));
  });
  return explain_program(asked == variants.end() ? *program_ : **asked, signature, summary, json);
}

ProfileSummary Session::profile() const {
  return summarise(true);
}

ProfileSummary Session::counters() const {
  return summarise(false);
}

ProfileSummary Session::summarise(bool details) const {
  std::lock_guard lock(forgotten_mutex_);
  ProfileSummary out = forgotten_;
  add_runs(*program_, out);
  for (const auto& program : program_->variants()) add_runs(*program, out);
  out.working_bytes = model_->engine()->working_bytes();
  out.bound_bytes = program_->bound_cache()->bytes();
  add_program(model_->engine()->tier(), *program_, details, out);
  std::stable_sort(out.events.begin(), out.events.end(),
                   [](const Event& a, const Event& b) { return a.time_ns < b.time_ns; });
  return out;
}

std::string Session::trace() const {
  return chrome_trace(*program_, profile());
}

// ---- prepared calls -----------------------------------------------------------------------------

struct Call::State {
  Session* session = nullptr;
  std::shared_ptr<Program> program;
  std::shared_ptr<OutputPool> pool;
  RunContext* context = nullptr;
  std::shared_ptr<SignatureEntry> entry;
  std::vector<std::pair<Dims, Dims>> sizes;  ///< dims and strides, which `views` refer to
  std::vector<TensorView> views;
  bool staged = false;  ///< some inputs may have to be copied before each run
  std::vector<void*> inputs;
  std::vector<xc_tensor*> outputs;
  ~State() {
    for (xc_tensor* handle : outputs)
      if (handle) handle->release();
    if (context) program->give_back(*context);
  }
};

Call::Call() : state_(std::make_unique<State>()) {}
Call::~Call() = default;

std::unique_ptr<Call> Session::prepare(std::span<const TensorView> inputs,
                                       std::span<xc_tensor* const> outputs) {
  if (outputs.size() != model_->outputs().size() && !outputs.empty())
    fail(Status::kInvalidArgument, "the model has {} outputs, {} slots were given",
         model_->outputs().size(), outputs.size());
  std::unique_ptr<Call> call(new Call);
  Call::State& state = *call->state_;
  state.session = this;
  state.pool = pool_;
  state.outputs.assign(model_->outputs().size(), nullptr);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i]) {
      outputs[i]->retain();
      state.outputs[i] = outputs[i];
    }
  for (const auto* ports : {&model_->inputs(), &model_->outputs()})
    for (const PortInfo& port : *ports)
      if (port.type.kind != Type::Kind::kTensor)
        fail(Status::kUnsupported, "a prepared call of a model with a sequence or optional, '{}'",
             port.name);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].contiguous() && holds_objects(inputs[i].dtype))
      throw Error(Status::kInvalidArgument, "a prepared call needs row-major strings",
                  "input '" + model_->inputs()[i].name + "'");
    state.inputs.push_back(inputs[i].data);
    state.sizes.emplace_back(Dims(inputs[i].dims.begin(), inputs[i].dims.end()),
                             Dims(inputs[i].strides.begin(), inputs[i].strides.end()));
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    state.views.push_back(
        {inputs[i].data, inputs[i].dtype, state.sizes[i].first, state.sizes[i].second});
  state.staged = shares_inputs(*model_->graph(), inputs, outputs) ||
                 std::any_of(inputs.begin(), inputs.end(), StagedInputs::takes);
  call->choose();
  if (!state.program->adapts()) state.program->settle(*state.entry);  // else its runs would
  call->run();  // makes the outputs and everything a run needs: later runs allocate nothing
  return call;
}

void Call::choose() {
  State& state = *state_;
  State chosen;
  chosen.program = state.session->program_of(state.views);
  chosen.context = &chosen.program->lease();
  state.entry = chosen.program->shared_entry_for(state.views, *chosen.context);
  std::swap(state.program, chosen.program);
  std::swap(state.context, chosen.context);
}

void Call::run() {
  State& state = *state_;
  static const RunOptions kOptions;
  // Elements that sizes or positions follow from: others are another signature.
  if (!state.program->branches().holds(state.views))
    choose();
  else if (!state.program->has_elements(*state.entry, state.views) ||
           state.entry->forgotten.load(std::memory_order_relaxed))
    state.entry = state.program->shared_entry_for(state.views, *state.context);
  const OutputPorts outputs{state.outputs.data(), state.outputs.size(), state.pool.get()};
  if (state.staged)
    state.program->run_staged(*state.context, *state.entry, {state.views, state.inputs.data()},
                              outputs, kOptions);
  else
    state.program->run_prepared(*state.context, *state.entry, state.inputs.data(), outputs,
                                kOptions);
  state.program->reclaim_evicted();
}

xc_tensor* Call::output(size_t index) const {
  return state_->outputs.at(index);
}
size_t Call::output_count() const {
  return state_->outputs.size();
}

}  // namespace xc
