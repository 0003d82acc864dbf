// The main job, to watch: a model answers at once on vendor kernels and gets faster while it runs.
//
//   xc_demo_digits [--seconds S] [MODEL]
//
// Without MODEL: recognises the digits of images.pgm. With MODEL: random inputs of its declared
// shapes. Then a stream of changing sizes, with every decision of the engine as it comes, and a
// table of what it found. XC_* variables are the engine's settings. Exit status 0 only when all
// answers were right.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <xc/xc.hpp>

#include "pictures.h"
#include "requests.h"

namespace demo {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kLargest = 256;
// Kernels are exchanged for others that round differently: bound relative to the largest output.
constexpr double kTolerance = 1e-3;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}
std::string text(xc_string_view view) {
  return {view.data, view.size};
}

// ---- screen
// ---------------------------------------------------------------------------------------

/// A progress line that is rewritten on a terminal and printed once a second elsewhere; events
/// above it.
class Screen {
 public:
  void receive(const xc_event& event) {
    if (event.kind == XC_EVENT_VERIFIED) return;      // every trial says so too
    if (event.kind == XC_EVENT_TRIAL_SAMPLE) return;  // hundreds; the verdict follows
    char line[400], times[80] = "";
    if (event.fused_us > 0)
      std::snprintf(times, sizeof times, "  %.1f -> %.1f us", event.base_us, event.fused_us);
    if (event.kind == XC_EVENT_COMPILED)
      std::snprintf(times, sizeof times, "  in %.1f ms", event.compile_ms);
    std::snprintf(line, sizeof line, "%7.2f s  %-12s %s%s  %s", seconds_since(start_),
                  text(event.kind_name).c_str(), text(event.subject).c_str(), times,
                  event.kind == XC_EVENT_ACCEPTED ? "" : text(event.detail).c_str());
    const std::lock_guard lock(mutex_);  // events come from the compile thread
    lines_.emplace_back(line);
  }
  void progress(const std::string& line, bool last = false) {
    std::vector<std::string> lines;
    {
      const std::lock_guard lock(mutex_);
      lines.swap(lines_);
    }
    for (const std::string& event : lines) std::printf("%s%s\n", clear(), event.c_str());
    if (terminal_)
      std::printf("%s%.*s%s", clear(), 110, line.c_str(), last ? "\n" : "");
    else if (!last && seconds_since(printed_) > 1)
      std::printf("%s\n", line.c_str()), printed_ = Clock::now();
    std::fflush(stdout);
  }
  double now() const { return seconds_since(start_); }

