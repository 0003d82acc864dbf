#pragma once
// Which element types an operator takes, asked of its inference.

#include <vector>

#include "ops/support.h"

namespace xc {

/// What check_dtype() throws: the element type of an input is none the operator takes.
struct WrongDType : Error {
  WrongDType(size_t refused_input, std::string message)
      : Error(Status::kInvalidModel, std::move(message)), input(refused_input) {}
  size_t input;
};

/// The types that inference lets pass for each required input (the first one where the operator
/// takes any number), those before it given a type they take. Empty for an operator without inputs,
/// with subgraphs or on containers.
std::vector<TypeSet> input_types(const OpDef& op);

}  // namespace xc
