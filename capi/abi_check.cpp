// The layout of every public struct, asserted: a change here breaks programs that are already
// built. New fields of growing structs are appended and get a line; a line never changes.

#include <xc/xc.h>

#include <type_traits>

#if defined(__LP64__)

#define XC_OFFSET(type, field, offset) \
  static_assert(offsetof(type, field) == (offset), #type "." #field " moved")
#define XC_SIZE(type, size)                                         \
  static_assert(sizeof(type) == (size), #type " changed its size"); \
  static_assert(std::is_trivial_v<type> && std::is_standard_layout_v<type>)

// Frozen.
XC_SIZE(xc_string_view, 16);
XC_OFFSET(xc_string_view, data, 0);
XC_OFFSET(xc_string_view, size, 8);

XC_SIZE(xc_shape, 16);
XC_OFFSET(xc_shape, dims, 0);
XC_OFFSET(xc_shape, rank, 8);

XC_SIZE(xc_tensor_view, 32);
XC_OFFSET(xc_tensor_view, data, 0);
XC_OFFSET(xc_tensor_view, dims, 8);
XC_OFFSET(xc_tensor_view, strides, 16);
XC_OFFSET(xc_tensor_view, dtype, 24);
XC_OFFSET(xc_tensor_view, rank, 28);

XC_SIZE(xc_logger, 24);
XC_SIZE(xc_event_listener, 24);
XC_SIZE(xc_allocator, 32);
XC_SIZE(xc_op_function, 24);
XC_SIZE(xc_task_runner, 32);
XC_OFFSET(xc_task_runner, workers, 24);

// Growing.
XC_SIZE(xc_config, 192);
XC_OFFSET(xc_config, struct_size, 0);
XC_OFFSET(xc_config, threads, 8);
XC_OFFSET(xc_config, jit, 16);
XC_OFFSET(xc_config, numerics, 24);
XC_OFFSET(xc_config, code_cache_bytes, 32);
XC_OFFSET(xc_config, bound_cache_bytes, 40);
XC_OFFSET(xc_config, max_memory_bytes, 48);
XC_OFFSET(xc_config, compile_cpu_percent, 56);
XC_OFFSET(xc_config, copy_weights, 64);
XC_OFFSET(xc_config, isa, 72);
XC_OFFSET(xc_config, force_swap, 80);
XC_OFFSET(xc_config, verify_passes, 88);
XC_OFFSET(xc_config, poison_arena, 96);
XC_OFFSET(xc_config, rules, 104);
XC_OFFSET(xc_config, fusion, 112);
XC_OFFSET(xc_config, trace_compiles, 120);
XC_OFFSET(xc_config, cache_dir, 128);
XC_OFFSET(xc_config, kernels, 136);
XC_OFFSET(xc_config, layouts, 144);
XC_OFFSET(xc_config, trace_steps, 152);
XC_OFFSET(xc_config, cache_bytes, 160);
XC_OFFSET(xc_config, post_ops, 168);
XC_OFFSET(xc_config, winograd, 176);
XC_OFFSET(xc_config, bands, 184);

XC_SIZE(xc_config_option_info, 104);
XC_OFFSET(xc_config_option_info, name, 8);
XC_OFFSET(xc_config_option_info, environment, 24);
XC_OFFSET(xc_config_option_info, choices, 40);
XC_OFFSET(xc_config_option_info, doc, 56);
XC_OFFSET(xc_config_option_info, fallback, 72);
XC_OFFSET(xc_config_option_info, low, 80);
XC_OFFSET(xc_config_option_info, high, 88);
XC_OFFSET(xc_config_option_info, engine_only, 96);

XC_SIZE(xc_engine_options, 136);
XC_OFFSET(xc_engine_options, config, 8);
XC_OFFSET(xc_engine_options, logger, 16);
XC_OFFSET(xc_engine_options, events, 40);
XC_OFFSET(xc_engine_options, allocator, 64);
XC_OFFSET(xc_engine_options, tasks, 96);
XC_OFFSET(xc_engine_options, operators, 128);

XC_SIZE(xc_port, 64);
XC_OFFSET(xc_port, kind, 4);
XC_OFFSET(xc_port, name, 8);
XC_OFFSET(xc_port, type, 24);
XC_OFFSET(xc_port, dtype, 40);
XC_OFFSET(xc_port, rank, 44);
XC_OFFSET(xc_port, dims, 48);
XC_OFFSET(xc_port, dim_texts, 56);

XC_SIZE(xc_session_options, 16);
XC_OFFSET(xc_session_options, config, 8);

XC_SIZE(xc_run_options, 24);
XC_OFFSET(xc_run_options, flags, 4);
XC_OFFSET(xc_run_options, timeout_ns, 8);
XC_OFFSET(xc_run_options, cancel, 16);

XC_SIZE(xc_counters, 112);
XC_OFFSET(xc_counters, runs, 8);
XC_OFFSET(xc_counters, bound_bytes, 64);
XC_OFFSET(xc_counters, compile_ms, 72);
XC_OFFSET(xc_counters, net_saved_ms, 80);
XC_OFFSET(xc_counters, working_bytes, 88);
XC_OFFSET(xc_counters, events_dropped, 104);

XC_SIZE(xc_region, 160);
XC_OFFSET(xc_region, identity, 8);
XC_OFFSET(xc_region, name, 24);
XC_OFFSET(xc_region, state, 40);
XC_OFFSET(xc_region, reason, 56);
XC_OFFSET(xc_region, uses, 72);
XC_OFFSET(xc_region, base_us, 80);
XC_OFFSET(xc_region, code_bytes, 112);
XC_OFFSET(xc_region, program, 120);
XC_OFFSET(xc_region, worst_error, 152);

XC_SIZE(xc_region_shape, 80);
XC_OFFSET(xc_region_shape, shape, 8);
XC_OFFSET(xc_region_shape, calls, 24);
XC_OFFSET(xc_region_shape, before_us, 40);
XC_OFFSET(xc_region_shape, saved_ms, 72);

XC_SIZE(xc_event, 216);
XC_OFFSET(xc_event, kind, 4);
XC_OFFSET(xc_event, time_ns, 8);
XC_OFFSET(xc_event, region, 16);
XC_OFFSET(xc_event, kind_name, 32);
XC_OFFSET(xc_event, subject, 48);
XC_OFFSET(xc_event, detail, 64);
XC_OFFSET(xc_event, compile_ms, 80);
XC_OFFSET(xc_event, code_bytes, 112);
XC_OFFSET(xc_event, run, 120);
XC_OFFSET(xc_event, wall_ms, 128);
XC_OFFSET(xc_event, budget_ms, 168);
XC_OFFSET(xc_event, samples, 176);
XC_OFFSET(xc_event, bytes, 208);

XC_SIZE(xc_cache_entry, 96);
XC_OFFSET(xc_cache_entry, kind, 4);
XC_OFFSET(xc_cache_entry, name, 8);
XC_OFFSET(xc_cache_entry, kind_name, 24);
XC_OFFSET(xc_cache_entry, subject, 40);
XC_OFFSET(xc_cache_entry, problem, 56);
XC_OFFSET(xc_cache_entry, bytes, 72);
XC_OFFSET(xc_cache_entry, last_use, 80);
XC_OFFSET(xc_cache_entry, worth_s, 88);

#endif  // __LP64__

// Numbers that cross the boundary.
#include "base/config.h"
#include "base/error.h"
#include "cache/entry.h"
#include "ir/graph.h"
#include "profile/event.h"
#include "runtime/engine.h"

namespace xc {
#define XC_SAME(c, cpp) static_assert(static_cast<int64_t>(c) == static_cast<int64_t>(cpp))
XC_SAME(XC_INVALID_ARGUMENT, Status::kInvalidArgument);
XC_SAME(XC_NOT_FOUND, Status::kNotFound);
XC_SAME(XC_FORMAT, Status::kFormat);
XC_SAME(XC_INVALID_MODEL, Status::kInvalidModel);
XC_SAME(XC_UNSUPPORTED, Status::kUnsupported);
XC_SAME(XC_LIMIT, Status::kLimit);
XC_SAME(XC_OUT_OF_MEMORY, Status::kOutOfMemory);
XC_SAME(XC_IO, Status::kIo);
XC_SAME(XC_CANCELLED, Status::kCancelled);
XC_SAME(XC_DEADLINE, Status::kDeadline);
XC_SAME(XC_BUSY, Status::kBusy);
XC_SAME(XC_RANGE, Status::kRange);
XC_SAME(XC_INTERNAL, Status::kInternal);

XC_SAME(XC_DTYPE_F32, DType::kF32);
XC_SAME(XC_DTYPE_BF16, DType::kBF16);
XC_SAME(XC_DTYPE_I8, DType::kI8);
XC_SAME(XC_DTYPE_I64, DType::kI64);
XC_SAME(XC_DTYPE_U8, DType::kU8);
XC_SAME(XC_DTYPE_U64, DType::kU64);
XC_SAME(XC_DTYPE_BOOL, DType::kBool);
XC_SAME(XC_DTYPE_STRING, DType::kString);
XC_SAME(XC_DTYPE_C128, DType::kC128);
XC_SAME(XC_DTYPE_F8E4M3FN, DType::kF8E4M3FN);
XC_SAME(XC_DTYPE_F8E8M0, DType::kF8E8M0);
XC_SAME(XC_DTYPE_F4E2M1, DType::kF4E2M1);
XC_SAME(XC_DTYPE_U2, DType::kU2);
XC_SAME(XC_DTYPE_TENSOR, DType::kTensor);
XC_SAME(XC_DTYPE_F6E2M3, DType::kF6E2M3);
XC_SAME(XC_DTYPE_F6E3M2, DType::kF6E3M2);
XC_SAME(XC_DTYPE_F6E3M2 + 1, kDTypeCount);

XC_SAME(XC_VALUE_NONE, kNone);
XC_SAME(XC_PORT_TENSOR, Type::Kind::kTensor);
XC_SAME(XC_PORT_SEQUENCE, Type::Kind::kSequence);
XC_SAME(XC_PORT_OPTIONAL, Type::Kind::kOptional);
XC_SAME(XC_PORT_MAP, Type::Kind::kMap);
XC_SAME(XC_ATTRIBUTE_INT, AttrKind::kInt);
XC_SAME(XC_ATTRIBUTE_TENSOR, AttrKind::kTensor);
XC_SAME(XC_JIT_FREEZE, JitMode::kFreeze);
XC_SAME(XC_LOG_ERROR, LogLevel::kError);
XC_SAME(XC_LOG_DEBUG, LogLevel::kDebug);
XC_SAME(XC_EVENT_CANDIDATE, EventKind::kCandidate);
XC_SAME(XC_EVENT_JIT_DISABLED, EventKind::kJitDisabled);
XC_SAME(XC_EVENT_QUEUED, EventKind::kQueued);
XC_SAME(XC_EVENT_FROZEN, EventKind::kFrozen);
XC_SAME(XC_EVENT_LOADED, EventKind::kLoaded);
XC_SAME(XC_EVENT_CACHE, EventKind::kCache);
XC_SAME(XC_CACHE_OBJECT, cache::Kind::kObject);
XC_SAME(XC_CACHE_PROFILE, cache::Kind::kProfile);
XC_SAME(XC_CACHE_POISON, cache::Kind::kPoison);
XC_SAME(XC_CACHE_HOST, cache::Kind::kHost);
}  // namespace xc
