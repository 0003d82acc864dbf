// Einsum of floats as products of two operands at a time.

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "ops/einsum.h"
#include "ops/expansion.h"

namespace xc::einsum {

namespace {

bool contains(const std::vector<Label>& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

/// An operand, or what some were contracted to.
struct Part {
  ValueId value;
  Labels labels;
  bool constant = false;  ///< known before any run
};

/// `part` with its axes in the order of `wanted`, new axes of size 1 where it lacks one.
ValueId arranged(Expansion& e, const Part& part, const Labels& wanted) {
  std::vector<int64_t> order, missing;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto at = std::find(part.labels.begin(), part.labels.end(), wanted[i]);
    if (at == part.labels.end())
      missing.push_back(static_cast<int64_t>(i));
    else
      order.push_back(at - part.labels.begin());
  }
  ValueId value = part.value;
  if (!std::is_sorted(order.begin(), order.end()))
    value = e.add("Transpose", {value}, {{"perm", order}});
  if (!missing.empty()) value = e.add("Unsqueeze", {value, e.ints(missing)});
  return value;
}

/// Writes an equation as products of two operands at a time: MatMul with the labels that both
/// have and that are kept as leading axes, Mul where nothing is summed.
class Contraction {
 public:
  Contraction(Expansion& e, const Labels& output, std::map<Label, Dim> sizes)
      : e_(e), output_(output), sizes_(std::move(sizes)) {}

  /// Whether an operand may be taken: not where a label repeats whose sizes are no numbers, or not
  /// the same.
  bool takes(const SymDims& dims, const Labels& labels) const {
    constexpr int64_t kLongest = int64_t{1} << 30;  // its square is a size
    for (size_t k = 0; k < labels.size(); ++k) {
      const Dim& size = sizes_.at(labels[k]);
      if (std::count(labels.begin(), labels.end(), labels[k]) > 1 &&
          !(size.is_constant() && size.value() <= kLongest && dims[k] == size))
        return false;
    }
    return true;
  }

  /// The sizes of an operand, before any is taken.
  void see(ValueId value, const SymDims& dims, const Labels& labels) {
    for (size_t k = 0; k < labels.size(); ++k) {
      if (dims[k].is_constant()) continue;
      auto& sizes = open_sizes_[labels[k]];
      if (std::none_of(sizes.begin(), sizes.end(),
                       [&](const OpenSize& s) { return s.size == dims[k]; }))
        sizes.push_back({dims[k], value, static_cast<int64_t>(k)});
    }
  }

  void take(ValueId value, SymDims dims, Labels labels, bool constant) {
    value = diagonal(value, dims, labels);
    value = widened(value, dims, labels);
    std::vector<int64_t> spread;
    Labels own;
    for (size_t k = 0; k < labels.size(); ++k) {
      if (is_spread(dims[k], labels[k])) {
        spread.push_back(static_cast<int64_t>(k));
        continue;
      }
      own.push_back(labels[k]);
    }
    if (!spread.empty()) value = e_.add("Squeeze", {value, e_.ints(spread)});
    parts_.push_back({value, std::move(own), constant});
  }

  ValueId result() {
    for (size_t i = 0; i < parts_.size(); ++i) sum_own(i);
    while (parts_.size() > 1) {
      const auto [i, k] = next_pair();
      Part both = contract(parts_[i], parts_[k], kept(i, k));
      parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(k));
      parts_[i] = std::move(both);
    }
    const ValueId value = e_.narrowed(arranged(e_, parts_[0], output_));
    return value == e_.in(0) ? e_.add("Identity", {value}) : value;
  }

 private:
  /// Is it for the run to show whether an axis has its label's size, or 1? (Those of the result
  /// whose size is no number are for MatMul to check, where they lead it.)
  bool may_spread(const Dim& size, Label label) const {
    const Dim& whole = sizes_.at(label);
    return !is_spread(size, label) && !(size == whole) &&
           (whole.is_constant() || !contains(output_, label));
  }

