#include "containers.h"

#include <string>
#include <vector>

#include "arrays.h"

namespace xc_python {
namespace {

/// A type's text: "seq(f32[n])" -> kind "seq", inner "f32[n]"; "map(i64, f32[])" -> key "i64".
struct Text {
  std::string_view kind, key, inner;
  explicit Text(std::string_view type) {
    const size_t open = type.find('(');
    if (open == std::string_view::npos || open > type.find('[') || type.back() != ')') return;
    kind = type.substr(0, open);
    inner = type.substr(open + 1, type.size() - open - 2);
    if (kind != "map") return;
    const size_t comma = inner.find(", ");
    key = inner.substr(0, comma);
    inner.remove_prefix(comma + 2);
  }
};

/// "f32[n, 2]" -> XC_DTYPE_F32; 0 when it is not known.
xc_dtype dtype_of_text(std::string_view type) {
  const std::string_view name = type.substr(0, type.find('['));
  for (xc_dtype dtype = XC_DTYPE_F32; dtype <= XC_DTYPE_F6E3M2; ++dtype)
    if (dtype != XC_DTYPE_TENSOR && xc_dtype_name(dtype) == name) return dtype;
  return XC_DTYPE_UNDEFINED;
}

[[noreturn]] void fail(const char* name, std::string_view type, const char* wanted) {
  const std::string where = std::string("input '") + name + "'";
  throw xcrt::Error(
      XC_INVALID_ARGUMENT,
      ("INVALID_ARGUMENT: " + where + ": a " + std::string(type) + " wants " + wanted).c_str(),
      where);
}

xcrt::Tensor sequence_of(nb::handle value, const Text& text, std::string_view type,
                         const char* name) {
  if (!nb::isinstance<nb::list>(value) && !nb::isinstance<nb::tuple>(value))
    fail(name, type, "a list or tuple");
  std::vector<xcrt::Tensor> elements;
  for (nb::handle element : nb::borrow<nb::sequence>(value))
    elements.push_back(container_of(element, text.inner, name));
  return xcrt::Tensor::sequence(elements);
}

xcrt::Tensor map_of(nb::handle value, const Text& text, std::string_view type, const char* name) {
  if (!nb::isinstance<nb::dict>(value)) fail(name, type, "a dict");
  const nb::dict dict = nb::borrow<nb::dict>(value);
  std::vector<xcrt::Tensor> parts;
  parts.push_back(tensor_of(nb::list(dict.keys()), dtype_of_text(text.key), "input", name));
  parts.push_back(tensor_of(nb::list(dict.values()), dtype_of_text(text.inner), "input", name));
  return xcrt::Tensor::sequence(parts);
}

/// Maps as dicts. Those of one sequence have the same keys as a rule, in one memory.
class Dicts {
 public:
  nb::object dict(const xcrt::Tensor& map) {
    const xcrt::Tensor values = map.element(1);
    keep_keys(map.element(0));
    nb::dict out;
    const auto add_all = [&](auto* elements, auto* object_of) {
      for (size_t i = 0; i < keys_.size(); ++i) {
        const nb::object value = nb::steal(object_of(elements[i]));
        if (!value) nb::raise_python_error();
        if (PyDict_SetItem(out.ptr(), keys_[i].ptr(), value.ptr()) != 0) nb::raise_python_error();
      }
    };
    if (values.dtype() == XC_DTYPE_F32)
      add_all(
          static_cast<const float*>(values.data()),
          +[](float x) { return PyFloat_FromDouble(static_cast<double>(x)); });
    else if (values.dtype() == XC_DTYPE_F64)
      add_all(static_cast<const double*>(values.data()), &PyFloat_FromDouble);
    else if (values.dtype() == XC_DTYPE_I64)
      add_all(
          static_cast<const int64_t*>(values.data()),
          +[](int64_t x) { return PyLong_FromLongLong(x); });
    else
      add_others(out, to_numpy(values.share()).attr("tolist")());
    return out;
  }

 private:
  void keep_keys(xcrt::Tensor tensor) {
    const auto count = static_cast<size_t>(tensor.size());
    const void* place = tensor.dtype() == XC_DTYPE_STRING
                            ? (count > 0 ? tensor.string(0).data() : nullptr)
                            : tensor.data();
    if (place && place == place_ && count == keys_.size()) return;
    const nb::object list = to_numpy(tensor.share()).attr("tolist")();
    keys_.clear();
    for (nb::handle key : list) keys_.push_back(nb::borrow(key));
    place_ = place;
    held_ = std::move(tensor);  // what else might lie there then
  }

  void add_others(nb::dict& out, const nb::object& values) const {
    for (size_t i = 0; i < keys_.size(); ++i) out[keys_[i]] = nb::object(values[i]);
  }

  std::vector<nb::object> keys_;
  const void* place_ = nullptr;
  xcrt::Tensor held_;
};

}  // namespace

xcrt::Tensor container_of(nb::handle value, std::string_view type, const char* name) {
  const Text text(type);
  if (text.kind == "seq") return sequence_of(value, text, type, name);
  if (text.kind == "map") return map_of(value, text, type, name);
  if (text.kind == "opt")
    return value.is_none() ? xcrt::Tensor() : container_of(value, text.inner, name);
  return tensor_of(value, dtype_of_text(type), "input", name);
}

nb::object from_container(xcrt::Tensor value, std::string_view type) {
  const Text text(type);
  if (!value || value.dtype() == XC_DTYPE_UNDEFINED) return nb::none();
  if (text.kind == "opt") return from_container(std::move(value), text.inner);
  if (text.kind == "map") return Dicts().dict(value);
  if (text.kind != "seq") return to_numpy(std::move(value));
  nb::list out;
  if (Text(text.inner).kind == "map") {
    Dicts dicts;
    for (int64_t i = 0; i < value.size(); ++i)
      out.append(dicts.dict(value.element(static_cast<uint64_t>(i))));
    return out;
  }
  for (int64_t i = 0; i < value.size(); ++i)
    out.append(from_container(value.element(static_cast<uint64_t>(i)), text.inner));
  return out;
}

}  // namespace xc_python
