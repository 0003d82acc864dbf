#include "backends/step_harness.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

namespace xc::test {

int64_t Generator::integer(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
}

double Generator::real(double low, double high) {
  return low + (high - low) * static_cast<double>(engine_() >> 11) * 0x1p-53;
}

Tensor Generator::tensor(DType dtype, const Dims& dims, double low, double high) {
  Tensor out(dtype, dims);
  for (int64_t i = 0; i < out.count(); ++i) {
    if (is_float(dtype))
      store_double(out.data(), dtype, i, real(low, high));
    else if (dtype == DType::kBool)
      store_int64(out.data(), dtype, i, integer(0, 1));
    else
      store_int64(out.data(), dtype, i,
                  integer(static_cast<int64_t>(low), static_cast<int64_t>(high)));
  }
  return out;
}

Tensor widened(const Tensor& stored) {
  if (stored.dtype() == DType::kF32) return stored;
  Tensor out(DType::kF32, stored.dims());
  for (int64_t i = 0; i < out.count(); ++i)
    out.as<float>()[i] = static_cast<float>(load_double(stored.data(), stored.dtype(), i));
  return out;
}

Tensor Generator::strided(const Tensor& tensor, int kind) {
  if (!tensor || kind == 0) return tensor;
  const size_t rank = tensor.dims().size();
  Dims storage = tensor.dims();
  std::vector<size_t> order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = i;
  if (kind == 1 && rank >= 2) std::swap(order[rank - 1], order[rank - 2]);  // transposed
  if (kind == 3 && rank >= 3) {                                             // channels last
    order.erase(order.begin() + 1);
    order.push_back(1);
  }
  const int64_t pad = kind == 2 ? 3 : 0;
  Dims strides(rank, 0);
  int64_t next = kind == 2 ? 2 : 1;  // kind 2: gaps between elements and rows
  for (size_t i = rank; i-- > 0;) {
    strides[order[i]] = next;
    next = next * std::max<int64_t>(1, tensor.dims()[order[i]]) + pad;
  }
  const int64_t elements = next + 64;
  auto buffer = Buffer::allocate(elements * element_size(tensor.dtype()));
  std::memset(buffer->data(), 0x5a, static_cast<size_t>(buffer->bytes()));
  Tensor out(buffer, 0, tensor.dtype(), tensor.dims(), strides);
  copy_elements(tensor.view(), out.view());
  return out;
}

Problem matrix_product(Generator& g, const Dims& a, int64_t n, bool transposed) {
  const int64_t k = a.back();
  Problem p;
  p.op = &get_op(transposed ? "Gemm" : "MatMul");
  if (transposed) p.attrs.set("transB", int64_t{1});
  p.inputs = {g.tensor(DType::kF32, a),
              g.tensor(DType::kF32, transposed ? Dims{n, k} : Dims{k, n})};
  p.constant = {false, true};
  return p;
}

std::vector<double> exact_result(const Problem& problem, bool magnitudes) {
  std::vector<Tensor> inputs;
  for (const Tensor& t : problem.inputs) {
    Tensor wide(DType::kF64, t.dims());
    const std::vector<double> values = t.to_doubles();
    for (size_t i = 0; i < values.size(); ++i)
      wide.as<double>()[i] = magnitudes ? std::fabs(values[i]) : values[i];
    inputs.push_back(wide);
  }
  return run_reference(node_of(problem), inputs)[0].to_doubles();
}

Node node_of(const Problem& problem) {
  Node node;
  node.op = problem.op;
  node.name = "test";
  node.attrs = problem.attrs;
  uint32_t next = 0;
  for (const Tensor& input : problem.inputs) node.inputs.push_back(input ? next++ : kNone);
  for (size_t i = 0; i < problem.outputs; ++i) node.outputs.push_back(next++);
  return node;
}

/// Of the step's results, behind a Cast at the end of its post-ops.
static std::vector<Type> result_types(const Problem& problem, const Node& node) {
  std::vector<Type> types = infer_concrete(node, problem.inputs);
  if (!problem.post_ops.empty() && problem.post_ops.back().op->name == "Cast")
    types[0].dtype = *dtype_from_onnx_number(problem.post_ops.back().attrs.get_int("to", 0));
  return types;
}

StepSpec spec_of(const Problem& problem, const Node& node, const RunOptions& options) {
  StepSpec spec;
  spec.op = problem.op;
  spec.node = &node;
  spec.post_ops = problem.post_ops;
  spec.numerics = options.numerics;
  spec.threads = options.threads;
  int symbols = 0;
  const auto add = [&](const Tensor& tensor, bool constant, std::vector<Operand>& to) {
    Operand operand;
    if (tensor) {
      operand.dtype = tensor.dtype();
      operand.dims = to_symbolic(tensor.dims());
      operand.strides = to_symbolic(tensor.strides());
      if (constant) operand.constant = tensor;
      if (options.symbolic && !constant) {
        for (Dim& dim : operand.dims) dim = Dim::symbol("d" + std::to_string(symbols++));
        for (Dim& stride : operand.strides)
          if (!(stride == Dim(1))) stride = Dim::symbol("s" + std::to_string(symbols++));
      }
    }
    to.push_back(std::move(operand));
  };
  for (size_t i = 0; i < problem.inputs.size(); ++i)
    add(problem.inputs[i], i < problem.constant.size() && problem.constant[i], spec.inputs);
  for (const Tensor& input : problem.post_inputs) add(input, false, spec.inputs);
  for (const Type& type : result_types(problem, node))
    add(Tensor(type.dtype, *to_concrete(*type.dims)), false, spec.outputs);
  return spec;
}

const Implementation& find_row(std::string_view name, std::string_view op) {
  for (const Implementation& row : cpu_backend().implementations())
    if (row.name == name && (row.op == op || row.op == "*")) return row;
  FAIL("no row " << name << " for " << op);
  std::abort();
}

std::string chosen_row(const Problem& problem, const RunOptions& options) {
  const Node node = node_of(problem);
  const StepSpec spec = spec_of(problem, node, options);
  for (const Implementation& row : cpu_backend().implementations())
    if ((row.op == problem.op->name || row.op == "*") && row.asked_about(spec) &&
        row.supports(spec).yes())
      return std::string(row.name);
  return {};
}

/// Rows so far apart, the gaps between them filled with what nothing computes.
static Tensor with_rows(const Tensor& tensor, int64_t stride) {
  Dims strides(tensor.dims().size(), 1);
  int64_t next = stride;
  for (size_t axis = strides.size() - 1; axis-- > 0;) {
    strides[axis] = next;
    next *= tensor.dims()[axis];
  }
  auto buffer = Buffer::allocate(next * element_size(tensor.dtype()));
  std::memset(buffer->data(), 0x77, static_cast<size_t>(buffer->bytes()));
  return Tensor(buffer, 0, tensor.dtype(), tensor.dims(), strides);
}

/// Scratch or shared memory of a size that a bound kernel names, and what must stay behind it.
class FencedScratch {
 public:
  explicit FencedScratch(int64_t bytes)
      : bytes_(static_cast<size_t>(bytes)), memory_(Buffer::allocate(bytes + kFence)) {
    std::memset(memory_->data(), 0xff, bytes_ + kFence);
  }
  std::byte* data() const { return memory_->data(); }
  bool whole() const {
    return std::all_of(data() + bytes_, data() + bytes_ + kFence,
                       [](std::byte b) { return b == std::byte{0xff}; });
  }

