#pragma once
// Which element types an operator takes, asked of its inference.

#include <vector>

#include "ops/support.h"

namespace xc {

/// What check_dtype() throws: the element type of an input is none the operator takes.
struct WrongDType : Error {
  WrongDType(size_t refused_input, std::string message, Status status = Status::kInvalidModel)
      : Error(status, std::move(message)), input(refused_input) {}
  size_t input;
};

/// The types that inference lets pass for each input (the first one where the operator takes any
/// number), the required ones given the same type or one they take, optional ones before it absent.
/// Empty for an operator without required inputs, with subgraphs or on containers.
std::vector<TypeSet> input_types(const OpDef& op);

}  // namespace xc
