#include "ops/custom.h"

#include <map>

#include "ir/place.h"
#include "ops/checks.h"
#include "ops/infer.h"

namespace xc {
namespace {

// ---- inference ----------------------------------------------------------------------------------

/// What a node's inputs and attributes make of the names in its signature.
class Binder {
 public:
  Binder(const CustomOp& op, InferContext& c) : s_(op.signature), c_(c) {}

  void run() {
    for (const CustomAttr& attr : s_.attrs) {
      if (attr.kind != AttrKind::kInt) continue;
      const Attr* value = c_.attrs().find(attr.name);
      if (!value && attr.otherwise) value = &*attr.otherwise;
      if (value) sizes_.emplace(attr.name, std::get<int64_t>(*value));
    }
    types_.assign(s_.variables, DType::kUndefined);
    for (size_t i = 0; i < c_.input_count(); ++i)
      if (c_.has(i)) bind(i, s_.input(i));
    for (size_t i = 0; i < c_.input_count(); ++i)
      if (c_.has(i)) check(i, s_.input(i));
    for (size_t k = 0; k < c_.outputs.size(); ++k) set(k, s_.outputs.at(k));
  }

 private:
  void bind(size_t i, const CustomPort& p) {
    const DType dtype = c_.dtype(i);
    if (!contains(p.types, dtype))
      c_.error("input '{}' is {}, expected {}", p.name, c_.type(i).text(), p.type);
    if (p.variable != kNone) {
      DType& bound = types_[p.variable];
      if (bound == DType::kUndefined) bound = dtype;
      if (bound != dtype)
        c_.error("input '{}' is of type {}, an input before it of {}: both are {}", p.name,
                 name(dtype), name(bound), p.type);
    }
    if (p.any_rank) return;
    const SymDims& found = c_.dims(i);
    if (found.size() < p.dims.size() || (found.size() > p.dims.size() && !p.spread))
      c_.error("input '{}' has dims {}, expected {}", p.name, to_text(found), p.type);
    const size_t front = found.size() - p.dims.size();
    if (p.spread && !spread_)
      spread_.emplace(found.begin(), found.begin() + static_cast<ptrdiff_t>(front));
    for (size_t axis = 0; axis < p.dims.size(); ++axis)
      if (const auto symbol = p.dims[axis] ? p.dims[axis]->as_symbol() : std::nullopt)
        sizes_.emplace(*symbol, found[front + axis]);
  }

  /// The dim under what is bound; nullopt where a name of an absent input occurs.
  std::optional<Dim> value_of(const Dim& dim) const {
    bool known = true;
    Dim out = dim.substitute([&](const std::string& symbol) -> std::optional<Dim> {
      const auto it = sizes_.find(symbol);
      if (it != sizes_.end()) return it->second;
      known = false;
      return std::nullopt;
    });
    return known ? std::optional<Dim>(std::move(out)) : std::nullopt;
  }

  void check(size_t i, const CustomPort& p) const {
    if (p.any_rank) return;
    const SymDims& found = c_.dims(i);
    const size_t front = found.size() - p.dims.size();
    if (p.spread) {
      bool same = front == spread_->size();
      for (size_t axis = 0; same && axis < front; ++axis)
        same = !known_different(found[axis], (*spread_)[axis]);
      if (!same)
        c_.error("input '{}' has dims {}, '...' stands for {} in an input before it", p.name,
                 to_text(found), to_text(*spread_));
    }
    for (size_t axis = 0; axis < p.dims.size(); ++axis) {
      const auto wanted = p.dims[axis] ? value_of(*p.dims[axis]) : std::nullopt;
      if (wanted && known_different(found[front + axis], *wanted))
        c_.error("input '{}' has dims {}, expected {}: dim {} is {}, not {}", p.name,
                 to_text(found), p.type, front + axis, found[front + axis].text(), wanted->text());
    }
  }

  void set(size_t k, const CustomPort& p) {
    DType dtype = DType::kUndefined;
    if (p.variable != kNone)
      dtype = types_[p.variable];
    else
      for (int t = 1; t < kDTypeCount; ++t)
        if (contains(p.types, static_cast<DType>(t))) dtype = static_cast<DType>(t);
    if (p.any_rank) return set_unknown_rank(c_, k, dtype);
    SymDims dims;
    if (p.spread) dims = *spread_;
    for (size_t axis = 0; axis < p.dims.size(); ++axis)
      dims.push_back(p.dims[axis] ? value_of(*p.dims[axis]).value()
                                  : c_.fresh(fmt::format("dim {} of output '{}'", axis, p.name)));
    c_.set(k, dtype, std::move(dims));
  }

