// The host as a device: aligned memory, copies that are done when they return.

#include "backends/device.h"

#include <cstdlib>
#include <cstring>

namespace xc {
namespace {

class CpuQueue final : public Queue {
 public:
  void copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memmove(to, from, bytes);
  }
  void wait() override {}
};

class CpuDevice final : public Device {
 public:
  std::string name() const override { return "cpu"; }
  bool host_memory() const override { return true; }
  void* allocate(size_t bytes) override {
    if (bytes > SIZE_MAX - 64) fail(Status::kOutOfMemory, "cannot allocate {} bytes", bytes);
    void* memory = std::aligned_alloc(64, (bytes == 0 ? 64 : bytes + 63) / 64 * 64);
    if (!memory) fail(Status::kOutOfMemory, "cannot allocate {} bytes", bytes);
    return memory;
  }
  void release(void* memory) noexcept override { std::free(memory); }
  std::unique_ptr<Queue> create_queue() override { return std::make_unique<CpuQueue>(); }
};

}  // namespace

std::unique_ptr<Device> create_cpu_device() {
  return std::make_unique<CpuDevice>();
}

}  // namespace xc
