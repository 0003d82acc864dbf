#include "tier/region_kernel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "base/checked.h"
#include "ops/support.h"
#include "plan/fusion/iteration.h"

namespace xc {
namespace {

int64_t evaluate(const OperandDims& dims, const BindContext& context) {
  const auto dim = [&](const OperandDims::Ref& ref) {
    return operand_at(context, ref.operand).dims[ref.axis];
  };
  int64_t sum = dims.addends.empty() ? 1 : dims.offset;
  for (const OperandDims::Ref& ref : dims.addends) sum = checked_add(sum, dim(ref));
  int64_t out = checked_mul(dims.constant, sum);
  for (const OperandDims::Ref& ref : dims.factors) out = checked_mul(out, dim(ref));
  return checked_mul(ceil_div(out, dims.divisor), dims.multiple);
}

struct BoundPhase {
  std::shared_ptr<const PhaseCode> code;
  std::vector<uint32_t> buffers;
  std::vector<int64_t> dims, strides;
  int64_t begin = 0, end = 0;  ///< of the parallel loop; 0, 0 without one
  int64_t scratch_bytes = 0;
  bool empty = false;  ///< the parallel loop has no iterations
};

struct BoundSum {
  uint32_t temp = 0, operand = 0;
  DType dtype = DType::kF32;
  int64_t tasks = 0, per_task = 0;
  std::array<int64_t, 2> sizes{}, from_strides{}, to_strides{};
};

/// RegionPick with the sizes of a signature.
struct BoundPick {
  uint32_t indices = 0;
  DType dtype = DType::kI64;
  Dims dims, strides;  ///< of the indices
  int64_t offset = 0;  ///< of the first one
  int64_t size = 0;    ///< of the axis they pick from

  /// Fails with kRange, as the operator does, when one is outside.
  void check(const void* data) const {
    for_each_offset<1>(dims, {std::span<const int64_t>(strides)}, [&](const auto& at) {
      (void)checked_index(load_int64(data, dtype, offset + at[0]), size);
    });
  }
};

class BoundRegion final : public BoundKernel {
 public:
  std::vector<BoundPick> picks;
  std::vector<BoundPhase> phases;
  std::vector<BoundSum> sums;
  std::vector<int64_t> temps;  ///< byte offsets in the shared memory
  size_t operands = 0;
  int64_t grain = 1;       ///< iterations of the first phase per task
  bool unchecked = false;  ///< loops may have no iterations, in which indices would be checked

  /// The first phase is cut into tasks; those behind it read what all of them left.
  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    if (unchecked && begin == 0) check_picks(args);
    if (phases.empty() || phases[0].empty) return;
    const BoundPhase& phase = phases[0];
    if (tasks == 1) return run_phase(phase, args, phase.begin, phase.end);
    run_phase(phase, args, phase.begin + begin * grain,
              std::min(phase.end, phase.begin + end * grain));
  }
  void finish(const StepArgs& args) const override {
    for (size_t k = 1; k < phases.size(); ++k)
      if (!phases[k].empty) run_phase(phases[k], args, phases[k].begin, phases[k].end);
    for (const BoundSum& sum : sums) {
      std::byte* const parts = static_cast<std::byte*>(args.shared) + temps[sum.temp];
      void* to = args.buffers[sum.operand];
      if (sum.dtype == DType::kF64)
        add_up(sum, reinterpret_cast<double*>(parts), static_cast<double*>(to));
      else if (sum.dtype == DType::kF32)
        add_up(sum, reinterpret_cast<float*>(parts), static_cast<float*>(to));
      else
        add_up_rounded(sum, reinterpret_cast<const float*>(parts), to);
    }
  }

