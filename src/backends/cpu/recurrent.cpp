// LSTM, GRU and RNN in f32: "xc.recurrent". Both products are own ones over packed weights: of the
// input over a span of time steps at once, then step by step of the state, whose weights are read
// once for several samples at the speed of the cache.
//
// With several threads, each works on some of the units through all steps (Team), so that its part
// of the weights stays in its core's cache; directions, and samples where there are many, are
// apart.
//
// (oneDNN's recurrent primitives want layouts of their own for dims that change, and create their
// code per length; this kernel is bound for any length at no cost.)

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "backends/cpu/bound_views.h"
#include "backends/cpu/copy.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/recurrent_panels.h"
#include "backends/cpu/vector/byte_product_fn.h"
#include "backends/cpu/vector/cells_fn.h"
#include "backends/cpu/vector/elementwise_fn.h"
#include "base/team.h"
#include "ops/matmul.h"
#include "ops/recurrent.h"
#include "ops/rounded_blocks.h"

namespace xc::cpu {
namespace {

enum class Cell : uint8_t { kLstm, kGru, kRnn };
Cell cell_of(const OpDef& op) {
  return op.name == "LSTM" ? Cell::kLstm : op.name == "GRU" ? Cell::kGru : Cell::kRnn;
}
int64_t gates_of(Cell cell) {
  return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1;
}

CellActivation activation_of(const Activation& a) {
  using Kind = CellActivation::Kind;
  static constexpr std::pair<std::string_view, Kind> kKinds[] = {
      {"sigmoid", Kind::kSigmoid},
      {"tanh", Kind::kTanh},
      {"relu", Kind::kRelu},
      {"affine", Kind::kAffine},
      {"leakyrelu", Kind::kLeakyRelu},
      {"thresholdedrelu", Kind::kThresholdedRelu},
      {"scaledtanh", Kind::kScaledTanh},
      {"hardsigmoid", Kind::kHardSigmoid},
      {"elu", Kind::kElu},
      {"softsign", Kind::kSoftsign},
      {"softplus", Kind::kSoftplus}};
  for (const auto& [name, kind] : kKinds)
    if (name == a.name) return {kind, static_cast<float>(a.alpha), static_cast<float>(a.beta)};
  fail(Status::kInternal, "activation '{}'", a.name);
}

/// Of each direction.
std::vector<CellForm> forms_of(const StepSpec& spec, size_t directions) {
  const CellKind& kind = cell_kind(spec.op->name);
  const auto activations = activations_of(*spec.node, kind, directions);
  const double clip = spec.attrs().get_float("clip", 0);
  std::vector<CellForm> out(directions);
  for (size_t d = 0; d < directions; ++d) {
    const Activation* next = activations.data() + d * kind.activations.size();
    CellForm& form = out[d];
    if (kind.gates > 1) form.gate = activation_of(*next++);
    form.candidate = activation_of(*next++);
    if (kind.has_cell_state) form.cell = activation_of(*next);
    if (clip > 0) form.clip = static_cast<float>(clip);
    form.coupled = kind.has_cell_state && spec.attrs().get_int("input_forget", 0) != 0;
  }
  return out;
}

/// Whether CellFns::usual are its functions.
bool usual(const CellForm& form) {
  const CellForm made;
  return form.gate.kind == made.gate.kind && form.candidate.kind == made.candidate.kind &&
         form.cell.kind == made.cell.kind && form.clip == made.clip && !form.coupled;
}

constexpr int64_t kSpanBytes = 1 << 20;  ///< of pre-activations computed at a time
/// Multiply-adds that a thread has in a phase at least: meeting the others costs as much as some
/// thousands.
constexpr int64_t kPartWork = 32 << 10;
constexpr int64_t kGroupSamples = 8;  ///< that are worth a thread of their own

enum Input { kX, kW, kR, kB, kLengths, kH0, kC0, kP };

class RecurrentBound final : public BoundKernel {
 public:
  RecurrentBound(const StepSpec& spec, const BindContext& context,
                 std::shared_ptr<const LayerPanels> panels)
      : views_(spec, context), cell_(cell_of(*spec.op)), fns_(cell_fns(cpu_info().isa)) {
    const std::string direction = spec.attrs().get_string("direction", "forward");
    dirs_ = direction == "bidirectional" ? 2 : 1;
    reverse_ = direction == "reverse";
    batch_first_ = spec.attrs().get_int("layout", 0) != 0;
    linear_ = cell_ == Cell::kGru && spec.attrs().get_int("linear_before_reset", 0) != 0;
    const std::span<const int64_t> x = views_.inputs[kX].dims;
    time_ = x[batch_first_ ? 1 : 0];
    batch_ = x[batch_first_ ? 0 : 1];
    input_ = x[2];
    units_ = views_.inputs[kR].dims[2];
    width_ = gates_of(cell_) * units_;
    // GRUs that reset before their product meet in the middle of a step.
    halves_ = cell_ == Cell::kGru && !linear_ ? 2 : 1;
    lengths_ = has(kLengths);
    forms_ = forms_of(spec, static_cast<size_t>(dirs_));
    const bool plain = !has(kP) && std::all_of(forms_.begin(), forms_.end(), usual);
    steps_ = plain ? &fns_.usual : &fns_.chosen;
    if (panels) unread = 1u << kW | 1u << kR;
    panels_ =
        panels ? std::move(panels) : std::make_shared<LayerPanels>(gates_of(cell_), units_, input_);
    divide(spec.threads);
    const int64_t step_bytes = std::max<int64_t>(1, batch_ * width_ * 4);
    // With lengths, samples are at different times in one step.
    span_ = lengths_ ? time_
                     : std::clamp<int64_t>(kSpanBytes / step_bytes, 1, std::max<int64_t>(1, time_));
    // x by rows that are dense; else staged.
    const Dims xs = time_first(copied(views_.inputs[kX].strides));
    staged_ = !(xs[2] == 1 || input_ == 1) || (batch_ > 1 && xs[1] < input_) ||
              (time_ > 1 && xs[0] < input_);
    if (staged_) {
      stage_ = stage_of(span_, xs);
      last_stage_ = stage_of(span_ > 0 ? time_ % span_ : 0, xs);
    }
    source_time_ = xs[0];
    x_time_ = staged_ ? batch_ * input_ : xs[0];
    x_sample_ = staged_ ? input_ : xs[1];
    scratch_bytes = staged_ ? floats(span_ * batch_ * input_) : 0;
    rounded_at_ = scratch_bytes;
    if (panels_->rounds) scratch_bytes += rounded_scratch().bytes;
    carve(nullptr, 0, &direction_bytes_);
    shared_bytes = dirs_ * (direction_bytes_ + groups_ * Team::bytes(parts_));
    tasks = dirs_ * groups_ * parts_;
    held_bytes += views_.bytes() + 256;
  }

