// Writes kernels that read like the formula:
//
//   KernelBuilder b("bias_relu");
//   DimParam n = b.dim("n"), m = b.dim("m");
//   Buffer x = b.input("x", DType::kF32, {b.stride("xs"), 1});
//   Buffer bias = b.input("bias", DType::kF32, {1});
//   Buffer y = b.output("y", DType::kF32, {b.stride("ys"), 1});
//   b.loop("i", 0, n, [&](Var i) {
//     b.loop("j", 0, m, [&](Var j) { b.store(y(i, j), max(x(i, j) + bias(j), f32(0))); });
//   });
//   Kernel k = b.finish();                       // verified
//   k = schedule_default(std::move(k), {});      // schedule.h
//
// A row reduction:
//   Acc sum = b.acc("sum", AccOp::kSum, DType::kF32);
//   b.loop("j", 0, m, [&](Var j) { b.accumulate(sum, x(i, j)); });
//   Expr mean = b.let("mean", sum.value() / cast(DType::kF32, dim_value(m)));
//
// Names are made unique by the builder (j, j_1, ...). Handles belong to the builder that made them.
#pragma once

#include <functional>
#include <string_view>

#include "loop/kernel.h"

namespace xc::loop {

// An element of a buffer: loads when used as an Expr, or the target of a store.
class Element {
 public:
  Element(uint32_t buffer, DType type, std::vector<Index> indices);
  operator Expr() const;               // NOLINT: reads as a load
  Expr guarded(Expr condition) const;  // load, 0 and no access when `condition` is false
  uint32_t buffer() const { return buffer_; }
  const std::vector<Index>& indices() const { return indices_; }

 private:
  uint32_t buffer_;
  DType type_;
  std::vector<Index> indices_;
};

class Buffer {
 public:
  Buffer() = default;
  Buffer(uint32_t id, DType type, size_t rank) : id_(id), type_(type), rank_(rank) {}
  template <class... Indices>
  Element operator()(const Indices&... indices) const {
    return at({Index(indices)...});
  }
  Element at(std::vector<Index> indices) const;  // checks the rank
  uint32_t id() const { return id_; }
  DType type() const { return type_; }
  size_t rank() const { return rank_; }

 private:
  uint32_t id_ = 0;
  DType type_ = DType::kF32;
  size_t rank_ = 0;
};

class Acc {
 public:
  Acc() = default;
  Acc(uint32_t id, DType type) : id_(id), type_(type) {}
  Expr value() const;                        // after the last accumulate
  Expr index() const;                        // arg-reductions
  operator Expr() const { return value(); }  // NOLINT: reads as a value
  uint32_t id() const { return id_; }

 private:
  uint32_t id_ = 0;
  DType type_ = DType::kF32;
};

class KernelBuilder {
 public:
  explicit KernelBuilder(std::string_view name);

  DimParam dim(std::string_view name);
  StrideParam stride(std::string_view name);
  Buffer input(std::string_view name, DType type, std::vector<Stride> strides);
  Buffer output(std::string_view name, DType type, std::vector<Stride> strides);
  Buffer inout(std::string_view name, DType type, std::vector<Stride> strides);
  // Temporary of `elements` (an expression over dims): a row, or a table with constant strides that
  // end in 1; any time before finish().
  Buffer scratch(std::string_view name, DType type, Expr elements,
                 std::vector<Stride> strides = {1});

  using Body = std::function<void(Var)>;
  void loop(std::string_view var, Expr begin, Expr end, const Body& body,
            LoopKind kind = LoopKind::kSerial, int factor = 1);
  void loop(std::string_view var, int64_t begin, Expr end, const Body& body,
            LoopKind kind = LoopKind::kSerial, int factor = 1);
  void loop(std::string_view var, int64_t begin, int64_t end, const Body& body,
            LoopKind kind = LoopKind::kSerial, int factor = 1);
  Expr let(std::string_view name, Expr value);  // the register
  void store(const Element& element, Expr value);
  void store(const Element& element, Expr value, Expr guard);
  Acc acc(std::string_view name, AccOp op, DType type, AccOrder order = AccOrder::kLanes,
          Expr init = {});
  void accumulate(const Acc& acc, Expr value);
  void accumulate(const Acc& acc, Expr value, Expr second);  // arg-reductions, dot

  const Kernel& kernel() const { return kernel_; }
  // Orders buffers, verifies and returns the kernel; the builder is empty afterwards.
  Kernel finish();

 private:
  std::string unique(std::string_view name);
  Buffer add_buffer(BufferDecl decl);
  Kernel kernel_;
  std::vector<Block*> open_;  // innermost block last
  std::vector<std::string> names_;
};

}  // namespace xc::loop
