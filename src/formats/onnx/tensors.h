#pragma once
// TensorProto -> Tensor. Payloads stay in the mapped file where their alignment allows.

#include <map>
#include <memory>
#include <string>

#include "formats/onnx/proto.h"
#include "tensor/tensor.h"

namespace xc::onnx {

class TensorReader {
 public:
  /// `file` owns the bytes of `source`. External data is looked for below `base_dir` only; an empty
  /// one refuses it.
  TensorReader(const Source& source, std::shared_ptr<Buffer> file, std::string base_dir,
               bool copy_weights);

  /// Decodes one TensorProto: raw, typed or external data, of exactly the declared size.
  Tensor dense(Bytes body);
  /// Decodes a SparseTensorProto to a dense tensor, bounded by Limits::generated_bytes.
  Tensor sparse(Bytes body);

 private:
  struct Fields;
  Fields read_fields(Bytes body) const;
  Tensor from_bytes(const Fields& fields, const std::shared_ptr<Buffer>& owner, Bytes data,
                    bool external);
  Tensor from_typed(const Fields& fields) const;
  Tensor from_external(const Fields& fields);
  /// Memory that no byte of the model stands for.
  void charge(int64_t bytes);

  const Source& source_;
  std::shared_ptr<Buffer> file_;
  std::string base_dir_;
  bool copy_weights_;
  std::map<std::string, std::shared_ptr<Buffer>, std::less<>> external_;
  int64_t generated_ = 0;
  int64_t external_bytes_ = 0;
};

}  // namespace xc::onnx
