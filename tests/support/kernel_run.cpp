#include "support/kernel_run.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/error.h"
#include "loop/evaluate.h"

namespace xc::test {

using namespace xc::loop;

GuardedMemory::GuardedMemory(size_t bytes) : size_(bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  mapped_ = (bytes + page - 1) / page * page + page;
  void* at = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  XC_CHECK(at != MAP_FAILED);
  map_ = static_cast<uint8_t*>(at);
  XC_CHECK(::mprotect(map_ + mapped_ - page, page, PROT_NONE) == 0);
  data_ = map_ + mapped_ - page - bytes;
}

GuardedMemory::GuardedMemory(GuardedMemory&& other) noexcept
    : map_(std::exchange(other.map_, nullptr)),
      mapped_(other.mapped_),
      data_(other.data_),
      size_(other.size_) {}

GuardedMemory::~GuardedMemory() {
  if (map_) ::munmap(map_, mapped_);
}

namespace {

double number(std::mt19937_64& random, bool specials) {
  static constexpr double kSpecials[] = {0.0,  -0.0,  INFINITY, -INFINITY, NAN,  1e-40, -1e-40,
                                         3e38, -3e38, 1e9,      -1e9,      88.5, -104.0};
  if (specials && random() % 10 == 0) return kSpecials[random() % std::size(kSpecials)];
  const auto bits = static_cast<int64_t>(random() % 2001) - 1000;
  return static_cast<double>(bits) / (random() % 3 == 0 ? 1 : 256);
}

}  // namespace

Buffers::Buffers(const Kernel& kernel, const Problem& problem, uint64_t seed, bool specials)
    : problem_(problem) {
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < problem.elements.size(); ++i) {
    const BufferDecl& decl = kernel.buffers[i];
    const auto size = static_cast<size_t>(element_size(decl.type));
    memory_.emplace_back(problem.elements[i] * size);
    uint8_t* at = memory_.back().data();
    for (size_t e = 0; e < problem.elements[i]; ++e) {
      const DType type = value_type(decl.type);
      uint64_t bits = constant(type, number(random, specials))->bits;
      if (type == DType::kBool)
        bits = random() % 2;
      else if (is_integer(type) && random() % 8 == 0)
        bits = constant_bits(type, random())->bits;
      if (decl.access == Access::kOut) bits = constant(type, 77)->bits;
      store_element(decl.type, at + e * size, bits);
    }
  }
  for (const GuardedMemory& memory : memory_) pointers_.push_back(memory.data());
  scratch_.assign(static_cast<size_t>(scratch_bytes(kernel, problem.dims)) + 64, 0xff);
}

xc_kargs Buffers::args(int64_t begin, int64_t end) {
  void* scratch = scratch_.data();
  size_t space = scratch_.size();
  scratch = std::align(64, 0, scratch, space);
  return {XC_KERNEL_ABI_VERSION,
          0,
          pointers_.data(),
          problem_.dims.data(),
          problem_.strides.data(),
          scratch,
          begin,
          end};
}

std::string difference(const Kernel& kernel, const Buffers& a, const Buffers& b) {
  for (size_t i = 0; i < kernel.param_count(); ++i) {
    const BufferDecl& decl = kernel.buffers[i];
    const auto size = static_cast<size_t>(element_size(decl.type));
    for (size_t at = 0; at + size <= a.bytes(i); at += size) {
      if (std::memcmp(a.data(i) + at, b.data(i) + at, size) == 0) continue;
      const DType type = value_type(decl.type);
      const Expr x = constant_bits(type, load_element(decl.type, a.data(i) + at));
      const Expr y = constant_bits(type, load_element(decl.type, b.data(i) + at));
      if (is_float(type) && std::isnan(const_as_double(*x)) && std::isnan(const_as_double(*y)))
        continue;
      return fmt::format("{}[{}]: {} ({:#x}) is not {} ({:#x})", decl.name, at / size,
                         const_as_double(*x), x->bits, const_as_double(*y), y->bits);
    }
  }
  return "";
}

}  // namespace xc::test
