#include <algorithm>
#include <unordered_map>

#include "base/checked.h"
#include "ir/patch.h"
#include "ops/infer.h"
#include "passes/passes.h"
#include "passes/typing.h"

namespace xc {
namespace {

using Clock = std::chrono::steady_clock;

/// Time a reference kernel takes for one operation, and one of a backend, both pessimistic: to
/// refuse work before doing it.
constexpr double kReferencePrice = 20, kBackendPrice = 2;
/// What a view may grow to without asking.
constexpr int64_t kSmallBytes = 1024;
/// From so many elements on a backend is asked: planning a node costs some 100 us.
constexpr int64_t kBackendElements = 16384;

class Folder {
 public:
  /// `label`: of the pass. `dequantise`: DequantizeLinear too.
  Folder(Graph& graph, PassContext& context, const char* label, bool dequantise)
      : graph_(graph),
        context_(context),
        label_(label),
        dequantise_(dequantise),
        patch_(graph, label),
        users_(graph.users()) {}

  bool run() {
    for (NodeId id : graph_.order()) visit(id);
    for (NodeId id : graph_.order())
      for (ValueId output : graph_.node(id).outputs)
        if (const auto it = folded_.find(output); it != folded_.end())
          patch_.replace(output, patch_.add_constant(graph_.value(output).name, it->second.tensor));
    const bool changed = !patch_.empty();
    context_.count(label_, static_cast<int64_t>(patch_.replaced_count()));
    patch_.apply();
    return changed;
  }

 private:
  /// What a node gave, until all that read it are folded too.
  struct Folded {
    Tensor tensor;
    size_t readers;
    int64_t bytes;  ///< of memory of its own
  };

  /// Known, but left to its view, one of several in a row perhaps.
  struct Enlarged {
    double nanoseconds = 0;  ///< that making the elements of all of them takes
    int views = 0;
  };
  static constexpr int kMostViews = 16;  ///< in a row: each reader makes all of them anew

  void visit(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.op->random || node.op->control_flow) return;
    if (std::none_of(node.outputs.begin(), node.outputs.end(),
                     [&](ValueId id) { return id != kNone && readers_of(id) > 0; }))
      return;
    if (from_elements(node)) return;
    if (!node.op->reference) return;
    if (node.op->name == "DequantizeLinear" && !dequantise_) return;
    if (std::any_of(node.inputs.begin(), node.inputs.end(),
                    [&](ValueId input) { return input != kNone && !is_known(input); }))
      return;
    compute(id);
  }

  bool is_known(ValueId value) const {
    return graph_.value(value).constant || folded_.contains(value) || enlarged_.contains(value);
  }

  /// The inputs of a node that are all known. Fails where one has to be made and that fails.
  std::vector<Tensor> inputs_of(const Node& node) {
    std::vector<Tensor> inputs;
    for (ValueId input : node.inputs) {
      if (input == kNone) {
        inputs.emplace_back();
      } else if (const auto it = folded_.find(input); it != folded_.end()) {
        inputs.push_back(it->second.tensor);
      } else if (enlarged_.contains(input)) {
        const Node& maker = graph_.node(graph_.value(input).producer);
        const std::vector<Tensor> from = inputs_of(maker);
        const int64_t count = element_count(*to_concrete(*graph_.value(input).type.dims));
        inputs.push_back(run(maker, from, goes_to_backend(count))[0]);
      } else {
        inputs.push_back(graph_.value(input).constant);
      }
    }
    return inputs;
  }
  std::vector<Tensor> run(const Node& node, const std::vector<Tensor>& inputs, bool on_backend) {
    return on_backend ? context_.options.evaluate(node, inputs) : run_reference(node, inputs);
  }
  bool goes_to_backend(int64_t elements) const {
    return context_.options.evaluate && elements >= kBackendElements;
  }

  /// Outputs whose elements inference knows, whatever the inputs.
  bool from_elements(const Node& node) {
    bool all = !node.outputs.empty();
    for (ValueId output : node.outputs) {
      if (output == kNone) continue;
      const Value& value = graph_.value(output);
      std::optional<Dims> dims;
      if (value.type.kind == Type::Kind::kTensor && value.type.dims && value.elements)
        dims = to_concrete(*value.type.dims);
      const auto known = dims ? known_integers(value) : std::nullopt;
      if (!known || element_count(*dims) != static_cast<int64_t>(known->size())) {
        all = false;
        continue;
      }
      Tensor tensor(value.type.dtype, *dims);
      for (size_t i = 0; i < known->size(); ++i)
        store_int64(tensor.data(), tensor.dtype(), static_cast<int64_t>(i), (*known)[i]);
      keep(output, std::move(tensor), 0);
    }
    if (all) inputs_read(node);
    return all;
  }

