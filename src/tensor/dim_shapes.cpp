// Functions over the dims of a whole shape, concrete or symbolic: how many elements it has, its
// text, and the strides of its layouts. Nothing here knows what a Dim is made of.

#include <algorithm>
#include <functional>

#include "base/checked.h"
#include "base/error.h"
#include "tensor/dim.h"

namespace xc {

Dim element_count(const SymDims& dims) {
  Dim out(1);
  for (const Dim& d : dims) out = out * d;
  return out;
}

std::string to_text(const SymDims& dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) out += (i ? ", " : "") + dims[i].text();
  return out + "]";
}
std::string to_text(const Dims& dims) {
  return to_text(to_symbolic(dims));
}

SymDims to_symbolic(const Dims& dims) {
  return SymDims(dims.begin(), dims.end());
}

std::optional<Dims> to_concrete(const SymDims& dims) {
  Dims out;
  for (const Dim& d : dims) {
    if (!d.is_constant()) return std::nullopt;
    out.push_back(d.value());
  }
  return out;
}

SymDims contiguous_strides(const SymDims& dims) {
  SymDims out(dims.size());
  Dim stride(1);
  for (size_t i = dims.size(); i-- > 0;) {
    out[i] = stride;
    stride = stride * dims[i];
  }
  return out;
}

Dims contiguous_strides(const Dims& dims) {
  Dims out(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    out[i] = stride;
    stride = checked_mul(stride, std::max<int64_t>(dims[i], 1));
  }
  return out;
}

namespace {

template <class D>
std::vector<D> channels_last(const std::vector<D>& dims, const std::function<D(D, D)>& multiply) {
  XC_CHECK(dims.size() >= 2);
  std::vector<D> out(dims.size(), D(1));
  D stride = dims[1];
  for (size_t i = dims.size(); i-- > 2;) {
    out[i] = stride;
    stride = multiply(stride, dims[i]);
  }
  out[0] = stride;
  return out;
}

}  // namespace

SymDims channels_last_strides(const SymDims& dims) {
  return channels_last<Dim>(dims, [](Dim a, Dim b) { return a * b; });
}

Dims channels_last_strides(const Dims& dims) {
  return channels_last<int64_t>(
      dims, [](int64_t a, int64_t b) { return checked_mul(a, std::max<int64_t>(b, 1)); });
}
bool same_strides(std::span<const int64_t> dims, std::span<const int64_t> a,
                  std::span<const int64_t> b) {
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] > 1 && a[i] != b[i]) return false;
  return true;
}
bool lies_channels_last(std::span<const int64_t> dims, std::span<const int64_t> strides) {
  return dims[1] > 1 &&
         same_strides(dims, strides, channels_last_strides(Dims(dims.begin(), dims.end())));
}

}  // namespace xc
