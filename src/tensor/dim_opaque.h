#pragma once
// Dims as polynomials: what holds of them whatever the functions in them give.

#include <map>
#include <string>

#include "tensor/dim.h"

namespace xc {

/// `d` with a symbol in the place of each outermost function in it (floor division, remainder,
/// minimum, maximum, broadcast), named by its text: equal functions have the same. `functions`
/// receives them by these names.
Dim with_opaque_functions(const Dim& d, std::map<std::string, Dim>& functions);

}  // namespace xc
