// xc::Lookup: "xc.byte_table". Operands may lie in any way; rows that are dense in both go at once.

#include <algorithm>

#include "backends/cpu/integer_product.h"
#include "backends/cpu/simple_kernel.h"
#include "backends/cpu/strided_space.h"

namespace xc::cpu {
namespace {

Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  if (!spec.inputs[1].contiguous()) return Verdict::no("a table that is not row-major");
  return Verdict::ok();
}

class Bound final : public BoundKernel {
 public:
  Bound(const StepSpec& step, const BindContext& context) {
    const OperandViews views(step, context);
    const OperandView &x = views.inputs[0], &y = views.outputs[0];
    StridedSpace space(x.dims, 2);
    space.add(x.strides);
    space.add(y.strides);
    space_ = space.coalesced(1);
    const int64_t inner = space_.dims().back();
    rows_ = inner > 0 ? space_.count() / inner : 0;
    parts_ = std::clamp<int64_t>(inner / kPart, 1, 64);
    tasks = std::clamp<int64_t>(space_.count() / kPart, 1, std::max<int64_t>(rows_ * parts_, 1));
    held_bytes += space_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const auto* const x = static_cast<const uint8_t*>(args.buffers[0]);
    const auto* const table = static_cast<const uint8_t*>(args.buffers[1]);
    auto* const y = static_cast<uint8_t*>(args.buffers[2]);
    const int64_t inner = space_.dims().back(), pieces = rows_ * parts_;
    const int64_t x_step = space_.strides(0).back(), y_step = space_.strides(1).back();
    for (int64_t piece = pieces * begin / tasks; piece < pieces * end / tasks; ++piece) {
      const int64_t part = piece % parts_;
      const int64_t first = inner * part / parts_, count = inner * (part + 1) / parts_ - first;
      int64_t row = piece / parts_, x_at = first * x_step, y_at = first * y_step;
      for (size_t a = space_.rank() - 1; a-- > 0; row /= space_.dims()[a]) {
        x_at += row % space_.dims()[a] * space_.strides(0)[a];
        y_at += row % space_.dims()[a] * space_.strides(1)[a];
      }
      if (x_step == 1 && y_step == 1) {
        integer_fns().look_up(x + x_at, count, table, y + y_at);
        continue;
      }
      for (int64_t i = 0; i < count; ++i) y[y_at + i * y_step] = table[x[x_at + i * x_step]];
    }
  }

 private:
  static constexpr int64_t kPart = 64 << 10;  ///< elements of a task
  StridedSpace space_;                        ///< of x and y
  int64_t rows_ = 0, parts_ = 1;              ///< and parts of a row
};

}  // namespace

void add_byte_table(Rows& rows) {
  rows.push_back({"xc.byte_table", "Lookup", supports, create_bound_by<Bound>, any_order});
}

}  // namespace xc::cpu