  const CustomSignature& s_;
  InferContext& c_;
  std::map<std::string, Dim> sizes_;
  std::vector<DType> types_;  // by type variable
  std::optional<SymDims> spread_;
};

void infer_custom(InferContext& c) {
  Binder(*as_custom(*c.node->op), c).run();
}

// ---- execution ----------------------------------------------------------------------------------

/// A row-major copy unless it is one already.
Tensor packed(const TensorView& view) {
  const Tensor borrowed(Buffer::wrap(view.data, 0, {}), 0, view.dtype,
                        Dims(view.dims.begin(), view.dims.end()),
                        Dims(view.strides.begin(), view.strides.end()));
  return borrowed.to_contiguous();
}

/// Any strides: what is not row-major is copied in and out.
void reference_custom(const ReferenceContext& c) {
  check_shapes(c);
  std::vector<Tensor> kept;
  std::vector<TensorView> inputs, outputs;
  std::vector<std::pair<size_t, Tensor>> back;
  kept.reserve(c.inputs.size());
  for (const TensorView& view : c.inputs) {
    if (view && !view.contiguous()) kept.push_back(packed(view));
    inputs.push_back(view && !view.contiguous() ? kept.back().view() : view);
  }
  for (size_t k = 0; k < c.outputs.size(); ++k) {
    const TensorView& view = c.outputs[k];
    if (view && !view.contiguous())
      back.emplace_back(k, Tensor(view.dtype, Dims(view.dims.begin(), view.dims.end())));
    outputs.push_back(view && !view.contiguous() ? back.back().second.view() : view);
  }
  OpCall(*c.node, inputs, outputs).run();
  for (const auto& [k, tensor] : back) copy_elements(tensor.view(), c.outputs[k]);
}

/// Where only the function tells sizes: it makes the outputs.
std::vector<Tensor> evaluate_custom(const Node& node, const std::vector<Tensor>& inputs) {
  const std::vector<Type> types = infer_concrete(node, inputs, OpenSizes::kAllowed);
  std::vector<Tensor> kept;
  std::vector<TensorView> views;
  for (const Tensor& t : inputs) {
    kept.push_back(t ? t.to_contiguous() : t);
    views.push_back(t ? kept.back().view() : TensorView{});
  }
  std::vector<Tensor> made(node.outputs.size());
  OpCall(node, views, types, made).run();
  return made;
}

template <class Ports>
int required(const Ports& ports) {
  return static_cast<int>(std::count_if(ports.begin(), ports.end(), [](const CustomPort& p) {
    return p.count == CustomPort::Count::kOne;
  }));
}

}  // namespace

// ---- operators ----------------------------------------------------------------------------------

bool CustomSignature::sizes_open() const {
  return std::any_of(outputs.begin(), outputs.end(), [](const CustomPort& p) {
    return p.any_rank ||
           std::any_of(p.dims.begin(), p.dims.end(), [](const auto& d) { return !d; });
  });
}

CustomOp::CustomOp(CustomSignature parsed, HostFunction does)
    : signature(std::move(parsed)), function(std::move(does)) {
  name = signature.name;
  domain = signature.domain;
  const bool any =
      !signature.inputs.empty() && signature.inputs.back().count == CustomPort::Count::kAny;
  min_inputs = required(signature.inputs);
  max_inputs = any ? -1 : static_cast<int>(signature.inputs.size());
  min_outputs = required(signature.outputs);
  max_outputs = static_cast<int>(signature.outputs.size());
  for (const CustomAttr& attr : signature.attrs)
    attrs.push_back({.name = attr.name,
                     .kind = attr.kind,
                     .required = !attr.optional && !attr.otherwise.has_value()});
  infer = infer_custom;
  if (!function) return;
  if (signature.sizes_open())
    evaluate = evaluate_custom;
  else
    reference = reference_custom;
  random = !signature.pure;
}

const Attr* CustomOp::default_of(std::string_view attr) const {
  for (const CustomAttr& a : signature.attrs)
    if (a.name == attr) return a.otherwise ? &*a.otherwise : nullptr;
  return nullptr;
}

const CustomOp* as_custom(const OpDef& op) {
  return op.infer == infer_custom ? static_cast<const CustomOp*>(&op) : nullptr;
}

const CustomOp& OpLibrary::add(std::string_view signature, HostFunction function) {
  CustomSignature parsed = parse_signature(signature);
  for (const auto& op : ops_)
    if (op->name == parsed.name)
      fail(Status::kInvalidArgument, "operator {} is declared twice", parsed.name);
  ops_.push_back(std::make_unique<CustomOp>(std::move(parsed), std::move(function)));
  return *ops_.back();
}

const CustomOp* OpLibrary::find(std::string_view name, std::string_view domain) const {
  for (const auto& op : ops_)
    if (op->domain == domain && op_name(*op) == name) return op.get();
  return nullptr;
}

bool OpLibrary::owns(const OpDef& op) const {
  return std::any_of(ops_.begin(), ops_.end(), [&](const auto& own) { return own.get() == &op; });
}

const OpDef* find_op(std::string_view name, std::string_view domain, const OpLibrary* library) {
  // The host's goes first: it may declare operators of com.microsoft that it has its own of.
  if (library)
    if (const OpDef* op = library->find(name, domain)) return op;
  return find_op(name, domain);
}

void check_custom_ops(const Graph& graph, const OpLibrary* library) {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (const auto& sub : node.subgraphs) check_custom_ops(*sub, library);
    const CustomOp* op = as_custom(*node.op);
    if (!op) continue;
    located(
        [&] { return node_place(graph, node); },
        [&] {
          if (!library || !library->owns(*op))
            fail(Status::kInvalidArgument,
                 "operator {} is of another operator library than the engine's: create the engine "
                 "with "
                 "the library that declares it",
                 op->name);
          if (!op->function)
            fail(Status::kUnsupported,
                 "operator {} has no function, and no rule puts something in its place here: add "
                 "either to its library",
                 op->name);
        });
  }
}