  void start(const StepArgs& args) const override {
    for (int64_t n = 0; lengths_ && n < batch_; ++n)
      if (const int64_t length = length_of(args, n); length < 0 || length > time_)
        fail(Status::kRange, "sequence length {} is outside [0, {}]", length, time_);
    for (int64_t d = 0; d < dirs_; ++d) {
      const Memory m = memory(args, d);
      load_state(args, kH0, d, m.h[0]);
      if (cell_ == Cell::kLstm) load_state(args, kC0, d, m.c);
      load_bias(args, d, m);
      if (!panels_->buffer)
        panels_->pack(static_cast<const float*>(args.buffers[kW]) + d * width_ * input_,
                      static_cast<const float*>(args.buffers[kR]) + d * width_ * units_, m.panels);
      for (int64_t group = 0; group < groups_; ++group) Team::create(team(args, d, group), parts_);
    }
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t d = task / parts_ / groups_, group = task / parts_ % groups_;
      const Memory m = memory(args, d);
      const auto share = [&](int64_t part) {
        const int64_t grain = panels_->grain(), grains = ceil_div(units_, grain);
        return Share{args,
                     m,
                     d,
                     batch_ * group / groups_,
                     batch_ * (group + 1) / groups_,
                     std::min(units_, grains * part / parts_ * grain),
                     std::min(units_, grains * (part + 1) / parts_ * grain)};
      };
      if (parts_ == 1) {
        const Share all = share(0);
        for (int64_t step = 0; step < time_; ++step)
          for (int64_t half = 0; half < halves_; ++half) advance(all, step, half == 0);
        continue;
      }
      Team::at(team(args, d, group), parts_)
          .run(task % parts_, time_ * halves_, [&](int64_t phase, int64_t part) {
            advance(share(part), phase / halves_, phase % halves_ == 0);
          });
    }
  }

