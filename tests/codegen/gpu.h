// A CUDA device through its driver, which is opened at run time: no toolkit at build time, and
// machines without a device skip what needs one. Runs kernels compiled for "nvptx:sm_NN" under the
// launch contract of src/codegen/emit_gpu.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "loop/kernel.h"
#include "support/kernel_run.h"

namespace xc::test {

struct CudaDriver;

/// One thread at a time. Failures of the driver are xc::Error and end what the process can do with
/// the device: an access outside a buffer is one.
class Gpu {
 public:
  /// Null where there is none; then says so once on standard output.
  static Gpu* device();
  ~Gpu();

  const std::string& target() const { return target_; }  ///< "nvptx:sm_90"
  const std::string& name() const { return name_; }
  int multiprocessors() const { return multiprocessors_; }
  void wait();  ///< until everything started is done
  void copy(uint64_t to, uint64_t from, size_t bytes);

 private:
  friend class GpuMemory;
  friend class GpuKernel;
  Gpu();
  std::unique_ptr<CudaDriver> driver_;
  std::string target_, name_;
  int device_ = 0, multiprocessors_ = 0;
};

/// Device memory, zeroed. The byte behind the last one is not mapped.
class GpuMemory {
 public:
  GpuMemory(Gpu& gpu, size_t bytes);
  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;
  uint64_t address() const { return address_; }
  void upload(const void* from, size_t bytes);
  void download(void* to, size_t bytes) const;
  void fill(uint8_t byte);

 private:
  Gpu& gpu_;
  uint64_t map_ = 0, handle_ = 0, address_ = 0;
  size_t reserved_ = 0, mapped_ = 0, bytes_ = 0;
};

class GpuKernel {
 public:
  /// `kernel`: scheduled. Compiled to PTX here, to machine code by the driver.
  GpuKernel(Gpu& gpu, const loop::Kernel& kernel);
  ~GpuKernel();
  GpuKernel(const GpuKernel&) = delete;
  GpuKernel& operator=(const GpuKernel&) = delete;

  /// Copies the buffers in, runs [begin, end) of the parallel loop and copies outputs out. Gives
  /// what a kernel returns.
  int32_t run(Buffers& buffers, int64_t begin, int64_t end) const;
  /// Starts one launch on buffers of the device, with `scratch_bytes` of scratch for each block.
  /// Of `args` only dims, strides and the range count.
  void launch(const std::vector<uint64_t>& buffers, const xc_kargs& args, uint64_t scratch,
              int64_t scratch_bytes, uint64_t status, int64_t blocks) const;
  /// Of each block, aligned.
  int64_t scratch_bytes(const xc_kargs& args) const;
  double driver_seconds() const { return driver_seconds_; }  ///< PTX to machine code

 private:
  Gpu& gpu_;
  loop::Kernel kernel_;
  void* module_ = nullptr;
  void* function_ = nullptr;
  double driver_seconds_ = 0;
};

}  // namespace xc::test
