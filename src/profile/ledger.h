#pragma once
// The accounts of one region: per shape class the calls, what they take now, what they took before,
// and the time saved. Plain arithmetic on sampled times; one thread at a time.
//
// What a call saves is the difference of the medians of its shape's trial, where both sides ran in
// turn. Means of sampled calls hold cold ones and interruptions, the more the earlier: before minus
// now, taken from them, would flatter.

#include <cstdint>
#include <map>
#include <vector>

namespace xc {

class Ledger {
 public:
  Ledger() = default;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// Values of the size symbols of a signature.
  using Shape = std::vector<int64_t>;
  /// Shape classes with accounts of their own; those with the fewest calls share one.
  static constexpr size_t kShapes = 32;

  struct Account {
    double calls = 0;  ///< estimated: a sampled call stands for those around it
    double live_calls = 0;
    double before_s = 0;     ///< per call, by what the region replaces: the trial's median, until
                             ///< then the mean; 0 = never measured
    double fused_s = 0;      ///< per call, by the region: the trial's median; 0 = had no trial
    double now_s = 0;        ///< mean per call of what runs now
    double predicted_s = 0;  ///< per call; 0 = not predicted
    double saved_s = 0;      ///< sum over live calls; negative when it was slower
    bool estimated = false;  ///< before_s follows from the trial's ratio on other shapes
  };

  /// `calls` calls took `seconds` each without the region.
  void replaced(const Shape& shape, double calls, double seconds, double predicted_s);
  /// A trial measured these medians on the same calls.
  void trialled(const Shape& shape, double before_s, double fused_s);
  /// `calls` calls took `seconds` each with it. `ratio`: time before over time fused in the trial,
  /// for shapes that had none; 0 = unknown, then nothing counts as saved.
  void live(const Shape& shape, double calls, double seconds, double ratio);
  /// Saved (or lost) outside of ordinary calls: during a trial.
  void add_saved(double seconds) { saved_s_ += seconds; }

  /// Of all shapes and trials.
  double saved_s() const { return saved_s_; }
  double calls() const { return calls_; }
  const std::map<Shape, Account>& accounts() const { return accounts_; }
  /// Shapes without an account of their own, together.
  const Account& others() const { return others_; }

 private:
  Account& account(const Shape& shape);
  std::map<Shape, Account> accounts_;
  /// The account asked for last: most calls have the shape of the one before.
  std::map<Shape, Account>::iterator last_ = accounts_.end();
  Account others_;
  double calls_ = 0, saved_s_ = 0;
};

}  // namespace xc