 private:
  const char* clear() const { return terminal_ ? "\r\033[K" : ""; }
  const bool terminal_ = isatty(STDOUT_FILENO) != 0;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point printed_ = start_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

void print_table(const xcrt::Profile& profile) {
  std::printf("\n%-44s %5s %10s %10s %10s  %s\n", "region (us per call)", "uses", "vendor", "fused",
              "compile", "state");
  const auto cell = [](double value, const char* unit) {
    char out[32] = "-";
    if (value > 0) std::snprintf(out, sizeof out, "%.1f%s", value, unit);
    return std::string(out);
  };
  std::vector<xc_region> regions = profile.regions();
  std::stable_sort(regions.begin(), regions.end(), [](const xc_region& a, const xc_region& b) {
    return a.base_us * static_cast<double>(a.uses) > b.base_us * static_cast<double>(b.uses);
  });
  for (const xc_region& region : regions)
    std::printf("%-44.44s %5lld %10s %10s %10s  %s%s%s\n", text(region.name).c_str(),
                static_cast<long long>(region.uses), cell(region.base_us, "").c_str(),
                cell(region.fused_us, "").c_str(), cell(region.compile_ms, " ms").c_str(),
                text(region.state).c_str(), region.reason.size ? ": " : "",
                text(region.reason).c_str());
  const xc_counters c = profile.counters();
  std::printf(
      "\n%lld runs, %lld sizes; %lld regions compiled, %lld plans published, %lld rejected, %lld "
      "rolled back\n",
      static_cast<long long>(c.runs), static_cast<long long>(c.signatures),
      static_cast<long long>(c.compiled_regions), static_cast<long long>(c.swapped),
      static_cast<long long>(c.rejected), static_cast<long long>(c.rolled_back));
  std::printf("net time saved so far: %.1f ms, after %.1f ms of compile time\n", c.net_saved_ms,
              c.compile_ms);
}

// ---- the demo
// -------------------------------------------------------------------------------------

class Demo {
 public:
  Demo(const std::string& model, const Digits* digits)
      : engine_(xcrt::Config().read_environment(),
                {.event = [this](const xc_event& e) { screen_.receive(e); }}),
        model_(engine_, model),
        vendor_(model_, xcrt::Config().set("jit", "off")),
        session_(model_),
        digits_(digits) {
    const auto start = Clock::now();
    bool fixed = true;
    for (const xcrt::Port& port : model_.inputs())
      fixed = fixed && std::count(port.dims.begin(), port.dims.end(), -1) == 0;
    const auto next = [&](int64_t size) {  // 1, 8, 16, 24, ... 64, 256, or powers of two
      if (fixed) return kLargest + 1;      // one size, called 1
      return !digits           ? 2 * size
             : size < 64       ? size / 8 * 8 + 8
             : size < kLargest ? kLargest
                               : kLargest + 1;
    };
    for (int64_t size = 1; size <= kLargest && seconds_since(start) < 2; size = next(size)) try {
        Request request;
        if (digits)
          request.inputs.push_back(digits->batch(size));
        else
          request.inputs = random_inputs(model_, size);
        request.expected = run(vendor_, request.inputs);
        requests_.emplace(size, std::move(request));
      } catch (const xcrt::Error& error) {
        if (digits) throw;
        refused_ = error.what();  // many models have a smallest size
      }
    if (requests_.empty())
      throw std::runtime_error("no size of the model runs; the last said: " + refused_);
    largest_ = requests_.rbegin()->first;
  }

  const Request& largest() const { return requests_.at(largest_); }
  bool right() const { return wrong_ == 0 && worst_ <= kTolerance; }

  /// Runs sizes from a source for some seconds, checking every answer.
  void stream(const std::string& title, double seconds, const std::function<int64_t()>& next_size) {
    const double end = screen_.now() + seconds;
    double looked = screen_.now(), busy = 0;
    int64_t runs = 0, items = 0;
    std::string line;
    while (screen_.now() < end) {
      const int64_t size = next_size();
      const Request& request = requests_.at(size);
      const auto start = Clock::now();
      const Tensors outputs = run(session_, request.inputs);
      busy += seconds_since(start), ++runs, items += size;
      check(request, outputs, size);
      if (screen_.now() - looked < 0.25) continue;
      std::map<std::string, int> states;
      const xcrt::Profile profile = session_.profile();
      for (const xc_region& region : profile.regions()) ++states[text(region.state)];
      char head[160];
      std::snprintf(head, sizeof head, "%7.2f s  %s: %.0f runs/s, %.2f us per item", screen_.now(),
                    title.c_str(), static_cast<double>(runs) / busy,
                    busy * 1e6 / static_cast<double>(items));
      line = head;
      for (const auto& [state, count] : states) line += ", " + std::to_string(count) + " " + state;
      screen_.progress(line);
      looked = screen_.now(), busy = 0, runs = items = 0;
    }
    screen_.progress(line, true);
  }

