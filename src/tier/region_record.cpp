#include "tier/region_record.h"

#include "base/error.h"
#include "cache/record_text.h"
#include "loop/text.h"

namespace xc {
namespace {

using cache::RecordReader, cache::RecordWriter, cache::Unreadable;

/// The kernel without what its loops do.
loop::Kernel without_bodies(const loop::Kernel& kernel) {
  loop::Kernel out;
  out.name = kernel.name;
  out.dims = kernel.dims;
  out.strides = kernel.strides;
  out.buffers = kernel.buffers;
  for (const loop::Stmt& stmt : kernel.body) {
    const auto* loop = std::get_if<loop::For>(&stmt.node);
    if (!loop || loop->kind != loop::LoopKind::kParallel) continue;
    loop::For empty = *loop;
    empty.body.clear();
    out.vars.push_back(kernel.vars.at(empty.var.id));
    empty.var.id = 0;
    out.body.push_back({std::move(empty)});
  }
  return out;
}

/// To the end of a line: "constant divisor multiple offset", the number of addends, then an operand
/// and an axis per addend and per factor.
std::vector<int64_t> numbers_of(const OperandDims& dims) {
  std::vector<int64_t> out{dims.constant, dims.divisor, dims.multiple, dims.offset,
                           static_cast<int64_t>(dims.addends.size())};
  for (const auto* refs : {&dims.addends, &dims.factors})
    for (const OperandDims::Ref& ref : *refs) out.insert(out.end(), {ref.operand, ref.axis});
  return out;
}

void write(RecordWriter& writer, const RegionPhase& phase) {
  writer.line("phase", phase.grain, phase.matrix_units ? 1 : 0,
              loop::print(without_bodies(phase.kernel)));
  writer.line("buffers", phase.buffers);
  for (const OperandDims& dims : phase.dims) writer.line("dim", numbers_of(dims));
  for (const RegionPhase::StrideRef& s : phase.strides)
    writer.line("stride", s.operand, s.axis, s.broadcast ? 1 : 0);
}

void write(RecordWriter& writer, const RegionSum& sum) {
  writer.line("sum", sum.temp, sum.operand, name(sum.dtype));
  for (const RegionSum::Axis& axis : sum.axes)
    writer.line("axis", axis.axis ? static_cast<int64_t>(*axis.axis) : -1, axis.size, axis.stride);
}

void write(RecordWriter& writer, const RegionPick& pick) {
  writer.line("pick", pick.indices, name(pick.dtype), pick.coordinate.value_or(-1), pick.data,
              pick.axis);
}

/// Reads what is written here; numbers of operands and axes have to be there.
class Reader {
 public:
  Reader(std::string_view text, const StepSpec& spec) : text_(text) {
    for (const auto* operands : {&spec.inputs, &spec.outputs})
      for (const Operand& operand : *operands) ranks_.push_back(operand.dims.size());
  }

  RegionCode code() {
    RegionCode out;
    text_.line("code");
    const int64_t phases = number(1), temps = number(), sums = number(), picks = number(),
                  repeats = number();
    for (int64_t k = 0; k < temps; ++k) out.temps.push_back(temp());
    for (int64_t k = 0; k < phases; ++k) out.phases.push_back(phase(out.temps.size()));
    for (int64_t k = 0; k < sums; ++k) out.sums.push_back(sum(out.temps));
    for (int64_t k = 0; k < picks; ++k) out.picks.push_back(pick());
    for (int64_t k = 0; k < repeats; ++k) {
      text_.line("repeat");
      out.repeats.push_back(ref());
    }
    text_.done();
    return out;
  }

 private:
  int64_t number(int64_t least = 0) { return text_.integer(least); }
  uint32_t index(size_t count) {
    return static_cast<uint32_t>(text_.integer(0, static_cast<int64_t>(count) - 1));
  }
  uint32_t operand() { return index(ranks_.size()); }
  uint32_t axis(uint32_t operand) { return index(ranks_[operand]); }
  OperandDims::Ref ref() {
    const uint32_t of = operand();
    return {of, axis(of)};
  }
  DType dtype() {
    const auto type = dtype_from_name(text_.text());
    if (!type) throw Unreadable{};
    return *type;
  }

  OperandDims dims() {
    OperandDims out;
    out.constant = text_.integer();
    out.divisor = number(1);
    out.multiple = number(1);
    out.offset = text_.integer();
    for (int64_t left = number(0); left > 0; --left) out.addends.push_back(ref());
    while (text_.more()) out.factors.push_back(ref());
    return out;
  }

  RegionTemp temp() {
    RegionTemp out;
    text_.line("temp");
    out.dtype = dtype();
    out.per_task = number();
    out.elements = dims();
    return out;
  }

  RegionPhase phase(size_t temps) {
    RegionPhase out;
    text_.line("phase");
    out.grain = number(1);
    out.matrix_units = index(2) != 0;
    out.kernel = loop::parse(text_.text());
    text_.line("buffers");
    while (text_.more()) out.buffers.push_back(index(ranks_.size() + temps));
    while (text_.next_is("dim")) {
      text_.line("dim");
      out.dims.push_back(dims());
    }
    while (text_.next_is("stride")) {
      text_.line("stride");
      const uint32_t of = operand(), along = axis(of);
      out.strides.push_back({of, along, index(2) != 0});
    }
    if (out.buffers.size() != out.kernel.param_count() ||
        out.dims.size() != out.kernel.dims.size() ||
        out.strides.size() != out.kernel.strides.size())
      throw Unreadable{};
    return out;
  }

  RegionSum sum(const std::vector<RegionTemp>& temps) {
    RegionSum out;
    text_.line("sum");
    out.temp = index(temps.size());
    if (temps[out.temp].per_task < 1) throw Unreadable{};
    out.operand = operand();
    out.dtype = dtype();
    for (RegionSum::Axis& each : out.axes) {
      text_.line("axis");
      if (const int64_t at = number(-1); at >= 0) {
        if (at >= static_cast<int64_t>(ranks_[out.operand])) throw Unreadable{};
        each.axis = static_cast<uint32_t>(at);
      }
      each.size = number();
      each.stride = number();
    }
    return out;
  }

  RegionPick pick() {
    RegionPick out;
    text_.line("pick");
    out.indices = operand();
    out.dtype = dtype();
    if (const int64_t at = number(-1); at >= 0) out.coordinate = at;
    out.data = operand();
    out.axis = axis(out.data);
    return out;
  }

  RecordReader text_;
  std::vector<size_t> ranks_;
};

}  // namespace

std::string encode_region_code(const RegionCode& code) {
  RecordWriter writer;
  writer.line("code", code.phases.size(), code.temps.size(), code.sums.size(), code.picks.size(),
              code.repeats.size());
  for (const RegionTemp& temp : code.temps)
    writer.line("temp", name(temp.dtype), temp.per_task, numbers_of(temp.elements));
  for (const RegionPhase& phase : code.phases) write(writer, phase);
  for (const RegionSum& sum : code.sums) write(writer, sum);
  for (const RegionPick& pick : code.picks) write(writer, pick);
  for (const OperandDims::Ref& ref : code.repeats) writer.line("repeat", ref.operand, ref.axis);
  return writer.take();
}

std::optional<RegionCode> decode_region_code(std::string_view text, const StepSpec& spec) {
  try {
    return Reader(text, spec).code();
  } catch (const Unreadable&) {
    return std::nullopt;
  } catch (const Error&) {  // loop::parse()
    return std::nullopt;
  }
}

}  // namespace xc