  void compute(NodeId id) {
    const Node& node = graph_.node(id);
    if (leaves_small(node) || !may_enlarge_inputs(node)) return;
    const auto begin = Clock::now();
    try {
      const std::vector<Tensor> inputs = inputs_of(node);
      const std::vector<Type> types = infer_concrete(node, inputs);
      if (Tensor same = same_memory(node, inputs, types)) {
        keep(node.outputs[0], std::move(same), 0);
        inputs_read(node);
        return;
      }
      const std::optional<Work> work = affordable(node, inputs, types);
      if (!work) return;
      std::vector<Tensor> outputs = run(node, inputs, work->on_backend);
      for (size_t i = 0; i < outputs.size(); ++i)
        if (node.outputs[i] != kNone) {
          const int64_t bytes = outputs[i].byte_size();
          keep(node.outputs[i], std::move(outputs[i]), bytes);
        }
      inputs_read(node);
      if (work->operations >= static_cast<double>(kBackendElements)) {
        const std::chrono::duration<double, std::nano> took = Clock::now() - begin;
        double& price = context_.fold_price[node.op];
        price = std::max(price, took.count() / work->operations);
      }
    } catch (const Error&) {
      // Left for the run to tell: the node may never be reached (a branch not taken).
    }
    context_.fold_spent += Clock::now() - begin;
  }

  /// Is it a view that shows its input larger than it is, or one of such a view? The constant stays
  /// the small one; what reads the view is folded all the same, with its elements made for that.
  bool leaves_small(const Node& node) {
    if (!node.op->view || node.outputs.size() != 1 || node.inputs[0] == kNone) return false;
    const auto bytes_of = [&](ValueId value) -> std::optional<int64_t> {
      const Type& type = graph_.value(value).type;
      const auto dims =
          type.kind == Type::Kind::kTensor && type.dims ? to_concrete(*type.dims) : std::nullopt;
      if (!dims) return std::nullopt;
      return checked_mul(element_count(*dims), element_size(type.dtype));
    };
    const auto bytes = bytes_of(node.outputs[0]), from = bytes_of(node.inputs[0]);
    if (!bytes || !from || graph_.value(node.outputs[0]).type.dtype == DType::kString) return false;
    const bool enlarges = *bytes > std::max(*from, kSmallBytes);
    const auto behind = enlarged_.find(node.inputs[0]);
    if (!enlarges && behind == enlarged_.end()) return false;
    const Enlarged before = behind == enlarged_.end() ? Enlarged{} : behind->second;
    if (*bytes <= context_.options.fold_bytes_each && before.views < kMostViews) {
      const int64_t count = *bytes / element_size(graph_.value(node.outputs[0]).type.dtype);
      const double price = goes_to_backend(count) ? kBackendPrice : kReferencePrice;
      enlarged_[node.outputs[0]] = {before.nanoseconds + static_cast<double>(count) * price,
                                    before.views + 1};
    }
    return true;
  }

  /// Is there time to make the elements of all enlarged views that the node reads, which every node
  /// that reads them does anew?
  bool may_enlarge_inputs(const Node& node) const {
    double nanoseconds = 0;
    for (ValueId input : node.inputs)
      if (const auto it = enlarged_.find(input); it != enlarged_.end())
        nanoseconds += it->second.nanoseconds;
    const std::chrono::nanoseconds left = context_.options.fold_time - context_.fold_spent;
    return nanoseconds == 0 || nanoseconds < static_cast<double>(left.count());
  }

  /// The first input under other dims, where the node is no more than that.
  Tensor same_memory(const Node& node, const std::vector<Tensor>& inputs,
                     const std::vector<Type>& types) const {
    if (!node.op->view || types.size() != 1 || types[0].kind != Type::Kind::kTensor ||
        !types[0].dims || inputs.empty() || !inputs[0] || !inputs[0].contiguous())
      return {};
    const std::optional<Dims> dims = to_concrete(*types[0].dims);
    if (!dims || types[0].dtype != inputs[0].dtype() || element_count(*dims) != inputs[0].count())
      return {};
    ViewContext context{&graph_,
                        &node,
                        to_symbolic(inputs[0].dims()),
                        to_symbolic(contiguous_strides(inputs[0].dims())),
                        {}};
    context.outputs.push_back({*types[0].dims, {}, Dim(0)});
    if (!node.op->view(context)) return {};
    const std::optional<Dims> strides = to_concrete(context.outputs[0].strides);
    if (!strides || context.outputs[0].offset != Dim(0) || !is_contiguous(*dims, *strides))
      return {};
    return inputs[0].reshaped(*dims);
  }

