// The extension module xc._core: types and functions; what they do is in session.h and arrays.h.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include "collected.h"
#include "errors.h"
#include "session.h"

namespace nb = nanobind;
using namespace nb::literals;
using xc_python::Call;
using xc_python::Collected;
using xc_python::Engine;
using xc_python::Operators;
using xc_python::Port;
using xc_python::Session;

namespace {

PyObject* error_type = nullptr;  // xc.Error; lives as long as the interpreter

/// xcrt::Error -> xc.Error with status, where, advice and, where one is known, its cause.
void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const xcrt::Error& error) {
    // Messages quote names and paths, which need not be UTF-8.
    const auto text = [](std::string_view bytes) {
      return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()),
                                            "backslashreplace"));
    };
    const nb::object message = text(error.what());
    PyObject* value = PyObject_CallFunctionObjArgs(error_type, message.ptr(), nullptr);
    if (!value) return;
    const nb::object object = nb::steal(value);
    object.attr("status") = error.status_name();
    object.attr("where") = text(error.where());
    object.attr("advice") = text(error.advice());
    if (const auto* caused = dynamic_cast<const xc_python::Caused*>(&error))
      PyException_SetCause(value, caused->cause().inc_ref().ptr());
    PyErr_SetObject(error_type, value);
  }
}

nb::list options() {
  nb::list out;
  for (const xc_config_option_info& info : xcrt::Config::options()) {
    const auto text = [](xc_string_view view) { return nb::str(view.data, view.size); };
    nb::dict row;
    row["name"] = text(info.name);
    row["environment"] = text(info.environment);
    row["choices"] = text(info.choices);
    row["doc"] = text(info.doc);
    out.append(row);
  }
  return out;
}

}  // namespace

// Its function of initialisation, under a name that no import asks for, is called below.
NB_MODULE(_core_in_main, module) {
  xc_python::import_numpy();
  // What is alive when the interpreter ends is the program's affair: sys.stderr is not ours.
  nb::set_leak_warnings(false);
  error_type = PyErr_NewExceptionWithDoc("xc.Error", "A failed call: status, where, advice.",
                                         PyExc_RuntimeError, nullptr);
  if (!error_type) nb::raise_python_error();
  module.attr("Error") = nb::borrow(error_type);
  nb::register_exception_translator(&translate);

  nb::class_<Port>(module, "Port", "An input or output of a model.")
      .def_ro("name", &Port::name)
      .def_ro("type", &Port::type)
      .def_ro("shape", &Port::shape)
      .def_prop_ro("dtype", [](const Port& port) { return xc_python::numpy_dtype(port.dtype); })
      .def("__repr__",
           [](const Port& port) { return "Port(" + port.name + ": " + port.type + ")"; });

  nb::class_<Call>(module, "Call", nb::type_slots(Collected<Call>::slots),
                   "A run prepared for fixed arrays.")
      .def("run", &Call::run)
      .def("__call__", &Call::run)
      .def_prop_ro("outputs", &Call::outputs);

  nb::class_<Operators>(module, "Operators", nb::type_slots(Collected<Operators>::slots),
                        "Operators of the host for models to use.")
      .def(nb::init<>())
      .def("add", &Operators::add, "signature"_a, "function"_a.none() = nb::none())
      .def("add_rules", &Operators::add_rules, "rules"_a);

  nb::class_<Engine>(module, "Engine", nb::type_slots(Collected<Engine>::slots),
                     nb::is_weak_referenceable(), "Threads and settings that sessions share.")
      .def(nb::init<int64_t, nb::handle, const Operators*, const nb::kwargs&>(), "threads"_a = 0,
           "jit"_a = nb::none(), "operators"_a.none() = nb::none(), "options"_a);

  nb::class_<Session>(module, "Session", nb::type_slots(Collected<Session>::slots),
                      "A model made ready to run.")
      .def(nb::init<nb::handle, int64_t, nb::handle, const Operators*, const Engine*,
                    const nb::kwargs&>(),
           "model"_a, "threads"_a = 0, "jit"_a = nb::none(), "operators"_a.none() = nb::none(),
           "engine"_a.none() = nb::none(), "options"_a)
      .def("run", &Session::run, "inputs"_a, "timeout"_a = nb::none(), "outputs"_a = nb::none())
      .def("prepare", &Session::prepare, "inputs"_a, "outputs"_a = nb::none())
      .def("explain", &Session::explain, "shapes"_a = nb::none(), "json"_a = false)
      .def("profile", &Session::profile)
      .def("trace", &Session::trace)
      .def("freeze", &Session::freeze)
      .def("wait_idle", &Session::wait_idle, "timeout"_a = 10.0)
      .def("warm_up", &Session::warm_up, "shapes"_a, "timeout"_a = 60.0)
      .def_prop_ro("inputs", &Session::inputs)
      .def_prop_ro("outputs", &Session::outputs);

  module.def("options", &options);
  module.def("runtime_version", [] { return std::string(xc_runtime_version()); });
}

/// nanobind's types are those of one interpreter. An import into another one, though it fails,
/// would take them from the first, whose sessions then refuse every call.
extern "C" NB_EXPORT PyObject* PyInit__core() {
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    PyErr_SetString(PyExc_ImportError,
                    "xc works in the main interpreter alone: use threads or processes instead");
    return nullptr;
  }
  return PyInit__core_in_main();
}
