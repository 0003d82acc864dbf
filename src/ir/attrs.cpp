#include "ir/attrs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace xc {

std::string_view name(AttrKind kind) {
  constexpr std::array<std::string_view, 7> kNames{"int",    "float",   "string", "ints",
                                                   "floats", "strings", "tensor"};
  return kNames[static_cast<size_t>(kind)];
}

namespace {

auto position(const std::vector<Attrs::Entry>& entries, std::string_view name) {
  return std::lower_bound(entries.begin(), entries.end(), name,
                          [](const Attrs::Entry& e, std::string_view n) { return e.first < n; });
}

template <class T>
T typed(const Attrs& attrs, std::string_view attr_name, T otherwise, AttrKind wanted) {
  const Attr* attr = attrs.find(attr_name);
  if (!attr) return otherwise;
  if (const T* value = std::get_if<T>(attr)) return *value;
  fail(Status::kInvalidModel, "attribute '{}' is of kind {}, expected {}", attr_name,
       name(kind_of(*attr)), name(wanted));
}

}  // namespace

const Attr* Attrs::find(std::string_view name) const {
  const auto it = position(entries_, name);
  return it != entries_.end() && it->first == name ? &it->second : nullptr;
}

void Attrs::set(std::string name, Attr value) {
  const auto it = position(entries_, name);
  const auto index = it - entries_.begin();
  if (it != entries_.end() && it->first == name)
    entries_[static_cast<size_t>(index)].second = std::move(value);
  else
    entries_.insert(entries_.begin() + index, {std::move(name), std::move(value)});
}

void Attrs::erase(std::string_view name) {
  std::erase_if(entries_, [&](const Entry& e) { return e.first == name; });
}

int64_t Attrs::get_int(std::string_view n, int64_t otherwise) const {
  return typed<int64_t>(*this, n, otherwise, AttrKind::kInt);
}
double Attrs::get_float(std::string_view n, double otherwise) const {
  return typed<double>(*this, n, otherwise, AttrKind::kFloat);
}
std::string Attrs::get_string(std::string_view n, std::string otherwise) const {
  return typed<std::string>(*this, n, std::move(otherwise), AttrKind::kString);
}
std::vector<int64_t> Attrs::get_ints(std::string_view n, std::vector<int64_t> otherwise) const {
  return typed<std::vector<int64_t>>(*this, n, std::move(otherwise), AttrKind::kInts);
}
std::vector<double> Attrs::get_floats(std::string_view n, std::vector<double> otherwise) const {
  return typed<std::vector<double>>(*this, n, std::move(otherwise), AttrKind::kFloats);
}
std::vector<std::string> Attrs::get_strings(std::string_view n,
                                            std::vector<std::string> otherwise) const {
  return typed<std::vector<std::string>>(*this, n, std::move(otherwise), AttrKind::kStrings);
}
Tensor Attrs::get_tensor(std::string_view n) const {
  return typed<Tensor>(*this, n, {}, AttrKind::kTensor);
}

// ---- keys ---------------------------------------------------------------------------------------

namespace {

struct KeyWriter {
  std::string& out;
  void raw(const void* data, size_t size) { out.append(static_cast<const char*>(data), size); }
  void operator()(int64_t v) { raw(&v, sizeof v); }
  /// All NaNs are one: text and JSON keep no payload.
  void operator()(double v) {
    if (std::isnan(v)) v = std::numeric_limits<double>::quiet_NaN();
    raw(&v, sizeof v);
  }
  void operator()(const std::string& v) {
    (*this)(static_cast<int64_t>(v.size()));
    out += v;
  }
  void operator()(const std::vector<int64_t>& v) {
    (*this)(static_cast<int64_t>(v.size()));
    raw(v.data(), v.size() * sizeof(int64_t));
  }
  template <class T>
  void operator()(const std::vector<T>& v) {
    (*this)(static_cast<int64_t>(v.size()));
    for (const T& item : v) (*this)(item);
  }
  void operator()(const Tensor& t) {
    (*this)(static_cast<int64_t>(t.dtype()));
    (*this)(t.dims());
    if (t) append_content(out, t);
  }
};

}  // namespace

void append_content(std::string& out, const Tensor& tensor) {
  const Tensor t = tensor.to_contiguous();
  KeyWriter write{out};
  if (t.dtype() == DType::kString)
    for (int64_t i = 0; i < t.count(); ++i) write(t.as<std::string>()[i]);
  else
    write.raw(t.data(), static_cast<size_t>(t.byte_size()));
}

void Attrs::append_key(std::string& out) const {
  KeyWriter write{out};
  write(static_cast<int64_t>(entries_.size()));
  for (const auto& [attr_name, attr] : entries_) {
    write(attr_name);
    write(static_cast<int64_t>(attr.index()));
    std::visit(write, attr);
  }
}

}  // namespace xc
