// LSTM, GRU and RNN in f32: "xc.recurrent". The input's product is one matrix product over a span
// of time steps; each step then needs R h, by an own product over packed weights that are read once
// for several samples at the speed of the cache. Weights that change and very many samples go by
// sgemm. Each direction is a task.
//
// (oneDNN's recurrent primitives want layouts of their own for dims that change, and create their
// code per length; this kernel is bound for any length at no cost.)

#include <algorithm>
#include <cstring>
#include <mutex>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/gemm.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/onednn_common.h"
#include "backends/cpu/vector/cells_fn.h"

namespace xc::cpu {
namespace {

enum class Cell : uint8_t { kLstm, kGru, kRnn };
Cell cell_of(const OpDef& op) {
  return op.name == "LSTM" ? Cell::kLstm : op.name == "GRU" ? Cell::kGru : Cell::kRnn;
}
int64_t gates_of(Cell cell) {
  return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1;
}

constexpr int64_t kSpanBytes = 1 << 20;  ///< of pre-activations computed at a time
constexpr int64_t kPackedSamples = 64;   ///< up to which the own product is used

enum Input { kX, kW, kR, kB, kLengths, kH0, kC0 };

/// R of every direction in panels (PanelProduct), transposed. A GRU that resets before its product
/// multiplies the last third of the columns by themselves: they begin a panel.
struct PackedR {
  std::shared_ptr<const Buffer> panels;
  int64_t hidden = 0, width = 0, first = 0;  ///< columns of the first product
  static int64_t whole_panels(int64_t columns) { return align_up(columns, kPanel); }
  int64_t direction_size() const {
    return (whole_panels(first) + whole_panels(width - first)) * hidden;
  }
  /// Of the product that begins at a column.
  const float* at(int64_t direction, int64_t column) const {
    return reinterpret_cast<const float*>(panels->data()) + direction * direction_size() +
           whole_panels(column) * hidden;
  }
};

class RecurrentBound final : public BoundKernel {
 public:
  RecurrentBound(const StepSpec& spec, const BindContext& context,
                 std::shared_ptr<const PackedR> packed)
      : views_(spec, context),
        cell_(cell_of(*spec.op)),
        gates_(gates_of(cell_)),
        packed_(std::move(packed)),
        fns_(cell_fns(cpu_info().isa)) {
    const std::string direction = spec.attrs().get_string("direction", "forward");
    dirs_ = direction == "bidirectional" ? 2 : 1;
    reverse_ = direction == "reverse";
    batch_first_ = spec.attrs().get_int("layout", 0) != 0;
    linear_ = cell_ == Cell::kGru && spec.attrs().get_int("linear_before_reset", 0) != 0;
    const Dims& x = views_.inputs[kX].dims;
    time_ = x[batch_first_ ? 1 : 0];
    batch_ = x[batch_first_ ? 0 : 1];
    input_ = x[2];
    hidden_ = views_.inputs[kR].dims[2];
    width_ = gates_ * hidden_;
    lengths_ = has(kLengths);
    if (packed_ && batch_ > kPackedSamples) packed_ = nullptr;
    const double depth = static_cast<double>(input_ + (packed_ ? 0 : hidden_));
    const SgemmChoice choice = choose_sgemm(
        batch_, width_, hidden_, spec.numerics == Numerics::kStrict || context.background,
        2.0 * static_cast<double>(dirs_ * time_ * batch_ * width_) * depth);
    own_ = choice.own;
    provisional = choice.provisional;
    const int64_t step_bytes = std::max<int64_t>(1, batch_ * width_ * 4);
    // With lengths, samples are at different times in one step.
    span_ = lengths_ ? time_
                     : std::clamp<int64_t>(kSpanBytes / step_bytes, 1, std::max<int64_t>(1, time_));
    // x as rows (t, n) at one distance; else staged.
    const Dims xs = time_first(views_.inputs[kX].strides);
    const bool rows_dense = xs[2] == 1 || input_ == 1;
    staged_ = !(rows_dense && (batch_ == 1 || time_ == 1 || xs[0] == xs[1] * batch_) &&
                (batch_ * time_ == 1 || row_stride(xs) >= input_));
    x_row_ = staged_ ? input_ : std::max(row_stride(xs), input_);
    const Dims dims{span_, batch_, input_};
    if (staged_) stage_ = CopyPlan(dims, xs, contiguous_strides(dims), 4);
    const auto bytes = [](int64_t floats) { return align_up(floats * 4, 64); };
    x_bytes_ = staged_ ? bytes(span_ * batch_ * input_) : 0;
    span_bytes_ = bytes(span_ * batch_ * width_);
    gates_bytes_ = bytes(batch_ * width_);
    state_bytes_ = bytes(batch_ * hidden_);
    scratch_bytes = x_bytes_ + span_bytes_ + 2 * gates_bytes_ + 3 * state_bytes_ + bytes(width_);
    tasks = dirs_;
    held_bytes += views_.bytes() + 256;
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    const OneThread guard;
    for (int64_t d = begin; d < end; ++d) run_direction(args, d);
  }

