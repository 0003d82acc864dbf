#include "formats/onnx/export.h"

#include <algorithm>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <unordered_map>
#include <unordered_set>

#include "formats/onnx/op_versions.h"
#include "formats/onnx/subgraph_names.h"
#include "formats/onnx/types.h"
#include "formats/packed.h"
#include "ir/cursor.h"
#include "ir/op_ref.h"
#include "ir/place.h"
#include "ir/text_tensor.h"
#include "ops/op.h"

namespace xc::onnx {
namespace {

using Writer = protozero::pbf_writer;

/// The IR version that came with an opset; 10 is the first with every element type but the newest.
int64_t ir_version_of(int64_t opset) {
  constexpr std::pair<int64_t, int64_t> kVersions[] = {{28, 14}, {25, 13}, {24, 12}, {23, 11}};
  for (const auto& [first, ir] : kVersions)
    if (opset >= first) return ir;
  return 10;
}

std::string encode_tensor(const std::string& name, const Tensor& tensor) {
  std::string out;
  Writer w(out);
  w.add_packed_int64(1, tensor.dims().begin(), tensor.dims().end());
  w.add_int64(2, onnx_number(tensor.dtype()));
  if (!name.empty()) w.add_string(8, name);
  if (tensor.dtype() == DType::kString) {
    const Tensor t = tensor.to_contiguous();
    for (int64_t i = 0; i < t.count(); ++i) w.add_bytes(6, t.as<std::string>()[i]);
  } else {
    w.add_bytes(9, pack_tensor(tensor));
  }
  return out;
}

std::string encode_value_info(const std::string& name, const Type& type) {
  std::string out;
  Writer w(out);
  w.add_string(1, name);
  if (type.kind != Type::Kind::kTensor || type.dtype != DType::kUndefined)
    w.add_message(2, encode_type(type));
  return out;
}

/// Names of one graph on the way out. ONNX names are unique along nested graphs.
struct Names {
  const Graph* graph = nullptr;
  const Names* outer = nullptr;
  std::unordered_map<ValueId, std::string> of;
  /// Constants by memory, so that a body refers to the weights around it.
  std::map<std::pair<const void*, std::string>, std::string> constants;

  const std::string& operator[](ValueId id) const {
    static const std::string absent;
    return id == kNone ? absent : of.at(id);
  }
  const std::string* find_constant(const std::pair<const void*, std::string>& key) const {
    if (const auto it = constants.find(key); it != constants.end()) return &it->second;
    return outer ? outer->find_constant(key) : nullptr;
  }
};

class Exporter {
 public:
  std::string run(const Graph& graph) {
    Names names{.graph = &graph, .outer = nullptr, .of = {}, .constants = {}};
    // The model's own names first: an inner one gives way.
    for (ValueId id = 0; id < graph.value_count(); ++id) used_.emplace(graph.value(id).name, 0);
    for (ValueId id = 0; id < graph.value_count(); ++id) names.of[id] = graph.value(id).name;
    const std::string body = encode_graph(graph, names, 0);

    std::string out;
    Writer w(out);
    w.add_int64(1, ir_version_of(opsets_[""]));
    w.add_string(2, "xc");
    w.add_message(7, body);
    for (const auto& [domain, version] : opsets_) {
      Writer opset(w, 8);
      opset.add_string(1, domain);
      opset.add_int64(2, version);
    }
    if (out.size() > INT32_MAX)
      fail(Status::kLimit, "the model has {} bytes, an ONNX file at most {}: write .xcg instead",
           out.size(), INT32_MAX);
    return out;
  }

 private:
  using UsedNames = std::unordered_map<std::string, int>;  ///< with the last number behind each
  using ConstantKey = std::pair<const void*, std::string>;

  static ConstantKey constant_key(const Tensor& t) {
    return {t.data(),
            fmt::format("{}{}{}", name(t.dtype()), to_text(t.dims()), to_text(t.strides()))};
  }

  /// The name, with a number where another has it.
  static std::string unused(UsedNames& used, const std::string& name) {
    const auto [it, is_new] = used.emplace(name, 0);
    if (is_new) return name;
    int& number = it->second;
    std::string candidate;
    do candidate = fmt::format("{}.{}", name, ++number);
    while (!used.emplace(candidate, 0).second);
    return candidate;
  }

  /// Names of a body: captured values are called as outside, everything else is new.
  Names inner_names(const Graph& graph, const Node& node, const Names& outer) {
    Names names{.graph = &graph, .outer = &outer, .of = {}, .constants = {}};
    const size_t own = graph.inputs.size() - node.capture_count;
    for (size_t i = own; i < graph.inputs.size(); ++i)
      names.of[graph.inputs[i]] =
          outer[node.inputs[node.inputs.size() - node.capture_count + (i - own)]];
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      if (names.of.contains(id)) continue;
      const Value& value = graph.value(id);
      if (value.is_constant() && value.constant.count() > 0 && !graph.is_output(id))
        if (const std::string* shared = outer.find_constant(constant_key(value.constant))) {
          names.of[id] = *shared;
          shared_.insert(&value);
          continue;
        }
      names.of[id] = unused(used_, value.name);
    }
    return names;
  }

