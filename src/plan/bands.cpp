#include "plan/bands.h"

#include <algorithm>
#include <cstring>

#include "backends/host_speed.h"
#include "base/checked.h"
#include "base/cpu_info.h"
#include "ir/place.h"

namespace xc {
namespace {

/// Of the second-level cache, for what a band touches beside weights.
constexpr double kCacheShare = 0.5;
constexpr int64_t kLeastHeight = 2;
/// Of the chain's time; less is within the error of the prediction.
constexpr double kLeastGain = 0.04;
constexpr double kCallSeconds = 5e-7;  ///< to start a kernel on some rows
/// Sums over few channels reach a fraction of the products' rate.
constexpr int64_t kThinChannels = 4;
constexpr double kThinRate = 0.3;
/// Steps of a chain at most.
constexpr size_t kLongest = 12;

/// A convolution or pool over images of several rows and columns.
struct BandStep {
  WindowAxis rows;
  double seconds = 0;  ///< of its sums, for one image
  int64_t x_row_bytes = 0, y_row_bytes = 0, y_bytes = 0, weight_bytes = 0;
};

bool takes_rows(const Step& step) {
  return step.kind == Step::Kind::kKernel && step.region == Hash128{} && !step.nodes.empty() &&
         step.kernel->takes_rows();
}

std::optional<BandStep> band_step(const Bound& bound, uint32_t k, const HostSpeed& host) {
  const Step& step = *bound.plan->steps[k];
  const std::span<const int64_t> x = bound.dims(step.inputs[0]), y = bound.dims(step.outputs[0]);
  if (x.size() != 4 || element_count(y) == 0 || element_count(x) == 0) return std::nullopt;
  // Kernels drop axes of one element, and rows might be another axis then.
  for (size_t axis = 2; axis < 4; ++axis)
    if (x[axis] < 2 || y[axis] < 2) return std::nullopt;
  BandStep out;
  const WindowAttrs window = window_attrs(*step.spec.node, 2);
  const bool weighted = step.spec.op->name == "Conv";
  const std::span<const int64_t> w = weighted ? bound.dims(step.inputs[1]) : window.kernel;
  out.rows = window_axes(window, x, weighted ? w.subspan(2) : w, y)[0];
  // Rows that are padding alone: libraries refuse them, and do the whole in another way, of other
  // bits.
  if (!out.rows.all_reach()) return std::nullopt;
  const auto bytes = [&](uint32_t v) { return element_size(bound.plan->values[v].dtype); };
  out.x_row_bytes = x[1] * x[3] * bytes(step.inputs[0]);
  out.y_row_bytes = y[1] * y[3] * bytes(step.outputs[0]);
  out.y_bytes = out.y_row_bytes * y[2];
  if (weighted) out.weight_bytes = element_count(w) * bytes(step.inputs[1]);
  const bool thin = !weighted || w[1] < kThinChannels;
  const auto terms = static_cast<double>(element_count(w) * (weighted ? 1 : y[1]));
  out.seconds =
      2.0 * terms * static_cast<double>(y[2] * y[3]) / (host.product_rate * (thin ? kThinRate : 1));
  return out;
}

/// Whether step `k` makes dense channels-last images of more than `bytes` each that nobody but the
/// next step reads, and both take rows.
bool hands_on(const Bound& bound, uint32_t k, double bytes) {
  const Plan& plan = *bound.plan;
  const Step &from = *plan.steps[k], &to = *plan.steps[k + 1];
  if (!takes_rows(from) || !takes_rows(to)) return false;
  const uint32_t v = from.outputs[0];
  const std::span<const int64_t> y = bound.dims(v);
  if (y.empty() || static_cast<double>(element_count(y.subspan(1)) *
                                       element_size(plan.values[v].dtype)) <= bytes)
    return false;
  const uint32_t b = plan.values[v].buffer;
  const PlanBuffer& buffer = plan.buffers[b];
  if (to.inputs[0] != v || buffer.storage != Storage::kArena || buffer.segment != bound.segment ||
      buffer.first_step != k || buffer.last_step != k + 1 || bound.offset(v) != 0 ||
      !lies_channels_last(bound.dims(v), bound.strides(v)))
    return false;
  return std::none_of(to.inputs.begin() + 1, to.inputs.end(), [&](uint32_t other) {
    return other != kNoValue && plan.values[other].buffer == b;
  });
}

std::vector<WindowAxis> axes_of(std::span<const BandStep> steps) {
  std::vector<WindowAxis> out;
  for (const BandStep& step : steps) out.push_back(step.rows);
  return out;
}

/// Bytes that a band touches.
double band_bytes(std::span<const BandStep> steps, int64_t height) {
  const std::vector<int64_t> rows = rows_in_band(axes_of(steps), height);
  double out = static_cast<double>(rows[0] * steps[0].x_row_bytes);
  for (size_t i = 0; i < steps.size(); ++i)
    out += static_cast<double>(rows[i + 1] * steps[i].y_row_bytes);
  return out;
}

/// Rows of a band that stay in the cache; 0: not enough do.
int64_t band_height(std::span<const BandStep> steps, double cache) {
  int64_t low = 0, high = steps.back().rows.output;
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    if (band_bytes(steps, middle) <= cache * kCacheShare)
      low = middle;
    else
      high = middle - 1;
  }
  return low < std::min(kLeastHeight, steps.back().rows.output) ? 0 : low;
}

/// Seconds per image that bands of these steps save by prediction; 0 where that is too few.
double gain(std::span<const BandStep> steps, int64_t chunks, int64_t height,
            const HostSpeed& host) {
  const size_t last = steps.size() - 1;
  const std::vector<int64_t> rows = rows_in_band(axes_of(steps), height);
  const int64_t bands = chunks * ceil_div(ceil_div(steps[last].rows.output, chunks), height);
  double seconds = 0, saved = 0;
  auto advance = static_cast<double>(height);  // rows of the step's result from band to band
  for (size_t i = last + 1; i-- > 0; advance *= static_cast<double>(steps[i].rows.stride)) {
    const BandStep& step = steps[i];
    seconds += step.seconds;
    if (i < last) {  // written once and read once
      const auto bytes = static_cast<double>(step.y_bytes);
      seconds += 2 * bytes / host.bandwidth(bytes);
      saved += 2 * bytes * (1 / host.bandwidth(bytes) - 1 / host.l2_bandwidth);
    }
    // Rows that two chunks compute, and weights that are read anew for each band.
    saved -= step.seconds * static_cast<double>(chunks - 1) *
             (static_cast<double>(rows[i + 1]) - advance) / static_cast<double>(step.rows.output);
    const auto weights = static_cast<double>(step.weight_bytes);
    saved -= static_cast<double>(bands - 1) * weights / host.bandwidth(weights);
    saved -= kCallSeconds * static_cast<double>(bands - 1);
  }
  return saved > kLeastGain * seconds ? saved : 0;
}

/// The steps of a chain as one kernel. Tasks are chunks of one image after the other.
class BandedSteps final : public BandedKernel {
 public:
  struct Inner {
    std::shared_ptr<const BoundKernel> kernel;
    uint32_t first_pointer = 0;  ///< of its operands among those of all
    uint32_t result = 0;         ///< its result there
    int64_t row_bytes = 0, image_bytes = 0;
    int64_t at = 0;  ///< of the memory behind it, in scratch
  };

