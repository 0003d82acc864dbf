#include "codegen/gpu.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/error.h"
#include "codegen/jit.h"
#include "loop/text.h"

namespace xc::test {

// What is used of the CUDA driver API, as its reference manual declares it (docs.nvidia.com,
// "CUDA Driver API").
namespace {

using Result = int;
using Address = uint64_t;

struct Location {
  int type = 1;  // CU_MEM_LOCATION_TYPE_DEVICE
  int id = 0;
};
struct AllocationProperties {
  int type = 1;  // CU_MEM_ALLOCATION_TYPE_PINNED
  int handle_types = 0;
  Location location;
  void* win32_metadata = nullptr;
  unsigned char flags[8] = {};
};
struct AccessDescription {
  Location location;
  int flags = 3;  // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
};
constexpr int kMajor = 75, kMinor = 76, kMultiprocessors = 16;  // CU_DEVICE_ATTRIBUTE_*
constexpr int kErrorLog = 5, kErrorLogBytes = 6;                // CU_JIT_*

}  // namespace

struct CudaDriver {
  Result (*init)(unsigned);
  Result (*device_get)(int*, int);
  Result (*device_name)(char*, int, int);
  Result (*attribute)(int*, int, int);
  Result (*retain)(void**, int);
  Result (*set_current)(void*);
  Result (*error_string)(Result, const char**);
  Result (*load)(void**, const void*, unsigned, int*, void**);
  Result (*unload)(void*);
  Result (*function)(void**, void*, const char*);
  Result (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void*, void**, void**);
  Result (*synchronize)();
  Result (*granularity)(size_t*, const AllocationProperties*, int);
  Result (*reserve)(Address*, size_t, size_t, Address, unsigned long long);
  Result (*free_reserved)(Address, size_t);
  Result (*create)(Address*, size_t, const AllocationProperties*, unsigned long long);
  Result (*release)(Address);
  Result (*map)(Address, size_t, size_t, Address, unsigned long long);
  Result (*unmap)(Address, size_t);
  Result (*set_access)(Address, size_t, const AccessDescription*, size_t);
  Result (*to_device)(Address, const void*, size_t);
  Result (*to_host)(void*, Address, size_t);
  Result (*copy)(Address, Address, size_t);
  Result (*fill)(Address, unsigned char, size_t);

  // Why not, or empty.
  std::string open() {
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return ::dlerror();
    std::string missing;
    const auto find = [&](auto& to, const char* name) {
      to = reinterpret_cast<std::decay_t<decltype(to)>>(::dlsym(library, name));
      if (!to) missing = std::string("the driver has no ") + name;
    };
    find(init, "cuInit");
    find(device_get, "cuDeviceGet");
    find(device_name, "cuDeviceGetName");
    find(attribute, "cuDeviceGetAttribute");
    find(retain, "cuDevicePrimaryCtxRetain");
    find(set_current, "cuCtxSetCurrent");
    find(error_string, "cuGetErrorString");
    find(load, "cuModuleLoadDataEx");
    find(unload, "cuModuleUnload");
    find(function, "cuModuleGetFunction");
    find(launch, "cuLaunchKernel");
    find(synchronize, "cuCtxSynchronize");
    find(granularity, "cuMemGetAllocationGranularity");
    find(reserve, "cuMemAddressReserve");
    find(free_reserved, "cuMemAddressFree");
    find(create, "cuMemCreate");
    find(release, "cuMemRelease");
    find(map, "cuMemMap");
    find(unmap, "cuMemUnmap");
    find(set_access, "cuMemSetAccess");
    find(to_device, "cuMemcpyHtoD_v2");
    find(to_host, "cuMemcpyDtoH_v2");
    find(copy, "cuMemcpyDtoD_v2");
    find(fill, "cuMemsetD8_v2");
    if (!missing.empty()) return missing;
    int device = 0;
    for (const Result result : {init(0), device_get(&device, 0)})
      if (result != 0) return message(result);
    return "";
  }

