// Programs below another one, each for the types and ranks of the inputs that it is given, made at
// first use: those of control-flow bodies, which run on whole tensors, into memory of a pool of
// their own, and variants: of a model that leaves the ranks of its inputs open, or has Ifs that
// inputs' sizes decide. They are made without a lock: it takes long, and functions of the host that
// are called meanwhile may call the session.

#include <algorithm>
#include <utility>

#include "base/at_end.h"
#include "ops/infer.h"
#include "runtime/input_sizes.h"
#include "runtime/output_pool.h"
#include "runtime/program.h"

namespace xc {

std::shared_ptr<Program> Program::find_child(const Graph& graph,
                                             std::span<const TensorView> inputs) {
  const auto fits = [&](const Child& child) {
    return std::equal(inputs.begin(), inputs.end(), child.inputs.begin(), child.inputs.end(),
                      [](const TensorView& given, const std::pair<DType, int64_t>& known) {
                        return given.dtype == known.first && given.rank() == known.second;
                      }) &&
           child.program->branches().holds(inputs);
  };
  ++uses_;
  const auto children = children_.find(&graph);
  if (children == children_.end()) return nullptr;
  const auto known = std::find_if(children->second.begin(), children->second.end(), fits);
  if (known == children->second.end()) return nullptr;
  known->last_use = uses_;
  return known->program;
}

std::shared_ptr<Program> Program::known_child(const Graph& graph,
                                              std::span<const TensorView> inputs) {
  std::lock_guard lock(mutex_);
  return find_child(graph, inputs);
}

std::shared_ptr<Program> Program::add_child(const Graph& graph, std::span<const TensorView> inputs,
                                            std::shared_ptr<Program> program) {
  Child child;
  for (const TensorView& input : inputs) child.inputs.emplace_back(input.dtype, input.rank());
  child.program = program;
  std::lock_guard lock(mutex_);
  if (auto known = find_child(graph, inputs)) return known;  // another thread was faster
  child.last_use = ++uses_;
  program->set_frozen(frozen());
  children_[&graph].push_back(std::move(child));
  return program;
}

Program& Program::child(const Node& node, size_t subgraph, std::span<const TensorView> inputs) {
  const Graph& model = *node.subgraphs.at(subgraph);
  if (const auto known = known_child(model, inputs)) return *known;
  // Dims the model fixes stay; the others become symbols of the body, whose rank is known now.
  auto body = std::make_shared<Graph>(model.clone());
  for (size_t i = 0; i < body->inputs.size(); ++i) {
    Value& value = body->value(body->inputs[i]);
    if (value.type.kind != Type::Kind::kTensor) continue;
    SymDims dims;
    for (int64_t axis = 0; axis < inputs[i].rank(); ++axis) {
      const bool declared =
          value.type.dims && static_cast<int64_t>(value.type.dims->size()) == inputs[i].rank();
      const auto fixed =
          declared ? (*value.type.dims)[static_cast<size_t>(axis)].constant() : std::nullopt;
      dims.push_back(fixed ? Dim(*fixed)
                           : Dim::symbol("b" + std::to_string(i) + "_" + std::to_string(axis)));
    }
    value.type = Type::tensor(inputs[i].dtype, dims);
    value.elements.reset();
  }
  at_input_sizes([&] { infer_types_again(*body); });
  return *add_child(
      model, inputs,
      create(engine_, body, config_, name_ + "/" + node.name, {}, Packing::kNow, bound_));
}

std::shared_ptr<Program> Program::find_variant(std::span<const TensorView> inputs) {
  check_inputs(inputs);
  return known_child(*graph_, inputs);
}

std::shared_ptr<Program> Program::variant(std::span<const TensorView> inputs,
                                          const std::function<std::shared_ptr<Program>()>& make) {
  if (auto known = find_variant(inputs)) return known;
  auto made = at_input_sizes(make);
  return made ? add_child(*graph_, inputs, std::move(made)) : nullptr;
}

size_t Program::variants_in_use() const {
  constexpr uint64_t kRecent = 1000;  // runs: making one takes as long as some hundred
  std::lock_guard lock(mutex_);
  const auto variants = children_.find(graph_.get());
  if (variants == children_.end()) return 0;
  return static_cast<size_t>(std::ranges::count_if(
      variants->second, [&](const Child& child) { return child.last_use + kRecent > uses_; }));
}

std::vector<std::shared_ptr<Program>> Program::variants() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Program>> out;
  const auto known = children_.find(graph_.get());
  if (known == children_.end()) return out;
  std::vector<Child> all = known->second;
  std::sort(all.begin(), all.end(),
            [](const Child& a, const Child& b) { return a.last_use > b.last_use; });
  for (Child& child : all) out.push_back(std::move(child.program));
  return out;
}

std::shared_ptr<Program> Program::take_variant(size_t kept) {
  std::lock_guard lock(mutex_);
  const auto variants = children_.find(graph_.get());
  if (variants == children_.end() || variants->second.size() <= kept) return nullptr;
  std::vector<Child>& all = variants->second;
  auto oldest = all.end();
  for (auto child = all.begin(); child != all.end(); ++child)
    if (child->program.use_count() == 1 &&
        (oldest == all.end() || child->last_use < oldest->last_use))
      oldest = child;
  if (oldest == all.end()) return nullptr;
  auto taken = std::move(oldest->program);
  all.erase(oldest);
  return taken;
}

std::vector<std::shared_ptr<Program>> Program::children() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Program>> out;
  for (const auto& [body, children] : children_)
    for (const Child& child : children) out.push_back(child.program);
  return out;
}

std::shared_ptr<Program> Program::take_child() {
  std::lock_guard lock(mutex_);
  while (!children_.empty()) {
    std::vector<Child>& of_body = children_.begin()->second;
    if (of_body.empty()) {
      children_.erase(children_.begin());
      continue;
    }
    auto taken = std::move(of_body.back().program);
    of_body.pop_back();
    return taken;
  }
  return nullptr;
}

void Program::set_frozen(bool frozen) {
  frozen_.store(frozen);
  for (const auto& child : children()) child->set_frozen(frozen);
}

std::vector<Tensor> Program::run_tensors(std::span<const TensorView> inputs,
                                         const RunOptions& options) {
  std::vector<xc_tensor*> slots(graph_->outputs.size(), nullptr);
  std::vector<Tensor> out;
  out.reserve(slots.size());
  const AtEnd release_rest([&] {
    for (xc_tensor* handle : slots)
      if (handle) handle->release();
  });
  run(inputs, slots, body_pool_, options);
  for (xc_tensor*& handle : slots) out.push_back(take_tensor(std::exchange(handle, nullptr)));
  return out;
}

bool Program::signature_is_dims() const {
  return std::none_of(
      base_plan_->symbols.begin(), base_plan_->symbols.end(),
      [](const PlanSymbol& symbol) { return symbol.source == PlanSymbol::Source::kInputElement; });
}

bool Program::sizes_follow_dims() const {
  return base_plan_->segments.size() == 1 && signature_is_dims();
}

}  // namespace xc