  BandedSteps(std::vector<Inner> steps, BandSchedule schedule, uint32_t pointers, int64_t images)
      : steps_(std::move(steps)), schedule_(std::move(schedule)), pointers_(pointers) {
    tasks = images * chunks();
    for (const Inner& step : steps_) {
      scratch_bytes = std::max(scratch_bytes, align_up(step.kernel->scratch_bytes, 64));
      held_bytes += step.kernel->held_bytes;
      allocates |= step.kernel->allocates;
      provisional |= step.kernel->provisional;
    }
    pointers_at_ = scratch_bytes;
    scratch_bytes += align_up(pointers_ * static_cast<int64_t>(sizeof(void*)), 64);
    for (size_t i = 0; i + 1 < steps_.size(); ++i) {
      steps_[i].at = scratch_bytes;
      scratch_bytes += align_up(checked_mul(schedule_.room[i], steps_[i].row_bytes), 64);
    }
    held_bytes += static_cast<int64_t>(schedule_.calls.size() * (sizeof(BandCall) + 16));
  }

  const BoundKernel& step(size_t i) const override { return *steps_[i].kernel; }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    auto* const scratch = static_cast<std::byte*>(args.scratch);
    auto** const pointers = reinterpret_cast<void**>(scratch + pointers_at_);
    std::copy_n(args.buffers, pointers_, pointers);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t image = task / chunks();
      const auto chunk = static_cast<size_t>(task % chunks());
      for (size_t c = schedule_.chunks[chunk]; c < schedule_.chunks[chunk + 1]; ++c)
        run(schedule_.calls[c], image, pointers, scratch);
    }
  }

 private:
  int64_t chunks() const { return static_cast<int64_t>(schedule_.chunks.size()) - 1; }

  void run(const BandCall& call, int64_t image, void** pointers, std::byte* scratch) const {
    const Inner& step = steps_[call.step];
    if (call.step + 1 < steps_.size()) {
      std::byte* const memory = scratch + step.at;
      if (call.kept_rows > 0)
        std::memmove(memory, memory + call.kept_at * step.row_bytes,
                     static_cast<size_t>(call.kept_rows * step.row_bytes));
      // Both steps count rows and images from those of the whole value.
      void* const value = memory - call.first_row * step.row_bytes - image * step.image_bytes;
      pointers[step.result] = pointers[steps_[call.step + 1].first_pointer] = value;
    }
    const auto parts = static_cast<int64_t>(schedule_.rows[call.step].size());
    const int64_t task = image * parts + call.part;
    step.kernel->run({pointers + step.first_pointer, scratch, nullptr}, task, task + 1);
  }

  std::vector<Inner> steps_;
  BandSchedule schedule_;
  uint32_t pointers_;
  int64_t pointers_at_ = 0;
};