  void finish(const StepArgs& args) const override {
    for (int64_t d = 0; d < dirs_; ++d) {
      const Memory m = memory(args, d);
      for (size_t k = 1; k < 3; ++k)
        if (float* state = output(args, k))
          for (int64_t n = 0; n < batch_; ++n)
            copy_row((k == 1 ? m.h[time_ % 2] : m.c) + n * units_, 1,
                     state + state_at(views_.outputs[k], d, n), views_.outputs[k].strides[2],
                     units_);
    }
  }

 private:
  /// What all workers on a direction share.
  struct Memory {
    float *bias, *state_bias;  ///< rows; the second one of linear GRUs
    float* span;               ///< pre-activations of some steps [t, n, gate, unit]
    float* gates;              ///< of one, where samples have lengths of their own
    float* recurrent;          ///< R h of linear GRUs
    float* h[2];               ///< read and written by turns
    float *c, *reset;
    float* panels;  ///< of weights that are not constant
  };
  /// What a worker does of a phase: samples [n0, n1), units [u0, u1) of a direction.
  struct Share {
    const StepArgs& args;
    const Memory& m;
    int64_t d, n0, n1, u0, u1;
  };

  static int64_t floats(int64_t count) { return align_up(count * 4, 64); }
  bool has(size_t i) const { return i < views_.inputs.size() && views_.inputs[i].present(); }
  /// Strides of x as [time, batch, input].
  Dims time_first(const Dims& s) const { return batch_first_ ? Dims{s[1], s[0], s[2]} : s; }
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

  /// Brings x of so many steps into dense rows.
  CopyPlan stage_of(int64_t steps, const Dims& xs) const {
    const Dims dims{steps, batch_, input_};
    return {dims, xs, contiguous_strides(dims), 4};
  }
  /// Units among threads as far as a phase is worth it, then samples.
  void divide(int64_t threads) {
    threads = threads / dirs_;
    const int64_t work = batch_ * width_ * units_ / halves_;
    parts_ = std::min({threads, ceil_div(units_, panels_->grain()), work / kPartWork});
    if (panels_->rounds && units_ % kPanelColumns != 0) parts_ = 1;  // gates share panels
    parts_ = std::max<int64_t>(1, parts_);
    groups_ = std::max<int64_t>(1, std::min(threads / parts_, batch_ / kGroupSamples));
  }

