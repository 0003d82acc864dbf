#include "session.h"

#include <nanobind/stl/string.h>

#include <cmath>

#include "containers.h"
#include "errors.h"

namespace xc_python {
namespace {

/// str() of a value as UTF-8 without zero bytes, which C takes for the end. `what` it is, for
/// messages.
std::string str_of(nb::handle value, const std::string& what) {
  const nb::str text(value);
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (!data) refuse(PyExc_ValueError, what + " holds a surrogate, which is no character");
  std::string out(data, static_cast<size_t>(size));
  if (out.find('\0') != std::string::npos)
    throw nb::value_error((what + " holds a null character").c_str());
  return out;
}

constexpr const char* kInputsWanted = "inputs is a list in the model's order or a dict by name";
constexpr const char* kOutputsWanted = "outputs is a list in the model's order or a dict by name";

/// The elements of a list in the model's order: of any iterable but an array. They are asked for
/// once: reading one may run code that changes a list, and iterating need not give as many as len()
/// says.
nb::tuple in_order(nb::handle given, const char* wanted) {
  if (PyTuple_Check(given.ptr())) return nb::borrow<nb::tuple>(given);
  const bool is_list = PyList_Check(given.ptr());
  if (!is_list && ((!Py_TYPE(given.ptr())->tp_iter && !PySequence_Check(given.ptr())) ||
                   PyObject_HasAttrString(given.ptr(), "__array__")))
    throw nb::type_error((std::string(wanted) + ", not " + Py_TYPE(given.ptr())->tp_name).c_str());
  PyObject* tuple = PySequence_Tuple(given.ptr());
  if (!tuple) nb::raise_python_error();
  return nb::steal<nb::tuple>(tuple);
}

bool is_mapping(nb::handle given) {
  if (PyList_Check(given.ptr()) || PyTuple_Check(given.ptr())) return false;
  return PyDict_Check(given.ptr()) || (PyObject_HasAttrString(given.ptr(), "keys") &&
                                       !PyObject_HasAttrString(given.ptr(), "__array__"));
}

/// A mapping as a dict; nothing for what is none.
nb::object by_name(nb::handle given) {
  if (PyDict_Check(given.ptr())) return nb::borrow(given);
  if (!is_mapping(given)) return {};
  PyObject* dict = PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyDict_Type), given.ptr());
  if (!dict) nb::raise_python_error();
  return nb::steal(dict);
}

/// Calls `set(i, value)` with what a dict has for each port, a null handle where it has nothing;
/// `index_of` refuses a name of none of them.
template <class Set, class IndexOf>
void each_by_name(const nb::object& dict, const std::vector<Port>& ports, const std::string& what,
                  Set&& set, IndexOf&& index_of) {
  Py_ssize_t found = 0;
  for (size_t i = 0; i < ports.size(); ++i) {
    // Held: reading it may run code that takes it out of the dict.
    const nb::object value = nb::borrow(PyDict_GetItemWithError(dict.ptr(), ports[i].key.ptr()));
    if (!value && PyErr_Occurred()) nb::raise_python_error();
    found += value.is_valid();
    set(i, value);
  }
  if (found == PyDict_GET_SIZE(dict.ptr())) return;
  for (const auto& [key, value] : nb::borrow<nb::dict>(dict))  // names the one that is not there
    (void)index_of(str_of(key, "the name of an " + what));
  fail(XC_INVALID_ARGUMENT, what + "s by name want str keys");
}

void check_count(size_t given, size_t wanted, const std::string& what) {
  if (given != wanted)
    fail(XC_INVALID_ARGUMENT, "the model has " + std::to_string(wanted) + " " + what + "s, " +
                                  std::to_string(given) + " were given");
}

/// Says what to do about an array of another type than the port's, which the library refuses too.
void check_dtype(const Port& port, const xc_tensor_view& view, nb::handle value) {
  if (port.kind != XC_PORT_TENSOR || view.dtype == port.dtype || view.dtype == XC_DTYPE_UNDEFINED)
    return;
  std::string dims;
  for (uint32_t axis = 0; axis < view.rank; ++axis)
    dims += (axis ? ", " : "") + std::to_string(view.dims[axis]);
  fail(XC_INVALID_ARGUMENT,
       "expected " + port.type + ", got " + xc_dtype_name(view.dtype) + "[" + dims + "]" +
           conversion_of(value, port.dtype),
       "input '" + port.name + "'");
}

double seconds_of(nb::handle timeout) {
  const double seconds = PyFloat_AsDouble(timeout.ptr());
  if (seconds == -1 && PyErr_Occurred())
    refuse(PyExc_TypeError, std::string("timeout is a number of seconds or None, not ") +
                                Py_TYPE(timeout.ptr())->tp_name);
  return seconds;
}

