// NumPy arrays to tensor views and back, without copies.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <xc/xc.hpp>

namespace xc_python {

namespace nb = nanobind;

/// Loads NumPy's C interface; once, at import. Throws nb::python_error.
void import_numpy();

/// The inputs of one run: views, and what keeps their memory alive until the run is over.
class Inputs {
 public:
  /// `what` the values are, for messages.
  explicit Inputs(size_t count, const char* what = "input");
  /// What the views are for: a copy of a value will do, or its own memory is to be read or written
  /// later.
  enum class Use { kOnce, kRead, kWritten };
  /// Fills view `index` from an array, DLPack object, scalar, nested list or None. `wanted` is the
  /// port's dtype (0 = any), `name` its name for messages, null where it has none. What has a type
  /// of its own is checked like an array; numbers and lists of them become the wanted type where it
  /// can hold them. Unless for kOnce, whatever needs a copy is refused; for kWritten, read-only
  /// memory too.
  void set(size_t index, nb::handle value, xc_dtype wanted, const char* name, Use use = Use::kOnce);
  /// A tensor that is there already: strings, sequences, maps. None for an empty one.
  void set_tensor(size_t index, xcrt::Tensor tensor);
  const xc_tensor_view* views() const { return views_; }
  uint32_t count() const { return static_cast<uint32_t>(count_); }
  /// Moves the references out, for a prepared call.
  std::vector<nb::object> release_owners();
  /// The tensor of strings made last.
  xcrt::Tensor release_tensor() { return std::move(tensors_.back()); }

  static constexpr size_t kInline = 16;
  static constexpr size_t kMaxRank = 16;

 private:
  void set_array(size_t index, nb::handle array, xc_dtype wanted, const char* name, Use use);
  void set_strings(size_t index, nb::handle array);
  /// The array of a value of another kind.
  nb::object made_of(nb::handle value, const char* name) const;
  nb::object of_list(nb::handle value, xc_dtype wanted, const char* name) const;
  template <class Array>
  void set_dlpack(size_t index, nb::handle value, const char* name);
  void keep(size_t index, nb::object owner) { owners_[index] = std::move(owner); }
  int64_t* room(size_t index) { return &strides_[index * kMaxRank]; }

  size_t count_;
  const char* what_;
  std::array<xc_tensor_view, kInline> inline_views_;
  std::array<int64_t, kInline * kMaxRank> inline_strides_;
  std::array<nb::object, kInline> inline_owners_;
  std::vector<xc_tensor_view> heap_views_;
  std::vector<int64_t> heap_strides_;
  std::vector<nb::object> heap_owners_;
  std::vector<xcrt::Tensor> tensors_;  ///< strings and containers
  std::vector<int64_t> copied_dims_;   ///< reserved up front: pointers into it stay
  xc_tensor_view* views_;
  int64_t* strides_;
  nb::object* owners_;
};

/// A row-major tensor with the elements of a view; no strings.
xcrt::Tensor copy_of(const xc_tensor_view& view);
/// The same of an array, DLPack object, scalar or nested list; as Inputs::set().
xcrt::Tensor tensor_of(nb::handle value, xc_dtype wanted, const char* what, const char* name);

/// A NumPy array over the tensor's memory, which it keeps alive; strings become an object array.
nb::object to_numpy(xcrt::Tensor tensor);

/// A text as a str; bytes that are no UTF-8 become surrogates, which set_strings() takes back.
nb::object str_of_text(std::string_view text);

/// Of True and False, Python's or NumPy's; of nothing else.
std::optional<bool> bool_of(nb::handle value);

/// ': convert it with astype("float32")': what to do about an array of another type than the
/// port's.
std::string conversion_of(nb::handle value, xc_dtype wanted);

}  // namespace xc_python
