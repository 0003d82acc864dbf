#include "containers.h"

#include <string>
#include <vector>

#include "arrays.h"
#include "errors.h"

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

[[noreturn]] void fail_kind(const char* name, std::string_view type, const char* wanted) {
  fail(XC_INVALID_ARGUMENT, "a " + std::string(type) + " wants " + wanted,
       std::string("input '") + name + "'");
}

xcrt::Tensor sequence_of(nb::handle value, const Text& text, std::string_view type,
                         const char* name) {
  if (!nb::isinstance<nb::list>(value) && !nb::isinstance<nb::tuple>(value))
    fail_kind(name, type, "a list or tuple");
  std::vector<xcrt::Tensor> elements;
  for (nb::handle element : nb::borrow<nb::sequence>(value))
    elements.push_back(container_of(element, text.inner, name));
  return xcrt::Tensor::sequence(elements);
}

xcrt::Tensor map_of(nb::handle value, const Text& text, std::string_view type, const char* name) {
  if (!nb::isinstance<nb::dict>(value)) fail_kind(name, type, "a dict");
  const nb::dict dict = nb::borrow<nb::dict>(value);
  std::vector<xcrt::Tensor> parts;
  parts.push_back(tensor_of(nb::list(dict.keys()), dtype_of_text(text.key), "input", name));
  parts.push_back(tensor_of(nb::list(dict.values()), dtype_of_text(text.inner), "input", name));
  return xcrt::Tensor::sequence(parts);
}

/// Maps as dicts. Those of one sequence have the same keys as a rule, in one memory.
class Dicts {
 public:
  /// `map` gives the map's handle, of which only keys that differ from the last map's and values of
  /// rare types are read. What the views show outlives this object.
  template <class Handle>
  nb::dict dict(const xc_tensor_view& keys, const xc_tensor_view& values, const Handle& map) {
    if (!same_keys(keys)) {
      keys_.clear();
      for (nb::handle key : python_list(map().element(0))) keys_.push_back(nb::borrow(key));
      place_ = keys.data;
    }
    nb::dict out;
    const auto add_all = [&](auto* elements, auto* object_of) {
      for (const nb::object& key : keys_) {
        const nb::object value = nb::steal(object_of(*elements));
        if (!value) nb::raise_python_error();
        if (PyDict_SetItem(out.ptr(), key.ptr(), value.ptr()) != 0) nb::raise_python_error();
        elements += values.strides[0];
      }
    };
    if (values.dtype == XC_DTYPE_F32)
      add_all(
          static_cast<const float*>(values.data),
          +[](float x) { return PyFloat_FromDouble(static_cast<double>(x)); });
    else if (values.dtype == XC_DTYPE_F64)
      add_all(static_cast<const double*>(values.data), &PyFloat_FromDouble);
    else if (values.dtype == XC_DTYPE_I64)
      add_all(
          static_cast<const int64_t*>(values.data),
          +[](int64_t x) { return PyLong_FromLongLong(x); });
    else
      add_others(out, python_list(map().element(1)));
    return out;
  }

 private:
  bool same_keys(const xc_tensor_view& keys) const {
    return place_ && keys.data == place_ && static_cast<size_t>(keys.dims[0]) == keys_.size();
  }

  static nb::object python_list(xcrt::Tensor tensor) {
    return to_numpy(std::move(tensor)).attr("tolist")();
  }

  void add_others(nb::dict& out, const nb::object& values) const {
    for (size_t i = 0; i < keys_.size(); ++i) out[keys_[i]] = nb::object(values[i]);
  }

  std::vector<nb::object> keys_;
  const void* place_ = nullptr;
};

nb::dict from_map(const xcrt::Tensor& map) {
  const xcrt::Tensor keys = map.element(0), values = map.element(1);
  return Dicts().dict(keys.view(), values.view(), [&] { return map.share(); });
}

nb::list from_maps(const xcrt::Tensor& sequence) {
  const auto [keys, values] = sequence.maps();
  Dicts dicts;
  nb::list out;
  for (size_t i = 0; i < keys.size(); ++i)
    out.append(dicts.dict(keys[i], values[i], [&, i] { return sequence.element(i); }));
  return out;
}

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
  if (text.kind == "map") return from_map(value);
  if (text.kind != "seq") return to_numpy(std::move(value));
  if (Text(text.inner).kind == "map") return from_maps(value);
  nb::list out;
  for (int64_t i = 0; i < value.size(); ++i)
    out.append(from_container(value.element(static_cast<uint64_t>(i)), text.inner));
  return out;
}

}  // namespace xc_python
