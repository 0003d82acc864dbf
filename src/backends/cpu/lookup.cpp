// LabelEncoder to numbers: "xc.lookup". The table is made once, with the kernel: places of whole
// numbers that lie close together, else a hash table.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "backends/cpu/simple_kernel.h"
#include "ops/ml.h"

namespace xc::cpu {
namespace {

constexpr int64_t kTaskElements = 16 << 10;

Verdict supports(const StepSpec& spec) {
  if (!spec.post_ops.empty()) return Verdict::no("takes no post-ops");
  if (spec.outputs[0].dtype == DType::kString) return Verdict::no("values are texts");
  return Verdict::ok();
}

/// A float as a key: one zero, one NaN.
inline uint64_t key_of(double value) {
  if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
  return std::bit_cast<uint64_t>(value == 0 ? 0.0 : value);
}
inline uint64_t key_of(int64_t value) {
  return static_cast<uint64_t>(value);
}

/// 64-bit keys by open addressing, at most half full.
class HashTable {
 public:
  HashTable() = default;
  explicit HashTable(const std::vector<uint64_t>& keys)
      : slots_(std::bit_ceil(2 * keys.size() + 2)), shift_(64 - std::countr_zero(slots_.size())) {
    for (size_t i = 0; i < keys.size(); ++i)
      slots_[slot_of(keys[i])] = {keys[i], static_cast<int64_t>(i)};
  }
  /// The last position of the key, or -1.
  int64_t find(uint64_t key) const { return slots_[slot_of(key)].position; }
  int64_t bytes() const { return static_cast<int64_t>(slots_.size() * sizeof(Slot)); }

 private:
  struct Slot {
    uint64_t key = 0;
    int64_t position = -1;
  };
  /// Of the key, or the free one where it would be.
  size_t slot_of(uint64_t key) const {
    constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // Fibonacci hashing
    size_t at = (key ^ (key >> 32)) * kGolden >> shift_;
    while (slots_[at].position >= 0 && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  std::vector<Slot> slots_;
  int shift_ = 0;
};

/// Positions of keys in the lists of a LabelTable; where there is none, that of the default, which
/// stands behind the values.
class Index {
 public:
  explicit Index(const Tensor& keys) : otherwise_(keys.count()) {
    const int64_t count = keys.count();
    if (keys.dtype() == DType::kString) {
      const auto* texts = keys.as<std::string>();
      for (int64_t i = 0; i < count; ++i) texts_[texts[i]] = i;
    } else if (is_float(keys.dtype())) {
      std::vector<uint64_t> bits;
      for (const double value : keys.to_doubles()) bits.push_back(key_of(value));
      table_ = HashTable(bits);
    } else {
      const auto values = keys.to_int64s();
      std::vector<uint64_t> bits(values.begin(), values.end());
      if (count > 0) {
        const auto [low, high] = std::ranges::minmax(values);
        const uint64_t range = key_of(high) - key_of(low);
        if (range < 4 * static_cast<uint64_t>(count) + 1024) {
          first_ = key_of(low);
          places_.assign(range + 1, otherwise_);
          for (int64_t i = 0; i < count; ++i) places_[bits[static_cast<size_t>(i)] - first_] = i;
          return;
        }
      }
      table_ = HashTable(bits);
    }
  }

  int64_t find(const std::string& text) const {
    const auto at = texts_.find(text);
    return at == texts_.end() ? otherwise_ : at->second;
  }
  int64_t find(int64_t value) const {
    if (places_.empty()) return found(table_.find(key_of(value)));
    const uint64_t place = key_of(value) - first_;
    return place < places_.size() ? places_[place] : otherwise_;
  }
  int64_t find(double value) const { return found(table_.find(key_of(value))); }

  int64_t bytes() const {
    return table_.bytes() + static_cast<int64_t>(places_.size() * 8 + texts_.size() * 96);
  }

 private:
  int64_t found(int64_t position) const { return position < 0 ? otherwise_ : position; }

  int64_t otherwise_;
  uint64_t first_ = 0;
  std::vector<int64_t> places_;  ///< of first_, first_ + 1, ...; or:
  HashTable table_;
  std::unordered_map<std::string, int64_t> texts_;
};

struct Table {
  explicit Table(const StepSpec& spec) : Table(label_table(spec.attrs())) {}
  explicit Table(LabelTable labels)
      : index(labels.keys), values(labels.values.dtype(), {labels.values.count() + 1}) {
    const int64_t bytes = labels.values.byte_size();
    auto* to = static_cast<std::byte*>(values.data());
    if (bytes > 0) std::memcpy(to, labels.values.data(), static_cast<size_t>(bytes));
    std::memcpy(to + bytes, labels.otherwise.data(),
                static_cast<size_t>(element_size(values.dtype())));
  }
  Index index;
  Tensor values;  ///< and the default
};

class LookupBound final : public BoundKernel {
 public:
  LookupBound(const StepSpec& spec, const BindContext& context, std::shared_ptr<const Table> table)
      : views_(spec, context), table_(std::move(table)) {
    const OperandView &x = views_.inputs[0], &y = views_.outputs[0];
    count_ = y.count();
    dense_ = is_contiguous(x.dims, x.strides) && is_contiguous(y.dims, y.strides);
    if (dense_) tasks = std::max<int64_t>(1, count_ / kTaskElements);
    held_bytes += views_.bytes();
  }

  void run(const StepArgs& args, int64_t begin, int64_t end) const override {
    dispatch_storage(views_.outputs[0].dtype, [&]<class V>() {
      switch (views_.inputs[0].dtype) {
        case DType::kString:
          return look_up<std::string, const std::string&, V>(args, begin, end);
        case DType::kI64:
          return look_up<int64_t, int64_t, V>(args, begin, end);
        case DType::kI32:
          return look_up<int32_t, int64_t, V>(args, begin, end);
        case DType::kI16:
          return look_up<int16_t, int64_t, V>(args, begin, end);
        case DType::kF32:
          return look_up<float, double, V>(args, begin, end);
        case DType::kF64:
          return look_up<double, double, V>(args, begin, end);
        default:
          fail(Status::kInternal, "labels of type {}", name(views_.inputs[0].dtype));
      }
    });
  }

 private:
  template <class T, class Key, class V>
  void look_up(const StepArgs& args, int64_t begin, int64_t end) const {
    if constexpr (!std::is_same_v<V, std::string>) {
      const OperandView &x = views_.inputs[0], &y = views_.outputs[0];
      const auto* from = static_cast<const T*>(args.buffers[0]);
      auto* to = static_cast<V*>(args.buffers[1]);
      const V* values = table_->values.as<V>();
      const Index& index = table_->index;
      if (!dense_)
        return for_each_offset<2>(y.dims, {x.strides, y.strides}, [&](const auto& at) {
          to[at[1]] = values[index.find(static_cast<Key>(from[at[0]]))];
        });
      for (int64_t i = count_ * begin / tasks; i < count_ * end / tasks; ++i)
        to[i] = values[index.find(static_cast<Key>(from[i]))];
    }
  }

  OperandViews views_;
  std::shared_ptr<const Table> table_;
  int64_t count_ = 0;
  bool dense_ = false;
};

std::shared_ptr<const BoundKernel> bind(const StepSpec& spec, const BindContext& context,
                                        const std::shared_ptr<const Table>& table) {
  return std::make_shared<LookupBound>(spec, context, table);
}

}  // namespace

void add_lookup(Rows& rows) {
  rows.push_back({"xc.lookup", "LabelEncoder", supports, create_prepared<Table, bind>});
}

}  // namespace xc::cpu
