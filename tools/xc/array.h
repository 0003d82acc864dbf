// Arrays as .npy and .npz files hold them, and their way into tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <xc/xc.hpp>

namespace tool {

/// A row-major array of native byte order. `dtype` is 0 for elements whose type the file does not
/// name (numpy writes bfloat16 and other extension types as "V2"): the port decides.
struct Array {
  xc_dtype dtype = XC_DTYPE_UNDEFINED;
  int64_t element_bytes = 0;
  std::vector<int64_t> dims;
  std::vector<std::byte> data;       ///< empty for strings
  std::vector<std::string> strings;  ///< of a string array

  int64_t count() const;
};

/// Parses the bytes of a .npy file; `name` is for messages. Throws tool::Failure.
Array parse_npy(std::string_view bytes, const std::string& name);
std::string format_npy(const Array& array);

Array read_npy(const std::string& path);
/// The members of a .npz file without ".npy", stored or deflated.
std::map<std::string, Array> read_npz(const std::string& path);
void write_npz(const std::string& path, const std::vector<std::pair<std::string, Array>>& members);

/// The coordinates of element `flat` in row-major order; no dim is 0.
std::vector<int64_t> coordinates(const std::vector<int64_t>& dims, int64_t flat);

/// numpy has no types below a byte, nor floats of one: arrays may hold elements of them as bytes.
bool holds_as_bytes(const Array& array, xc_dtype dtype);
/// A tensor for a port of type `wanted`; fails when the element types differ.
xcrt::Tensor to_tensor(const Array& array, xc_dtype wanted, const std::string& name);
Array to_array(const xcrt::Tensor& tensor);

/// Element `index` of numeric data as double, for comparisons and printing (complex: real part).
double element(xc_dtype dtype, const void* data, int64_t index);
bool is_float(xc_dtype dtype);
bool is_complex(xc_dtype dtype);

}  // namespace tool
