#include "runtime/explain.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace xc {
namespace {

using json = nlohmann::ordered_json;

std::string operand_text(const Operand& operand) {
  if (!operand.present()) return "_";
  std::string out = std::string(name(operand.dtype)) + to_text(operand.dims);
  if (!operand.contiguous()) out += " strides " + to_text(operand.strides);
  if (operand.constant) out += " const";
  return out;
}

json describe_step(const Graph& graph, const Step& step) {
  json out;
  out["name"] = step.name;
  out["op"] = step.nodes.empty() ? std::string("copy") : std::string(step.spec.op->name);
  json nodes = json::array();
  for (NodeId n : step.nodes)
    nodes.push_back({{"op", std::string(graph.node(n).op->name)}, {"name", graph.node(n).name}});
  out["nodes"] = nodes;
  out["kernel"] = step.kernel_name;
  if (step.region != Hash128{}) out["region"] = step.region.text();
  for (const Operand& operand : step.spec.inputs) out["inputs"].push_back(operand_text(operand));
  for (const Operand& operand : step.spec.outputs) out["outputs"].push_back(operand_text(operand));
  json refused = json::array();
  for (const Refusal& r : step.refused)
    refused.push_back({{"kernel", r.name}, {"reason", r.reason}});
  out["refused"] = refused;
  return out;
}

/// What does step `k` band by band with others; null: it is done by itself.
const BoundStep* band_of(const Bound& bound, size_t k) {
  for (const BoundStep& step : bound.steps)
    if (step.count > 1 && k >= step.step && k < step.step + step.count) return &step;
  return nullptr;
}

/// How the keys of entries for inputs of these dims begin.
std::vector<int64_t> key_of(const Graph& graph, const std::vector<Dims>& signature) {
  std::vector<int64_t> key;
  for (size_t i = 0; i < signature.size(); ++i) {
    if (graph.value(graph.inputs[i]).type.kind != Type::Kind::kTensor) {
      key.push_back(-1);
      continue;
    }
    key.push_back(static_cast<int64_t>(signature[i].size()));
    key.insert(key.end(), signature[i].begin(), signature[i].end());
  }
  return key;
}

json describe(Program& program, const std::vector<Dims>& signature, const ProfileSummary& summary) {
  const std::vector<int64_t> key = key_of(program.graph(), signature);
  const auto entries = program.entries();
  std::shared_ptr<SignatureEntry> entry;
  for (const auto& e : entries) {
    if (e->segment > 0) continue;
    if (e->key.size() < key.size() || !std::equal(key.begin(), key.end(), e->key.begin())) continue;
    if (!entry || e->last_use > entry->last_use) entry = e;
  }
  std::shared_ptr<const Published> published;
  if (entry) published = program.published(*entry);
  std::shared_ptr<const Plan> plan =
      published ? published->active->bound->plan
                : (program.preferred_plan() ? program.preferred_plan() : program.base_plan());
  // What followed in later segments, at the sizes found out last.
  std::vector<std::shared_ptr<const Published>> parts{published};
  std::shared_ptr<SignatureEntry> reached = entry;
  for (uint32_t s = 1; reached && s < plan->segments.size(); ++s) {
    std::shared_ptr<SignatureEntry> next;
    for (const auto& e : entries)
      if (e->segment == s && e->begun == plan && (!next || e->last_use > next->last_use) &&
          std::equal(reached->symbols.begin(), reached->symbols.end(), e->symbols.begin()))
        next = e;
    if (!next) break;
    reached = next;
    parts.push_back(program.published(*next));
    plan = parts.back()->active->bound->plan;
  }
  json out;
  out["program"] = program.name();
  out["plan"] = plan->serial;
  out["segments"] = plan->segments.size();
  json steps = json::array();
  for (size_t k = 0; k < plan->steps.size(); ++k) {
    json step = describe_step(program.graph(), *plan->steps[k]);
    for (const auto& part : parts) {
      if (!part) continue;
      const Version& version = *part->active;
      const Segment& segment = plan->segments[version.bound->segment];
      if (k < segment.first_step || k >= segment.end_step) continue;
      const BoundStep* const bands = band_of(*version.bound, k);
      if (bands) step["bands"] = {{"of", bands->step}, {"rows", bands->band_rows}};
      // The first one's is that of all.
      if (version.times->samples() > 0 && !(bands && k > bands->step))
        step["time_us"] = version.times->step_ns(k) / 1000.0;
    }
    steps.push_back(std::move(step));
  }
  out["steps"] = steps;
  json in_place = json::array();
  for (NodeId n : plan->in_place) in_place.push_back(program.graph().node(n).name);
  out["in_place"] = in_place;
  if (published) {
    out["arena_bytes"] = published->active->bound->arena_bytes;
    out["run_us"] = published->active->times->run_ns() / 1000.0;
    const auto base = program.base_of(*entry);
    out["base_run_us"] = base ? base->times->run_ns() / 1000.0 : 0.0;
    out["on_trial"] = std::any_of(parts.begin(), parts.end(),
                                  [](const auto& part) { return part->challenger != nullptr; });
    out["symbols"] = json::object();
    for (size_t k = 0; k < reached->symbols.size(); ++k)
      out["symbols"][plan->symbols[k].name] = reached->symbols[k];
  }
  json regions = json::array();
  for (const RegionSummary& r : summary.regions)
    if (r.program == program.name()) regions.push_back(to_json(r));
  out["regions"] = regions;
  for (const SearchSummary& s : summary.searches)
    if (s.program == program.name()) out["search"] = to_json(s.report);
  json sizes = json::array();
  for (const SizeSummary& s : summary.sizes)
    if (s.program == program.name()) sizes.push_back(to_json(s));
  out["sizes"] = sizes;
  json bodies = json::array();
  for (const auto& child : program.children()) bodies.push_back(describe(*child, {}, summary));
  if (!bodies.empty()) out["bodies"] = bodies;
  return out;
}

void print_search(const json& search, std::string& out, const std::string& indent) {
  if (search["alternatives"].empty()) return;
  out += fmt::format(
      "{}  search: {} groups considered in {} parts, {} of them proven; predicted fused against "
      "separate:\n",
      indent, search["candidates"].get<int64_t>(), search["parts"].get<int>(),
      search["proven"].get<int>());
  for (const json& a : search["alternatives"]) {
    out += fmt::format("{}    {} {:<44}", indent, a["chosen"].get<bool>() ? "+" : "-",
                       a["nodes"].get<std::string>());
    if (a["fused_us"].get<double>() > 0)
      out += fmt::format(" {:9.2f} us {:9.2f} us", a["fused_us"].get<double>(),
                         a["separate_us"].get<double>());
    if (a["places"].get<int>() > 1) out += fmt::format("  {} places", a["places"].get<int>());
    if (!a["reason"].get<std::string>().empty()) out += "  " + a["reason"].get<std::string>();
    out += "\n";
  }
}

/// What sampled runs saw of a value that a region reads.
void print_input(const json& input, std::string& out, const std::string& indent) {
  out += fmt::format("{}reads {}: ", indent, input["name"].get<std::string>());
  if (!input["scalar"].get<bool>())
    out += fmt::format("{:.0f} % zeros in {} elements", input["zeros"].get<double>() * 100,
                       input["elements"].get<int64_t>());
  else if (input["constant"].get<bool>())
    out += fmt::format("one element, always {:g}", input["value"].get<double>());
  else
    out += "one element, not always the same";
  out += fmt::format(", {} looks\n", input["looks"].get<int64_t>());
}

void print_program(const json& program, std::string& out, const std::string& indent) {
  out += fmt::format("{}{}: plan {} with {} steps", indent, program["program"].get<std::string>(),
                     program["plan"].get<uint64_t>(), program["steps"].size());
  if (program.contains("arena_bytes"))
    out += fmt::format(", {} bytes of working memory, {:.1f} us per run (base plan {:.1f} us){}",
                       program["arena_bytes"].get<int64_t>(), program["run_us"].get<double>(),
                       program["base_run_us"].get<double>(),
                       program["on_trial"].get<bool>() ? ", a challenger is on trial" : "");
  out += "\n";
  if (program.contains("symbols") && !program["symbols"].empty()) {
    out += indent + "  sizes:";
    for (const auto& [symbol, value] : program["symbols"].items())
      out += fmt::format(" {}={}", symbol, value.get<int64_t>());
    out += "\n";
  }
  size_t index = 0;
  for (const json& step : program["steps"]) {
    std::string ops;
    for (const json& node : step["nodes"])
      ops += (ops.empty() ? "" : "+") + node["op"].get<std::string>();
    if (ops.empty()) ops = "copy";
    out += fmt::format("{}  {:3} {:<28} {:<24}", indent, index++, ops,
                       step["kernel"].get<std::string>());
    if (step.contains("time_us")) out += fmt::format(" {:9.2f} us", step["time_us"].get<double>());
    if (step.contains("outputs")) out += "  -> " + step["outputs"][0].get<std::string>();
    out += "  " + step["name"].get<std::string>();
    if (step.contains("bands"))
      out += fmt::format("  [bands of {} rows with step {}]", step["bands"]["rows"].get<int64_t>(),
                         step["bands"]["of"].get<uint32_t>());
    out += "\n";
    for (const json& refused : step["refused"])
      out += fmt::format("{}        not {}: {}\n", indent, refused["kernel"].get<std::string>(),
                         refused["reason"].get<std::string>());
  }
  if (!program["in_place"].empty()) {
    out += indent + "  Concats whose parts are written where they belong:";
    for (const json& name : program["in_place"])
      out += fmt::format(" '{}'", name.get<std::string>());
    out += "\n";
  }
  if (!program["regions"].empty()) {
    out += indent + "  regions (vendor time, compile time, fused time, state):\n";
    for (const json& r : program["regions"]) {
      out += fmt::format(
          "{}    {:<44} {:9.2f} us {:7.2f} ms {:9.2f} us  {}{}\n", indent,
          r["name"].get<std::string>(), r["base_us"].get<double>(), r["compile_ms"].get<double>(),
          r["fused_us"].get<double>(), r["state"].get<std::string>(),
          r["reason"].get<std::string>().empty() ? "" : ": " + r["reason"].get<std::string>());
      for (const json& input : r["inputs"]) print_input(input, out, indent + "      ");
    }
  }
  for (const json& size : program["sizes"]) {
    out += fmt::format("{}  size {}:", indent, size["symbol"].get<std::string>());
    for (const json& v : size["values"])
      out += fmt::format(" {} in {:.0f} %,", v["value"].get<int64_t>(),
                         v["share"].get<double>() * 100);
    out += fmt::format(" multiples of {} in {:.0f} % of recent runs\n", SizeHistogram::kVector,
                       size["multiples"].get<double>() * 100);
  }
  if (program.contains("search")) print_search(program["search"], out, indent);
  if (program.contains("bodies"))
    for (const json& body : program["bodies"]) print_program(body, out, indent + "  ");
}

}  // namespace

std::string explain_program(Program& program, const std::vector<Dims>& signature,
                            const ProfileSummary& summary, bool as_json) {
  json out = describe(program, signature, summary);
  out["totals"] = {{"runs", summary.runs},
                   {"signatures", summary.signatures},
                   {"compiled_regions", summary.compiled_regions},
                   {"swapped", summary.swapped},
                   {"rolled_back", summary.rolled_back},
                   {"rejected", summary.rejected},
                   {"compile_ms", summary.compile_ms},
                   {"net_saved_ms", summary.net_saved_ms},
                   {"code_bytes", summary.code_bytes}};
  if (as_json) return dump(out, 2);
  std::string text;
  print_program(out, text, "");
  text += fmt::format(
      "{} runs, {} signatures; {} regions compiled, {} swaps, {} rolled back; {:.1f} ms spent "
      "compiling, {:.1f} ms saved net\n",
      summary.runs, summary.signatures, summary.compiled_regions, summary.swapped,
      summary.rolled_back, summary.compile_ms, summary.net_saved_ms);
  return text;
}

}  // namespace xc