  std::string message(Result result) const {
    const char* text = nullptr;
    error_string(result, &text);
    return text ? text : fmt::format("CUDA error {}", result);
  }

  void check(Result result, const char* what) const {
    if (result != 0) fail(Status::kInternal, "{}: {}", what, message(result));
  }
};

Gpu* Gpu::device() {
  static const std::unique_ptr<Gpu> gpu = [] {
    std::unique_ptr<Gpu> out(new Gpu);
    if (!out->driver_) out.reset();
    return out;
  }();
  return gpu.get();
}

Gpu::Gpu() {
  CudaDriver driver{};
  if (const std::string reason = driver.open(); !reason.empty()) {
    std::printf("no CUDA device: %s\n", reason.c_str());
    return;
  }
  const auto attribute = [&](int which) {
    int value = 0;
    driver.check(driver.attribute(&value, which, device_), "cuDeviceGetAttribute");
    return value;
  };
  char name[256] = "";
  driver.check(driver.device_name(name, sizeof(name), device_), "cuDeviceGetName");
  name_ = name;
  multiprocessors_ = attribute(kMultiprocessors);
  // LLVM 19 knows architectures up to sm_90; PTX of an older one runs on newer devices.
  target_ = fmt::format("nvptx:sm_{}", std::min(attribute(kMajor) * 10 + attribute(kMinor), 90));
  void* context = nullptr;
  driver.check(driver.retain(&context, device_), "cuDevicePrimaryCtxRetain");
  driver.check(driver.set_current(context), "cuCtxSetCurrent");
  driver_ = std::make_unique<CudaDriver>(driver);
}

Gpu::~Gpu() = default;

void Gpu::wait() {
  driver_->check(driver_->synchronize(), "a kernel");
}

void Gpu::copy(uint64_t to, uint64_t from, size_t bytes) {
  driver_->check(driver_->copy(to, from, bytes), "copy on the device");
}

GpuMemory::GpuMemory(Gpu& gpu, size_t bytes) : gpu_(gpu), bytes_(bytes) {
  const CudaDriver& driver = *gpu_.driver_;
  AllocationProperties properties;
  properties.location.id = gpu_.device_;
  size_t page = 0;
  driver.check(driver.granularity(&page, &properties, 0), "cuMemGetAllocationGranularity");
  mapped_ = std::max((bytes + page - 1) / page, size_t{1}) * page;
  reserved_ = mapped_ + page;
  driver.check(driver.reserve(&map_, reserved_, 0, 0, 0), "cuMemAddressReserve");
  driver.check(driver.create(&handle_, mapped_, &properties, 0), "cuMemCreate");
  driver.check(driver.map(map_, mapped_, 0, handle_, 0), "cuMemMap");
  AccessDescription access;
  access.location.id = gpu_.device_;
  driver.check(driver.set_access(map_, mapped_, &access, 1), "cuMemSetAccess");
  address_ = map_ + mapped_ - bytes;
  fill(0);
}

GpuMemory::~GpuMemory() {
  const CudaDriver& driver = *gpu_.driver_;
  driver.unmap(map_, mapped_);
  driver.release(handle_);
  driver.free_reserved(map_, reserved_);
}

void GpuMemory::upload(const void* from, size_t bytes) {
  XC_CHECK(bytes <= bytes_);
  if (bytes > 0)
    gpu_.driver_->check(gpu_.driver_->to_device(address_, from, bytes), "copy to the device");
}

void GpuMemory::download(void* to, size_t bytes) const {
  XC_CHECK(bytes <= bytes_);
  if (bytes > 0)
    gpu_.driver_->check(gpu_.driver_->to_host(to, address_, bytes), "copy to the host");
}

void GpuMemory::fill(uint8_t byte) {
  if (bytes_ > 0) gpu_.driver_->check(gpu_.driver_->fill(address_, byte, bytes_), "cuMemsetD8");
}

GpuKernel::GpuKernel(Gpu& gpu, const loop::Kernel& kernel) : gpu_(gpu), kernel_(kernel) {
  const CudaDriver& driver = *gpu_.driver_;
  const JitResult ptx = jit(loop::print(kernel), gpu_.target_);
  if (ptx.status != 0)
    fail(Status::kInternal, "{} for {}: {}", kernel.name, gpu_.target_, ptx.error);
  std::vector<char> log(8192);
  int options[] = {kErrorLog, kErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  const auto start = std::chrono::steady_clock::now();
  const Result result =
      driver.load(&module_, ptx.assembly.c_str(), std::size(options), options, values);
  driver_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (result != 0)
    fail(Status::kInternal, "{} for {}: {}: {}", kernel.name, gpu_.target_, driver.message(result),
         log.data());
  driver.check(driver.function(&function_, module_, kernel.name.c_str()), "cuModuleGetFunction");
}

GpuKernel::~GpuKernel() {
  gpu_.driver_->unload(module_);
}

void GpuKernel::launch(const std::vector<uint64_t>& buffers, const xc_kargs& args, uint64_t scratch,
                       int64_t scratch_bytes, uint64_t status, int64_t blocks) const {
  std::vector<int64_t> words(buffers.begin(), buffers.end());
  words.insert(words.end(), args.dims, args.dims + kernel_.dims.size());
  words.insert(words.end(), args.strides, args.strides + kernel_.strides.size());
  for (const int64_t word : {static_cast<int64_t>(scratch), scratch_bytes, args.begin, args.end,
                             static_cast<int64_t>(status)})
    words.push_back(word);
  std::vector<void*> parameters;
  for (int64_t& word : words) parameters.push_back(&word);
  constexpr unsigned kThreads = loop::kReductionLanes * loop::kReductionAccumulators;
  gpu_.driver_->check(gpu_.driver_->launch(function_, static_cast<unsigned>(blocks), 1, 1, kThreads,
                                           1, 1, 0, nullptr, parameters.data(), nullptr),
                      "cuLaunchKernel");
}

int64_t GpuKernel::scratch_bytes(const xc_kargs& args) const {
  constexpr int64_t kAlignment = XC_KERNEL_SCRATCH_ALIGNMENT;
  const int64_t bytes = loop::scratch_bytes(kernel_, {args.dims, kernel_.dims.size()});
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

int32_t GpuKernel::run(Buffers& buffers, int64_t begin, int64_t end) const {
  constexpr int64_t kMostBlocks = 5;  // few, so that blocks take several tasks
  const int64_t blocks = std::clamp<int64_t>(end - begin, 1, kMostBlocks);
  std::vector<std::unique_ptr<GpuMemory>> memory;
  std::vector<uint64_t> addresses;
  for (size_t i = 0; i < kernel_.param_count(); ++i) {
    memory.push_back(std::make_unique<GpuMemory>(gpu_, buffers.bytes(i)));
    memory.back()->upload(buffers.data(i), buffers.bytes(i));
    addresses.push_back(memory.back()->address());
  }
  const xc_kargs args = buffers.args(begin, end);
  const int64_t bytes = scratch_bytes(args);
  GpuMemory scratch(gpu_, static_cast<size_t>(bytes * blocks));
  scratch.fill(0xff);
  int32_t status = 0;
  GpuMemory reported(gpu_, sizeof(status));
  launch(addresses, args, scratch.address(), bytes, reported.address(), blocks);
  gpu_.wait();
  for (size_t i = 0; i < memory.size(); ++i)
    if (kernel_.buffers[i].access != loop::Access::kIn)
      memory[i]->download(buffers.data(i), buffers.bytes(i));
  reported.download(&status, sizeof(status));
  return status;
}

}  // namespace xc::test
