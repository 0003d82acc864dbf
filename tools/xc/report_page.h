// The files of tools/xc/report/, built into the program (tools/cmake/XcReport.cmake).
#pragma once

#include <string_view>

namespace tool {

/// Holds the places @TITLE@, /*@STYLE@*/, @DATA@ (JSON), /*@CHARTS@*/ and /*@SECTIONS@*/.
extern const std::string_view kReportPage;
extern const std::string_view kReportStyle;
extern const std::string_view kReportCharts;
extern const std::string_view kReportSections;

}  // namespace tool
