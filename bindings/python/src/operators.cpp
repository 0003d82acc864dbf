#include "operators.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <cstring>
#include <utility>

#include "arrays.h"
#include "errors.h"

namespace xc_python {
namespace {

/// An input as an array of its own, which the function may keep and change.
nb::object input_of(const xcrt::OpCall& call, uint32_t index) {
  const xc_tensor_view view = call.input(index);
  if (view.dtype == XC_DTYPE_UNDEFINED) return nb::none();
  xcrt::Tensor copy(view.dtype, {view.dims, view.rank});
  if (view.dtype == XC_DTYPE_STRING) {
    std::vector<std::string_view> texts(static_cast<size_t>(copy.size()));
    for (size_t i = 0; i < texts.size(); ++i) texts[i] = call.string(index, i);
    copy.set_strings(texts);
  } else if (copy.size() != 0) {
    std::memcpy(copy.data(), view.data,
                static_cast<size_t>(copy.size() * xc_dtype_size(view.dtype)));
  }
  return to_numpy(std::move(copy));
}

nb::object attribute_of(const xcrt::OpCall& call, const char* name, int32_t kind) {
  const auto list = [](const auto& values, auto&& object_of) {
    nb::list out;
    for (const auto& value : values) out.append(object_of(value));
    return out;
  };
  const auto number = [](auto value) { return nb::cast(value); };
  switch (kind) {
    case XC_ATTRIBUTE_INT:
      return nb::cast(call.get_int(name));
    case XC_ATTRIBUTE_FLOAT:
      return nb::cast(call.get_float(name));
    case XC_ATTRIBUTE_STRING:
      return str_of_text(call.get_string(name));
    case XC_ATTRIBUTE_INTS:
      return list(call.get_ints(name), number);
    case XC_ATTRIBUTE_FLOATS:
      return list(call.get_floats(name), number);
    case XC_ATTRIBUTE_STRINGS:
      return list(call.get_strings(name), str_of_text);
    default: {
      const xc_tensor_view view = call.get_tensor(name);
      if (view.dtype != XC_DTYPE_STRING) return to_numpy(copy_of(view));
      xcrt::Tensor copy(view.dtype, {view.dims, view.rank});
      copy.set_strings(call.get_strings(name));
      return to_numpy(std::move(copy));
    }
  }
}

/// Of the call of a function, to whose text the library adds status and place.
[[noreturn]] void fail_call(const std::string& message) {
  throw xcrt::Error(XC_INVALID_ARGUMENT, message.c_str(), {});
}

/// Writes what the function gave for output `index`.
void store(xcrt::OpCall& call, uint32_t index, nb::handle value) {
  const bool array = PyObject_HasAttrString(value.ptr(), "dtype");
  const std::string output = "output " + std::to_string(index);
  // Numbers and lists take the type of the output, which allocating tells; arrays have their own.
  xcrt::Tensor given = tensor_of(value, XC_DTYPE_UNDEFINED, output.c_str(), nullptr);
  const xc_tensor_view to = call.allocate(index, given.dims());
  if (given.dtype() != to.dtype) {
    if (array)
      fail_call(output + " is " + xc_dtype_name(given.dtype()) + ", the signature says " +
                xc_dtype_name(to.dtype));
    given = tensor_of(value, to.dtype, output.c_str(), nullptr);
    const xcrt::Dims dims = given.dims();
    if (!std::equal(dims.begin(), dims.end(), to.dims, to.dims + to.rank))
      fail_call(output + " changed its shape while it was read");
  }
  if (to.dtype == XC_DTYPE_STRING) {
    std::vector<std::string_view> texts(static_cast<size_t>(given.size()));
    for (size_t i = 0; i < texts.size(); ++i) texts[i] = given.string(i);
    call.set_strings(index, texts);
  } else if (given.size() != 0) {
    std::memcpy(to.data, given.data(), static_cast<size_t>(given.size() * xc_dtype_size(to.dtype)));
  }
}

/// Of a signature that the library has accepted; without one that stands for any number. Behind
/// the domain, which may be quoted, only names of inputs have a colon.
uint32_t inputs_with_a_name(std::string_view signature) {
  const size_t open = signature.find('(', signature.find("::"));
  uint32_t count = 0;
  int depth = 0;
  char before = 0;
  for (const char c : signature.substr(open)) {
    if (c == '(') ++depth;
    if (c == ')' && --depth == 0) break;
    if (c == ':' && before != '*') ++count;
    if (c != ' ') before = c;
  }
  return count;
}

/// Calls the function. A thread that Python ends there is kept from unwinding at once: what is
/// around it would give up references without the GIL.
nb::object result_of(nb::handle function, const nb::list& inputs, const nb::dict& attributes) {
  try {
    return function(*inputs, **attributes);
  } catch (const std::exception&) {
    throw;
  } catch (...) {
    wait_for_the_end();
  }
}

/// `count`: inputs of the function, of which a node may leave out optional ones at the end.
void compute(nb::handle function, uint32_t count, xcrt::OpCall& call) {
  nb::list inputs;
  for (uint32_t i = 0; i < call.input_count(); ++i) inputs.append(input_of(call, i));
  while (inputs.size() < count) inputs.append(nb::none());
  nb::dict attributes;
  for (uint32_t i = 0; i < call.attribute_count(); ++i) {
    const auto [name, kind] = call.attribute(i);
    if (call.has_attribute(name)) attributes[name] = attribute_of(call, name, kind);
  }
  const nb::object result = result_of(function, inputs, attributes);
  if (!nb::isinstance<nb::tuple>(result) &&
      !(nb::isinstance<nb::list>(result) && call.output_count() > 1)) {
    if (call.output_count() > 1)
      fail_call("the function gave one value for " + std::to_string(call.output_count()) +
                " outputs");
    return store(call, 0, result);
  }
  const size_t given = nb::len(result);
  if (given < call.output_count())
    fail_call("the function gave " + std::to_string(given) + " values for " +
              std::to_string(call.output_count()) + " outputs");
  for (uint32_t k = 0; k < call.output_count(); ++k)
    if (call.wants(k)) store(call, k, nb::object(result[k]));
}

}  // namespace

nb::object Operators::add(const std::string& signature, nb::object function) {
  if (function.is_none()) {
    library_.add(signature.c_str());
    return function;
  }
  if (!PyCallable_Check(function.ptr()))
    fail(XC_INVALID_ARGUMENT, "an operator's function is something to call, or None");
  const auto slot = std::make_shared<Slot>(Slot{function});
  slots_.reserve(slots_.size() + 1);
  library_.add(signature.c_str(), [slot](xcrt::OpCall& call) { call_function(*slot, call); });
  slot->inputs = inputs_with_a_name(signature);
  slots_.push_back(slot);
  return function;
}

void Operators::call_function(const Slot& slot, xcrt::OpCall& call) {
  const Locked locked;
  const nb::object function = slot.function;  // it may go while it runs
  if (!function) fail_call("the operators of the session have been freed");
  try {
    compute(function, slot.inputs, call);
  } catch (const nb::python_error& error) {
    Raised::keep(error);
    fail_call(text_of(error));
  } catch (const std::exception&) {
    throw;
  } catch (...) {
    wait_for_the_end();  // the function's thread
  }
}

int Operators::traverse(visitproc visit, void* arg) const {
  for (const auto& slot : slots_) Py_VISIT(slot->function.ptr());
  return 0;
}

void Operators::clear() {
  for (const auto& slot : std::exchange(slots_, {})) slot->function.reset();
}

}  // namespace xc_python