 private:
  /// Task after task onto the first one's sums, then to where the output has them.
  template <class T>
  static void add_up(const BoundSum& sum, T* parts, T* to) {
    for (int64_t t = 1; t < sum.tasks; ++t)
      for (int64_t i = 0; i < sum.per_task; ++i) parts[i] += parts[t * sum.per_task + i];
    for (int64_t i = 0; i < sum.sizes[0]; ++i) {
      T* row = to + i * sum.to_strides[0];
      const T* part = parts + i * sum.from_strides[0];
      const int64_t n = sum.sizes[1], step = sum.to_strides[1];
      if (sum.tasks > 0 && step == 1 && sum.from_strides[1] == 1)
        std::memcpy(row, part, static_cast<size_t>(n) * sizeof(T));
      else
        for (int64_t j = 0; j < n; ++j)
          row[j * step] = sum.tasks > 0 ? part[j * sum.from_strides[1]] : T(0);
    }
  }
  /// Half types: the sum is rounded once.
  static void add_up_rounded(const BoundSum& sum, const float* from, void* to) {
    for (int64_t i = 0; i < sum.sizes[0]; ++i)
      for (int64_t j = 0; j < sum.sizes[1]; ++j) {
        float total = 0;
        for (int64_t t = 0; t < sum.tasks; ++t)
          total += from[t * sum.per_task + i * sum.from_strides[0] + j * sum.from_strides[1]];
        store_double(to, sum.dtype, i * sum.to_strides[0] + j * sum.to_strides[1], total);
      }
  }

  void run_phase(const BoundPhase& phase, const StepArgs& args, int64_t begin, int64_t end) const {
    std::array<void*, loop::kMaxBuffers> buffers;
    for (size_t k = 0; k < phase.buffers.size(); ++k) {
      const uint32_t b = phase.buffers[k];
      buffers[k] = b < operands ? args.buffers[b]
                                : static_cast<std::byte*>(args.shared) + temps[b - operands];
    }
    const xc_kargs kargs{XC_KERNEL_ABI_VERSION,
                         0,
                         buffers.data(),
                         phase.dims.data(),
                         phase.strides.data(),
                         args.scratch,
                         begin,
                         end};
    if (phase.code->run(kargs) == XC_KERNEL_OK) return;
    check_picks(args);
    fail(Status::kRange, "an index taken from data is out of range");
  }
  void check_picks(const StepArgs& args) const {
    for (const BoundPick& pick : picks) pick.check(args.buffers[pick.indices]);
  }
};

/// Do rows side by side share tables (iteration.h)? Other kernels of the row template keep rows.
bool has_tables_of_rows(const loop::Kernel& kernel) {
  return kernel.name == "row" && std::any_of(kernel.buffers.begin(), kernel.buffers.end(),
                                             [](const loop::BufferDecl& buffer) {
                                               return buffer.is_scratch() &&
                                                      buffer.strides.size() == 2;
                                             });
}

/// Scratch of a task. Fails with kLimit where long columns make tables that no cache holds: there
/// the steps do better.
int64_t phase_scratch(const loop::Kernel& kernel, std::span<const int64_t> dims) {
  const int64_t bytes = loop::scratch_bytes(kernel, dims);
  if (bytes > kMostTableBytes && has_tables_of_rows(kernel))
    fail(Status::kLimit, "rows side by side would keep {} bytes in working memory, {} is most",
         bytes, kMostTableBytes);
  return bytes;
}

BoundPhase bind_phase(const RegionPhase& phase, std::shared_ptr<const PhaseCode> code,
                      const BindContext& context) {
  BoundPhase out;
  out.code = std::move(code);
  out.buffers = phase.buffers;
  for (const OperandDims& dims : phase.dims) out.dims.push_back(evaluate(dims, context));
  for (const RegionPhase::StrideRef& ref : phase.strides) {
    const BoundOperand& o = operand_at(context, ref.operand);
    out.strides.push_back(ref.broadcast && o.dims[ref.axis] == 1 ? 0 : o.strides[ref.axis]);
  }
  if (const auto range = loop::parallel_range(phase.kernel, out.dims)) {
    out.begin = range->begin;
    out.end = range->end;
    out.empty = range->begin >= range->end;
  }
  out.scratch_bytes = phase_scratch(phase.kernel, out.dims);
  return out;
}

BoundSum bind_sum(const RegionSum& sum, const RegionTemp& temp, const BindContext& context) {
  BoundSum out;
  out.temp = sum.temp;
  out.operand = sum.operand;
  out.dtype = sum.dtype;
  out.per_task = temp.per_task;
  out.tasks = evaluate(temp.elements, context) / temp.per_task;
  for (size_t k = 0; k < sum.axes.size(); ++k) {
    out.sizes[k] = sum.axes[k].size;
    out.from_strides[k] = sum.axes[k].stride;
    if (sum.axes[k].axis)
      out.to_strides[k] = operand_at(context, sum.operand).strides[*sum.axes[k].axis];
  }
  return out;
}

/// Has the result of an index map an element? Its data may be empty along what is picked alone.
bool picks_something(const RegionPick& pick, std::span<const RegionPick> all,
                     const BindContext& context) {
  const auto dims = operand_at(context, pick.data).dims;
  for (uint32_t axis = 0; axis < dims.size(); ++axis) {
    const auto picked = [&](const RegionPick& other) {
      return other.indices == pick.indices && other.data == pick.data && other.axis == axis;
    };
    if (dims[axis] == 0 && std::none_of(all.begin(), all.end(), picked)) return false;
  }
  return true;
}

BoundPick bind_pick(const RegionPick& pick, const BindContext& context) {
  const BoundOperand& indices = operand_at(context, pick.indices);
  BoundPick out{.indices = pick.indices,
                .dtype = pick.dtype,
                .dims = Dims(indices.dims.begin(), indices.dims.end()),
                .strides = Dims(indices.strides.begin(), indices.strides.end()),
                .size = operand_at(context, pick.data).dims[pick.axis]};
  if (pick.coordinate) {
    out.offset = *pick.coordinate * out.strides.back();
    out.dims.pop_back();
    out.strides.pop_back();
  }
  return out;
}

}  // namespace