  /// An operand with one axis for each label: two with the same become one, the last, of which
  /// every (size + 1)-th element is on the diagonal.
  ValueId diagonal(ValueId value, SymDims& dims, Labels& labels) {
    for (size_t p = 0; p < labels.size();) {
      const auto again =
          std::find(labels.begin() + static_cast<std::ptrdiff_t>(p) + 1, labels.end(), labels[p]);
      if (again == labels.end()) {
        ++p;
        continue;
      }
      const size_t q = static_cast<size_t>(again - labels.begin());
      const Dim size = dims[p];
      std::vector<int64_t> order;
      for (size_t k = 0; k < labels.size(); ++k)
        if (k != p && k != q) order.push_back(static_cast<int64_t>(k));
      std::vector<int64_t> joined(order.size(), 0);  // as they are
      const auto last = static_cast<int64_t>(order.size());
      joined.push_back(size.value() * size.value());
      order.insert(order.end(), {static_cast<int64_t>(p), static_cast<int64_t>(q)});
      if (!std::is_sorted(order.begin(), order.end()))
        value = e_.add("Transpose", {value}, {{"perm", order}});
      value = e_.add("Reshape", {value, e_.ints(joined)});
      value = e_.add("Slice", {value, e_.ints({0}), e_.ints({joined.back()}), e_.ints({last}),
                               e_.ints({size.value() + 1})});
      const Label label = labels[p];
      for (const size_t gone : {q, p}) {
        labels.erase(labels.begin() + static_cast<std::ptrdiff_t>(gone));
        dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(gone));
      }
      labels.push_back(label);
      dims.push_back(size);
    }
    return value;
  }

  /// An operand with the sizes of its labels where it is for the run to show whether it has them.
  ValueId widened(ValueId value, const SymDims& dims, const Labels& labels) {
    std::vector<int64_t> target(labels.size(), 1);
    for (size_t k = 0; k < labels.size(); ++k) {
      if (!may_spread(dims[k], labels[k])) continue;
      const Dim& whole = sizes_.at(labels[k]);
      if (whole.is_constant())
        target[k] = whole.value();
      else
        value = widened(value, dims, labels, k);
    }
    const bool any = std::any_of(target.begin(), target.end(), [](int64_t n) { return n != 1; });
    return any ? e_.add("Expand", {value, e_.ints(std::move(target))}) : value;
  }

  /// The same along one axis, whose label has the sizes of several symbols.
  ValueId widened(ValueId value, const SymDims& dims, const Labels& labels, size_t axis) {
    for (const OpenSize& other : open_sizes_.at(labels[axis])) {
      if (other.size == dims[axis]) continue;
      std::vector<ValueId> shape{e_.size(other.value, other.axis)};
      if (const size_t behind = labels.size() - axis - 1; behind > 0)
        shape.push_back(e_.ints(std::vector<int64_t>(behind, 1)));
      value = e_.add("Expand", {value, e_.add("Concat", shape, {{"axis", int64_t{0}}})});
    }
    return value;
  }

  /// An axis of size 1 that stands for a larger one.
  bool is_spread(const Dim& size, Label label) const {
    return size == Dim(1) && !(sizes_.at(label) == Dim(1));
  }

  /// Sums what no other operand has and the result lacks.
  void sum_own(size_t i) {
    Part& part = parts_[i];
    std::vector<int64_t> axes;
    Labels left;
    const std::set<Label> wanted = kept(i, i);
    for (size_t k = 0; k < part.labels.size(); ++k) {
      if (wanted.contains(part.labels[k]))
        left.push_back(part.labels[k]);
      else
        axes.push_back(static_cast<int64_t>(k));
    }
    if (axes.empty()) return;
    part = {e_.add("ReduceSum", {part.value, e_.ints(axes)}, {{"keepdims", int64_t{0}}}),
            std::move(left)};
  }

  /// The labels that the result has or a part other than i and k.
  std::set<Label> kept(size_t i, size_t k) const {
    std::set<Label> out(output_.begin(), output_.end());
    for (size_t j = 0; j < parts_.size(); ++j)
      if (j != i && j != k) out.insert(parts_[j].labels.begin(), parts_[j].labels.end());
    return out;
  }

  /// The two parts to multiply next: the first step of the order with the fewest multiplications,
  /// by what is known of sizes; of many parts those whose own product takes the fewest.
  std::pair<size_t, size_t> next_pair() const {
    std::vector<std::set<Label>> parts;
    for (const Part& part : parts_) parts.emplace_back(part.labels.begin(), part.labels.end());
    constexpr size_t kMostSearched = 5;  // 180 orders
    std::pair<size_t, size_t> first{0, 1};
    (void)fewest_multiplications(parts, parts.size() <= kMostSearched, &first);
    return first;
  }

  double multiplications(const std::set<Label>& labels) const {
    constexpr double kUnknown = 128;
    double work = 1;
    for (Label label : labels) {
      const Dim& size = sizes_.at(label);
      work *= size.is_constant() ? static_cast<double>(size.value()) : kUnknown;
    }
    return work;
  }

