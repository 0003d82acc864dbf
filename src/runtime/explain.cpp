#include "runtime/explain.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace xc {
namespace {

/// What is explained: a program at one signature, as it runs now.
struct Subject {
  Program& program;
  const ProfileSummary& summary;
  std::shared_ptr<const Plan> plan;
  /// The signature, and what followed in the last segment known; null: the plan without sizes.
  std::shared_ptr<SignatureEntry> entry, reached;
  std::vector<std::shared_ptr<const Published>> parts;  ///< of it per segment known

  const Version& first_part() const { return *parts.front()->active; }
  bool on_trial() const {
    return std::any_of(parts.begin(), parts.end(),
                       [](const auto& part) { return part->challenger != nullptr; });
  }
  /// 0 where no run was measured, as with jit = off.
  double run_us() const { return first_part().times->run_ns() / 1000.0; }
  double base_run_us() const {
    const auto base = program.base_of(*entry);
    return base ? base->times->run_ns() / 1000.0 : 0.0;
  }

  const FusionReport* search() const {
    const FusionReport* out = nullptr;
    for_own(summary.searches, [&](const SearchSummary& s) { out = &s.report; });
    return out;
  }
  /// Those of this program among what a session has learnt of all of them.
  template <class T, class Use>
  void for_own(const std::vector<T>& all, Use&& use) const {
    for (const T& one : all)
      if (one.program == program.name()) use(one);
  }
};

bool has_signature(const SignatureEntry& entry, const Graph& graph,
                   const std::vector<Dims>& signature) {
  // How the keys of entries for inputs of these dims begin.
  std::vector<int64_t> key;
  for (size_t i = 0; i < signature.size(); ++i) {
    if (graph.value(graph.inputs[i]).type.kind != Type::Kind::kTensor) {
      key.push_back(-1);
      continue;
    }
    key.push_back(static_cast<int64_t>(signature[i].size()));
    key.insert(key.end(), signature[i].begin(), signature[i].end());
  }
  return entry.key.size() >= key.size() && std::equal(key.begin(), key.end(), entry.key.begin());
}

/// `signature` empty: the one used last.
Subject subject_of(Program& program, const std::vector<Dims>& signature,
                   const ProfileSummary& summary) {
  Subject out{program, summary, nullptr, nullptr, nullptr, {}};
  const auto entries = program.entries();
  for (const auto& e : entries)
    if (e->segment == 0 && has_signature(*e, program.graph(), signature) &&
        (!out.entry || e->last_use > out.entry->last_use))
      out.entry = e;
  const auto published = out.entry ? program.published(*out.entry) : nullptr;
  if (!published) {
    out.plan = program.preferred_plan() ? program.preferred_plan() : program.base_plan();
    return out;
  }
  out.plan = published->active->bound->plan;
  out.parts.push_back(published);
  out.reached = out.entry;
  // What followed in later segments, at the sizes found out last.
  for (uint32_t s = 1; s < out.plan->segments.size(); ++s) {
    std::shared_ptr<SignatureEntry> next;
    for (const auto& e : entries)
      if (e->segment == s && e->begun == out.plan && (!next || e->last_use > next->last_use) &&
          std::equal(out.reached->symbols.begin(), out.reached->symbols.end(), e->symbols.begin()))
        next = e;
    if (!next) break;
    out.reached = next;
    out.parts.push_back(program.published(*next));
    out.plan = out.parts.back()->active->bound->plan;
  }
  return out;
}

/// How a step runs, where its segment is known.
struct StepRun {
  const BoundStep* bands = nullptr;  ///< what does it band by band with others; null: itself
  std::optional<double> time_us;     ///< of steps in bands the first one's is that of all
};
/// Of each step of the plan.
std::vector<StepRun> runs_of(const Subject& of) {
  std::vector<StepRun> out(of.plan->steps.size());
  for (const auto& part : of.parts) {
    const Version& version = *part->active;
    const bool timed = version.times->samples() > 0;
    for (const BoundStep& bound : version.bound->steps) {
      // An earlier segment may have run another plan, of more steps.
      if (bound.step + bound.count > out.size()) break;
      if (timed) out[bound.step].time_us = version.times->step_ns(bound.step) / 1000.0;
      if (bound.count > 1)
        for (uint32_t k = 0; k < bound.count; ++k) out[bound.step + k].bands = &bound;
    }
  }
  return out;
}

std::string whole_text(const SymDims& dims) {
  return to_text(dims);
}
/// For readers: long expressions are cut.
std::string short_text(const SymDims& dims) {
  constexpr size_t kMost = 120;
  std::string out;
  for (const Dim& d : dims) {
    std::string text = d.text();
    if (text.size() > kMost) text.replace(kMost, std::string::npos, "...");
    out += (out.empty() ? "" : ", ") + text;
  }
  return "[" + out + "]";
}

std::string operand_text(const Operand& operand, std::string (*text)(const SymDims&)) {
  if (!operand.present()) return "_";
  std::string out = std::string(name(operand.dtype)) + text(operand.dims);
  if (!operand.contiguous()) out += " strides " + text(operand.strides);
  if (operand.constant) out += " const";
  return out;
}

// ---- JSON ---------------------------------------------------------------------------------------

void write_operands(JsonWriter& json, std::string_view key, const std::vector<Operand>& operands) {
  if (operands.empty()) return;
  json.key(key).array(operands, [&](const Operand& o) { json.value(operand_text(o, whole_text)); });
}

void write_step(JsonWriter& json, const Graph& graph, const Step& step, const StepRun& run) {
  json.object([&] {
    json.field("name", step.name);
    json.field("op", step.nodes.empty() ? "copy" : step.spec.op->name);
    json.key("nodes").array(step.nodes, [&](NodeId n) {
      json.object([&] {
        json.field("op", graph.node(n).op->name);
        json.field("name", graph.node(n).name);
      });
    });
    json.field("kernel", step.kernel_name);
    if (step.region != Hash128{}) json.field("region", step.region.text());
    write_operands(json, "inputs", step.spec.inputs);
    write_operands(json, "outputs", step.spec.outputs);
    json.key("refused").array(step.refused, [&](const Refusal& refusal) {
      json.object([&] {
        json.field("kernel", refusal.name);
        json.field("reason", refusal.reason);
      });
    });
    if (run.bands)
      json.key("bands").object([&] {
        json.field("of", run.bands->step);
        json.field("rows", run.bands->band_rows);
      });
    if (run.time_us) json.field("time_us", *run.time_us);
  });
}

const std::string& input_name(const Subject& of, const SharedPort& port) {
  const Graph& graph = of.program.graph();
  return graph.value(graph.inputs[port.input]).name;
}
const std::string& output_name(const Subject& of, const SharedPort& port) {
  const Graph& graph = of.program.graph();
  return graph.value(graph.outputs[port.output]).name;
}

void write_signature(JsonWriter& json, const Subject& of) {
  const Version& first = of.first_part();
  json.field("arena_bytes", first.bound->arena_bytes);
  if (const double us = of.run_us(); us > 0) json.field("run_us", us);
  if (const double us = of.base_run_us(); us > 0) json.field("base_run_us", us);
  json.field("on_trial", of.on_trial());
  json.key("updated_in_place").array(first.bound->shared_ports, [&](const SharedPort& port) {
    json.object([&] {
      json.field("input", input_name(of, port));
      json.field("output", output_name(of, port));
    });
  });
  json.key("symbols").object([&] {
    for (size_t k = 0; k < of.reached->symbols.size(); ++k)
      json.field(of.plan->symbols[k].name, of.reached->symbols[k]);
  });
}

/// The fields of an object.
void write_program(JsonWriter& json, const Subject& of) {
  json.field("program", of.program.name());
  json.field("plan", of.plan->serial);
  json.field("segments", of.plan->segments.size());
  json.key("steps").array([&] {
    const std::vector<StepRun> runs = runs_of(of);
    for (size_t k = 0; k < runs.size(); ++k)
      write_step(json, of.program.graph(), *of.plan->steps[k], runs[k]);
  });
  json.key("in_place").array(of.plan->in_place, [&](NodeId n) {
    json.value(of.program.graph().node(n).name);
  });
  if (!of.parts.empty()) write_signature(json, of);
  json.key("regions").array(
      [&] { of.for_own(of.summary.regions, [&](const RegionSummary& r) { write(json, r); }); });
  if (const FusionReport* search = of.search()) write(json.key("search"), *search);
  json.key("sizes").array(
      [&] { of.for_own(of.summary.sizes, [&](const SizeSummary& s) { write(json, s); }); });
  const auto children = of.program.children();
  if (children.empty()) return;
  json.key("bodies").array(children, [&](const auto& child) {
    json.object([&] { write_program(json, subject_of(*child, {}, of.summary)); });
  });
}

// ---- text ---------------------------------------------------------------------------------------

void print_search(const FusionReport& search, std::string& out, const std::string& indent) {
  if (search.alternatives.empty()) return;
  out += fmt::format(
      "{}  search: {} groups considered in {} parts, {} of them proven; predicted fused against "
      "separate:\n",
      indent, search.candidates, search.parts, search.proven);
  for (const FusionReport::Alternative& a : search.alternatives) {
    out += fmt::format("{}    {} {:<44}", indent, a.chosen ? "+" : "-", a.nodes);
    if (a.fused_us > 0) out += fmt::format(" {:9.2f} us {:9.2f} us", a.fused_us, a.separate_us);
    if (a.places > 1) out += fmt::format("  {} places", a.places);
    if (!a.reason.empty()) out += "  " + a.reason;
    out += "\n";
  }
}

/// What sampled runs saw of a value that a region reads.
void print_input(const ValueSummary& input, std::string& out, const std::string& indent) {
  out += fmt::format("{}reads {}: ", indent, input.name);
  if (!input.scalar)
    out += fmt::format("{:.0f} % zeros in {} elements", input.zeros * 100, input.elements);
  else if (input.constant)
    out += fmt::format("one element, always {:g}", input.value);
  else
    out += "one element, not always the same";
  out += fmt::format(", {} looks\n", input.looks);
}

void print_step(const Subject& of, size_t k, const StepRun& run, std::string& out,
                const std::string& indent) {
  const Step& step = *of.plan->steps[k];
  std::string ops;
  for (const NodeId n : step.nodes) {
    if (!ops.empty()) ops += '+';
    ops += of.program.graph().node(n).op->name;
  }
  if (ops.empty()) ops = "copy";
  out += fmt::format("{}  {:3} {:<28} {:<24}", indent, k, ops, step.kernel_name);
  if (run.time_us) out += fmt::format(" {:9.2f} us", *run.time_us);
  if (!step.spec.outputs.empty()) out += "  -> " + operand_text(step.spec.outputs[0], short_text);
  out += "  " + step.name;
  if (run.bands)
    out += fmt::format("  [bands of {} rows with step {}]", run.bands->band_rows, run.bands->step);
  out += "\n";
  for (const Refusal& refused : step.refused)
    out += fmt::format("{}        not {}: {}\n", indent, refused.name, refused.reason);
}

void print_region(const RegionSummary& r, std::string& out, const std::string& indent) {
  out += fmt::format("{}    {:<44} {:9.2f} us {:7.2f} ms {:9.2f} us  {}{}\n", indent, r.name,
                     r.base_us, r.compile_ms, r.fused_us, r.state,
                     r.reason.empty() ? "" : ": " + r.reason);
  for (const ValueSummary& input : r.inputs) print_input(input, out, indent + "      ");
}

void print_size(const SizeSummary& size, std::string& out, const std::string& indent) {
  out += fmt::format("{}  size {}:", indent, size.symbol);
  for (const auto& [value, share] : size.frequent)
    out += fmt::format(" {} in {:.0f} %,", value, share * 100);
  out += fmt::format(" multiples of {} in {:.0f} % of recent runs\n", SizeHistogram::kVector,
                     size.multiples * 100);
}

void print_signature(const Subject& of, std::string& out) {
  const Version& first = of.first_part();
  out += fmt::format(", {} bytes of working memory", first.bound->arena_bytes);
  if (const double us = of.run_us(); us > 0) out += fmt::format(", {:.1f} us per run", us);
  if (const double us = of.base_run_us(); us > 0) out += fmt::format(" (base plan {:.1f} us)", us);
  if (of.on_trial()) out += ", a challenger is on trial";
}

void print_program(const Subject& of, std::string& out, const std::string& indent) {
  out += fmt::format("{}{}: plan {} with {} steps", indent, of.program.name(), of.plan->serial,
                     of.plan->steps.size());
  if (!of.parts.empty()) print_signature(of, out);
  out += "\n";
  if (of.reached && !of.reached->symbols.empty()) {
    out += indent + "  sizes:";
    for (size_t k = 0; k < of.reached->symbols.size(); ++k)
      out += fmt::format(" {}={}", of.plan->symbols[k].name, of.reached->symbols[k]);
    out += "\n";
  }
  const std::vector<StepRun> runs = runs_of(of);
  for (size_t k = 0; k < runs.size(); ++k) print_step(of, k, runs[k], out, indent);
  if (!of.plan->in_place.empty()) {
    out += indent + "  Concats whose parts are written where they belong:";
    for (const NodeId n : of.plan->in_place)
      out += fmt::format(" '{}'", of.program.graph().node(n).name);
    out += "\n";
  }
  if (!of.parts.empty() && !of.first_part().bound->shared_ports.empty()) {
    out += indent + "  inputs that are updated in place where the output lies there:";
    for (const SharedPort& port : of.first_part().bound->shared_ports)
      out += fmt::format(" '{}' as '{}'", input_name(of, port), output_name(of, port));
    out += "\n";
  }
  bool first = true;
  of.for_own(of.summary.regions, [&](const RegionSummary& r) {
    if (std::exchange(first, false))
      out += indent + "  regions (vendor time, compile time, fused time, state):\n";
    print_region(r, out, indent);
  });
  of.for_own(of.summary.sizes, [&](const SizeSummary& s) { print_size(s, out, indent); });
  if (const FusionReport* search = of.search()) print_search(*search, out, indent);
  for (const auto& child : of.program.children())
    print_program(subject_of(*child, {}, of.summary), out, indent + "  ");
}

}  // namespace

std::string explain_program(Program& program, const std::vector<Dims>& signature,
                            const ProfileSummary& summary, bool as_json) {
  const Subject subject = subject_of(program, signature, summary);
  if (as_json) {
    JsonWriter json(2);
    json.object([&] {
      write_program(json, subject);
      json.key("totals").object([&] { write_totals(json, summary); });
    });
    return json.take();
  }
  std::string text;
  print_program(subject, text, "");
  text += fmt::format(
      "{} runs, {} signatures; {} regions compiled, {} swaps, {} rolled back; {:.1f} ms spent "
      "compiling, {:.1f} ms saved net\n",
      summary.runs, summary.signatures, summary.compiled_regions, summary.swapped,
      summary.rolled_back, summary.compile_ms, summary.net_saved_ms);
  return text;
}

}  // namespace xc
