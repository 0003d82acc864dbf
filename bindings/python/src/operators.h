// The class behind xc.Operators: operators of the host as Python functions.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include <xc/xc.hpp>

namespace xc_python {

namespace nb = nanobind;

class Operators {
 public:
  /// `function` is called with the inputs as arrays of its own (None where absent) and the
  /// attributes by keyword; it returns one array, or a tuple or list of them. None: rules alone
  /// give the operator a meaning. Returns `function`, so that add() can stand behind a partial.
  nb::object add(const std::string& signature, nb::object function);
  void add_rules(const std::string& rules) { library_.add_rules(rules.c_str()); }
  const xcrt::OpLibrary& library() const { return library_; }

 private:
  xcrt::OpLibrary library_;
};

}  // namespace xc_python