  double fewest_multiplications(const std::vector<std::set<Label>>& parts, bool to_the_end,
                                std::pair<size_t, size_t>* first) const {
    if (parts.size() == 1) return 0;
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < parts.size(); ++i)
      for (size_t k = i + 1; k < parts.size(); ++k) {
        std::set<Label> both = parts[i];
        both.insert(parts[k].begin(), parts[k].end());
        double work = multiplications(both);
        if (to_the_end && work < least) {
          std::set<Label> wanted(output_.begin(), output_.end());
          std::vector<std::set<Label>> left;
          for (size_t j = 0; j < parts.size(); ++j) {
            if (j == i || j == k) continue;
            left.push_back(parts[j]);
            wanted.insert(parts[j].begin(), parts[j].end());
          }
          std::erase_if(both, [&](Label label) { return !wanted.contains(label); });
          left.push_back(std::move(both));
          work += fewest_multiplications(left, true, nullptr);
        }
        if (work >= least) continue;
        least = work;
        if (first) *first = {i, k};
      }
    return least;
  }

  /// Which of two parts is the left side: the one without the result's last label, for the product
  /// then has it innermost and its readers go over memory in order. A constant stays on the right,
  /// where it is packed.
  Part contract(const Part& a, const Part& b, const std::set<Label>& keep) {
    const auto last = std::find_if(output_.rbegin(), output_.rend(), [&](Label label) {
      return contains(a.labels, label) || contains(b.labels, label);
    });
    const bool turned = last != output_.rend() && !contains(b.labels, *last) && !b.constant;
    return turned ? product(b, a, keep) : product(a, b, keep);
  }

  Part product(const Part& a, const Part& b, const std::set<Label>& keep) {
    Labels batch, inner, rows, columns;
    for (Label label : a.labels) {
      const bool in_b = contains(b.labels, label);
      (in_b ? keep.contains(label) ? batch : inner : rows).push_back(label);
    }
    for (Label label : b.labels)
      if (!contains(a.labels, label)) columns.push_back(label);
    if (inner.empty()) {
      Labels all = joined(joined(batch, rows), columns);
      // In the order of the result, which leaves nothing to be transposed behind the product.
      std::stable_sort(all.begin(), all.end(), [&](Label x, Label y) {
        return std::find(output_.begin(), output_.end(), x) <
               std::find(output_.begin(), output_.end(), y);
      });
      return {e_.add("Mul", {arranged(e_, a, all), arranged(e_, b, all)}), all};
    }
    if (rows.empty() && columns.empty() && sizes_are_few(inner)) {
      // Short dot products: as many matrix products of one row and one column take far longer.
      const Labels all = joined(batch, inner);
      std::vector<int64_t> axes;
      for (size_t i = batch.size(); i < all.size(); ++i) axes.push_back(static_cast<int64_t>(i));
      const ValueId products = e_.add("Mul", {arranged(e_, a, all), arranged(e_, b, all)});
      return {e_.add("ReduceSum", {products, e_.ints(axes)}, {{"keepdims", int64_t{0}}}), batch};
    }
    // A label that leads the result and the operand that has it is walked like a shared one: the
    // product comes out in order, and the operand is read as it lies.
    while (lead(batch, rows, a.labels) || lead(batch, columns, b.labels)) {
    }
    const Labels result = joined(joined(batch, rows), columns);
    const ValueId left = arranged(e_, a, joined(joined(batch, rows), inner)),
                  right = arranged(e_, b, joined(joined(batch, inner), columns));
    const auto product =
        e_.product(grouped(left, a, batch, rows, inner), grouped(right, b, batch, inner, columns));
    if (rows.size() == 1 && columns.size() == 1) return {product, result};
    std::vector<Group> axes;
    for (Axis& axis : axes_of(product, batch, 0)) axes.push_back({std::move(axis)});
    for (Axis& axis : axes_of(left, rows, batch.size())) axes.push_back({std::move(axis)});
    for (Axis& axis : axes_of(right, columns, batch.size() + inner.size()))
      axes.push_back({std::move(axis)});
    return {reshaped(product, axes), result};
  }

  /// Moves the first label of `own` behind the batch where it comes first in the result among all
  /// that is no batch yet, leaving at least one.
  bool lead(Labels& batch, Labels& own, const Labels& operand) const {
    if (own.size() < 2) return false;
    for (const Labels* order : {&output_, &operand}) {
      const auto first = std::find_if(order->begin(), order->end(),
                                      [&](Label label) { return !contains(batch, label); });
      if (first == order->end() || *first != own.front()) return false;
    }
    batch.push_back(own.front());
    own.erase(own.begin());
    return true;
  }

  static Labels joined(Labels a, const Labels& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  bool sizes_are_few(const Labels& labels) const {
    constexpr int64_t kFew = 64;
    const Dim size = size_of(labels);
    return size.is_constant() && size.value() <= kFew;
  }

  Dim size_of(const Labels& labels) const {
    Dim out = 1;
    for (Label label : labels) out = out * sizes_.at(label);
    return out;
  }

  /// An axis of a value: an operand's may turn out to be 1 where its label is longer.
  struct Axis {
    Dim size;  ///< of the label
    ValueId value;
    int64_t axis;
  };
  using Group = std::vector<Axis>;

  /// Axes of a value that lie beside each other.
  Group axes_of(ValueId value, const Labels& labels, size_t first) const {
    Group out;
    for (size_t k = 0; k < labels.size(); ++k)
      out.push_back({sizes_.at(labels[k]), value, static_cast<int64_t>(first + k)});
    return out;
  }

  /// An operand arranged as batch, first, second: with one axis for each of the two groups.
  ValueId grouped(ValueId value, const Part& part, const Labels& batch, const Labels& first,
                  const Labels& second) {
    if (first.size() == 1 && second.size() == 1) return value;
    std::vector<Group> axes;
    const Group own = axes_of(value, batch, 0);
    for (size_t k = 0; k < batch.size(); ++k)
      axes.push_back(contains(part.labels, batch[k]) ? Group{own[k]} : Group{});
    axes.push_back(axes_of(value, first, batch.size()));
    axes.push_back(axes_of(value, second, batch.size() + first.size()));
    return reshaped(value, axes);
  }

  /// With the sizes of those groups as its dims; the one that is not known is left to Reshape.
  ValueId reshaped(ValueId value, const std::vector<Group>& axes) {
    std::vector<int64_t> known;
    int open = 0;
    bool empty = false;
    for (const Group& group : axes) {
      Dim size = 1;
      for (const Axis& axis : group) size = size * axis.size;
      known.push_back(size.is_constant() ? size.value() : -1);
      open += size.is_constant() ? 0 : 1;
      empty = empty || known.back() == 0;
    }
    if (open == 0 || (open == 1 && !empty))
      return e_.add("Reshape", {value, e_.ints(known)}, {{"allowzero", int64_t{1}}});
    std::vector<ValueId> parts;
    for (size_t k = 0; k < axes.size(); ++k) {
      ValueId size = kNone;
      if (known[k] >= 0) size = e_.ints({known[k]});
      for (size_t l = 0; known[k] < 0 && l < axes[k].size(); ++l) {
        const ValueId one = e_.size(axes[k][l].value, axes[k][l].axis);
        size = l == 0 ? one : e_.add("Mul", {size, one});
      }
      parts.push_back(size);
    }
    const ValueId shape = e_.add("Concat", parts, {{"axis", int64_t{0}}});
    return e_.add("Reshape", {value, shape}, {{"allowzero", int64_t{1}}});
  }

  Expansion& e_;
  Labels output_;
  std::map<Label, Dim> sizes_;
  struct OpenSize {
    Dim size;
    ValueId value;
    int64_t axis;
  };
  std::map<Label, std::vector<OpenSize>> open_sizes_;  ///< those that are no numbers, each once
  std::vector<Part> parts_;
};

