// Classes whose references to Python objects the garbage collector sees.
#pragma once

#include <nanobind/nanobind.h>

namespace xc_python {

namespace nb = nanobind;

/// The slots of a class with traverse(visit, arg) and clear(), which calls Py_VISIT for each
/// reference of its own, and lets them go.
template <class Class>
struct Collected {
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    // There is nothing to see before __init__ is done.
    return nb::inst_ready(self) ? nb::inst_ptr<Class>(self)->traverse(visit, arg) : 0;
  }
  static int clear(PyObject* self) {
    if (nb::inst_ready(self)) nb::inst_ptr<Class>(self)->clear();
    return 0;
  }
  static inline const PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
                                             {Py_tp_clear, reinterpret_cast<void*>(&clear)},
                                             {0, nullptr}};
};

}  // namespace xc_python
