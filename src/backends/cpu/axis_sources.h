#pragma once
// Where the elements along one axis of a result come from, as pieces that follow a rule each: what
// padding, cropping, mirroring and resampling by the nearest element amount to.

#include <cstdint>
#include <span>
#include <vector>

namespace xc::cpu {

class AxisSources {
 public:
  static constexpr int64_t kFill = INT64_MIN;  ///< no source: the constant

  /// Elements [begin, end) of the axis.
  struct Piece {
    enum class Kind : uint8_t {
      kFilled,
      kStrided,    ///< element i is source from + (i - begin) * step
      kRepeated,   ///< element i is source from + (i - begin) / step
      kScattered,  ///< element i is source table[from + i - begin]
    } kind;
    int64_t begin, end;
    int64_t from = 0, step = 0;
    int64_t size() const { return end - begin; }
  };

  AxisSources() = default;
  /// From the source of each element.
  explicit AxisSources(std::span<const int64_t> sources);

  /// What follows: so many of the constant; so many elements from `from` on, `step` apart.
  void add_filled(int64_t count);
  void add_strided(int64_t count, int64_t from, int64_t step);

  const std::vector<Piece>& pieces() const { return pieces_; }
  int64_t size() const { return pieces_.empty() ? 0 : pieces_.back().end; }
  int64_t bytes() const;
  const int64_t* table(const Piece& piece) const { return table_.data() + piece.from; }

  /// Source of element i, or kFill. `piece`: where the element looked up before lies, 0 at first.
  int64_t at(int64_t i, size_t& piece) const;

  /// Takes the next inner axis, whose elements are `inner` adjacent ones in source and result, into
  /// this one; false, and nothing changes, when its pieces are no longer of a kind then.
  bool absorb(int64_t inner);

 private:
  std::vector<Piece> pieces_;
  std::vector<int64_t> table_;
};

}  // namespace xc::cpu