RegionKernel::RegionKernel(RegionCode code, std::vector<std::shared_ptr<const PhaseCode>> phases,
                           size_t operands)
    : code_(std::move(code)), phases_(std::move(phases)), operands_(operands) {
  for (const RegionPhase& phase : code_.phases) XC_CHECK(phase.buffers.size() <= loop::kMaxBuffers);
}

std::shared_ptr<const BoundKernel> RegionKernel::bind(const BindContext& context) const {
  auto bound = std::make_shared<BoundRegion>();
  bound->operands = operands_;
  const auto is_empty = [](const BoundOperand& o) { return element_count(o.dims) == 0; };
  bound->unchecked = !code_.picks.empty() &&
                     (std::any_of(context.inputs.begin(), context.inputs.end(), is_empty) ||
                      std::any_of(context.outputs.begin(), context.outputs.end(), is_empty));
  for (const RegionPick& pick : code_.picks)
    if (picks_something(pick, code_.picks, context))
      bound->picks.push_back(bind_pick(pick, context));
  // Loops outside of one without iterations would be walked for nothing, however long they are.
  if (std::all_of(context.outputs.begin(), context.outputs.end(), is_empty)) return bound;
  for (size_t k = 0; k < code_.phases.size(); ++k) {
    BoundPhase phase = bind_phase(code_.phases[k], phases_[k], context);
    bound->scratch_bytes = std::max(bound->scratch_bytes, phase.scratch_bytes);
    bound->held_bytes +=
        static_cast<int64_t>((phase.dims.size() + phase.strides.size()) * 8 + sizeof(phase));
    bound->phases.push_back(std::move(phase));
  }
  int64_t offset = 0;
  for (const RegionTemp& temp : code_.temps) {
    bound->temps.push_back(offset);
    offset = checked_add(
        offset,
        align_up(checked_mul(evaluate(temp.elements, context), element_size(temp.dtype)), 64));
  }
  for (const RegionSum& sum : code_.sums)
    bound->sums.push_back(bind_sum(sum, code_.temps[sum.temp], context));
  for (const OperandDims::Ref& ref : code_.repeats)
    if (operand_at(context, ref.operand).dims[ref.axis] == 0 &&
        element_count(context.outputs[0].dims) > 0)
      fail(Status::kRange, "nothing to repeat: an empty axis is padded");
  // What follows the tasks is done even when they leave nothing: sums over no rows are 0.
  const bool finishes = bound->phases.size() > 1 || !bound->sums.empty();
  bound->shared_bytes = finishes ? std::max<int64_t>(64, offset) : 0;
  if (const BoundPhase& first = bound->phases[0]; first.end > first.begin) {
    bound->grain = std::max<int64_t>(1, code_.phases[0].grain);
    bound->tasks = ceil_div(first.end - first.begin, bound->grain);
  }
  return bound;
}

int64_t RegionKernel::code_bytes() const {
  int64_t bytes = 0;
  for (const auto& phase : phases_) bytes += phase->code_bytes();
  return bytes;
}

std::string RegionKernel::listing() const {
  std::string text;
  for (const auto& phase : phases_) text += phase->listing();
  return text;
}

}  // namespace xc
