#include "profile/value_facts.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"

namespace xc {
namespace {

/// Spread over [0, count) so evenly that no period in a value hides what it is made of: multiples
/// of the golden ratio.
int64_t spread(uint64_t k, int64_t count) {
  const double fraction = static_cast<double>((k * 0x9E3779B97F4A7C15u) >> 11) * 0x1p-53;
  return std::min(count - 1, static_cast<int64_t>(fraction * static_cast<double>(count)));
}

}  // namespace

void ValueFacts::watch(ValueId id, DType dtype) {
  if (!is_float(dtype) && !is_integer(dtype) && dtype != DType::kBool) return;
  std::lock_guard lock(mutex_);
  known_.at(id).watched = true;
  any_.store(true, std::memory_order_relaxed);
}

uint64_t ValueFacts::due() {
  if (!any_.load(std::memory_order_relaxed)) return 0;
  const uint64_t n = timed_.fetch_add(1, std::memory_order_relaxed);
  if (n % kEvery != 0 || ticks() < next_.load(std::memory_order_relaxed)) return 0;
  return n + 1;
}

void ValueFacts::look(uint64_t number, ValueId id, const TensorView& value) {
  if (id >= known_.size()) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  Known& known = known_[id];
  const int64_t count = value.count();
  if (!known.watched || known.number == number || count == 0) return;
  known.number = number;
  Fact& fact = known.fact;
  const int64_t taken = std::min(count, kElements);
  int64_t zeros = 0;
  for (int64_t k = 0; k < taken; ++k) {
    const int64_t index =
        count <= kElements ? k : spread(static_cast<uint64_t>(fact.elements + k), count);
    const double element =
        load_double(value.data, value.dtype, offset_at(index, value.dims, value.strides));
    zeros += element == 0;
  }
  if (count == 1) {
    uint64_t bits = 0;
    std::memcpy(&bits, value.data, static_cast<size_t>(element_size(value.dtype)));
    fact.constant = fact.constant && (fact.looks == 0 || bits == known.bits);
    fact.value = load_double(value.data, value.dtype, 0);
    known.bits = bits;
  }
  fact.scalar = count == 1 && (fact.looks == 0 || fact.scalar);
  fact.constant = fact.constant && fact.scalar;
  if (fact.recent_elements >= kRecent) {
    fact.recent_elements /= 2;
    fact.recent_zeros /= 2;
  }
  fact.recent_elements += static_cast<double>(taken);
  fact.recent_zeros += static_cast<double>(zeros);
  fact.elements += taken;
  fact.zeros += zeros;
  ++fact.looks;
}

void ValueFacts::rest(uint64_t spent) {
  next_.store(ticks() + spent * kRest, std::memory_order_relaxed);
}

ValueFacts::Fact ValueFacts::of(ValueId id) const {
  std::lock_guard lock(mutex_);
  return id < known_.size() ? known_[id].fact : Fact{};
}

}  // namespace xc
