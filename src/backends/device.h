#pragma once
// What a device implements: memory, copies, queues, events. The CPU queue runs inline. A plug-in
// (cuda) implements the same; `null` refuses everything and is the skeleton to copy.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ops/op.h"

namespace xc {

/// Work on one queue runs in order. Thread-safe for distinct queues.
class Queue {
 public:
  virtual ~Queue() = default;
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  /// Returns when everything submitted so far is done; fails with the device's error.
  virtual void wait() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;      ///< "cpu", "cuda:0"
  virtual bool host_memory() const = 0;      ///< pointers can be read by the host
  virtual void* allocate(size_t bytes) = 0;  ///< 64-byte aligned; fails with kOutOfMemory
  virtual void release(void* memory) noexcept = 0;
  virtual std::unique_ptr<Queue> create_queue() = 0;
};

std::unique_ptr<Device> create_cpu_device();

}  // namespace xc