/// Cuts the steps, of which the first is `first` in the plan, into the chains that save most.
void add_chains(const Bound& bound, std::span<const BandStep> steps, uint32_t first,
                const HostSpeed& host, bool always, std::vector<BandChain>& out) {
  const Step& step = *bound.plan->steps[first];
  const int64_t images = bound.dims(step.outputs[0])[0],
                chunks = ceil_div(step.spec.threads, images);
  struct Best {
    double saved = 0;  ///< of the steps up to here
    BandChain last;    ///< that ends here; of one step: none does
  };
  std::vector<Best> best(steps.size() + 1);
  const auto cache = static_cast<double>(cpu_info().l2_bytes);
  for (size_t end = 1; end <= steps.size(); ++end) {
    best[end].saved = best[end - 1].saved;
    for (size_t count = 2; count <= std::min(end, kLongest); ++count) {
      const size_t begin = end - count;
      const auto chain = steps.subspan(begin, count);
      const int64_t height = always ? kLeastHeight : band_height(chain, cache);
      if (height == 0) break;  // nor do longer ones fit
      const double saved = best[begin].saved + (always ? static_cast<double>(count)
                                                       : gain(chain, chunks, height, host));
      if (saved <= best[end].saved) continue;
      best[end] = {saved,
                   {.first = first + static_cast<uint32_t>(begin),
                    .end = first + static_cast<uint32_t>(end),
                    .chunks = chunks,
                    .height = height,
                    .rows = axes_of(chain)}};
    }
  }
  const size_t known = out.size();
  for (size_t end = steps.size(); end > 0;) {
    const BandChain& chain = best[end].last;
    if (chain.height > 0) out.push_back(chain);
    end = chain.height > 0 ? chain.first - first : end - 1;
  }
  std::reverse(out.begin() + static_cast<ptrdiff_t>(known), out.end());
}

}  // namespace

std::vector<BandChain> band_chains(const Bound& bound, bool always) {
  const Segment& segment = bound.plan->segments[bound.segment];
  const HostSpeed* const calibrated = calibrated_host_speed();
  const HostSpeed host = calibrated ? *calibrated : nominal_host_speed();
  const double least_bytes = always ? -1 : kCacheShare * static_cast<double>(cpu_info().l2_bytes);
  std::vector<BandChain> out;
  std::vector<BandStep> steps;  // each handing on to the next
  const auto end_chain = [&](uint32_t end) {
    const auto count = static_cast<uint32_t>(steps.size());
    if (count > 1) add_chains(bound, steps, end - count, host, always, out);
    steps.clear();
  };
  bool handed = false;  // to step k
  for (uint32_t k = segment.first_step; k < segment.end_step; ++k) {
    const bool hands = k + 1 < segment.end_step && hands_on(bound, k, least_bytes);
    std::optional<BandStep> next;
    if (handed || hands) next = band_step(bound, k, host);
    if (!handed || !next) end_chain(k);
    if (next) steps.push_back(*next);
    handed = hands && next;
  }
  end_chain(segment.end_step);
  return out;
}

std::shared_ptr<const BandedKernel> bind_bands(const Bound& bound, const BandChain& chain) {
  const Plan& plan = *bound.plan;
  BandSchedule schedule = schedule_bands(chain.rows, chain.chunks, chain.height);
  std::vector<BandedSteps::Inner> steps;
  OperandsOfStep operands;
  uint32_t pointers = 0;
  for (uint32_t k = chain.first; k < chain.end; ++k) {
    const Step& step = *plan.steps[k];
    operands.set(bound, step);
    BandedSteps::Inner inner;
    inner.kernel = located([&] { return node_place(step.name, step.spec.op->name); },
                           [&] {
                             return step.kernel->bind({.inputs = operands.inputs,
                                                       .outputs = operands.outputs,
                                                       .background = true,
                                                       .rows = schedule.rows[k - chain.first]});
                           });
    if (!inner.kernel->by_rows || inner.kernel->shared_bytes > 0) return nullptr;
    inner.first_pointer = pointers;
    inner.result = pointers + static_cast<uint32_t>(step.inputs.size());
    const int64_t size = element_size(plan.values[step.outputs[0]].dtype);
    inner.row_bytes = operands.outputs[0].strides[2] * size;
    inner.image_bytes = operands.outputs[0].dims[2] * inner.row_bytes;
    pointers = inner.result + static_cast<uint32_t>(step.outputs.size());
    steps.push_back(std::move(inner));
  }
  const int64_t images = bound.dims(plan.steps[chain.first]->outputs[0])[0];
  return std::make_shared<BandedSteps>(std::move(steps), std::move(schedule), pointers, images);
}

void adapt_to_bands(const BandChain& chain, std::vector<ArenaRequest>& requests) {
  const uint32_t last = chain.end - 1;
  // Made by a step but the last and read by the next: nothing else of theirs is.
  std::erase_if(requests, [&](const ArenaRequest& request) {
    return request.first_step >= chain.first && request.first_step < last &&
           request.last_step <= last;
  });
  for (ArenaRequest& request : requests) {
    if (request.first_step == last) request.first_step = chain.first;
    if (request.last_step >= chain.first && request.last_step < last) request.last_step = last;
  }
}

}  // namespace xc