  Memory carve(std::byte* base, int64_t d, int64_t* bytes = nullptr) const {
    int64_t at = d * direction_bytes_;
    const auto next = [&](bool wanted, int64_t count) {
      auto* out = base ? reinterpret_cast<float*>(base + at) : nullptr;
      if (wanted) at += floats(count);
      return out;
    };
    const int64_t state = batch_ * units_;
    Memory m{};
    m.bias = next(true, width_);
    m.state_bias = next(linear_, width_);
    m.span = next(true, span_ * batch_ * width_);
    m.gates = next(lengths_, batch_ * width_);
    m.recurrent = next(linear_, batch_ * width_);
    for (float*& h : m.h) h = next(true, state);
    m.c = next(cell_ == Cell::kLstm, state);
    m.reset = next(halves_ == 2, state);
    m.panels = next(!panels_->buffer, panels_->floats());
    if (bytes) *bytes = at;
    return m;
  }
  Memory memory(const StepArgs& args, int64_t d) const {
    return carve(static_cast<std::byte*>(args.shared), d);
  }
  std::byte* team(const StepArgs& args, int64_t d, int64_t group) const {
    return static_cast<std::byte*>(args.shared) + dirs_ * direction_bytes_ +
           (d * groups_ + group) * Team::bytes(parts_);
  }
  /// From an element on of the direction's panels: W's, then R's.
  const void* panels_at(const Share& s, int64_t at) const {
    if (!panels_->buffer) return s.m.panels + at;
    return panels_->buffer->data() + (s.d * panels_->floats() + at) * panels_->element_bytes();
  }
  const CellForm& form(const Share& s) const { return forms_[static_cast<size_t>(s.d)]; }
  /// Weights of the state [dirs, 3 * units] for the share's units; null where there are none.
  const float* peephole(const Share& s) const {
    return has(kP) ? static_cast<const float*>(s.args.buffers[kP]) + s.d * 3 * units_ + s.u0
                   : nullptr;
  }
  float* output(const StepArgs& args, size_t k) const {
    return k < views_.outputs.size() && views_.outputs[k].present()
               ? static_cast<float*>(args.buffers[views_.inputs.size() + k])
               : nullptr;
  }
  int64_t length_of(const StepArgs& args, int64_t n) const {
    return lengths_ ? static_cast<const int32_t*>(
                          args.buffers[kLengths])[n * views_.inputs[kLengths].strides[0]]
                    : time_;
  }
  /// Time a sample is at in a step; -1 when its sequence has ended.
  int64_t time_of(const Share& s, int64_t n, int64_t step) const {
    const int64_t length = length_of(s.args, n);
    if (step >= length) return -1;
    return s.d == 1 || reverse_ ? length - 1 - step : step;
  }

  void load_state(const StepArgs& args, size_t input, int64_t d, float* to) const {
    for (int64_t n = 0; n < batch_; ++n) {
      if (has(input)) {
        const OperandView& s = views_.inputs[input];
        copy_row(static_cast<const float*>(args.buffers[input]) + state_at(s, d, n), s.strides[2],
                 to + n * units_, 1, units_);
      } else {
        std::memset(to + n * units_, 0, static_cast<size_t>(units_) * sizeof(float));
      }
    }
  }

  /// Wb + Rb go with the input's product, but for the hidden gate of a linear GRU.
  void load_bias(const StepArgs& args, int64_t d, const Memory& m) const {
    const float* b =
        has(kB) ? static_cast<const float*>(args.buffers[kB]) + d * 2 * width_ : nullptr;
    for (int64_t j = 0; j < width_; ++j) {
      const bool both = !linear_ || j < 2 * units_;
      m.bias[j] = !b ? 0.0f : both ? b[j] + b[width_ + j] : b[j];
      if (linear_) m.state_bias[j] = !b || both ? 0.0f : b[width_ + j];
    }
  }

  /// y = start + x M^T, M being W or R, for gates [first, last) of the share's units; p says all
  /// that is alike for them.
  void multiply(const Share& s, bool state, int64_t first, int64_t last, GateProduct p) const {
    if (panels_->rounds) return multiply_rounded(s, state, p);
    const GatePanels& matrix = state ? panels_->state : panels_->input;
    const int64_t begin = state ? panels_->input.floats() : 0;
    for (const GatePanels::Piece& piece : matrix.pieces()) {
      if (piece.first < first || piece.first >= last) continue;
      GateProduct one = p;
      one.panels = panels_at(s, begin + piece.at);
      if (!panels_->scales.empty()) one.scales = scales_of(s, state) + piece.first * units_;
      one.halves = panels_->halves;
      one.gates = piece.gates;
      one.each = piece.each;
      one.units = units_;
      one.first = s.u0;
      one.end = s.u1;
      one.start += piece.first * units_;
      one.y += piece.first * units_;
      fns_.product(one);
    }
  }

