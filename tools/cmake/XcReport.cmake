# tools/xc/report/* become strings of the tool: build/generated/report_page.cpp.
set(xc_report_strings "")
foreach(file Page:page.html Style:style.css Charts:charts.js Sections:sections.js)
  string(REPLACE ":" ";" file "${file}")
  list(GET file 0 name)
  list(GET file 1 path)
  set(path "${CMAKE_SOURCE_DIR}/tools/xc/report/${path}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${path}")
  file(READ "${path}" text)
  string(APPEND xc_report_strings
         "const std::string_view kReport${name} = R\"xc_report(${text})xc_report\";\n")
endforeach()
set(xc_report_source "${CMAKE_BINARY_DIR}/generated/report_page.cpp")
# Written literally: configuring would replace the places that the report fills.
file(GENERATE OUTPUT "${xc_report_source}" CONTENT
"// Generated from tools/xc/report/.
#include \"report_page.h\"

namespace tool {
${xc_report_strings}
}  // namespace tool
")
target_sources(xc PRIVATE "${xc_report_source}")
target_include_directories(xc PRIVATE "${CMAKE_SOURCE_DIR}/tools/xc")
