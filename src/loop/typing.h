// The typing rules of expressions, in one place for the makers, the parser and the verifier.
#pragma once

#include <string>

#include "loop/expr.h"

namespace xc::loop {

// Result type that the operands give (for kCast, kBitcast and leaves: the node's own type).
DType result_type(const Node& node);

// Empty when the node itself (not its children) is well typed, else what is wrong.
std::string type_problem(const Node& node);

}  // namespace xc::loop