  int report(double seconds) {
    // Times taken from outside: both sessions in turn on the same inputs; medians.
    std::vector<double> before, after;
    const auto start = Clock::now();
    for (int i = 0; i < 200 && (i < 3 || seconds_since(start) < seconds); ++i)
      for (const bool vendor : {true, false}) {
        const auto begin = Clock::now();
        const Tensors outputs = run(vendor ? vendor_ : session_, largest().inputs);
        (vendor ? before : after).push_back(seconds_since(begin) * 1e6);
        check(largest(), outputs, largest_);
      }
    const auto median = [](std::vector<double>& values) {
      std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                       values.end());
      return values[values.size() / 2];
    };
    for (const auto& [size, request] : requests_)
      check(request, run(session_, request.inputs), size);
    print_table(session_.profile());
    const double was = median(before), is = median(after);
    std::printf("size %lld: %.1f us on vendor kernels alone, %.1f us now (%.2fx)\n",
                static_cast<long long>(largest_), was, is, was / is);
    std::printf("answers: %lld checked, ", static_cast<long long>(checked_));
    if (digits_) std::printf("%lld wrong predictions, ", static_cast<long long>(wrong_));
    std::printf("largest difference before and after %.1e: %s\n", worst_,
                right() ? "all right" : "WRONG");
    return right() ? 0 : 1;
  }

  void check(const Request& request, const Tensors& outputs, int64_t size) {
    ++checked_;
    worst_ = std::max(worst_, difference(request.expected, outputs));
    for (int64_t i = 0; digits_ && i < size; ++i)
      wrong_ += best_class(outputs[0].values<float>(), i) != digits_->label(i);
  }
  std::vector<int64_t> sizes() const {
    std::vector<int64_t> out;
    for (const auto& [size, request] : requests_) out.push_back(size);
    if (out.size() > 1) out.pop_back();  // the largest has a stream of its own
    return out;
  }
  int64_t largest_size() const { return largest_; }

 private:
  Screen screen_;  // outlives the engine, which reports to it
  xcrt::Engine engine_;
  xcrt::Model model_;
  xcrt::Session vendor_, session_;
  const Digits* digits_;
  std::map<int64_t, Request> requests_;
  std::string refused_;
  int64_t largest_ = 0, checked_ = 0, wrong_ = 0;
  double worst_ = 0;
};

int show_all(const std::string& given, double seconds) {
  const std::string folder = XC_DIGITS_DIR "/";
  std::unique_ptr<Digits> digits;
  if (given.empty()) digits = std::make_unique<Digits>(folder + "images.pgm");
  Demo demo(given.empty() ? folder + "digits.onnx" : given, digits.get());
  if (digits) {
    const Request& request = demo.largest();
    const std::span<const float> probabilities = request.expected[0].values<float>();
    std::printf("digits.onnx, %zu pictures it was not trained on; one of them:\n\n",
                digits->labels.size());
    show(*digits, std::random_device()() % digits->labels.size(), probabilities);
    xcrt::Engine engine;
    xcrt::Session other(xcrt::Model(engine, folder + "digits.xcg"));
    const double apart = difference(request.expected, run(other, request.inputs));
    std::printf("digits.xcg gives the same answers (difference %.1e).\n\n", apart);
    if (apart > kTolerance) throw std::runtime_error("digits.xcg and digits.onnx disagree");
  }
  std::mt19937 random(1);
  const std::vector<int64_t> sizes = demo.sizes();
  const std::string range = std::to_string(sizes.front()) + " to " + std::to_string(sizes.back());
  demo.stream("sizes " + range, seconds / 2, [&] { return sizes[random() % sizes.size()]; });
  demo.stream("size " + std::to_string(demo.largest_size()), seconds / 2,
              [&] { return demo.largest_size(); });
  return demo.report(seconds / 8);
}

}  // namespace
}  // namespace demo

int main(int argc, char** argv) try {
  std::string model;
  double seconds = 12;
  const auto usage = [] {
    return std::fprintf(stderr, "usage: xc_demo_digits [--seconds S] [MODEL]\n"), 2;
  };
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--seconds" && i + 1 < argc) {
      char* end = nullptr;
      seconds = std::strtod(argv[++i], &end);
      if (end == argv[i] || *end != 0 || !(seconds > 0 && seconds < 1e6)) return usage();
    } else if (argv[i][0] != '-' && model.empty()) {
      model = argv[i];
    } else {
      return usage();
    }
  }
  return demo::show_all(model, seconds);
} catch (const std::exception& error) {
  std::fprintf(stderr, "xc_demo_digits: %s\n", error.what());
  return 1;
}
