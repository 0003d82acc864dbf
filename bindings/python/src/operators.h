// The class behind xc.Operators: operators of the host as Python functions.
//
// The functions are this object's alone: the library, which lives as long as an engine does, looks
// at them. Whatever can run a model with them (xc.Session, xc.Call) keeps the xc.Operators, so that
// the garbage collector sees every reference, and frees a function that keeps its session.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include <xc/xc.hpp>

namespace xc_python {

namespace nb = nanobind;

class Operators {
 public:
  Operators() = default;
  ~Operators() { clear(); }
  Operators(Operators&&) = delete;
  /// `function` is called with the inputs as arrays of its own (None where absent) and the
  /// attributes by keyword; it returns one array, or a tuple or list of them. None: rules alone
  /// give the operator a meaning. Returns `function`, so that add() can stand behind a partial.
  nb::object add(const std::string& signature, nb::object function);
  void add_rules(const std::string& rules) { library_.add_rules(rules.c_str()); }
  const xcrt::OpLibrary& library() const { return library_; }

  int traverse(visitproc visit, void* arg) const;
  void clear();

 private:
  /// A function, none once the operators have gone; how many inputs its signature names.
  struct Slot {
    nb::object function;
    uint32_t inputs = 0;
  };
  static void call_function(const Slot& slot, xcrt::OpCall& call);

  std::vector<std::shared_ptr<Slot>> slots_;
  xcrt::OpLibrary library_;
};

}  // namespace xc_python
