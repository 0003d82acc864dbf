#include "backends/cpu/cropped_conv.h"

#include <algorithm>

namespace xc::cpu {
namespace {

constexpr size_t kW = 1;

/// Taps that some window has inside the input, and those between them. What is cut off is padding,
/// of which there has to be as much.
RowRange used_taps(const WindowAxis& axis) {
  const auto is_idle = [&](int64_t k) { return axis.outputs(k).size() == 0; };
  RowRange used{0, axis.kernel};
  while (used.end > 1 && is_idle(used.end - 1)) --used.end;
  while (used.begin < used.end - 1 && is_idle(used.begin)) ++used.begin;
  used.begin = std::min(used.begin, axis.pad_begin / axis.dilation);
  used.end = std::max(used.end, axis.kernel - axis.pad_end / axis.dilation);
  return used;
}

}  // namespace

/// With the kernel it is of.
struct CroppedConv::Bound {
  Bound(std::shared_ptr<const Part> p, std::shared_ptr<const BoundKernel> b)
      : part(std::move(p)), of_fewer(std::move(b)) {}
  std::shared_ptr<const Part> part;
  std::shared_ptr<const BoundKernel> of_fewer;
};

bool has_idle_taps(const ConvProblem& problem) {
  if (problem.groups > 1 && problem.groups == problem.in_channels) return false;
  int64_t used = 1;
  for (const WindowAxis& axis : problem.axes) used *= used_taps(axis).size();
  return used > 0 && 2 * used <= problem.taps();
}

CroppedConv::CroppedConv(const StepSpec& spec, Create create)
    : spec_(spec), create_(create), attrs_(spec) {}

CroppedConv::Crop CroppedConv::crop_for(const BindContext& context) const {
  const std::span<const int64_t> kernel = context.inputs[kW].dims.subspan(2);
  const auto axes =
      window_axes(attrs_.window, context.inputs[0].dims, kernel, context.outputs[0].dims);
  Crop out;
  out.pads.resize(2 * axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const RowRange used = used_taps(axes[i]);
    out.first.push_back(used.begin);
    out.taps.push_back(used.size());
    out.pads[i] = axes[i].pad_begin - used.begin * axes[i].dilation;
    out.pads[axes.size() + i] = axes[i].pad_end - (axes[i].kernel - used.end) * axes[i].dilation;
  }
  return out;
}

std::shared_ptr<const CroppedConv::Part> CroppedConv::find(const Crop& crop) const {
  for (const auto& part : parts_)
    if (part->crop == crop) return part;
  return nullptr;
}

std::shared_ptr<const BoundKernel> CroppedConv::bind(const BindContext& context, bool pack) const {
  Crop crop = crop_for(context);
  std::shared_ptr<const Part> fewer;
  {
    const std::lock_guard lock(mutex_);
    fewer = find(crop);
  }
  if (!fewer && !pack) return nullptr;
  if (!fewer) fewer = make(std::move(crop));
  std::vector<BoundOperand> inputs(context.inputs.begin(), context.inputs.end());
  inputs[kW] = {fewer->weight_dims, fewer->weight_strides};
  BindContext of_fewer = context;
  of_fewer.inputs = inputs;
  // What is bound may outlive the part, which forget_weights() lets go.
  const auto bound = std::make_shared<const Bound>(fewer, fewer->kernel->bind(of_fewer));
  return {bound, bound->of_fewer.get()};
}

void CroppedConv::forget_weights() {
  const std::lock_guard lock(mutex_);
  parts_.clear();
}

std::shared_ptr<const CroppedConv::Part> CroppedConv::make(Crop crop) const {
  auto out = std::make_shared<Part>();
  const Tensor w = spec_.inputs[kW].constant.held();
  out->node = *spec_.node;
  out->node.attrs.set("kernel_shape", crop.taps);
  out->node.attrs.set("pads", crop.pads);
  out->node.attrs.set("auto_pad", std::string("NOTSET"));
  out->weight_dims = {w.dims()[0], w.dims()[1]};
  int64_t offset = 0;
  for (size_t i = 0; i < crop.taps.size(); ++i) {
    out->weight_dims.push_back(crop.taps[i]);
    offset += crop.first[i] * w.strides()[2 + i];
  }
  out->weight_strides = contiguous_strides(out->weight_dims);
  out->crop = std::move(crop);
  StepSpec spec = spec_;
  spec.node = &out->node;
  spec.inputs[kW].dims = to_symbolic(out->weight_dims);
  spec.inputs[kW].strides = to_symbolic(out->weight_strides);
  spec.inputs[kW].constant = Tensor(w.buffer(), w.byte_offset() + offset * element_size(w.dtype()),
                                    w.dtype(), out->weight_dims, w.strides())
                                 .clone();
  out->kernel = create_(spec);
  const std::lock_guard lock(mutex_);
  if (auto known = find(out->crop)) return known;  // two threads may have made the same
  parts_.push_back(out);
  return out;
}

}  // namespace xc::cpu