  const float* scales_of(const Share& s, bool state) const {
    return panels_->scales.data() + (s.d * 2 + (state ? 1 : 0)) * panels_->scale_count();
  }

  /// Rows that are rounded before the panels are read, and what is kept of them.
  static constexpr int64_t kRoundedRows = 32;
  struct RoundedScratch {
    int64_t row_bytes, scales_at, sums_at, tile_at, bytes;
  };
  RoundedScratch rounded_scratch() const {
    RoundedScratch out{};
    out.row_bytes = align_up(std::max(units_, input_), 64);
    out.scales_at = kRoundedRows * out.row_bytes;
    out.sums_at = out.scales_at + kRoundedRows * 4;
    out.tile_at = out.sums_at + kRoundedRows * 4;
    out.bytes = out.tile_at + kBlockRows * kPanelColumns * 4;
    return out;
  }

  /// The same, all gates, by rows rounded to bytes.
  void multiply_rounded(const Share& s, bool state, const GateProduct& p) const {
    const RoundedScratch at = rounded_scratch();
    auto* const scratch = static_cast<std::byte*>(s.args.scratch) + rounded_at_;
    auto* const bytes = reinterpret_cast<int8_t*>(scratch);
    auto* const scales = reinterpret_cast<float*>(scratch + at.scales_at);
    auto* const sums = reinterpret_cast<float*>(scratch + at.sums_at);
    std::array<bool, kRoundedRows> whole{};
    for (int64_t row = 0; row < p.rows; row += kRoundedRows) {
      const int64_t count = std::min(kRoundedRows, p.rows - row);
      GateProduct rows = p;
      rows.rows = count;
      rows.x += row * p.x_row;
      rows.start += row * p.start_row;
      rows.y += row * p.y_row;
      for (int64_t r = 0; r < count; ++r)
        whole[static_cast<size_t>(r)] = panels_->rounds->round(
            rows.x + r * p.x_row, p.k, p.k, bytes + r * at.row_bytes, scales + r, sums + r);
      const ByteRows rounded{bytes, at.row_bytes, scales, sums, 1, count};
      auto* const tile = reinterpret_cast<float*>(scratch + at.tile_at);
      if (s.u0 == 0 && s.u1 == units_) {
        multiply_columns(s, state, rows, rounded, whole, 0, width_, tile);
        continue;
      }
      for (int64_t gate = 0; gate < width_; gate += units_)
        multiply_columns(s, state, rows, rounded, whole, gate + s.u0, gate + s.u1, tile);
    }
  }
  /// Columns [begin, end), which begin with a panel, of some rows.
  void multiply_columns(const Share& s, bool state, const GateProduct& p, const ByteRows& rounded,
                        const std::array<bool, kRoundedRows>& whole, int64_t begin, int64_t end,
                        float* tile) const {
    const RoundedPanels& matrix = panels_->rounded(state);
    const auto* const data = reinterpret_cast<const uint8_t*>(panels_->buffer->data()) +
                             s.d * panels_->bytes() + (state ? panels_->rounded_input.bytes() : 0);
    for (int64_t column = begin; column < end; column += kPanelColumns) {
      const BytePanel panel{data + column / kPanelColumns * matrix.panel_bytes(),
                            false,
                            p.k,
                            matrix.block(),
                            scales_of(s, state) + column,
                            kRoundedZeros.data()};
      const int64_t columns = std::min(kPanelColumns, end - column);
      for (int64_t r = 0, count = 0; r < p.rows; r += count) {
        count = 1;
        if (whole[static_cast<size_t>(r)]) {
          while (count < std::min(kBlockRows, p.rows - r) && whole[static_cast<size_t>(r + count)])
            ++count;
          panels_->rounds->multiply(panel,
                                    {rounded.data + r * rounded.row, rounded.row,
                                     rounded.scales + r, rounded.sums + r, 1, count},
                                    tile, kPanelColumns);
        } else {
          multiply_as_given(p.x + r * p.x_row, panel, tile);
        }
        for (int64_t i = 0; i < count; ++i) {
          const float* const start = p.start + (r + i) * p.start_row + column;
          float* const y = p.y + (r + i) * p.y_row + column;
          for (int64_t j = 0; j < columns; ++j) y[j] = start[j] + tile[i * kPanelColumns + j];
        }
      }
    }
  }

