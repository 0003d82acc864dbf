#include "plan/layout.h"

#include <algorithm>

#include "plan/kernel_choice.h"

namespace xc {

bool is_channels_last(const SymDims& dims, const SymDims& strides) {
  if (dims.size() < 3) return false;
  const SymDims last = channels_last_strides(dims), row_major = contiguous_strides(dims);
  bool differs = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == Dim(1)) continue;
    if (!(strides[i] == last[i])) return false;
    differs = differs || !(strides[i] == row_major[i]);
  }
  return differs;
}

namespace {

/// Do the channels lie side by side, with or without gaps behind them (a part of a larger value)?
bool channels_innermost(const SymDims& dims, const SymDims& strides) {
  if (dims.size() < 3 || dims[1] == Dim(1) || !(strides[1] == Dim(1))) return false;
  return std::any_of(dims.begin() + 2, dims.end(), [](const Dim& d) { return !(d == Dim(1)); });
}

}  // namespace

Layout::Layout(const Graph& graph, const Backend& backend)
    : graph_(graph), backend_(backend), users_(graph.users()) {}

SymDims Layout::strides(ValueId value, const SymDims& dims) const {
  const auto it = decided_.find(value);
  return it != decided_.end() && it->second == Order::kChannelsLast ? channels_last_strides(dims)
                                                                    : contiguous_strides(dims);
}

void Layout::decide(const StepSpec& spec, const Implementation& row,
                    std::span<const ValueId> outputs) {
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k] == kNone || decided_.count(outputs[k])) continue;
    const bool last = wants_channels_last(spec, row, k, outputs[k]);
    decided_.emplace(outputs[k], last ? Order::kChannelsLast : Order::kRowMajor);
  }
}

void Layout::follow(ValueId inner, ValueId result) {
  if (const auto it = decided_.find(result); it != decided_.end())
    decided_.emplace(inner, it->second);
}

bool Layout::wants_channels_last(const StepSpec& spec, const Implementation& row, size_t output,
                                 ValueId value) const {
  const SymDims& dims = spec.outputs[output].dims;
  if (!row.preferred || dims.size() < 3 || dims.size() > 5 || graph_.is_output(value)) return false;
  if (!is_channels_last(dims, channels_last_strides(dims))) return false;  // the same as row-major
  const std::vector<Order> orders = row.preferred(spec);
  if (orders[spec.inputs.size() + output] == Order::kRowMajor) return false;
  if (orders[spec.inputs.size() + output] == Order::kAny) {
    // Follows its inputs; the majority of those of its rank where they disagree.
    int votes = 0;
    bool any = false;
    for (const Operand& input : spec.inputs) {
      if (!input.present() || input.constant || input.dims.size() != dims.size()) continue;
      if (channels_innermost(input.dims, input.strides)) {
        any = true;
        ++votes;
      } else if (is_channels_last(input.dims, channels_last_strides(input.dims))) {
        --votes;
      }
    }
    if (!any || votes < 0) return false;
    constexpr int kReach = 4;
    if (votes == 0 && !asked_channels_last(value, kReach)) return false;
  }
  if (!read_channels_last(value)) return false;
  StepSpec wish = spec;
  wish.outputs[output].strides = channels_last_strides(dims);
  return row.supports(wish).yes();
}

const Implementation* Layout::with_order(const Node& node) const {
  const auto rows = backend_.implementations();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Implementation& r) {
    return r.op == node.op->name && r.preferred != nullptr;
  });
  return row == rows.end() ? nullptr : &*row;
}

bool Layout::asked_channels_last(ValueId value, int reach) const {
  const Type& type = graph_.value(value).type;
  return reach > 0 && std::any_of(users_[value].begin(), users_[value].end(), [&](NodeId id) {
           const Node& user = graph_.node(id);
           if (user.op->control_flow || user.op->view) return false;
           StepSpec spec;
           spec.op = user.op;
           spec.node = &user;
           if (!add_row_major_operands(graph_, spec)) return false;
           const Implementation* row = with_order(user);
           if (!row) return false;
           const std::vector<Order> orders = row->preferred(spec);
           for (size_t k = 0; k < user.inputs.size(); ++k)
             if (user.inputs[k] == value && orders[k] == Order::kChannelsLast) return true;
           return user.op->scalar && user.outputs.size() == 1 &&
                  graph_.value(user.outputs[0]).type.dims == type.dims &&
                  asked_channels_last(user.outputs[0], reach - 1);
         });
}

bool Layout::read_channels_last(ValueId value) const {
  const SymDims& dims = *graph_.value(value).type.dims;
  return std::any_of(users_[value].begin(), users_[value].end(), [&](NodeId id) {
    const Node& user = graph_.node(id);
    if (user.op->control_flow) return false;
    if (user.op->view && user.inputs[0] == value) {
      ViewContext context;
      context.graph = &graph_;
      context.node = &user;
      context.dims = dims;
      context.strides = channels_last_strides(dims);
      for (ValueId v : user.outputs) {
        context.outputs.emplace_back();
        if (v == kNone) continue;
        if (!graph_.value(v).type.dims) return false;
        context.outputs.back().dims = *graph_.value(v).type.dims;
      }
      return user.op->view(context);
    }
    return with_order(user) != nullptr;
  });
}

}  // namespace xc
