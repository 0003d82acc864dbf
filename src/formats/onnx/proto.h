#pragma once
// The messages of onnx.proto as far as xc reads them. Text and payloads are views into the file;
// tensors, types and attribute payloads stay encoded until they are wanted.

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "formats/onnx/wire.h"

namespace xc::onnx {

/// AttributeProto.AttributeType.
enum class AttributeType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kTypeProto = 13,
  kTypeProtos = 14,
};

struct GraphProto;

struct AttributeProto {
  Bytes name;
  AttributeType type = AttributeType::kUndefined;
  Bytes reference;  ///< ref_attr_name: the attribute of the enclosing function it stands for
  Bytes body;
  std::shared_ptr<const GraphProto> graph;  ///< of type kGraph
};

struct NodeProto {
  Bytes name, op, domain, overload;
  std::vector<Bytes> inputs, outputs;
  std::vector<AttributeProto> attributes;
};

struct ValueInfoProto {
  Bytes name;
  Bytes type;  ///< encoded TypeProto, empty when not given
};

struct TensorProto {
  Bytes name;
  Bytes body;
};

struct GraphProto {
  Bytes name;
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initializers, sparse_initializers;
  std::vector<ValueInfoProto> inputs, outputs, value_infos;
};

/// Version of each domain ("" = ai.onnx).
using Opsets = std::map<std::string_view, int64_t>;

struct FunctionProto {
  Bytes name, domain, overload;
  std::vector<Bytes> inputs, outputs;
  std::vector<Bytes> attributes;  ///< required of the call
  std::vector<AttributeProto> defaults;
  std::vector<NodeProto> nodes;
  Opsets opsets;
};

struct ModelProto {
  int64_t ir_version = 0;
  Opsets opsets;
  GraphProto graph;
  std::vector<FunctionProto> functions;
};

/// "" for ai.onnx, which has two spellings.
std::string_view canonical_domain(std::string_view domain);
/// "node 'fc1' (MatMul)"; without a name that of its first output.
std::string place(const NodeProto& node);

/// Decodes the structure of a whole model. Counts, depth and names are checked on the way.
ModelProto decode_model(const Source& source);

}  // namespace xc::onnx