 private:
#if defined(__SANITIZE_ADDRESS__)
  static constexpr size_t kFence = 0;  // which tells of reads, too
#else
  static constexpr size_t kFence = 4096;
#endif
  size_t bytes_;
  std::shared_ptr<Buffer> memory_;
};

/// All tasks of a bound kernel.
static void run_bound(const BoundKernel& bound, std::vector<void*> buffers,
                      const RunOptions& options) {
  // Of no task there is a call all the same, as where a step runs on one thread.
  const int64_t pieces = std::max<int64_t>(
      1, options.pieces == 0 ? bound.tasks : std::min(options.pieces, bound.tasks));
  const FencedScratch shared(bound.shared_bytes);
  const StepArgs args{buffers.data(), nullptr, shared.data()};
  const auto run_piece = [&](int64_t piece) {
    const FencedScratch scratch(bound.scratch_bytes);
    bound.run({args.buffers, scratch.data(), args.shared}, bound.tasks * piece / pieces,
              bound.tasks * (piece + 1) / pieces);
    CHECK_MESSAGE(scratch.whole(), "written behind the scratch");
  };
  if (bound.shared_bytes > 0) bound.start(args);
  std::vector<std::thread> threads;
  for (int64_t piece = pieces; piece-- > 0;)  // backwards: tasks are independent
    if (options.at_once)
      threads.emplace_back(run_piece, piece);
    else
      run_piece(piece);
  for (std::thread& thread : threads) thread.join();
  if (bound.shared_bytes > 0) bound.finish(args);
  CHECK_MESSAGE(shared.whole(), "written behind the shared memory");
}

std::string in_place_difference(const BoundKernel& bound, const std::vector<Tensor>& inputs,
                                const std::vector<Tensor>& outputs, const RunOptions& options) {
  std::vector<void*> buffers;
  for (const Tensor& t : inputs) buffers.push_back(t ? t.data() : nullptr);
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Tensor& in = inputs[k];
    if (k >= 32 || (bound.in_place >> k & 1) == 0 || !in || in.dtype() != outputs[0].dtype() ||
        in.dims() != outputs[0].dims() || in.strides() != outputs[0].strides())
      continue;
    std::vector<void*> now = buffers;
    std::vector<Tensor> results;
    for (const Tensor& out : outputs) {
      const auto copy = Buffer::allocate(out.buffer()->bytes());
      std::memset(copy->data(), 0x77, static_cast<size_t>(copy->bytes()));
      results.emplace_back(copy, out.byte_offset(), out.dtype(), out.dims(), out.strides());
      now.push_back(results.back().data());
    }
    copy_elements(in.view(), results[0].view());
    now[k] = results[0].data();
    run_bound(bound, now, options);
    for (size_t i = 0; i < results.size(); ++i)
      if (!same_bits(results[i], outputs[i]))
        return fmt::format("output {} differs where the first lies in input {}'s place", i, k);
  }
  return {};
}

