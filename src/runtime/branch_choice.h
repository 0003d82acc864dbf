#pragma once
// Ifs whose conditions follow from sizes of inputs and from elements of small ones: a Program is
// made for each outcome that comes, in which the branches taken stand in the place of the Ifs.
// Types, passes and kernels then know what lies behind them (a rank that differs between branches,
// sizes that only a run would tell).

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "tensor/tensor.h"

namespace xc {

/// An element of an input that sizes follow from. The least number, which Slice knows as "from the
/// start", has no negative: the next one stands for it, which is as far from any size.
int64_t input_element(const TensorView& input, int64_t index);

/// A number that inputs give by themselves.
struct InputNumber {
  std::string symbol;
  uint32_t input;
  uint32_t index;  ///< of an axis or an element
  bool element;
  int64_t of(std::span<const TensorView> inputs) const;
};

/// The outcomes that a Program was made for. Of inputs that the model's types allow. Immutable once
/// made, safe to share between threads.
class BranchChoice {
 public:
  /// Decides of a typed graph's Ifs what can be decided for these inputs; the branches taken take
  /// their place, and types are inferred anew. False, nothing changed, where no If can be. Where it
  /// fails it stands for the outcomes found.
  bool decide(Graph& graph, std::span<const TensorView> inputs);

  /// Are these inputs' outcomes the same? Takes no memory, but where there are many conditions.
  bool holds(std::span<const TensorView> inputs) const;
  /// May they be for inputs of these dims? Elements of inputs are not known.
  bool may_hold(std::span<const Dims> dims) const;
  bool empty() const { return conditions_.empty(); }
  /// "/then, else" of two Ifs.
  std::string text() const;

 private:
  /// Into sources_; its size where there is none.
  size_t index_of(const std::string& symbol) const;

  std::vector<InputNumber> sources_;
  std::vector<Dim> conditions_;  ///< 1 where one is true
  std::vector<int64_t> outcomes_;
  DimProgram program_;
};

/// The Ifs of a typed graph that decide() would look at: those that leave sizes open, others are a
/// step like any.
class OpenBranches {
 public:
  OpenBranches() = default;
  explicit OpenBranches(const Graph& graph);
  bool empty() const { return conditions_.empty(); }
  /// Does an outcome follow from these inputs? None does from a division by zero; then decide()
  /// need not be tried.
  bool any_follows(std::span<const TensorView> inputs) const;

 private:
  std::vector<InputNumber> sources_;
  std::vector<DimProgram> conditions_;
};

}  // namespace xc
