#pragma once
// Inputs for any model, runs of them, and how far two answers are apart.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>
#include <xc/xc.hpp>

namespace demo {

using Tensors = std::vector<xcrt::Tensor>;

struct Request {
  Tensors inputs, expected;
};

/// Random inputs; symbolic dims are `size`. Whole numbers are 0 or 1, which suits most indices and
/// masks.
inline Tensors random_inputs(const xcrt::Model& model, int64_t size) {
  std::mt19937 random(static_cast<unsigned>(size));
  std::uniform_real_distribution<float> uniform(0, 1);
  Tensors out;
  for (const xcrt::Port& port : model.inputs()) {
    if (port.kind != XC_PORT_TENSOR || port.rank < 0)
      throw std::runtime_error("input " + std::string(port.name) +
                               ": no shape to make numbers for");
    std::vector<int64_t> dims(port.dims.begin(), port.dims.end());
    std::replace(dims.begin(), dims.end(), int64_t{-1}, size);
    xcrt::Tensor& tensor = out.emplace_back(port.dtype, dims);
    const auto fill = [&]<class T>(T, auto draw) {
      if (tensor.dtype() == xcrt::dtype_of<T>)
        for (T& value : tensor.values<T>()) value = static_cast<T>(draw());
    };
    const auto bit = [&] { return random() & 1u; };
    fill(float{}, [&] { return uniform(random); });
    fill(double{}, [&] { return uniform(random); });
    fill(int64_t{}, bit), fill(int32_t{}, bit), fill(bool{}, bit), fill(uint8_t{}, bit),
        fill(int8_t{}, bit);
  }
  return out;
}

inline Tensors run(xcrt::Session& session, const Tensors& inputs) {
  std::vector<const xc_tensor*> handles;
  for (const xcrt::Tensor& tensor : inputs) handles.push_back(tensor.handle());
  return session.run(handles, {});
}

/// Largest difference over the largest magnitude, of f32 and f64 outputs; infinite when dims
/// differ.
inline double difference(const Tensors& a, const Tensors& b) {
  double worst = 0;
  const auto compare = [&]<class T>(std::span<T> x, std::span<T> y) {
    double apart = x.size() == y.size() ? 0 : INFINITY, scale = 1e-30;
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      if (std::isnan(x[i]) && std::isnan(y[i])) continue;
      const double d =
          x[i] == y[i] ? 0 : std::fabs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
      apart = std::isnan(d) ? INFINITY : std::max(apart, d);
      if (std::isfinite(x[i])) scale = std::max(scale, std::fabs(static_cast<double>(x[i])));
    }
    worst = std::max(worst, apart / scale);
  };
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].dtype() == XC_DTYPE_F32) compare(a[i].values<float>(), b[i].values<float>());
    if (a[i].dtype() == XC_DTYPE_F64) compare(a[i].values<double>(), b[i].values<double>());
  }
  return worst;
}

}  // namespace demo
