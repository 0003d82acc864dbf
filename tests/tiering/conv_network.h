// Random networks of convolutions and what stands around them.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace xc::testing {

/// A random network of convolutions and what stands around them, as text, with the batch a symbol.
/// `dense`: of many channels, Relu behind convolutions, Concats of all there is of a size.
class ConvNetwork {
 public:
  explicit ConvNetwork(uint64_t seed, bool dense = false) : random_(seed), dense_(dense) {
    values_.push_back({"x", 3 + pick(6), 8 + 2 * pick(5)});
    for (int64_t k = 0, n = (dense ? 10 : 4) + pick(8); k < n; ++k) grow();
    const Value& last = values_.back();
    head_ =
        pick(3) == 0 ? line("Flatten", {last.name}, "{axis = 1}") : line("Relu", {last.name}, "");
  }
  std::string text() const {
    return fmt::format("graph net(%x: f32[n, {}, {}, {}]) -> (%{}) {{\n{}{}}}\n",
                       values_[0].channels, values_[0].size, values_[0].size, head_, constants_,
                       body_);
  }
  Dims input(int64_t batch) const {
    return {batch, values_[0].channels, values_[0].size, values_[0].size};
  }

 private:
  struct Value {
    std::string name;
    int64_t channels, size;
  };
  int64_t pick(int64_t below) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(below));
  }
  const Value& any() {
    return values_[static_cast<size_t>(pick(static_cast<int64_t>(values_.size())))];
  }

  std::string line(const char* op, std::vector<std::string> inputs, const std::string& attrs) {
    const std::string name = "v" + std::to_string(count_++);
    std::string list;
    for (const std::string& i : inputs) list += (list.empty() ? "%" : ", %") + i;
    body_ += fmt::format("  %{} = {}({}) {}\n", name, op, list, attrs);
    return name;
  }
  std::string constant(const Dims& dims) {
    const std::string name = "c" + std::to_string(count_++);
    std::string values;
    for (int64_t k = 0; k < element_count(dims); ++k)
      values +=
          fmt::format("{}{}", k ? ", " : "", std::sin(static_cast<double>(k * 7 + count_)) * 0.3);
    constants_ += fmt::format("  const %{}: f32{} = [{}]\n", name, to_text(dims), values);
    return name;
  }

  void grow() {
    const Value from = any();
    switch (dense_ && pick(3) == 0 ? 7 : pick(9)) {
      case 0:
      case 1: {  // a convolution
        const int64_t out = dense_ ? 64 + 32 * pick(2) : 1 + pick(20);
        const int64_t kernel = pick(2) && from.channels < 64 ? 3 : 1, stride = 1 + pick(2);
        const std::string w = constant({out, from.channels, kernel, kernel}), b = constant({out});
        values_.push_back(
            {line(
                 "Conv", {from.name, w, b},
                 fmt::format("{{kernel_shape = [{0}, {0}], strides = [{1}, {1}], pads = [{2}, {2}, "
                             "{2}, {2}]}}",
                             kernel, stride, kernel / 2)),
             out, (from.size - 1) / stride + 1});
        if (dense_) values_.back().name = line("Relu", {values_.back().name}, "");
        return;
      }
      case 2: {  // a depthwise one
        const std::string w = constant({from.channels, 1, 3, 3});
        values_.push_back(
            {line("Conv", {from.name, w},
                  fmt::format("{{group = {}, kernel_shape = [3, 3], pads = [1, 1, 1, 1]}}",
                              from.channels)),
             from.channels, from.size});
        return;
      }
      case 3:
        values_.push_back(
            {line(pick(2) ? "Relu" : "Sigmoid", {from.name}, ""), from.channels, from.size});
        return;
      case 4: {  // a residual, where something fits
        for (const Value& other : values_)
          if (other.channels == from.channels && other.size == from.size &&
              other.name != from.name) {
            values_.push_back({line("Add", {from.name, other.name}, ""), from.channels, from.size});
            return;
          }
        return;
      }
      case 5:  // pooling
        if (from.size < 4) return;
        values_.push_back({line(pick(2) ? "MaxPool" : "AveragePool", {from.name},
                                "{kernel_shape = [2, 2], strides = [2, 2]}"),
                           from.channels, from.size / 2});
        return;
      case 6: {  // a gate per channel
        const std::string mean = line("GlobalAveragePool", {from.name}, "");
        const std::string gate = line("Sigmoid", {mean}, "");
        values_.push_back({line("Mul", {from.name, gate}, ""), from.channels, from.size});
        return;
      }
      case 7: {  // more channels
        if (dense_) {
          std::vector<std::string> parts;
          int64_t channels = 0;
          for (const Value& part : values_)
            if (part.size == from.size) {
              parts.push_back(part.name);
              channels += part.channels;
            }
          if (channels < 512)
            values_.push_back({line("Concat", parts, "{axis = 1}"), channels, from.size});
          return;
        }
        for (const Value& other : values_)
          if (other.size == from.size) {
            values_.push_back({line("Concat", {from.name, other.name}, "{axis = 1}"),
                               from.channels + other.channels, from.size});
            return;
          }
        return;
      }
      default: {  // a cell of several functions that no library absorbs
        const std::string a = line("Tanh", {from.name}, ""), b = line("Mul", {a, from.name}, "");
        values_.push_back({line("Add", {b, a}, ""), from.channels, from.size});
      }
    }
  }

  std::mt19937_64 random_;
  bool dense_;
  std::vector<Value> values_;
  std::string constants_, body_, head_;
  int count_ = 0;
};

}  // namespace xc::testing
