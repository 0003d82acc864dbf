#pragma once
// Whose fault it is that sizes do not fit.

#include <utility>

#include "base/error.h"

namespace xc {

/// Runs `body`, which takes a model through sizes or ranks that a run brings. The model was found
/// valid when it was loaded: what is wrong with it now (kInvalidModel) is told of the inputs, with
/// kInvalidArgument.
template <class Body>
decltype(auto) at_input_sizes(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error& error) {
    if (error.status() != Status::kInvalidModel) throw;
    throw Error(Status::kInvalidArgument, "with these input sizes: " + error.message(),
                error.where());
  }
}

}  // namespace xc