/// The memory of a view as a tensor; none of an absent one.
xcrt::Tensor wrapped(const xc_tensor_view& view) {
  return view.dtype ? xcrt::Tensor::wrap(view, nullptr, nullptr) : xcrt::Tensor();
}

/// How long to wait; None: as long as it takes.
std::chrono::milliseconds patience(nb::handle timeout) {
  constexpr double kLongest = 1e9;
  const double seconds = timeout.is_none() ? kLongest : seconds_of(timeout);
  if (!(seconds >= 0)) fail(XC_INVALID_ARGUMENT, "timeout is a number of seconds, 0 or more");
  return std::chrono::milliseconds(static_cast<int64_t>(std::min(seconds, kLongest) * 1000));
}

int64_t dim_of(nb::handle dim, const std::string& input) {
  const std::string where = "shapes: input " + input + ": ";
  PyObject* index = PyNumber_Index(dim.ptr());
  if (!index)
    refuse(PyExc_TypeError, where + "a dim is an int, not " + Py_TYPE(dim.ptr())->tp_name);
  const nb::object owner = nb::steal(index);
  const long long value = PyLong_AsLongLong(index);
  if (value == -1 && PyErr_Occurred())
    refuse(PyExc_ValueError, where + "a dim does not fit into 64 bits");
  return value;
}

/// A text or path as an option's value.
std::string path_text(const std::string& name, nb::handle value) {
  if (PyUnicode_Check(value.ptr())) return str_of(value, "option " + name);
  PyObject* path = PyOS_FSPath(value.ptr());
  if (!path)
    refuse(PyExc_TypeError,
           "option " + name + " is a text or a path, not " + Py_TYPE(value.ptr())->tp_name);
  const nb::object owner = nb::steal(path);
  if (PyUnicode_Check(path)) return str_of(owner, "option " + name);
  const std::string out(PyBytes_AS_STRING(path), static_cast<size_t>(PyBytes_GET_SIZE(path)));
  if (out.find('\0') != std::string::npos)
    throw nb::value_error(("option " + name + " holds a null character").c_str());
  return out;
}

/// An option's value as text: True and False suit both 0|1 and on|off.
std::string option_text(const xc_config_option_info& info, const std::string& name,
                        nb::handle value) {
  if (info.is_text) return path_text(name, value);
  const std::optional<bool> on = bool_of(value);
  if (!on) return str_of(value, "option " + name);
  if (xcrt::view(info.choices) == "on|off") return *on ? "on" : "off";
  return *on ? "1" : "0";
}

/// Sets an option unless its value is None: not given.
void set_option(xcrt::Config& config, const std::string& name, nb::handle value) {
  for (const xc_config_option_info& info : xcrt::Config::options())
    if (xcrt::view(info.name) == name) {
      if (!value.is_none()) config.set(name, option_text(info, name, value));
      return;
    }
  config.set(name, {});  // names those that are there
}

/// 0 stands for what is not given, as None does.
nb::int_ count_of(nb::handle threads) {
  if (threads.is_none()) return nb::int_(0);
  PyObject* index = PyNumber_Index(threads.ptr());
  if (!index)
    refuse(PyExc_TypeError,
           std::string("threads is an int or None, not ") + Py_TYPE(threads.ptr())->tp_name);
  return nb::steal<nb::int_>(index);
}

bool are_given(nb::handle threads) {
  return PyObject_IsTrue(count_of(threads).ptr()) == 1;
}

xcrt::Config make_config(nb::handle threads, nb::handle jit, const nb::kwargs& options) {
  xcrt::Config config;
  config.read_environment();
  if (are_given(threads)) config.set("threads", str_of(count_of(threads), "option threads"));
  if (!jit.is_none()) config.set("jit", str_of(jit, "option jit"));
  for (const auto& [key, value] : options)
    set_option(config, str_of(key, "the name of an option"), value);
  return config;
}

xcrt::Engine make_engine(const xcrt::Config& config, const Operators* operators) {
  const xcrt::OpLibrary* library = operators ? &operators->library() : nullptr;
  return without_gil([&] { return xcrt::Engine(config, {}, library); });
}

nb::object owner_of(const Operators* operators) {
  return operators ? nb::find(*operators) : nb::object();
}