  /// y[n] = start[n] + R h[n] for gates [first, last).
  void recur(const Share& s, int64_t step, const float* h, const float* start, int64_t start_row,
             float* y, int64_t first, int64_t last) const {
    multiply(s, true, first, last,
             {.x = h + s.n0 * units_,
              .x_row = units_,
              .rows = s.n1 - s.n0,
              .k = units_,
              .start = start + s.n0 * start_row,
              .start_row = start_row,
              .y = y + s.n0 * width_,
              .y_row = width_,
              .backwards = step % 2 != 0});
  }

  /// Of the span that begins with a step: its times rise, whatever the direction.
  int64_t first_time(const Share& s, int64_t step) const {
    const bool backwards = s.d == 1 || reverse_;
    return backwards && !lengths_ ? time_ - std::min(step + span_, time_) : step;
  }
  /// span[t, n] = bias + W x[t, n] for the times of the span that begins with a step.
  void project(const Share& s, int64_t step) const {
    const int64_t steps = std::min(span_, time_ - step);
    const float* x =
        static_cast<const float*>(s.args.buffers[kX]) + first_time(s, step) * source_time_;
    if (staged_) {
      auto* staged = static_cast<float*>(s.args.scratch);
      (steps == span_ ? stage_ : last_stage_).run(x, staged);
      x = staged;
    }
    // All rows at once where they are at one distance.
    const int64_t samples = s.n1 - s.n0;
    const bool together =
        samples == batch_ && (batch_ == 1 || steps == 1 || x_time_ == batch_ * x_sample_);
    for (int64_t t = 0; t < (together ? 1 : steps); ++t)
      multiply(s, false, 0, gates_of(cell_),
               {.x = x + t * x_time_ + s.n0 * x_sample_,
                .x_row = batch_ > 1 ? x_sample_ : x_time_,
                .rows = together ? steps * batch_ : samples,
                .k = input_,
                .start = s.m.bias,
                .start_row = 0,
                .y = s.m.span + (t * batch_ + s.n0) * width_,
                .y_row = width_});
  }

  /// The share's part of one step, or of its first or second half.
  void advance(const Share& s, int64_t step, bool first_half) const {
    const Memory& m = s.m;
    const float* h = m.h[step % 2];
    float* next = m.h[1 - step % 2];
    const int64_t in_span = step % span_;
    if (first_half && in_span == 0) project(s, step);
    float* gates = m.gates;
    if (!lengths_)
      gates = m.span + (time_of(s, 0, step) - first_time(s, step - in_span)) * batch_ * width_;
    else if (first_half)
      gather_gates(s, step);
    if (linear_)
      recur(s, step, h, m.state_bias, 0, m.recurrent, 0, 3);
    else if (cell_ != Cell::kGru)
      recur(s, step, h, gates, width_, gates, 0, 4);
    else if (first_half)
      recur(s, step, h, gates, width_, gates, 0, 2);
    else
      recur(s, step, m.reset, gates, width_, gates, 2, 3);
    const int64_t count = s.u1 - s.u0;
    for (int64_t n = s.n0; n < s.n1; ++n) {
      const int64_t row = n * width_ + s.u0, unit = n * units_ + s.u0;
      if (cell_ == Cell::kGru && !linear_ && first_half)
        steps_->gru_open(form(s), gates + row, units_, h + unit, m.reset + unit, count);
      else
        finish_step(s, gates + row, h + unit, next + unit, n, step);
    }
  }

