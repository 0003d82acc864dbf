#include "ops/cast.h"

#include <charconv>
#include <cmath>

#include "base/real_text.h"
#include "ops/support.h"
#include "tensor/small_float.h"

namespace xc {

namespace {

double parse_number(const std::string& text) {
  char* end = nullptr;
  const double v = real_from_text(text.c_str(), &end);
  if (end == text.c_str()) fail(Status::kRange, "'{}' is not a number", text);
  return v;
}

/// Whole numbers exactly, what does not fit as its nearest; all else by way of a double.
void store_parsed(const std::string& text, const TensorView& to, int64_t o) {
  const char *begin = text.data(), *end = begin + text.size();
  const auto whole = [&](auto& v) {
    const auto [last, problem] = std::from_chars(begin, end, v);
    return last == end && problem == std::errc();
  };
  int64_t v = 0;
  uint64_t bits = 0;
  if (is_integer(to.dtype) && whole(v))
    store_int64(to.data, to.dtype, o, v);
  else if (to.dtype == DType::kU64 && whole(bits))
    to.as<uint64_t>()[o] = bits;
  else
    store_double(to.data, to.dtype, o, parse_number(text));
}

std::string print_number(const TensorView& from, int64_t i) {
  if (from.dtype == DType::kBool) return load_int64(from.data, from.dtype, i) ? "True" : "False";
  if (from.dtype == DType::kU64) return fmt::format("{}", from.as<uint64_t>()[i]);
  if (is_integer(from.dtype)) return fmt::format("{}", load_int64(from.data, from.dtype, i));
  const double v = load_double(from.data, from.dtype, i);
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v > 0 ? "INF" : "-INF";
  if (from.dtype == DType::kF64) return fmt::format("{}", v);
  return fmt::format("{}", static_cast<float>(v));
}

/// A power of two for E8M0: exact ones stay, others go up or down as asked.
double power_of_two(double v, CastOptions::Round round) {
  if (!(v > 0) || !std::isfinite(v) || round == CastOptions::Round::kNearest) return v;
  int exponent = 0;
  const double mantissa = std::frexp(v, &exponent);  // in [0.5, 1)
  return std::ldexp(
      1, mantissa == 0.5 || round == CastOptions::Round::kDown ? exponent - 1 : exponent);
}

void cast_number(const TensorView& from, int64_t i, const TensorView& to, int64_t o,
                 const CastOptions& options) {
  if (to.dtype == DType::kBool) {
    to.as<uint8_t>()[o] = load_double(from.data, from.dtype, i) != 0;
  } else if (is_small_float(to.dtype)) {
    double v = load_double(from.data, from.dtype, i);
    if (to.dtype == DType::kF8E8M0) v = power_of_two(v, options.round);
    to.as<uint8_t>()[o] = small_float_code(to.dtype, v, options.saturate);
  } else if (is_float(from.dtype) && is_integer(to.dtype) && info(to.dtype).bits < 8) {
    store_wrapped(to.data, to.dtype, o, load_int64(from.data, from.dtype, i));
  } else if (is_float(from.dtype)) {
    store_double(to.data, to.dtype, o, load_double(from.data, from.dtype, i));
  } else if (is_integer(to.dtype)) {
    store_wrapped(to.data, to.dtype, o, load_int64(from.data, from.dtype, i));
  } else if (to.dtype == DType::kF32) {  // one rounding, not two by way of f64
    to.as<float>()[o] = from.dtype == DType::kU64
                            ? static_cast<float>(from.as<uint64_t>()[i])
                            : static_cast<float>(load_int64(from.data, from.dtype, i));
  } else {
    store_double(to.data, to.dtype, o, load_double(from.data, from.dtype, i));
  }
}

}  // namespace

void cast_elements(const TensorView& from, const TensorView& to, const CastOptions& options) {
  for_each_offset<2>(to.dims, {from.strides, to.strides}, [&](const auto& at) {
    if (from.dtype == DType::kString && to.dtype == DType::kString)
      to.as<std::string>()[at[1]] = from.as<std::string>()[at[0]];
    else if (from.dtype == DType::kString)
      store_parsed(from.as<std::string>()[at[0]], to, at[1]);
    else if (to.dtype == DType::kString)
      to.as<std::string>()[at[1]] = print_number(from, at[0]);
    else
      cast_number(from, at[0], to, at[1], options);
  });
}

}  // namespace xc
