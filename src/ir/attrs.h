#pragma once
// Typed attributes of a node: a small sorted list of name -> value.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

namespace xc {

using Attr = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                          std::vector<std::string>, Tensor>;

enum class AttrKind : uint8_t { kInt, kFloat, kString, kInts, kFloats, kStrings, kTensor };
inline AttrKind kind_of(const Attr& attr) {
  return static_cast<AttrKind>(attr.index());
}
std::string_view name(AttrKind kind);  ///< "int", "float", "ints", ...

class Attrs {
 public:
  const Attr* find(std::string_view name) const;
  void set(std::string name, Attr value);  ///< replaces
  void erase(std::string_view name);
  bool has(std::string_view name) const { return find(name) != nullptr; }

  /// Typed reads. A missing attribute gives the default; one of another kind fails (kInvalidModel).
  int64_t get_int(std::string_view name, int64_t otherwise) const;
  double get_float(std::string_view name, double otherwise) const;
  std::string get_string(std::string_view name, std::string otherwise) const;
  std::vector<int64_t> get_ints(std::string_view name, std::vector<int64_t> otherwise = {}) const;
  std::vector<double> get_floats(std::string_view name, std::vector<double> otherwise = {}) const;
  std::vector<std::string> get_strings(std::string_view name,
                                       std::vector<std::string> otherwise = {}) const;
  /// Undefined tensor when missing.
  Tensor get_tensor(std::string_view name) const;

  using Entry = std::pair<std::string, Attr>;
  const std::vector<Entry>& entries() const { return entries_; }  ///< sorted by name

  /// Appends bytes that are equal exactly when the attributes are (tensors by content, bitwise).
  void append_key(std::string& out) const;

 private:
  std::vector<Entry> entries_;
};

/// The same for the elements of a tensor; its dtype and dims are not included.
void append_content(std::string& out, const Tensor& tensor);

}  // namespace xc
