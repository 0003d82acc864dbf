#pragma once
// Numbers that the environment gives to a test: a seed to repeat, how many to try.

#include <cstdint>
#include <cstdlib>

namespace xc::test {

inline uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace xc::test
