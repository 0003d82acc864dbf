// Sequences, maps and optionals as Python has them: lists, dicts and None.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include <xc/xc.hpp>

namespace xc_python {

namespace nb = nanobind;

/// A value of a port's type ("seq(f32[*])", "map(i64, f32[])", "opt(seq(string[]))"): of a list or
/// tuple, a dict, None for an optional without value (an empty Tensor), or what tensor_of() takes.
/// Everything is copied. `name` is the input's, for messages.
xcrt::Tensor container_of(nb::handle value, std::string_view type, const char* name);

/// The way back: list, dict (its values as Python numbers or texts), None, or a NumPy array.
nb::object from_container(xcrt::Tensor value, std::string_view type);

}  // namespace xc_python