std::string address_difference(const BoundKernel& bound, const std::vector<Tensor>& inputs,
                               const std::vector<Tensor>& outputs, const RunOptions& options) {
  std::vector<void*> buffers;
  std::vector<std::shared_ptr<Buffer>> odd;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Tensor& in = inputs[k];
    const auto says = [k](uint32_t mask) { return k < 32 && (mask >> k & 1) != 0; };
    if (!in || says(bound.unread)) {
      buffers.push_back(nullptr);
    } else if (says(bound.any_address)) {
      const auto bytes = static_cast<size_t>(in.buffer()->bytes());
      odd.push_back(Buffer::allocate(in.buffer()->bytes() + 1));
      std::memcpy(odd.back()->data() + 1, in.buffer()->data(), bytes);
      buffers.push_back(odd.back()->data() + 1 + in.byte_offset());
    } else {
      buffers.push_back(in.data());
    }
  }
  std::vector<Tensor> results;
  for (const Tensor& out : outputs) {
    results.emplace_back(Buffer::allocate(out.buffer()->bytes()), out.byte_offset(), out.dtype(),
                         out.dims(), out.strides());
    buffers.push_back(results.back().data());
  }
  run_bound(bound, buffers, options);
  for (size_t i = 0; i < results.size(); ++i)
    if (!same_bits(results[i], outputs[i]))
      return fmt::format("output {} differs with constants that are not there or not aligned", i);
  return {};
}

std::vector<BoundOperand> operands_of(const std::vector<Tensor>& tensors) {
  std::vector<BoundOperand> out;
  for (const Tensor& t : tensors) out.push_back({t.dims(), t.strides()});
  return out;
}

std::vector<Tensor> run_kernel(Kernel& kernel, const Problem& problem, const RunOptions& options) {
  const Node node = node_of(problem);
  if (options.prepare) kernel.prepare();
  std::vector<Tensor> inputs = problem.inputs, outputs;
  inputs.insert(inputs.end(), problem.post_inputs.begin(), problem.post_inputs.end());
  Generator generator(1);
  for (const Type& type : result_types(problem, node)) {
    Tensor out(type.dtype, *to_concrete(*type.dims));
    if (type.dtype != DType::kString)
      std::memset(out.data(), 0x77, static_cast<size_t>(out.byte_size()));
    outputs.push_back(options.output_row > 0 ? with_rows(out, options.output_row)
                                             : generator.strided(out, options.output_kind));
  }
  const auto in = operands_of(inputs), out = operands_of(outputs);
  std::vector<void*> buffers;
  for (const Tensor& t : inputs) buffers.push_back(t ? t.data() : nullptr);
  for (const Tensor& t : outputs) buffers.push_back(t.data());
  const auto bound = kernel.bind({in, out, options.background, options.replaceable});
  run_bound(*bound, buffers, options);
  if (bound->in_place != 0) {
    const std::string wrong = in_place_difference(*bound, inputs, outputs, options);
    CHECK_MESSAGE(wrong.empty(), problem.op->name << ": " << wrong);
  }
  if (bound->unread != 0 || bound->any_address != 0) {
    const std::string wrong = address_difference(*bound, inputs, outputs, options);
    CHECK_MESSAGE(wrong.empty(), problem.op->name << ": " << wrong);
  }
  return outputs;
}