/// A path, or the bytes of a model. The GIL is released while it loads.
xcrt::Model load(nb::handle model, const xcrt::Engine& engine) {
  if (PyObject_CheckBuffer(model.ptr())) {
    Py_buffer buffer;
    if (PyObject_GetBuffer(model.ptr(), &buffer, PyBUF_SIMPLE) < 0) nb::raise_python_error();
    const std::unique_ptr<Py_buffer, decltype(&PyBuffer_Release)> release(&buffer,
                                                                          &PyBuffer_Release);
    const std::span bytes(static_cast<const std::byte*>(buffer.buf),
                          static_cast<size_t>(buffer.len));
    return without_gil([&] { return xcrt::Model(engine, bytes); });
  }
  PyObject* path = PyOS_FSPath(model.ptr());
  if (!path)
    refuse(PyExc_TypeError, std::string("model is the path of a file or the bytes of one, not ") +
                                Py_TYPE(model.ptr())->tp_name);
  const nb::object owner = nb::steal(path);
  PyObject* encoded = nullptr;
  if (!PyUnicode_FSConverter(path, &encoded)) nb::raise_python_error();
  const nb::object bytes = nb::steal(encoded);
  const std::string file = PyBytes_AS_STRING(encoded);
  return without_gil([&] { return xcrt::Model(engine, file); });
}

xcrt::Session make_session(const xcrt::Model& model) {
  return without_gil([&] { return xcrt::Session(model); });
}

std::vector<Port> ports_of(const std::vector<xcrt::Port>& ports) {
  std::vector<Port> out;
  for (const xcrt::Port& port : ports) {
    Port& to = out.emplace_back();
    to.name = port.name;
    to.type = port.type;
    to.dtype = port.dtype;
    to.kind = port.kind;
    PyObject* key =
        PyUnicode_FromStringAndSize(port.name.data(), static_cast<Py_ssize_t>(port.name.size()));
    if (!key) nb::raise_python_error();
    PyUnicode_InternInPlace(&key);
    to.key = nb::steal(key);
    if (port.rank < 0) {
      to.shape = nb::none();
      continue;
    }
    nb::list dims;
    for (size_t axis = 0; axis < port.dims.size(); ++axis)
      if (port.dims[axis] >= 0)
        dims.append(nb::int_(port.dims[axis]));
      else
        dims.append(nb::str(port.dim_texts[axis].data(), port.dim_texts[axis].size()));
    to.shape = nb::tuple(dims);
  }
  return out;
}

nb::list list_of(const std::vector<Port>& ports) {
  nb::list out;
  for (const Port& port : ports) out.append(nb::cast(port));
  return out;
}

nb::str str_of(xc_string_view text) {
  return nb::str(text.data ? text.data : "", text.size);
}

}  // namespace

Engine::Engine(nb::handle threads, nb::handle jit, const Operators* operators,
               const nb::kwargs& options)
    : operators_(owner_of(operators)),
      engine_(make_engine(make_config(threads, jit, options), operators)) {}

Engine::~Engine() {
  const Unlocked unlocked;
  engine_.reset();
}

int Engine::traverse(visitproc visit, void* arg) const {
  Py_VISIT(operators_.ptr());
  return 0;
}

Session::Session(nb::handle model, nb::handle threads, nb::handle jit, const Operators* operators,
                 const Engine* engine, const nb::kwargs& options)
    : operators_(engine ? engine->operators() : owner_of(operators)) {
  if (engine && (are_given(threads) || !jit.is_none() || operators || options.size() != 0))
    fail(XC_INVALID_ARGUMENT, "the options of a session are those of its engine");
  model_.emplace(load(model, engine ? engine->share()
                                    : make_engine(make_config(threads, jit, options), operators)));
  session_.emplace(make_session(*model_));
  inputs_ = ports_of(model_->inputs());
  outputs_ = ports_of(model_->outputs());
}

Session::~Session() {
  const Unlocked unlocked;
  session_.reset();
  model_.reset();
}

int Session::traverse(visitproc visit, void* arg) const {
  Py_VISIT(operators_.ptr());
  return 0;
}

void Session::read(nb::handle given, Inputs& inputs, Inputs::Use use) const {
  const auto set = [&](size_t i, nb::handle value) {
    const Port& port = inputs_[i];
    if (port.kind != XC_PORT_TENSOR && value && !value.is_none()) {
      if (use != Inputs::Use::kOnce)
        fail(XC_UNSUPPORTED,
             "input " + port.name + " is a " + port.type + ": a prepared call binds arrays alone");
      return inputs.set_tensor(i, container_of(value, port.type, port.name.c_str()));
    }
    inputs.set(i, value ? value : nb::handle(Py_None), port.dtype, port.name.c_str(), use);
    check_dtype(port, inputs.views()[i], value);
  };
  if (const nb::object dict = by_name(given))
    return each_by_name(dict, inputs_, "input", set,
                        [&](const std::string& name) { return model_->input_index(name); });
  const nb::tuple values = in_order(given, kInputsWanted);
  check_count(values.size(), inputs_.size(), "input");
  for (size_t i = 0; i < inputs_.size(); ++i) set(i, values[i]);
}