  void finish_step(const Share& s, const float* gates, const float* h, float* next, int64_t n,
                   int64_t step) const {
    const int64_t count = s.u1 - s.u0, at = time_of(s, n, step);
    if (at < 0)
      std::memcpy(next, h, static_cast<size_t>(count) * sizeof(float));
    else if (cell_ == Cell::kLstm)
      steps_->lstm(form(s), gates, peephole(s), units_, s.m.c + n * units_ + s.u0, next, count);
    else if (cell_ == Cell::kRnn)
      steps_->rnn(form(s), gates, next, count);
    else if (linear_)
      steps_->gru_linear(form(s), gates, s.m.recurrent + n * width_ + s.u0, units_, h, next, count);
    else
      steps_->gru_close(form(s), gates, units_, h, next, count);
    float* y = output(s.args, 0);
    if (!y) return;
    const std::span<const int64_t> ys = views_.outputs[0].strides;
    const int64_t t = at < 0 ? step : at;
    y += batch_first_ ? n * ys[0] + t * ys[1] + s.d * ys[2] : t * ys[0] + s.d * ys[1] + n * ys[2];
    y += s.u0 * ys[3];
    if (at >= 0)
      copy_row(next, 1, y, ys[3], count);
    else
      for (int64_t j = 0; j < count; ++j) y[j * ys[3]] = 0;
  }

  /// Samples that have sequences of their own are at different times in one step.
  void gather_gates(const Share& s, int64_t step) const {
    for (int64_t n = s.n0; n < s.n1; ++n) {
      const int64_t at = std::max<int64_t>(0, time_of(s, n, step));
      for (int64_t j = s.u0; j < width_; j += units_)
        std::memcpy(s.m.gates + n * width_ + j, s.m.span + (at * batch_ + n) * width_ + j,
                    static_cast<size_t>(s.u1 - s.u0) * sizeof(float));
    }
  }

  OperandViews views_;
  Cell cell_;
  const CellFns& fns_;
  std::vector<CellForm> forms_;  ///< of each direction
  const CellSteps* steps_;
  std::shared_ptr<const LayerPanels> panels_;
  int64_t dirs_ = 1, time_ = 0, batch_ = 0, input_ = 0, units_ = 0, width_ = 0, span_ = 1,
          halves_ = 1;
  int64_t parts_ = 1, groups_ = 1;     ///< of units, of samples
  int64_t source_time_ = 0;            ///< x as it lies: a step further
  int64_t x_time_ = 0, x_sample_ = 0;  ///< as it is read
  bool reverse_ = false, batch_first_ = false, linear_ = false, lengths_ = false, staged_ = false;
  CopyPlan stage_, last_stage_;  ///< of a whole span, of what the last one has
  int64_t rounded_at_ = 0;       ///< in scratch: RoundedScratch
  int64_t direction_bytes_ = 0;
};

Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  for (size_t i : {kX, kW, kR, kB, kP})
    if (i < spec.inputs.size() && spec.inputs[i].present() && spec.inputs[i].dtype != DType::kF32)
      return Verdict::no(fmt::format("operand {} is {}, not f32", i, name(spec.inputs[i].dtype)));
  for (size_t i : {kW, kR, kB, kP})
    if (i < spec.inputs.size() && spec.inputs[i].present() && !spec.inputs[i].contiguous())
      return Verdict::no("weights that are not dense");
  return Verdict::ok();
}

class RecurrentKernel final : public Kernel {
 public:
  explicit RecurrentKernel(const StepSpec& spec) : spec_(spec) {
    for (size_t i : {kW, kR}) {
      const Tensor& weights = spec.inputs[i].constant;
      packable_ &= weights && weights.contiguous();
    }
  }
  std::shared_ptr<const BoundKernel> bind(const BindContext& context) const override {
    // Packing costs about one time step: no reason to wait for the background.
    if (packable_)
      std::call_once(packed_once_, [&] {
        panels_ = pack_layer(spec_, spec_.inputs[kW].constant, spec_.inputs[kR].constant);
      });
    return std::make_shared<RecurrentBound>(spec_, context, panels_);
  }

 private:
  StepSpec spec_;
  bool packable_ = true;
  mutable std::once_flag packed_once_;
  mutable std::shared_ptr<const LayerPanels> panels_;
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