std::vector<Tensor> run_row(const Implementation& row, const Problem& problem,
                            const RunOptions& options) {
  const Node node = node_of(problem);
  const StepSpec spec = spec_of(problem, node, options);
  const Verdict verdict = row.supports(spec);
  REQUIRE_MESSAGE(verdict.yes(),
                  row.name << " refuses " << problem.op->name << ": " << verdict.reason);
  const auto kernel = row.create(spec);
  return run_kernel(*kernel, problem, options);
}

std::string difference(const Tensor& got, const Tensor& want, Bounds bounds) {
  if (got.dtype() != want.dtype() || got.dims() != want.dims())
    return fmt::format("{}{} instead of {}{}", name(got.dtype()), to_text(got.dims()),
                       name(want.dtype()), to_text(want.dims()));
  const Tensor a = got.to_contiguous(), b = want.to_contiguous();
  double worst = 0;
  std::string text;
  for (int64_t i = 0; i < a.count(); ++i) {
    double x, y;
    if (is_float(a.dtype())) {
      x = load_double(a.data(), a.dtype(), i);
      y = load_double(b.data(), b.dtype(), i);
    } else {
      const int64_t m = load_int64(a.data(), a.dtype(), i), n = load_int64(b.data(), b.dtype(), i);
      if (m == n) continue;
      x = static_cast<double>(m);
      y = static_cast<double>(n);
    }
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double excess = std::fabs(x - y) / (bounds.absolute + bounds.relative * std::fabs(y));
    if (!(excess <= 1) && (text.empty() || excess > worst)) {
      worst = excess;
      text = fmt::format("element {} of {}{} is {} instead of {}", i, name(a.dtype()),
                         to_text(a.dims()), x, y);
    }
  }
  return text;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to_contiguous(), y = b.to_contiguous();
  return x.dtype() == y.dtype() && x.dims() == y.dims() &&
         std::memcmp(x.data(), y.data(), static_cast<size_t>(x.byte_size())) == 0;
}

std::shared_ptr<const BoundKernel> bind_row(const Implementation& row, const Problem& problem,
                                            const RunOptions& options) {
  const Node node = node_of(problem);
  const StepSpec spec = spec_of(problem, node, options);
  if (!row.supports(spec).yes()) return nullptr;
  std::vector<Tensor> inputs = problem.inputs, outputs;
  inputs.insert(inputs.end(), problem.post_inputs.begin(), problem.post_inputs.end());
  for (const Type& type : result_types(problem, node))
    outputs.emplace_back(type.dtype, *to_concrete(*type.dims));
  const auto in = operands_of(inputs), out = operands_of(outputs);
  return row.create(spec)->bind({in, out, options.background, options.replaceable});
}

bool is_provisional(const Implementation& row, const Problem& problem, const RunOptions& options) {
  const auto bound = bind_row(row, problem, options);
  return bound && bound->provisional;
}

namespace {

/// Options with which what only stands in for want of time is bound for good; none where nothing
/// does.
std::optional<RunOptions> with_time(const Implementation& row, const Problem& problem,
                                    const RunOptions& options) {
  if (options.background || !is_provisional(row, problem, options)) return std::nullopt;
  RunOptions settled = options;
  settled.prepare = settled.background = true;
  return settled;
}

}  // namespace