/// Arrays that results are written into, per output; null handles where none was given.
struct Session::Written {
  Inputs arrays;
  std::vector<nb::object> values;  ///< empty: none at all
  std::vector<xcrt::Tensor> tensors;
  std::vector<xc_tensor*> handles;

  Written(const std::vector<Port>& ports, nb::handle given, const xcrt::Model& model)
      : arrays(ports.size(), "output") {
    if (given.is_none()) return;
    values.reserve(ports.size());
    const auto add = [&](size_t, nb::handle value) {
      values.push_back(nb::borrow(value ? value : nb::handle(Py_None)));
    };
    if (const nb::object dict = by_name(given)) {
      each_by_name(dict, ports, "output", add,
                   [&](const std::string& name) { return model.output_index(name); });
    } else {
      const nb::tuple all = in_order(given, kOutputsWanted);
      check_count(all.size(), ports.size(), "output");
      for (size_t i = 0; i < ports.size(); ++i) add(i, all[i]);
    }
    for (size_t i = 0; i < ports.size(); ++i) {
      arrays.set(i, values[i], ports[i].dtype, ports[i].name.c_str(), Inputs::Use::kWritten);
      tensors.push_back(wrapped(arrays.views()[i]));
      handles.push_back(tensors.back().handle());
    }
  }
  bool has(size_t i) const { return i < handles.size() && handles[i]; }
};

nb::object Session::run(nb::handle given, nb::handle timeout, nb::handle given_outputs) {
  xcrt::RunOptions options;
  if (!timeout.is_none()) {
    if (!PyFloat_Check(timeout.ptr()) && is_mapping(timeout))  // onnxruntime's run(names, inputs)
      throw nb::type_error(
          "run() takes the inputs first and gives every output: run({\"x\": x}), not run(names, "
          "{\"x\": x})");
    const double seconds = seconds_of(timeout);
    if (!(seconds > 0)) fail(XC_INVALID_ARGUMENT, "timeout is a positive number of seconds");
    if (seconds < 9e9)
      options.timeout = std::chrono::nanoseconds(static_cast<int64_t>(std::ceil(seconds * 1e9)));
  }
  Inputs inputs(inputs_.size());
  read(given, inputs, Inputs::Use::kOnce);
  std::optional<Written> written;
  if (!given_outputs.is_none()) written.emplace(outputs_, given_outputs, *model_);
  const size_t count = outputs_.size();
  std::array<xc_tensor*, Inputs::kInline> few{};
  std::vector<xc_tensor*> many(count > few.size() ? count : 0, nullptr);
  xc_tensor** outputs = many.empty() ? few.data() : many.data();
  const auto is_written = [&](size_t i) { return written && written->has(i); };
  for (size_t i = 0; i < count; ++i)
    if (is_written(i)) outputs[i] = written->handles[i];
  const std::span views(inputs.views(), inputs.count());
  const std::span slots(outputs, count);
  const bool timed = !timeout.is_none();
  without_gil([&] {
    timed ? session_->run_into(views, slots, options) : session_->run_into(views, slots);
  });
  std::array<xcrt::Tensor, Inputs::kInline> owned;  // released also when an array cannot be made
  std::vector<xcrt::Tensor> owned_many(many.size());
  xcrt::Tensor* tensors = many.empty() ? owned.data() : owned_many.data();
  for (size_t i = 0; i < count; ++i)
    if (!is_written(i)) tensors[i] = xcrt::Tensor::adopt(outputs[i]);
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(count));
  if (!list) nb::raise_python_error();
  nb::object result = nb::steal(list);
  for (size_t i = 0; i < count; ++i)
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i),
                    (is_written(i) ? written->values[i]
                     : outputs_[i].kind == XC_PORT_TENSOR
                         ? to_numpy(std::move(tensors[i]))
                         : from_container(std::move(tensors[i]), outputs_[i].type))
                        .release()
                        .ptr());
  return result;
}

