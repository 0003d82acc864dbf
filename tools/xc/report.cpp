// xc report: a recording as one HTML page, and as a Chrome trace.

#include <CLI/CLI.hpp>

#include "record.h"
#include "report_page.h"
#include "sizes.h"

namespace tool {
namespace {

using nlohmann::ordered_json;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  return out;
}

/// JSON that may stand in a script element: no "</script", no "<!--".
std::string script_text(const ordered_json& data) {
  const std::string text = data.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

/// The template with its places filled. What is filled in is not looked at again.
std::string fill(std::string_view page,
                 const std::vector<std::pair<std::string_view, std::string>>& places) {
  std::string out;
  while (!page.empty()) {
    size_t at = page.size();
    const std::pair<std::string_view, std::string>* which = nullptr;
    for (const auto& place : places)
      if (const size_t found = page.find(place.first); found < at) {
        at = found;
        which = &place;
      }
    out += page.substr(0, at);
    page.remove_prefix(at);
    if (!which) break;
    out += which->second;
    page.remove_prefix(which->first.size());
  }
  return out;
}

struct ReportCommand {
  RecordFlags record;
  std::string output;

  int execute() const {
    if (output.empty() && record.trace.empty())
      throw Usage("give a file to write: -o report.html, --trace trace.json, or both");
    const ordered_json data = tool::record(record);
    if (output.empty()) return 0;
    const std::string page = fill(kReportPage, {{"@TITLE@", escaped(record.model)},
                                                {"/*@STYLE@*/", std::string(kReportStyle)},
                                                {"/*@CHARTS@*/", std::string(kReportCharts)},
                                                {"/*@SECTIONS@*/", std::string(kReportSections)},
                                                {"@DATA@", script_text(data)}});
    write_file(output, page);
    return 0;
  }
};

}  // namespace

void add_report(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<ReportCommand>();
  RecordFlags& record = command->record;
  CLI::App* sub = app.add_subcommand(
      "report", "run a model for a while and write what the engine did as an HTML page");
  sub->add_option("model", record.model, "model file")->required();
  sub->add_option("-o,--output", command->output, "the page: one file that needs nothing else");
  sub->add_option("--trace", record.trace,
                  "also steps and decisions as Chrome trace JSON (chrome://tracing, Perfetto)");
  record.inputs.add_to(*sub);
  CLI::Option* stream = sub->add_option("--stream", record.stream, kStreamHelp);
  for (const char* arrays : {"--input", "--inputs"}) sub->get_option(arrays)->excludes(stream);
  sub->add_option("--calls", record.calls, "calls of a stream before it starts over")
      ->check(check_positive)
      ->needs(stream)
      ->capture_default_str();
  sub->add_option("--seconds", record.seconds, "how long to run")
      ->check(check_positive)
      ->capture_default_str();
  record.engine.add_to(*sub);
  sub->callback([command, &exit_code] { exit_code = command->execute(); });
}

}  // namespace tool