  /// Bytes of the longest text in it.
  static int64_t longest(const Tensor& tensor) {
    size_t most = 0;
    if (tensor.dtype() == DType::kString && tensor.contiguous())
      for (int64_t i = 0; i < tensor.count(); ++i)
        most = std::max(most, tensor.as<std::string>()[i].size());
    return static_cast<int64_t>(most);
  }

  struct Work {
    double operations;
    bool on_backend;
  };
  /// Nothing where memory or time would not do.
  std::optional<Work> affordable(const Node& node, const std::vector<Tensor>& inputs,
                                 const std::vector<Type>& types) const {
    // How long these take their sizes do not tell.
    constexpr std::string_view kUnpriced[] = {
        "RoiAlign",   "MaxRoiPool",       "DFT", "STFT", "LRN", "GridSample", "TfIdfVectorizer",
        "DeformConv", "NonMaxSuppression"};
    if (std::find(std::begin(kUnpriced), std::end(kUnpriced), node.op->name) != std::end(kUnpriced))
      return std::nullopt;
    int64_t elements = 0, input_bytes = 0, bytes = 0, longest_text = 0;
    for (const Tensor& input : inputs)
      if (input) {
        longest_text = checked_add(longest_text, longest(input));
        elements = std::max(elements, input.count());
        input_bytes = checked_add(input_bytes, input.byte_size());
      }
    for (const Type& type : types) {
      if (type.kind != Type::Kind::kTensor || !type.dims) return std::nullopt;
      const std::optional<Dims> dims = to_concrete(*type.dims);
      if (!dims) return std::nullopt;
      const int64_t count = element_count(*dims);
      elements = std::max(elements, count);
      const int64_t size =
          element_size(type.dtype) + (type.dtype == DType::kString ? longest_text : 0);
      bytes = checked_add(bytes, checked_mul(count, size));
    }
    const PassOptions& options = context_.options;
    // What is dequantised here would take the same memory in every run.
    const bool every_run = node.op->name == "DequantizeLinear";
    const int64_t most = every_run ? 4 * options.fold_bytes_each
                                   : std::min(options.fold_bytes_each,
                                              options.fold_bytes_total - context_.folded_bytes);
    if (bytes > most) return std::nullopt;
    if (node.op->view && bytes > std::max(input_bytes, kSmallBytes)) return std::nullopt;
    Work work{static_cast<double>(elements) * std::max(1.0, node.op->weight),
              goes_to_backend(elements)};
    if (node.op->flops)
      if (const auto flops = node.op->flops(graph_, node).constant())
        work.operations = std::max(work.operations, static_cast<double>(*flops));
    double price = work.on_backend ? kBackendPrice : kReferencePrice;
    if (const auto known = context_.fold_price.find(node.op); known != context_.fold_price.end())
      price = known->second;
    const std::chrono::nanoseconds left = options.fold_time - context_.fold_spent;
    if (work.operations * price >= static_cast<double>(left.count())) return std::nullopt;
    return work;
  }

  size_t readers_of(ValueId value) const {
    return users_[value].size() + (graph_.is_output(value) ? 1 : 0);
  }

  void keep(ValueId value, Tensor tensor, int64_t bytes) {
    const size_t readers = readers_of(value);
    if (readers == 0 || folded_.contains(value)) return;
    context_.folded_bytes += bytes;
    folded_.emplace(value, Folded{std::move(tensor), readers, bytes});
  }

  /// A folded node reads its inputs no more; what nobody reads is given up.
  void inputs_read(const Node& node) {
    for (ValueId input : node.inputs) {
      const auto it = folded_.find(input);
      if (it == folded_.end() || --it->second.readers > 0) continue;
      context_.folded_bytes -= it->second.bytes;
      folded_.erase(it);
    }
  }

  Graph& graph_;
  PassContext& context_;
  const char* label_;
  const bool dequantise_;
  Patch patch_;
  const std::vector<std::vector<NodeId>> users_;  ///< a node twice that reads a value twice
  std::unordered_map<ValueId, Folded> folded_;    ///< in this sweep
  std::unordered_map<ValueId, Enlarged> enlarged_;
};

}  // namespace

bool fold_constants(Graph& graph, PassContext& context) {
  return Folder(graph, context, "fold-constants", false).run();
}

bool fold_dequantised(Graph& graph, PassContext& context) {
  return Folder(graph, context, "fold-dequantised", true).run();
}

}  // namespace xc