std::unique_ptr<Call> Session::prepare(nb::handle given, nb::handle given_outputs) {
  Inputs inputs(inputs_.size());
  read(given, inputs, Inputs::Use::kRead);
  std::vector<xcrt::Tensor> bound;
  for (uint32_t i = 0; i < inputs.count(); ++i) bound.push_back(wrapped(inputs.views()[i]));
  std::vector<const xc_tensor*> handles;
  for (const xcrt::Tensor& tensor : bound) handles.push_back(tensor.handle());

  Written written(outputs_, given_outputs, *model_);
  xcrt::Call call = without_gil([&] { return session_->prepare(handles, written.handles); });
  for (uint32_t i = 0; i < call.output_count(); ++i)
    if (call.output(i).dtype() == XC_DTYPE_STRING)
      fail(XC_UNSUPPORTED, "a prepared call of a model whose results are text");
  nb::list arrays;
  for (uint32_t i = 0; i < call.output_count(); ++i)
    if (written.has(i))
      arrays.append(written.values[i]);
    else
      arrays.append(to_numpy(call.output(i)));
  std::vector<nb::object> held = inputs.release_owners();
  for (nb::object& owner : written.arrays.release_owners()) held.push_back(std::move(owner));
  return std::make_unique<Call>(std::move(call), std::move(held), std::move(arrays), operators_);
}

Call::~Call() {
  const Unlocked unlocked;
  call_ = xcrt::Call(nullptr);
}

int Call::traverse(visitproc visit, void* arg) const {
  Py_VISIT(operators_.ptr());
  return 0;
}

nb::list Call::run() {
  without_gil([&] { call_.run(); });
  return outputs();
}

nb::list Call::outputs() const {
  PyObject* copy = PyList_GetSlice(outputs_.ptr(), 0, PyList_GET_SIZE(outputs_.ptr()));
  if (!copy) nb::raise_python_error();
  return nb::steal<nb::list>(copy);
}

/// Dims of every input, by name; `views` point into them.
std::vector<std::vector<int64_t>> Session::dims_of(nb::handle shapes,
                                                   std::vector<xc_shape>& views) const {
  std::vector<std::vector<int64_t>> dims(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const nb::object shape = nb::steal(PyObject_GetItem(shapes.ptr(), inputs_[i].key.ptr()));
    if (!shape) {
      if (PyErr_ExceptionMatches(PyExc_KeyError))
        refuse(PyExc_KeyError, "shapes: no dims of input " + inputs_[i].name);
      if (PyErr_ExceptionMatches(PyExc_TypeError))
        refuse(PyExc_TypeError, std::string("shapes is a dict of the dims of each input, not ") +
                                    Py_TYPE(shapes.ptr())->tp_name);
      nb::raise_python_error();
    }
    const nb::object iterator = nb::steal(PyObject_GetIter(shape.ptr()));
    if (!iterator)
      refuse(PyExc_TypeError, "shapes: input " + inputs_[i].name +
                                  ": dims are a list of ints, not " +
                                  Py_TYPE(shape.ptr())->tp_name);
    for (nb::handle dim : shape) dims[i].push_back(dim_of(dim, inputs_[i].name));
    views.push_back({dims[i].data(), static_cast<uint32_t>(dims[i].size()), 0});
  }
  if (const nb::object dict = by_name(shapes))
    for (const auto& [key, value] : nb::borrow<nb::dict>(dict))
      (void)model_->input_index(str_of(key, "shapes: the name of an input"));
  return dims;
}

nb::str Session::explain(nb::handle shapes, bool json) {
  std::vector<std::vector<int64_t>> dims;
  std::vector<xc_shape> views;
  if (!shapes.is_none()) dims = dims_of(shapes, views);
  const std::string text = without_gil([&] { return session_->explain(json, views); });
  return nb::str(text.data(), text.size());
}

nb::dict Session::profile() {
  const std::string text = without_gil([&] { return session_->profile().json(); });
  const nb::object document =
      nb::module_::import_("json").attr("loads")(str_of({text.data(), text.size()}));
  // The counters, and beside them all else.
  nb::dict out = nb::cast<nb::dict>(document.attr("pop")("counters"));
  out.update(nb::cast<nb::dict>(document));
  return out;
}

nb::str Session::trace() {
  const std::string text = without_gil([&] { return session_->trace(); });
  return str_of({text.data(), text.size()});
}

void Session::freeze() {
  without_gil([&] { session_->freeze(); });
}

bool Session::warm_up(nb::handle shapes, nb::handle timeout) {
  const auto limit = patience(timeout);
  std::vector<xc_shape> views;
  const auto dims = dims_of(shapes, views);
  return without_gil([&] { return session_->warm_up(views, limit); });
}

bool Session::wait_idle(nb::handle timeout) {
  const auto limit = patience(timeout);
  return without_gil([&] { return session_->wait_idle(limit); });
}

nb::list Session::inputs() const {
  return list_of(inputs_);
}
nb::list Session::outputs() const {
  return list_of(outputs_);
}

}  // namespace xc_python
