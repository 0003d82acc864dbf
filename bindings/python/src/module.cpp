// The extension module xc._core: types and functions; what they do is in session.h and arrays.h.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <functional>

#include "collected.h"
#include "dtypes.h"
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

/// What an option is where it is not given.
nb::object default_of(const xc_config_option_info& info) {
  if (info.is_text) return nb::str("");
  std::string_view choices = xcrt::view(info.choices);
  if (choices.empty()) return nb::int_(info.fallback);
  for (int64_t k = 0; k < info.fallback; ++k) choices.remove_prefix(choices.find('|') + 1);
  const std::string_view name = choices.substr(0, choices.find('|'));
  return nb::str(name.data(), name.size());
}

nb::list options() {
  nb::list out;
  for (const xc_config_option_info& info : xcrt::Config::options()) {
    const auto text = [](xc_string_view view) { return nb::str(view.data, view.size); };
    nb::dict row;
    row["name"] = text(info.name);
    row["environment"] = text(info.environment);
    row["choices"] = text(info.choices);
    const bool number = !info.is_text && info.choices.size == 0;
    row["low"] = number ? nb::object(nb::int_(info.low)) : nb::none();
    row["high"] = number && info.high != INT64_MAX ? nb::object(nb::int_(info.high)) : nb::none();
    row["default"] = default_of(info);
    row["engine_only"] = nb::bool_(info.engine_only != 0);
    row["doc"] = text(info.doc);
    out.append(row);
  }
  return out;
}

/// Of an xc.Error that a program makes itself.
void set_error_defaults() {
  for (const char* name : {"status", "where", "advice"}) nb::handle(error_type).attr(name) = "";
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
  set_error_defaults();
  module.attr("Error") = nb::borrow(error_type);
  nb::register_exception_translator(&translate);

  nb::class_<Port>(module, "Port",
                   "An input or output of a model. Equal to one of the same name and type.")
      .def_ro("name", &Port::name)
      .def_ro("type", &Port::type, "\"f32[n, 784]\".")
      .def_ro("shape", &Port::shape, "Symbolic dims as text; None where the rank is not known.")
      .def_prop_ro(
          "dtype", [](const Port& port) { return xc_python::numpy_dtype(port.dtype); },
          "None for sequences and optionals, and for ml_dtypes types where that package is absent.")
      .def(
          "__eq__",
          [](const Port& port, nb::handle other) -> nb::object {
            if (!nb::isinstance<Port>(other)) return nb::borrow(Py_NotImplemented);
            return nb::bool_(port == *nb::inst_ptr<Port>(other));
          },
          "other"_a.none())
      .def("__hash__",
           [](const Port& port) { return std::hash<std::string>()(port.name + ": " + port.type); })
      .def("__repr__",
           [](const Port& port) { return "Port(" + port.name + ": " + port.type + ")"; });

  nb::class_<Call>(module, "Call", nb::type_slots(Collected<Call>::slots),
                   nb::is_weak_referenceable(),
                   "A run prepared for fixed arrays. One thread at a time: others fail with BUSY.")
      .def("run", &Call::run,
           "Reads the bound inputs, writes the bound outputs, returns them (the same arrays every "
           "time).")
      .def("__call__", &Call::run, "As run().")
      .def_prop_ro("outputs", &Call::outputs, "The bound outputs, in the model's order.");

  nb::class_<Operators>(
      module, "Operators", nb::type_slots(Collected<Operators>::slots),
      "Operators of the host, for models to use: given to sessions, filled before that.")
      .def(nb::init<>())
      .def("add", &Operators::add, "signature"_a, "function"_a.none() = nb::none(),
           "Declares an operator; returns the function, None where rules alone give it a meaning.")
      .def("add_rules", &Operators::add_rules, "rules"_a,
           "Adds rewrite rules: \"rule r: acme::Twice(?x) => Add(?x, ?x)\".");

  nb::class_<Engine>(module, "Engine", nb::type_slots(Collected<Engine>::slots),
                     nb::is_weak_referenceable(),
                     "What sessions may share: threads, settings, the compiler and the memory that "
                     "max_memory_bytes counts.")
      .def(nb::init<nb::handle, nb::handle, const Operators*, const nb::kwargs&>(),
           "threads"_a.none() = 0, "jit"_a = nb::none(), "operators"_a.none() = nb::none(),
           "options"_a);

  nb::class_<Session>(module, "Session", nb::type_slots(Collected<Session>::slots),
                      nb::is_weak_referenceable(),
                      "A model made ready to run. Safe to use from any number of threads at once.")
      .def(nb::init<nb::handle, nb::handle, nb::handle, const Operators*, const Engine*,
                    const nb::kwargs&>(),
           "model"_a.none(), "threads"_a.none() = 0, "jit"_a = nb::none(),
           "operators"_a.none() = nb::none(), "engine"_a.none() = nb::none(), "options"_a,
           "`model` is a path or the bytes of a model; xc.options() lists the settings by name.")
      .def("run", &Session::run, "inputs"_a.none(), "timeout"_a = nb::none(),
           "outputs"_a = nb::none(),
           "Runs once: inputs in the model's order or by name, outputs in the model's order. "
           "`timeout` is in seconds,\n`outputs` are arrays to write results into (None for new "
           "ones), "
           "in the model's order or by name.")
      .def("prepare", &Session::prepare, "inputs"_a.none(), "outputs"_a = nb::none(),
           "Binds arrays for repeated runs that look nothing up; the arrays may be refilled.")
      .def("explain", &Session::explain, "shapes"_a = nb::none(), "json"_a = false,
           "The current plan: per step the kernel and those refused, fused regions with cost and "
           "state.")
      .def("profile", &Session::profile,
           "What the session has learnt so far, by the names of xc/profile.h.")
      .def("trace", &Session::trace, "The past as JSON in the Chrome trace event format.")
      .def("freeze", &Session::freeze, "Ends adaptation: current code stays.")
      .def("wait_idle", &Session::wait_idle, "timeout"_a.none() = 10.0,
           "Waits until nothing is queued or compiling; False on timeout (seconds; None: no end).")
      .def("warm_up", &Session::warm_up, "shapes"_a.none(), "timeout"_a.none() = 60.0,
           "Compiles for the given dims of every input before the session serves; False on timeout "
           "(seconds; None: no end).")
      .def_prop_ro("inputs", &Session::inputs, "The model's inputs, in its order.")
      .def_prop_ro("outputs", &Session::outputs, "The model's outputs, in its order.");

  module.def("options", &options,
             "All settings: name, environment variable, legal values, what they do.");
  module.def(
      "runtime_version", [] { return std::string(xc_runtime_version()); },
      "The version of the loaded library.");
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