/// Whether it has a label of several operands that the result lacks: a MatMul, which integers have
/// no fast kernel for.
bool sums_products(const Equation& equation) {
  std::set<Label> seen;
  for (const Labels& term : equation.terms) {
    const std::set<Label> own(term.begin(), term.end());
    for (const Label label : own)
      if (!seen.insert(label).second && !contains(equation.output, label)) return true;
  }
  return false;
}

}  // namespace

std::vector<ValueId> expand(const Graph& graph, const Node& node, Patch& patch) {
  constexpr size_t kMostOperands = 32;  // the order of products is searched pair by pair
  if (node.inputs.size() > kMostOperands) return {};
  Expansion e(graph, node, patch);
  std::vector<size_t> ranks;
  std::vector<SymDims> dims;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!e.rank(i)) return {};
    dims.push_back(*e.type(i).dims);
    ranks.push_back(dims.back().size());
  }
  const Equation equation = parse(node.attrs.get_string("equation", ""), ranks);
  if (!is_float(e.dtype(0)) && sums_products(equation)) return {};
  Contraction contraction(e, equation.output, sizes_of(equation, dims));
  for (size_t i = 0; i < dims.size(); ++i)
    if (!contraction.takes(dims[i], equation.terms[i])) return {};
  for (size_t i = 0; i < dims.size(); ++i) contraction.see(e.in(i), dims[i], equation.terms[i]);
  for (size_t i = 0; i < dims.size(); ++i)
    contraction.take(e.widened(i), dims[i], equation.terms[i], bool{e.constant_input(i)});
  return {contraction.result()};
}

}  // namespace xc::einsum
