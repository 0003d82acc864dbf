#pragma once
// Convolutions many of whose taps lie beside the input in all windows: dilated ones over images no
// larger than the gaps between their taps, and any over one of few pixels. What is left is one by
// fewer taps, often 1x1, with the same result.

#include <memory>
#include <mutex>
#include <vector>

#include "backends/cpu/conv_problem.h"
#include "backends/step.h"

namespace xc::cpu {

/// Whether half of its taps or more are such; not in depthwise ones, which skip them.
bool has_idle_taps(const ConvProblem& problem);

class CroppedConv {
 public:
  using Create = std::unique_ptr<Kernel> (*)(const StepSpec& spec);
  /// `spec` has constant weights. `create` makes the kernel for fewer taps.
  CroppedConv(const StepSpec& spec, Create create);
  /// For what has idle taps. Null where weights would have to be packed and `pack` is not set. Any
  /// number of threads.
  std::shared_ptr<const BoundKernel> bind(const BindContext& context, bool pack) const;
  /// Packs anew for what is bound from now on.
  void forget_weights();

 private:
  /// The taps from `first` on, so many along each axis, and the padding that is left.
  struct Crop {
    Dims first, taps, pads;
    bool operator==(const Crop&) const = default;
  };
  /// A convolution by them.
  struct Part {
    Crop crop;
    Node node;
    Dims weight_dims, weight_strides;
    std::unique_ptr<const Kernel> kernel;
  };
  struct Bound;
  Crop crop_for(const BindContext& context) const;
  /// Needs the mutex. Null: there is none yet.
  std::shared_ptr<const Part> find(const Crop& crop) const;
  std::shared_ptr<const Part> make(Crop crop) const;

  StepSpec spec_;
  Create create_;
  ConvAttrs attrs_;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const Part>> parts_;
};

}  // namespace xc::cpu
