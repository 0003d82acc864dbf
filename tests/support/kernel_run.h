// Runs loop kernels: buffers end (or begin) at a page that may not be touched.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "loop/interpret.h"
#include "loop/kernel.h"
#include "xc/kernel_abi.h"

namespace xc::test {

// Memory with an inaccessible page right behind its last byte.
class GuardedMemory {
 public:
  explicit GuardedMemory(size_t bytes);
  ~GuardedMemory();
  GuardedMemory(GuardedMemory&& other) noexcept;
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  GuardedMemory& operator=(GuardedMemory&&) = delete;
  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  uint8_t* map_ = nullptr;
  size_t mapped_ = 0;
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

// One call's buffers. Parameters of rank 2 are [rows, columns] with the row stride given by the
// kernel's stride parameter (or contiguous); rank 1 is sized by the larger of the dims.
struct Problem {
  std::vector<int64_t> dims, strides;
  std::vector<size_t> elements;  // of each buffer parameter
};

class Buffers {
 public:
  // Fills inputs with reproducible numbers: small integers, fractions, for floats some special
  // values.
  Buffers(const loop::Kernel& kernel, const Problem& problem, uint64_t seed, bool specials);
  xc_kargs args(int64_t begin, int64_t end);
  uint8_t* data(size_t parameter) const { return memory_[parameter].data(); }
  size_t bytes(size_t parameter) const { return memory_[parameter].size(); }

 private:
  Problem problem_;
  std::vector<GuardedMemory> memory_;
  std::vector<void*> pointers_;
  std::vector<uint8_t> scratch_;
};

// Where two runs differ ("y[7]: 0x.. is not 0x.."), NaNs of any payload being equal; empty if
// nowhere.
std::string difference(const loop::Kernel& kernel, const Buffers& a, const Buffers& b);

}  // namespace xc::test
