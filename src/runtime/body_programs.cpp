// Programs of control-flow bodies: one for the types and ranks that a body is given, made at first
// use. They run on whole tensors, into memory of a pool of their own.

#include <algorithm>

#include "ops/infer.h"
#include "runtime/output_pool.h"
#include "runtime/program.h"

namespace xc {

Program& Program::child(const Node& node, size_t subgraph, std::span<const TensorView> inputs) {
  const auto fits = [&](const Child& child) {
    return std::equal(inputs.begin(), inputs.end(), child.inputs.begin(), child.inputs.end(),
                      [](const TensorView& given, const std::pair<DType, int64_t>& known) {
                        return given.dtype == known.first && given.rank() == known.second;
                      });
  };
  std::lock_guard lock(mutex_);
  std::vector<Child>& children = children_[node.subgraphs.at(subgraph).get()];
  const auto known = std::find_if(children.begin(), children.end(), fits);
  if (known != children.end()) return *known->program;
  // Dims the model fixes stay; the others become symbols of the body, whose rank is known now.
  auto body = std::make_shared<Graph>(node.subgraphs[subgraph]->clone());
  Child child;
  for (size_t i = 0; i < body->inputs.size(); ++i) {
    child.inputs.emplace_back(inputs[i].dtype, inputs[i].rank());
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
  for (uint32_t v = 0; v < body->value_count(); ++v)
    if (!body->value(v).is_input && !body->value(v).is_constant()) {
      body->value(v).type.dims.reset();
      body->value(v).elements.reset();
    }
  infer_types(*body);
  child.program = create(engine_, body, config_, name_ + "/" + node.name);
  child.program->set_frozen(frozen());
  return *children.emplace_back(std::move(child)).program;
}

std::vector<std::shared_ptr<Program>> Program::children() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Program>> out;
  for (const auto& [body, children] : children_)
    for (const Child& child : children) out.push_back(child.program);
  return out;
}

void Program::set_frozen(bool frozen) {
  frozen_.store(frozen);
  for (const auto& child : children()) child->set_frozen(frozen);
}

std::vector<Tensor> Program::run_tensors(const std::vector<Tensor>& inputs,
                                         const RunOptions& options) {
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) views.push_back(t.view());
  std::vector<xc_tensor*> slots(graph_->outputs.size(), nullptr);
  run(views, slots, body_pool_, options);
  std::vector<Tensor> out;
  for (xc_tensor* handle : slots) out.push_back(take_tensor(handle));
  return out;
}

bool Program::sizes_follow_dims() const {
  return base_plan_->segments.size() == 1 &&
         std::none_of(base_plan_->symbols.begin(), base_plan_->symbols.end(),
                      [](const PlanSymbol& symbol) {
                        return symbol.source == PlanSymbol::Source::kInputElement;
                      });
}

}  // namespace xc