  std::string encode_graph(const Graph& graph, Names& names, uint32_t captures) {
    std::string out;
    Writer w(out);
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      const Value& value = graph.value(id);
      if (!value.is_constant() || shared_.contains(&value)) continue;
      w.add_message(5, encode_tensor(names[id], value.constant));
      names.constants.emplace(constant_key(value.constant), names[id]);
    }
    for (const NodeId id : graph.order())
      w.add_message(1, encode_node(graph, graph.node(id), names));
    w.add_string(2, graph.name.empty() ? "graph" : graph.name);
    for (size_t i = 0; i + captures < graph.inputs.size(); ++i)
      w.add_message(11,
                    encode_value_info(names[graph.inputs[i]], graph.value(graph.inputs[i]).type));
    for (const ValueId id : graph.outputs)
      w.add_message(12, encode_value_info(names[id], graph.value(id).type));
    return out;
  }

  std::string encode_node(const Graph& graph, const Node& node, const Names& names) {
    const OpDef& op = *node.op;
    const std::string_view name = op_name(op);
    const auto versions = op_versions(op.domain, name);
    const OpVersion* version = versions.empty() ? nullptr : &versions.back();
    int64_t& opset = opsets_[std::string(op.domain)];
    opset = std::max<int64_t>(opset, version ? version->since : 1);

    // Absent ones at the end, which graphs leave out, stand where the standard wants a number of
    // values; what takes more than it knows (a bias that a pass found room for) is this library's.
    const auto padding = [&](size_t count, int least, int most, std::string_view what) {
      const auto n = static_cast<int64_t>(count);
      if (most >= 0 && n > most)
        fail(Status::kUnsupported, "{} with {} {} has no form in ONNX: write .xcg instead", name, n,
             what);
      return std::max<int64_t>(least - n, 0);
    };
    const size_t inputs = node.inputs.size() - node.capture_count;
    int64_t absent_inputs = 0, absent_outputs = 0;
    if (version)
      located([&] { return node_place(graph, node); },
              [&] {
                absent_inputs = padding(inputs, version->min_inputs, version->max_inputs, "inputs");
                absent_outputs = padding(node.outputs.size(), version->min_outputs,
                                         version->max_outputs, "outputs");
              });

    std::string out;
    Writer w(out);
    for (size_t i = 0; i < inputs; ++i) w.add_string(1, names[node.inputs[i]]);
    for (int64_t i = 0; i < absent_inputs; ++i) w.add_string(1, "");
    for (const ValueId id : node.outputs) w.add_string(2, names[id]);
    for (int64_t i = 0; i < absent_outputs; ++i) w.add_string(2, "");
    if (!node.name.empty()) w.add_string(3, unused(node_names_, node.name));
    w.add_string(4, name.data(), name.size());
    if (!op.domain.empty()) w.add_string(7, op.domain.data(), op.domain.size());
    for (const auto& [key, value] : node.attrs.entries()) {
      const AttributeRow* row = version ? version->find(key) : nullptr;
      if (version && !row) continue;  // of this library's graphs alone; no result depends on it
      w.add_message(5, encode_attribute(key, value, row));
    }
    const auto keys = subgraph_names(op.name);
    if (node.subgraphs.size() > keys.size())
      fail(Status::kUnsupported, "{} with {} subgraphs has no form in ONNX", op.name,
           node.subgraphs.size());
    for (size_t i = 0; i < node.subgraphs.size(); ++i) {
      const Graph& sub = *node.subgraphs[i];
      Names inner = inner_names(sub, node, names);
      const std::string body = encode_graph(sub, inner, node.capture_count);
      Writer attribute(w, 5);
      attribute.add_string(1, keys[i].data(), keys[i].size());
      attribute.add_message(6, body);
      attribute.add_enum(20, static_cast<int32_t>(AttributeType::kGraph));
    }
    return out;
  }

  static std::string encode_attribute(const std::string& key, const Attr& value,
                                      const AttributeRow* row) {
    std::string out;
    Writer w(out);
    w.add_string(1, key);
    AttributeType type = AttributeType::kUndefined;
    switch (kind_of(value)) {
      case AttrKind::kInt:
        type = AttributeType::kInt;
        w.add_int64(3, std::get<int64_t>(value));
        break;
      case AttrKind::kFloat:
        type = AttributeType::kFloat;
        w.add_float(2, static_cast<float>(std::get<double>(value)));
        break;
      case AttrKind::kString:
        if (row && row->type == AttributeType::kTypeProto) {
          type = AttributeType::kTypeProto;
          TextCursor cursor(std::get<std::string>(value));
          w.add_message(14, encode_type(parse_type(cursor)));
          break;
        }
        type = AttributeType::kString;
        w.add_bytes(4, std::get<std::string>(value));
        break;
      case AttrKind::kInts: {
        type = AttributeType::kInts;
        const auto& list = std::get<std::vector<int64_t>>(value);
        w.add_packed_int64(8, list.begin(), list.end());
        break;
      }
      case AttrKind::kFloats: {
        type = AttributeType::kFloats;
        const auto& list = std::get<std::vector<double>>(value);
        const std::vector<float> narrow(list.begin(), list.end());
        w.add_packed_float(7, narrow.begin(), narrow.end());
        break;
      }
      case AttrKind::kStrings:
        type = AttributeType::kStrings;
        for (const std::string& s : std::get<std::vector<std::string>>(value)) w.add_bytes(9, s);
        break;
      case AttrKind::kTensor:
        type = AttributeType::kTensor;
        w.add_message(5, encode_tensor({}, std::get<Tensor>(value)));
        break;
    }
    w.add_enum(20, static_cast<int32_t>(type));
    return out;
  }

  std::map<std::string, int64_t> opsets_{{"", 13}};
  UsedNames used_, node_names_;              ///< of values, of nodes: none occurs twice
  std::unordered_set<const Value*> shared_;  ///< constants of bodies that stand outside of them
};

}  // namespace

std::string export_model(const Graph& graph) {
  return Exporter().run(graph);
}

}  // namespace xc::onnx