 private:
  bool has(size_t i) const { return i < views_.inputs.size() && views_.inputs[i].present(); }
  /// Strides of x as [time, batch, input].
  Dims time_first(const Dims& s) const { return batch_first_ ? Dims{s[1], s[0], s[2]} : s; }
  int64_t row_stride(const Dims& xs) const { return batch_ > 1 ? xs[1] : xs[0]; }
  /// Offset of sample n, direction d in a state tensor.
  int64_t state_at(const OperandView& s, int64_t d, int64_t n) const {
    return batch_first_ ? n * s.strides[0] + d * s.strides[1] : d * s.strides[0] + n * s.strides[1];
  }
  static void copy_row(const float* from, int64_t from_step, float* to, int64_t to_step,
                       int64_t n) {
    if (from_step == 1 && to_step == 1) {
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
      return;
    }
    for (int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
  }

  struct Buffers {
    float *x, *span, *gates, *recurrent, *h, *c, *reset, *bias;
  };
  Buffers carve(void* scratch) const {
    auto* at = static_cast<std::byte*>(scratch);
    const auto next = [&](int64_t bytes) {
      auto* out = reinterpret_cast<float*>(at);
      at += bytes;
      return out;
    };
    Buffers b{};
    b.x = next(x_bytes_);
    b.span = next(span_bytes_);
    b.gates = next(gates_bytes_);
    b.recurrent = next(gates_bytes_);
    b.h = next(state_bytes_);
    b.c = next(state_bytes_);
    b.reset = next(state_bytes_);
    b.bias = next(0);
    return b;
  }

  void load_state(const StepArgs& args, size_t input, int64_t d, float* to) const {
    for (int64_t n = 0; n < batch_; ++n) {
      if (has(input)) {
        const OperandView& s = views_.inputs[input];
        copy_row(static_cast<const float*>(args.buffers[input]) + state_at(s, d, n), s.strides[2],
                 to + n * hidden_, 1, hidden_);
      } else {
        std::memset(to + n * hidden_, 0, static_cast<size_t>(hidden_) * sizeof(float));
      }
    }
  }

  /// Bias that goes with the input's product: Wb + Rb, but for the hidden gate of a linear GRU.
  void load_bias(const StepArgs& args, int64_t d, float* to) const {
    if (!has(kB)) {
      std::memset(to, 0, static_cast<size_t>(width_) * sizeof(float));
      return;
    }
    const float* b = static_cast<const float*>(args.buffers[kB]) + d * 2 * width_;
    const int64_t both = linear_ ? 2 * hidden_ : width_;
    for (int64_t j = 0; j < width_; ++j) to[j] = b[j] + (j < both ? b[width_ + j] : 0.0f);
  }

  /// c = a b^T + beta c: m rows of a, n of b, each of k; rows of c are those of the gates.
  void multiply(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
                float beta, float* c) const {
    const Sgemm product{false, true, m, n, k, 1.0f, a, lda, b, k, beta, c, width_};
    own_ ? own_gemm(product) : library_sgemm(product);
  }

  /// to[n] = beta to[n] + h[n] R^T over columns [first, first + count); beta 0 for all of them.
  void recur(const StepArgs& args, int64_t d, const float* h, float* to, int64_t first,
             int64_t count, float beta) const {
    const float* r = static_cast<const float*>(args.buffers[kR]) + d * width_ * hidden_;
    if (packed_) {
      if (beta == 0) std::memset(to, 0, static_cast<size_t>(batch_ * width_) * sizeof(float));
      fns_.panel_product(
          {h, hidden_, batch_, hidden_, packed_->at(d, first), count, to + first, width_});
      return;
    }
    multiply(batch_, count, hidden_, h, hidden_, r + first * hidden_, beta, to + first);
  }

  void run_direction(const StepArgs& args, int64_t d) const {
    const Buffers b = carve(args.scratch);
    const bool backwards = d == 1 || reverse_;
    const size_t first_output = views_.inputs.size();
    const auto output = [&](size_t k) -> float* {
      return k < views_.outputs.size() && views_.outputs[k].present()
                 ? static_cast<float*>(args.buffers[first_output + k])
                 : nullptr;
    };
    std::vector<int64_t> lengths;
    if (lengths_) {
      const OperandView& view = views_.inputs[kLengths];
      for (int64_t n = 0; n < batch_; ++n) {
        lengths.push_back(static_cast<const int32_t*>(args.buffers[kLengths])[n * view.strides[0]]);
        if (lengths.back() < 0 || lengths.back() > time_)
          fail(Status::kRange, "sequence length {} is outside [0, {}]", lengths.back(), time_);
      }
    }
    load_state(args, kH0, d, b.h);
    if (cell_ == Cell::kLstm) load_state(args, kC0, d, b.c);
    load_bias(args, d, b.bias);
    for (int64_t done = 0; done < time_; done += span_) {
      const int64_t steps = std::min(span_, time_ - done);
      // Times [from, from + steps), in rising order whatever the direction.
      const int64_t from = backwards && !lengths_ ? time_ - done - steps : done;
      project(args, d, from, steps, b);
      for (int64_t step = 0; step < steps; ++step) {
        Buffers now = b;
        if (lengths_)
          gather_gates(b, lengths, done + step, backwards);
        else
          now.gates =
              b.span + (time_of(lengths, 0, done + step, backwards) - from) * batch_ * width_;
        advance(args, d, now, lengths, done + step);
        if (float* y = output(0)) {
          const Dims& s = views_.outputs[0].strides;
          for (int64_t n = 0; n < batch_; ++n) {
            const int64_t at = time_of(lengths, n, done + step, backwards);
            const int64_t t = at < 0 ? done + step : at;
            float* to = y + (batch_first_ ? n * s[0] + t * s[1] + d * s[2]
                                          : t * s[0] + d * s[1] + n * s[2]);
            if (at >= 0)
              copy_row(b.h + n * hidden_, 1, to, s[3], hidden_);
            else
              for (int64_t j = 0; j < hidden_; ++j) to[j * s[3]] = 0;
          }
        }
      }
    }
    for (size_t k = 1; k < 3; ++k)
      if (float* state = output(k))
        for (int64_t n = 0; n < batch_; ++n)
          copy_row((k == 1 ? b.h : b.c) + n * hidden_, 1, state + state_at(views_.outputs[k], d, n),
                   views_.outputs[k].strides[2], hidden_);
  }

  /// Time a sample is at in a step; -1 when its sequence has ended.
  int64_t time_of(const std::vector<int64_t>& lengths, int64_t n, int64_t step,
                  bool backwards) const {
    const int64_t length = lengths.empty() ? time_ : lengths[static_cast<size_t>(n)];
    if (step >= length) return -1;
    return backwards ? length - 1 - step : step;
  }

  /// Samples that have sequences of their own are at different times in one step.
  void gather_gates(const Buffers& b, const std::vector<int64_t>& lengths, int64_t step,
                    bool backwards) const {
    for (int64_t n = 0; n < batch_; ++n) {
      const int64_t at = std::max<int64_t>(0, time_of(lengths, n, step, backwards));
      std::memcpy(b.gates + n * width_, b.span + (at * batch_ + n) * width_,
                  static_cast<size_t>(width_) * sizeof(float));
    }
  }

  /// span[t, n] = W x[t, n] + bias for `steps` times from `from` on.
  void project(const StepArgs& args, int64_t d, int64_t from, int64_t steps,
               const Buffers& b) const {
    const auto* x = static_cast<const float*>(args.buffers[kX]) +
                    from * time_first(views_.inputs[kX].strides)[0];
    if (staged_) {
      if (steps == span_) {
        stage_.run(x, b.x);
      } else {
        const Dims dims{steps, batch_, input_};
        CopyPlan(dims, time_first(views_.inputs[kX].strides), contiguous_strides(dims), 4)
            .run(x, b.x);
      }
      x = b.x;
    }
    const int64_t rows = steps * batch_;
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(b.span + r * width_, b.bias, static_cast<size_t>(width_) * sizeof(float));
    if (input_ == 0) return;
    const float* w = static_cast<const float*>(args.buffers[kW]) + d * width_ * input_;
    multiply(rows, width_, input_, x, x_row_, w, 1.0f, b.span);
  }

  /// One step of every sample whose sequence goes on.
  void advance(const StepArgs& args, int64_t d, const Buffers& b,
               const std::vector<int64_t>& lengths, int64_t step) const {
    const auto live = [&](int64_t n) {
      return lengths.empty() || step < lengths[static_cast<size_t>(n)];
    };
    if (cell_ == Cell::kGru && !linear_) {
      recur(args, d, b.h, b.gates, 0, 2 * hidden_, 1.0f);
      for (int64_t n = 0; n < batch_; ++n)
        fns_.gru_open(b.gates + n * width_, b.h + n * hidden_, b.reset + n * hidden_, hidden_);
      recur(args, d, b.reset, b.gates, 2 * hidden_, hidden_, 1.0f);
    } else if (cell_ == Cell::kGru) {
      recur(args, d, b.h, b.recurrent, 0, width_, 0.0f);
    } else {
      recur(args, d, b.h, b.gates, 0, width_, 1.0f);
    }
    const float* hidden_bias = linear_ && has(kB) ? static_cast<const float*>(args.buffers[kB]) +
                                                        d * 2 * width_ + width_ + 2 * hidden_
                                                  : nullptr;
    for (int64_t n = 0; n < batch_; ++n) {
      if (!live(n)) continue;
      const float* gates = b.gates + n * width_;
      float *h = b.h + n * hidden_, *c = b.c + n * hidden_;
      if (cell_ == Cell::kLstm)
        fns_.lstm(gates, c, h, hidden_);
      else if (cell_ == Cell::kRnn)
        fns_.rnn(gates, h, hidden_);
      else if (linear_)
        fns_.gru_linear(gates, b.recurrent + n * width_, hidden_bias, h, hidden_);
      else
        fns_.gru_close(gates, h, hidden_);
    }
  }

  OperandViews views_;
  Cell cell_;
  int64_t gates_;
  std::shared_ptr<const PackedR> packed_;
  const CellFns& fns_;
  int64_t dirs_ = 1, time_ = 0, batch_ = 0, input_ = 0, hidden_ = 0, width_ = 0, span_ = 1,
          x_row_ = 0;
  bool reverse_ = false, batch_first_ = false, linear_ = false, lengths_ = false, staged_ = false;
  bool own_ = false;  ///< the library is cold
  CopyPlan stage_;
  int64_t x_bytes_ = 0, span_bytes_ = 0, gates_bytes_ = 0, state_bytes_ = 0;
};

Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  for (size_t i : {kX, kW, kR, kB})
    if (i < spec.inputs.size() && spec.inputs[i].present() && spec.inputs[i].dtype != DType::kF32)
      return Verdict::no(fmt::format("operand {} is {}, not f32", i, name(spec.inputs[i].dtype)));
  for (size_t i : {kW, kR, kB})
    if (i < spec.inputs.size() && spec.inputs[i].present() && !spec.inputs[i].contiguous())
      return Verdict::no("weights that are not dense");
  const Attrs& attrs = spec.attrs();
  if (attrs.get_float("clip", 0) != 0) return Verdict::no("clip");
  if (attrs.get_int("input_forget", 0) != 0) return Verdict::no("coupled input and forget gates");
  if (spec.inputs.size() > 7 && spec.inputs[7].present()) return Verdict::no("peepholes");
  const Cell cell = cell_of(*spec.op);
  const std::vector<std::string> defaults =
      cell == Cell::kLstm  ? std::vector<std::string>{"sigmoid", "tanh", "tanh"}
      : cell == Cell::kGru ? std::vector<std::string>{"sigmoid", "tanh"}
                           : std::vector<std::string>{"tanh"};
  const auto activations = attrs.get_strings("activations");
  for (size_t i = 0; i < activations.size(); ++i) {
    std::string lower = activations[i];
    for (char& c : lower)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (lower != defaults[i % defaults.size()])
      return Verdict::no(fmt::format("activation {}", activations[i]));
  }
  return Verdict::ok();
}

std::shared_ptr<const PackedR> pack(const Tensor& r, int64_t first) {
  auto out = std::make_shared<PackedR>();
  const int64_t dirs = r.dims()[0];
  out->width = r.dims()[1];
  out->hidden = r.dims()[2];
  out->first = first;
  const int64_t bytes = dirs * out->direction_size() * 4;
  auto panels = Buffer::allocate(bytes);
  std::memset(panels->data(), 0, static_cast<size_t>(bytes));
  out->panels = panels;
  for (int64_t d = 0; d < dirs; ++d)
    for (const auto& [begin, end] : {std::pair{int64_t{0}, first}, {first, out->width}})
      for (int64_t column = begin; column < end; column += kPanel) {
        const Dims dims{out->hidden, std::min(kPanel, end - column)}, source{1, out->hidden},
            target{kPanel, 1};
        CopyPlan(dims, source, target, 4)
            .run(r.as<float>() + (d * out->width + column) * out->hidden,
                 const_cast<float*>(out->at(d, begin)) + (column - begin) * out->hidden);
      }
  return out;
}

class RecurrentKernel final : public Kernel {
 public:
  explicit RecurrentKernel(const StepSpec& spec) : spec_(spec) {
    const Tensor& r = spec.inputs[kR].constant;
    packable_ = r && r.contiguous() && r.byte_size() > 0;
  }
  bool wants_warm_up() const override {
    return spec_.numerics != Numerics::kStrict && !sgemm_is_warm();
  }
  void warm_up() override { warm_sgemm(); }
  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    // Packing costs about one time step: no reason to wait for the background.
    if (packable_)
      std::call_once(packed_once_, [&] {
        const Tensor& r = spec_.inputs[kR].constant;
        const bool apart = cell_of(*spec_.op) == Cell::kGru &&
                           spec_.attrs().get_int("linear_before_reset", 0) == 0;
        packed_ = pack(r, apart ? 2 * r.dims()[2] : r.dims()[1]);
      });
    return std::make_shared<RecurrentBound>(spec_, context, packed_);
  }

 private:
  StepSpec spec_;
  bool packable_ = false;
  mutable std::once_flag packed_once_;
  mutable std::shared_ptr<const PackedR> packed_;
};

std::unique_ptr<Kernel> create(const StepSpec& spec) {
  return std::make_unique<RecurrentKernel>(spec);
}

}  // namespace

void add_recurrent(Rows& rows) {
  for (std::string_view op : {"LSTM", "GRU", "RNN"})
    rows.push_back({"xc.recurrent", op, supports, create});
}

}  // namespace xc::cpu