void check_row(std::string_view row_name, const Problem& problem, Bounds bounds,
               const RunOptions& rest) {
  const Implementation& row = find_row(row_name, problem.op->name);
  if (const auto settled = with_time(row, problem, rest))
    check_row(row_name, problem, bounds, *settled);
  const Node node = node_of(problem);
  if (!problem.post_ops.empty()) FAIL("check_row compares without post-ops");
  const std::vector<Tensor> want = run_reference(node, problem.inputs);
  std::vector<Tensor> first;
  for (int kind = 0; kind < Generator::kStrideKinds; ++kind) {
    for (int64_t pieces : {1, 3, 0}) {
      if (pieces != 1 && kind > 1) continue;
      Problem strided = problem;
      Generator generator(7);
      for (size_t i = 0; i < strided.inputs.size(); ++i)
        if (i >= problem.constant.size() || !problem.constant[i])
          strided.inputs[i] = generator.strided(problem.inputs[i], kind);
      RunOptions options = rest;
      options.pieces = pieces;
      options.output_kind = kind;
      options.symbolic = kind % 2 == 1;
      const StepSpec spec = spec_of(strided, node, options);
      // Strides may be refused, the plain case may not.
      if (kind != 0 && !row.supports(spec).yes()) continue;
      const std::vector<Tensor> got = run_row(row, strided, options);
      REQUIRE(got.size() == want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        const std::string wrong = difference(got[i], want[i], bounds);
        CHECK_MESSAGE(wrong.empty(), row_name << " " << problem.op->name << " strides " << kind
                                              << " pieces " << pieces << ": " << wrong);
        if (!wrong.empty()) return;
      }
      if (kind == 0) {
        if (first.empty()) first = got;
        for (size_t i = 0; i < got.size(); ++i)
          CHECK_MESSAGE(same_bits(got[i], first[i]), row_name << " " << problem.op->name
                                                              << " differs with " << pieces
                                                              << " pieces");
      }
    }
  }
}

void check_threads(std::string_view row_name, const Problem& problem, const RunOptions& rest) {
  const Implementation& row = find_row(row_name, problem.op->name);
  if (const auto settled = with_time(row, problem, rest))
    check_threads(row_name, problem, *settled);
  for (int kind : {0, 3}) {
    Problem p = problem;
    p.inputs[0] = Generator(1).strided(p.inputs[0], kind);
    RunOptions options = rest;
    options.output_kind = kind;
    options.pieces = 0;
    std::vector<Tensor> first;
    for (int threads : {1, 2, 3, 4}) {
      options.threads = threads;
      const auto got = run_row(row, p, options);
      if (first.empty()) first = got;
      CHECK_MESSAGE(same_bits(first[0], got[0]), row_name << " " << to_text(p.inputs[0].dims())
                                                          << " order " << kind << " with "
                                                          << threads << " threads");
    }
  }
}

void check_functions_behind(std::string_view row, const Problem& problem, Bounds bounds,
                            const RunOptions& options) {
  if (const auto settled = with_time(find_row(row, problem.op->name), problem, options))
    check_functions_behind(row, problem, bounds, *settled);
  const PostOp add{PostOp::Kind::kBinary, &get_op("Add"), {}, 3, true, {}};
  const PostOp relu{PostOp::Kind::kUnary, &get_op("Relu"), {}, 0, true, {}};
  const PostOp clip{
      PostOp::Kind::kUnary, &get_op("Clip"), {}, 0, true, {Tensor(), Tensor::scalar(6.0f)}};
  const PostOp erf{PostOp::Kind::kUnary, &get_op("Erf"), {}, 0, true, {}};
  const auto apply = [](const char* op, std::vector<Tensor> inputs) {
    Problem p;
    p.op = &get_op(op);
    p.inputs = std::move(inputs);
    return run_reference(node_of(p), p.inputs)[0];
  };
  const Tensor y = run_reference(node_of(problem), problem.inputs)[0],
               other = Generator(2).tensor(DType::kF32, y.dims());
  struct Chain {
    std::vector<PostOp> posts;
    bool binary;
    Tensor want;
  };
  const std::vector<Chain> chains = {
      {{relu}, false, apply("Relu", {y})},
      {{erf}, false, apply("Erf", {y})},
      {{clip, erf}, false, apply("Erf", {apply("Clip", {y, Tensor(), Tensor::scalar(6.0f)})})},
      {{add, relu}, true, apply("Relu", {apply("Add", {y, other})})},
      {{relu, add}, true, apply("Add", {apply("Relu", {y}), other})},
  };
  for (size_t chain = 0; chain < chains.size(); ++chain)
    for (int kind : {0, 3})
      for (int threads : {1, 3}) {
        Problem p = problem;
        p.post_ops = chains[chain].posts;
        if (chains[chain].binary) p.post_inputs = {Generator(1).strided(other, kind)};
        p.inputs[0] = Generator(1).strided(p.inputs[0], kind);
        RunOptions with = options;
        with.output_kind = kind;
        with.threads = threads;
        with.pieces = 0;
        const std::string wrong =
            difference(run_row(find_row(row, p.op->name), p, with)[0], chains[chain].want, bounds);
        CHECK_MESSAGE(wrong.empty(), to_text(problem.inputs[0].dims())
                                         << " order " << kind << " threads " << threads << " chain "
                                         << chain << ": " << wrong);
      }
}

}  // namespace xc::test
