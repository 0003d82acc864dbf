#include <llvm/Config/llvm-config.h>

#include <cstdio>
#include <memory>
#include <new>
#include <string>

#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/compile.h"
#include "codegen/target.h"

namespace {

using xc::Status;

int32_t failed(Status status, const char* message, char* error, size_t length) noexcept {
  if (error && length > 0) std::snprintf(error, length, "%s", message);
  return static_cast<int32_t>(status);
}

int32_t compile(const xc_jit_request* request, xc_jit_image* image, char* error,
                size_t length) noexcept {
  if (!request || !image || !request->text || !request->target)
    return failed(Status::kInvalidArgument, "compile: a required argument is null", error, length);
  *image = {};
  try {
    auto owner = std::make_unique<xc::codegen::Compiled>(xc::codegen::compile(
        {request->text, request->length}, request->target,
        (request->flags & XC_JIT_WANT_ASSEMBLY) != 0, (request->flags & XC_JIT_WANT_IR) != 0));
    if (!owner->code.empty()) image->code = owner->code.data();
    image->size = owner->code.size();
    image->entry = owner->entry;
    image->alignment = owner->alignment;
    if (!owner->assembly.empty()) image->assembly = owner->assembly.c_str();
    image->assembly_length = owner->assembly.size();
    if (!owner->ir.empty()) image->ir = owner->ir.c_str();
    image->ir_length = owner->ir.size();
    image->times = owner->times;
    image->owner = owner.release();
    return 0;
  } catch (const xc::Error& e) {
    return failed(e.status(), e.what(), error, length);
  } catch (const std::bad_alloc&) {
    return failed(Status::kOutOfMemory, "out of memory while compiling", error, length);
  } catch (const std::exception& e) {
    return failed(Status::kInternal, e.what(), error, length);
  } catch (...) {
    return failed(Status::kInternal, "unknown failure while compiling", error, length);
  }
}

void release(xc_jit_image* image) noexcept {
  if (!image) return;
  delete static_cast<xc::codegen::Compiled*>(image->owner);
  *image = {};
}

const char* host_target() noexcept {
  static const std::string name = xc::codegen::host_target_name();
  return name.c_str();
}

// Raise the last number when generated code changes in any way.
const char* revision() noexcept {
  return "llvm-" LLVM_VERSION_STRING "-xc-28";
}

constexpr xc_jit_table kTable = {XC_JIT_VERSION, compile, release, host_target, revision};

}  // namespace

extern "C" __attribute__((visibility("default"))) const xc_jit_table* xc_jit_api(uint32_t version) {
  return version == XC_JIT_VERSION ? &kTable : nullptr;
}