namespace {

/// What to do about an operator that is not known.
std::string_view remedy(std::string_view domain) {
  if (domain.empty()) return "";
  // Of layouts that fit the vectors of a processor, whose size the model does not say.
  if (domain == "com.microsoft.nchwc" || domain == "com.ms.internal.nhwc")
    return "; onnxruntime optimised this model for the machine it ran on: save it at "
           "ORT_ENABLE_EXTENDED or lower";
  return "; if it is a custom operator, declare it in the engine's operator library before the "
         "model is loaded";
}

}  // namespace

void fail_unknown_op(std::string_view name, std::string_view domain, std::string where) {
  const std::string shown = domain.empty() ? std::string(name) : fmt::format("{}.{}", domain, name);
  throw Error(Status::kUnsupported,
              fmt::format("operator {} is not known{}", shown, remedy(domain)), std::move(where));
}

// ---- a call -------------------------------------------------------------------------------------

OpCall::OpCall(const Node& node, std::span<const TensorView> inputs,
               std::span<const TensorView> outputs)
    : node_(node), op_(*as_custom(*node.op)), inputs_(inputs), outputs_(outputs) {}

OpCall::OpCall(const Node& node, std::span<const TensorView> inputs, std::span<const Type> declared,
               std::span<Tensor> made)
    : node_(node), op_(*as_custom(*node.op)), inputs_(inputs), declared_(declared), made_(made) {}

void OpCall::run() {
  op_.function(*this);
  for (size_t k = 0; k < output_count(); ++k)
    if (wants(k) && !(taken_ >> k & 1))
      fail(Status::kInvalidArgument, "the function of {} did not write output '{}'", op_.name,
           op_.signature.outputs[k].name);
}

TensorView OpCall::input(size_t i) const {
  if (i < inputs_.size()) return inputs_[i];
  if (i >= op_.signature.inputs.size())
    fail(Status::kInvalidArgument, "{} has no input {}", op_.name, i);
  return {};
}

bool OpCall::wants(size_t k) const {
  return k < output_count() && node_.outputs[k] != kNone;
}

const CustomPort& OpCall::port(size_t k) const {
  if (k >= op_.signature.outputs.size())
    fail(Status::kInvalidArgument, "{} has no output {}", op_.name, k);
  if (!wants(k))
    fail(Status::kInvalidArgument, "output '{}' of {} is not wanted", op_.signature.outputs[k].name,
         op_.name);
  return op_.signature.outputs[k];
}

TensorView OpCall::output(size_t k) {
  const CustomPort& p = port(k);
  if (declared_.empty()) {
    taken_ |= uint64_t{1} << k;
    return outputs_[k];
  }
  if (made_[k]) return made_[k].view();
  const auto dims = declared_[k].dims ? to_concrete(*declared_[k].dims) : std::nullopt;
  if (!dims)
    fail(Status::kInvalidArgument,
         "output '{}' of {} is {}: its sizes are for the function to find", p.name, op_.name,
         p.type);
  return allocate(k, *dims);
}

TensorView OpCall::allocate(size_t k, const Dims& dims) {
  const CustomPort& p = port(k);
  const auto require = [&](const SymDims& declared) {
    require_output_dims(fmt::format("'{}' of {}", p.name, op_.name), declared, dims,
                        Status::kInvalidArgument);
  };
  if (declared_.empty()) {
    require(to_symbolic(Dims(outputs_[k].dims.begin(), outputs_[k].dims.end())));
    return output(k);
  }
  for (const int64_t d : dims)
    if (d < 0)
      fail(Status::kInvalidArgument, "output '{}' of {} cannot have dims {}", p.name, op_.name,
           to_text(dims));
  if (declared_[k].dims) require(*declared_[k].dims);
  if (made_[k] && made_[k].dims() == dims) return made_[k].view();
  made_[k] = Tensor(declared_[k].dtype, dims);
  taken_ |= uint64_t{1} << k;
  return made_[k].view();
}

const Attr* OpCall::attr(std::string_view name, AttrKind kind) const {
  const auto& attrs = op_.signature.attrs;
  const auto it =
      std::find_if(attrs.begin(), attrs.end(), [&](const CustomAttr& a) { return a.name == name; });
  if (it == attrs.end()) fail(Status::kNotFound, "{} declares no attribute '{}'", op_.name, name);
  if (it->kind != kind)
    fail(Status::kInvalidArgument, "attribute '{}' of {} is of kind {}, not {}", name, op_.name,
         xc::name(it->kind), xc::name(kind));
  const Attr* given = node_.attrs.find(name);
  return given ? given : op_.default_of(name);
}

}  // namespace xc
