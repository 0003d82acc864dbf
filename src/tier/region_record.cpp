#include "tier/region_record.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "loop/text.h"

namespace xc {
namespace {

using nlohmann::json;

/// Raised while reading; decode_region_code() catches it.
struct Unreadable {};

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

json to_json(const OperandDims::Ref& ref) {
  return {ref.operand, ref.axis};
}
json to_json(const OperandDims& dims) {
  json factors = json::array();
  for (const OperandDims::Ref& ref : dims.factors) factors.push_back(to_json(ref));
  return {{"factors", factors},
          {"constant", dims.constant},
          {"divisor", dims.divisor},
          {"multiple", dims.multiple}};
}

/// Reads what to_json() writes; numbers of operands and axes have to be there.
class Reader {
 public:
  explicit Reader(const StepSpec& spec) {
    for (const auto* operands : {&spec.inputs, &spec.outputs})
      for (const Operand& operand : *operands) ranks_.push_back(operand.dims.size());
  }
  size_t operands() const { return ranks_.size(); }

  template <class T>
  static T number(const json& value, int64_t least = 0, int64_t most = INT64_MAX) {
    if (!value.is_number_integer()) throw Unreadable{};
    const auto out = value.get<int64_t>();
    if (out < least || out > most) throw Unreadable{};
    return static_cast<T>(out);
  }
  static const json& list(const json& value) {
    if (!value.is_array()) throw Unreadable{};
    return value;
  }
  static DType dtype(const json& value) {
    const auto type = dtype_from_name(value.get<std::string>());
    if (!type) throw Unreadable{};
    return *type;
  }
  uint32_t operand(const json& value) const {
    return number<uint32_t>(value, 0, static_cast<int64_t>(ranks_.size()) - 1);
  }
  uint32_t axis(const json& value, uint32_t operand) const {
    return number<uint32_t>(value, 0, static_cast<int64_t>(ranks_[operand]) - 1);
  }
  OperandDims::Ref ref(const json& value) const {
    if (list(value).size() != 2) throw Unreadable{};
    const uint32_t of = operand(value[0]);
    return {of, axis(value[1], of)};
  }
  OperandDims dims(const json& value) const {
    OperandDims out;
    for (const json& factor : list(value.at("factors"))) out.factors.push_back(ref(factor));
    out.constant = number<int64_t>(value.at("constant"), INT64_MIN);
    out.divisor = number<int64_t>(value.at("divisor"), 1);
    out.multiple = number<int64_t>(value.at("multiple"), 1);
    return out;
  }

