#pragma once
// A backend: an ordered list of implementations per op, and the device they run on.

#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ops/custom.h"

namespace xc {

struct Implementation;  // step.h
struct StepSpec;        // step.h
class Device;           // device.h

struct Backend {
  std::string_view name;  ///< "cpu"
  /// All rows; those asked_for() an op are asked in this order. Reference is last.
  std::span<const Implementation> (*implementations)();
};

/// True when a row for `row_op` is asked for an operator: one of that name, "*" for every one, "::"
/// for every one of the host.
inline bool asked_for(std::string_view row_op, const OpDef& op) {
  if (row_op == "::") return as_custom(op) != nullptr;
  return row_op == op.name || row_op == "*";
}

/// The first row that is asked for a step and takes it; null when none does.
const Implementation* first_to_support(const Backend& backend, const StepSpec& spec);

/// The rows of a backend by the operators they are for, for steps that choose among them in every
/// run. Keeps nothing of the backend but its rows.
class RowsByOperator {
 public:
  explicit RowsByOperator(const Backend& backend);
  /// Those that may be asked_for() the operator, in order.
  const std::vector<const Implementation*>& of(const OpDef& op) const;

 private:
  std::unordered_map<std::string_view, std::vector<const Implementation*>> by_name_;
  std::vector<const Implementation*> others_;  ///< of an operator without rows of its own
};
const Implementation* first_to_support(const RowsByOperator& rows, const StepSpec& spec);

/// The CPU backend: oneDNN, own kernels, reference.
const Backend& cpu_backend();
/// Refuses everything; copy it to start a backend, use it to test fallbacks.
const Backend& null_backend();

}  // namespace xc