 private:
  std::vector<size_t> ranks_;
};

json to_json(const RegionPhase& phase) {
  json dims = json::array(), strides = json::array();
  for (const OperandDims& d : phase.dims) dims.push_back(to_json(d));
  for (const RegionPhase::StrideRef& s : phase.strides)
    strides.push_back({s.operand, s.axis, s.broadcast ? 1 : 0});
  return {{"kernel", loop::print(without_bodies(phase.kernel))},
          {"buffers", phase.buffers},
          {"dims", dims},
          {"strides", strides},
          {"grain", phase.grain}};
}

RegionPhase phase_of(const json& value, const Reader& read, size_t temps) {
  RegionPhase out;
  out.kernel = loop::parse(value.at("kernel").get<std::string>());
  const auto last = static_cast<int64_t>(read.operands() + temps) - 1;
  for (const json& buffer : Reader::list(value.at("buffers")))
    out.buffers.push_back(Reader::number<uint32_t>(buffer, 0, last));
  for (const json& d : Reader::list(value.at("dims"))) out.dims.push_back(read.dims(d));
  for (const json& s : Reader::list(value.at("strides"))) {
    if (Reader::list(s).size() != 3) throw Unreadable{};
    const uint32_t of = read.operand(s[0]);
    out.strides.push_back({of, read.axis(s[1], of), Reader::number<int>(s[2], 0, 1) != 0});
  }
  out.grain = Reader::number<int64_t>(value.at("grain"), 1);
  if (out.buffers.size() != out.kernel.param_count() || out.dims.size() != out.kernel.dims.size() ||
      out.strides.size() != out.kernel.strides.size())
    throw Unreadable{};
  return out;
}

json to_json(const RegionSum& sum) {
  json axes = json::array();
  for (const RegionSum::Axis& axis : sum.axes)
    axes.push_back({axis.axis ? static_cast<int64_t>(*axis.axis) : -1, axis.size, axis.stride});
  return {{"temp", sum.temp}, {"operand", sum.operand}, {"dtype", name(sum.dtype)}, {"axes", axes}};
}

RegionSum sum_of(const json& value, const Reader& read, const std::vector<RegionTemp>& temps) {
  RegionSum out;
  out.temp = Reader::number<uint32_t>(value.at("temp"), 0, static_cast<int64_t>(temps.size()) - 1);
  if (temps[out.temp].per_task < 1) throw Unreadable{};
  out.operand = read.operand(value.at("operand"));
  out.dtype = Reader::dtype(value.at("dtype"));
  const json& axes = Reader::list(value.at("axes"));
  if (axes.size() != out.axes.size()) throw Unreadable{};
  for (size_t k = 0; k < axes.size(); ++k) {
    if (Reader::list(axes[k]).size() != 3) throw Unreadable{};
    if (Reader::number<int64_t>(axes[k][0], -1) >= 0)
      out.axes[k].axis = read.axis(axes[k][0], out.operand);
    out.axes[k].size = Reader::number<int64_t>(axes[k][1]);
    out.axes[k].stride = Reader::number<int64_t>(axes[k][2]);
  }
  return out;
}

json to_json(const RegionPick& pick) {
  return {{"indices", pick.indices},
          {"dtype", name(pick.dtype)},
          {"coordinate", pick.coordinate.value_or(-1)},
          {"data", pick.data},
          {"axis", pick.axis}};
}

RegionPick pick_of(const json& value, const Reader& read) {
  RegionPick out;
  out.indices = read.operand(value.at("indices"));
  out.dtype = Reader::dtype(value.at("dtype"));
  if (const auto at = Reader::number<int64_t>(value.at("coordinate"), -1); at >= 0)
    out.coordinate = at;
  out.data = read.operand(value.at("data"));
  out.axis = read.axis(value.at("axis"), out.data);
  return out;
}

}  // namespace

std::string encode_region_code(const RegionCode& code) {
  json phases = json::array(), temps = json::array(), sums = json::array(), picks = json::array(),
       repeats = json::array();
  for (const RegionPhase& phase : code.phases) phases.push_back(to_json(phase));
  for (const RegionTemp& temp : code.temps)
    temps.push_back({{"dtype", name(temp.dtype)},
                     {"elements", to_json(temp.elements)},
                     {"per_task", temp.per_task}});
  for (const RegionSum& sum : code.sums) sums.push_back(to_json(sum));
  for (const RegionPick& pick : code.picks) picks.push_back(to_json(pick));
  for (const OperandDims::Ref& ref : code.repeats) repeats.push_back(to_json(ref));
  return json{
      {"phases", phases}, {"temps", temps}, {"sums", sums}, {"picks", picks}, {"repeats", repeats}}
      .dump();
}

std::optional<RegionCode> decode_region_code(std::string_view text, const StepSpec& spec) {
  try {
    const json value = json::parse(text);
    const Reader read(spec);
    RegionCode out;
    for (const json& temp : Reader::list(value.at("temps")))
      out.temps.push_back({Reader::dtype(temp.at("dtype")), read.dims(temp.at("elements")),
                           Reader::number<int64_t>(temp.at("per_task"))});
    for (const json& phase : Reader::list(value.at("phases")))
      out.phases.push_back(phase_of(phase, read, out.temps.size()));
    for (const json& sum : Reader::list(value.at("sums")))
      out.sums.push_back(sum_of(sum, read, out.temps));
    for (const json& pick : Reader::list(value.at("picks")))
      out.picks.push_back(pick_of(pick, read));
    for (const json& ref : Reader::list(value.at("repeats"))) out.repeats.push_back(read.ref(ref));
    if (out.phases.empty()) return std::nullopt;
    return out;
  } catch (const json::exception&) {
    return std::nullopt;
  } catch (const Error&) {  // loop::parse()
    return std::nullopt;
  } catch (const Unreadable&) {
    return std::nullopt;
  }
}

}  // namespace xc
