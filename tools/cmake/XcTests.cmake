# Tests: tests/<dir>/**/*_test.cpp is the executable xc_test_<dir>, one CTest entry per file named
# <dir>/<path without _test.cpp>, labelled <dir>. tests/capi/*.c are C99 programs over xcrt alone.
# tests/support is linked into all of the former. All run under the address sanitizer; a line
# `// Labels: tsan` near the top of a test adds a label. Targets xc_tests_asan and xc_tests_tsan build what carries them.
set(xc_test_timeout 600)

add_custom_target(xc_tests_asan)
add_custom_target(xc_tests_tsan)

# xc_test_labels(variable source dir): the labels of one test.
function(xc_test_labels variable source dir)
  set(labels "${dir}" asan)
  file(STRINGS "${source}" lines REGEX "^// Labels: " LIMIT_COUNT 1)
  if(lines)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
    string(REGEX REPLACE "^// Labels: *" "" extra "${lines}")
    separate_arguments(extra)
    list(APPEND labels ${extra})
  endif()
  list(REMOVE_DUPLICATES labels)
  set(${variable} "${labels}" PARENT_SCOPE)
endfunction()

# xc_label_test(name target labels): what a test carries; the targets of the sanitizers learn of it.
function(xc_label_test name target labels)
  set_tests_properties("${name}" PROPERTIES LABELS "${labels}" TIMEOUT ${xc_test_timeout}
                       WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
  foreach(sanitizer asan tsan)
    if(sanitizer IN_LIST labels)
      add_dependencies(xc_tests_${sanitizer} ${target})
    endif()
  endforeach()
endfunction()

# What tests do themselves takes little of their time, compiling them a quarter of a release build's.
set(xc_test_flags $<$<CONFIG:Release>:-O1>)
# Tests of whole sessions have a precompiled header of their own; names of the others' folders would be ambiguous.
set(xc_session_test_dirs tiering ops)
xc_make_pch(xc_test_pch ${xc_pch_headers} <doctest/doctest.h>)
xc_make_pch(xc_session_test_pch ${xc_pch_headers} <doctest/doctest.h> <ir/text.h> <support/sessions.h> <tier/tier.h>)
target_include_directories(xc_session_test_pch PRIVATE "${CMAKE_SOURCE_DIR}/tests")
target_compile_options(xc_test_pch PRIVATE ${xc_test_flags})
target_compile_options(xc_session_test_pch PRIVATE ${xc_test_flags})

xc_sources(xc_test_support_sources tests/support *.cpp)
add_library(xc_test_support STATIC ${xc_test_support_sources})
target_link_libraries(xc_test_support PUBLIC xc_internal xc_doctest)
target_include_directories(xc_test_support PUBLIC "${CMAKE_SOURCE_DIR}/tests")
# Absolute paths go into one file only, so that compiled tests can be shared between checkouts.
set_source_files_properties("${CMAKE_SOURCE_DIR}/tests/support/paths.cpp" PROPERTIES
  COMPILE_DEFINITIONS
  "XC_SOURCE_DIR=\"${CMAKE_SOURCE_DIR}\";XC_BINARY_DIR=\"${CMAKE_BINARY_DIR}\";XC_PTXAS=\"${XC_PTXAS}\"")
target_compile_definitions(xc_test_support PUBLIC "XC_SHARED_DIR=\"${XC_SHARED_DIR}\""
                           "XC_HAVE_JIT=$<BOOL:${XC_HAVE_JIT}>")
set_target_properties(xc_test_support PROPERTIES LINKER_LANGUAGE CXX)
xc_use_pch(xc_test_support xc_pch)  # without doctest, whose main() its other users would get

# xc_add_doctest(dir source...): an executable of doctest cases and its CTest entries. Under the thread
# sanitizer, which few tests ask for, only these are in it.
function(xc_add_doctest dir)
  set(name xc_test_${dir})
  set(sources "")
  foreach(source ${ARGN})
    xc_test_labels(labels "${source}" ${dir})
    if(NOT source MATCHES "_test\\.cpp$" OR NOT XC_SANITIZE STREQUAL "thread" OR "tsan" IN_LIST labels)
      list(APPEND sources "${source}")
    endif()
  endforeach()
  if(NOT sources)
    return()
  endif()
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE xc_test_support)
  # -fPIC instead of -fPIE: the flags of the precompiled header.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF
                        RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  target_compile_options(${name} PRIVATE -fPIC ${xc_test_flags})
  if(dir IN_LIST xc_session_test_dirs)
    xc_use_pch(${name} xc_session_test_pch)
  else()
    xc_use_pch(${name} xc_test_pch)
  endif()
  xc_set_rpath(${name})
  if(dir STREQUAL "codegen" AND TARGET xcrt-jit)
    target_link_libraries(${name} PRIVATE xcrt-jit)
  elseif(TARGET xcrt-jit AND NOT dir STREQUAL "unit")
    add_dependencies(${name} xcrt-jit)
  endif()
  if(TARGET xcrt-image AND dir STREQUAL "unit")
    add_dependencies(${name} xcrt-image)
  endif()
  foreach(source ${sources})
    if(source MATCHES "_test\\.cpp$")
      file(RELATIVE_PATH path "${CMAKE_SOURCE_DIR}/tests" "${source}")
      string(REGEX REPLACE "_test\\.cpp$" "" case "${path}")
      add_test(NAME "${case}" COMMAND ${name} "--source-file=*tests/${path}" --no-version)
      xc_test_labels(labels "${source}" ${dir})
      xc_label_test("${case}" ${name} "${labels}")
    endif()
  endforeach()
endfunction()

# Directories below tests that hold no doctest files of their own.
set(xc_special_test_dirs support fuzz install tools onnx_suite op_coverage)

file(GLOB xc_test_dirs CONFIGURE_DEPENDS LIST_DIRECTORIES true "${CMAKE_SOURCE_DIR}/tests/*")
foreach(path ${xc_test_dirs})
  get_filename_component(dir "${path}" NAME)
  if(NOT IS_DIRECTORY "${path}" OR dir IN_LIST xc_special_test_dirs)
    continue()
  endif()
  xc_sources(sources tests/${dir} *.cpp)
  if(NOT TARGET xcrt-image)
    list(FILTER sources EXCLUDE REGEX "/images/")
  endif()
  if(sources)
    xc_add_doctest(${dir} ${sources})
  endif()
endforeach()

# Hours of work, outside the ordinary run: ctest -C soak -L soak.
add_test(NAME soak/graph_fuzz COMMAND xc_test_tiering "--test-case=soak/*" --no-skip --no-version
         CONFIGURATIONS soak)
set(xc_soak_tests soak/graph_fuzz)
if(TARGET xc_test_codegen)
  add_test(NAME soak/math COMMAND xc_test_codegen "--test-case=soak/*" --no-skip --no-version
           CONFIGURATIONS soak)
  list(APPEND xc_soak_tests soak/math)
endif()
set_tests_properties(${xc_soak_tests} PROPERTIES LABELS soak TIMEOUT 21600
                     WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")

# The C API as a C program sees it, and what programs do to their process: each a program of its own.
xc_sources(xc_c_tests tests/capi *.c)
xc_sources(xc_host_tests tests/host *.c)
foreach(source ${xc_c_tests} ${xc_host_tests})
  get_filename_component(dir "${source}" DIRECTORY)
  get_filename_component(dir "${dir}" NAME)
  get_filename_component(stem "${source}" NAME_WE)
  add_executable(xc_c_${stem} "${source}")
  target_link_libraries(xc_c_${stem} PRIVATE xcrt Threads::Threads m ${CMAKE_DL_LIBS})
  target_link_options(xc_c_${stem} PRIVATE -Wl,--as-needed)  # host/unload opens the library itself
  target_compile_options(xc_c_${stem} PRIVATE -std=c99 -pedantic -Wall -Wextra)
  target_compile_definitions(xc_c_${stem} PRIVATE "XC_SOURCE_DIR=\"${CMAKE_SOURCE_DIR}\""
                             "XC_SHARED_DIR=\"${XC_SHARED_DIR}\""
                             "XC_LIBRARY=\"$<TARGET_FILE:xcrt>\"" "XC_HAVE_JIT=$<BOOL:${XC_HAVE_JIT}>")
  if(XC_SANITIZE)
    target_compile_options(xc_c_${stem} PRIVATE ${xc_sanitize_flags})
    target_link_options(xc_c_${stem} PRIVATE ${xc_sanitize_flags})
  endif()
  set_target_properties(xc_c_${stem} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  xc_set_rpath(xc_c_${stem})
  set(name ${dir}/${stem})
  if(dir STREQUAL "capi")
    set(name capi/c/${stem})
  elseif(TARGET xcrt-jit)
    add_dependencies(xc_c_${stem} xcrt-jit)
  endif()
  add_test(NAME ${name} COMMAND xc_c_${stem})
  xc_test_labels(labels "${source}" ${dir})
  xc_label_test(${name} xc_c_${stem} "${labels}")
endforeach()

# Fuzz targets: tests/fuzz/NAME_fuzz.cpp defines LLVMFuzzerTestOneInput, tests/fuzz/corpus/NAME holds its
# seeds. With libFuzzer (preset fuzz) they are build/fuzz/tests/xc_fuzz_NAME; otherwise driver.cpp runs
# the seeds and a bounded number of mutations of them as an ordinary test.
file(GLOB xc_fuzz_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/fuzz/*_fuzz.cpp")
list(SORT xc_fuzz_sources)
if(NOT TARGET xcrt-image)
  list(FILTER xc_fuzz_sources EXCLUDE REGEX "/images_fuzz")
endif()
foreach(source ${xc_fuzz_sources})
  get_filename_component(stem "${source}" NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" stem "${stem}")
  set(name xc_fuzz_${stem})
  add_executable(${name} "${source}")
  target_link_libraries(${name} PRIVATE xc_internal)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  xc_set_rpath(${name})
  if(stem STREQUAL "images")
    add_dependencies(${name} xcrt-image)
  endif()
  if(XC_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${name} PRIVATE "${CMAKE_SOURCE_DIR}/tests/fuzz/driver.cpp")
    set(corpus "${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${stem}")
    if(NOT IS_DIRECTORY "${corpus}")
      set(corpus "")
    endif()
    add_test(NAME fuzz/${stem} COMMAND ${name} --runs 20000 --seconds 10 --seed 1 ${corpus})
    xc_test_labels(labels "${source}" fuzz)
    xc_label_test(fuzz/${stem} ${name} "${labels}")
  endif()
endforeach()

# The tests of the ONNX standard: dump_suite.py writes them into the build tree with the Python that has
# the package onnx (the environment of tools/setup.sh, unless another is named), one program runs them.
find_package(Python3 QUIET COMPONENTS Interpreter)
set(xc_suite_python "${CMAKE_SOURCE_DIR}/.venv/bin/python")
if(Python_EXECUTABLE)
  set(xc_suite_python "${Python_EXECUTABLE}")
elseif(NOT EXISTS "${xc_suite_python}")
  set(xc_suite_python "${Python3_EXECUTABLE}")
endif()
xc_sources(xc_suite_sources tests/onnx_suite *.cpp)
add_executable(xc_onnx_suite ${xc_suite_sources})
target_link_libraries(xc_onnx_suite PRIVATE xc_test_support xc_cli11 nlohmann_json::nlohmann_json
                                            protozero::protozero)
target_compile_options(xc_onnx_suite PRIVATE ${xc_test_flags})
set_target_properties(xc_onnx_suite PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
xc_set_rpath(xc_onnx_suite)
foreach(companion xcrt-jit xcrt-image)
  if(TARGET ${companion})
    add_dependencies(xc_onnx_suite ${companion})
  endif()
endforeach()
if(xc_suite_python)
  set(xc_suite_data "${CMAKE_BINARY_DIR}/onnx_suite")
  add_test(NAME onnx_suite/dump COMMAND "${xc_suite_python}"
                                        "${CMAKE_SOURCE_DIR}/tests/onnx_suite/dump_suite.py"
                                        "${xc_suite_data}")
  set_tests_properties(onnx_suite/dump PROPERTIES FIXTURES_SETUP onnx_suite LABELS onnx_suite
                       TIMEOUT ${xc_test_timeout} SKIP_RETURN_CODE 77)
  # xc_suite_test(name data lists fixture option...): one run of xc_onnx_suite.
  function(xc_suite_test name data lists fixture)
    add_test(NAME ${name} COMMAND xc_onnx_suite "${data}" --lists "${CMAKE_SOURCE_DIR}/tests/${lists}"
                                  ${ARGN})
    set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED ${fixture} LABELS ${lists}
                         TIMEOUT ${xc_test_timeout} SKIP_RETURN_CODE 77)
  endfunction()
  foreach(mode off sync)
    foreach(threads 1 2)
      xc_suite_test(onnx_suite/${mode}/${threads} "${xc_suite_data}" onnx_suite onnx_suite
                    --mode ${mode} --set threads=${threads}
                    --results "${CMAKE_BINARY_DIR}/onnx_suite.${mode}.${threads}.json")
    endforeach()
  endforeach()
  if(XC_HAVE_JIT)
    xc_suite_test(onnx_suite/auto "${xc_suite_data}" onnx_suite onnx_suite
                  --mode auto --eager --every 5 --repeat 40)
  endif()

  # What an operator counts as done by: tests derived from those of the standard, in the same form.
  if(TARGET xc AND NOT XC_SANITIZE)
    set(xc_coverage_data "${CMAKE_BINARY_DIR}/op_coverage")
    set(xc_coverage "${CMAKE_SOURCE_DIR}/tests/op_coverage")
    add_test(NAME op_coverage/dump COMMAND "${xc_suite_python}" "${xc_coverage}/dump_coverage.py"
                                           $<TARGET_FILE:xc> "${xc_coverage_data}")
    set_tests_properties(op_coverage/dump PROPERTIES FIXTURES_SETUP op_coverage LABELS op_coverage
                         TIMEOUT 1200 SKIP_RETURN_CODE 77)
    foreach(mode off sync)
      xc_suite_test(op_coverage/${mode} "${xc_coverage_data}" op_coverage op_coverage --mode ${mode}
                    --results "${CMAKE_BINARY_DIR}/op_coverage.${mode}.json")
    endforeach()
    add_test(NAME op_coverage/schemas COMMAND "${xc_suite_python}" "${xc_coverage}/schema_types.py"
                                              $<TARGET_FILE:xc> "${CMAKE_BINARY_DIR}")
    set_tests_properties(op_coverage/schemas PROPERTIES FIXTURES_REQUIRED "onnx_suite;op_coverage" LABELS op_coverage
                         TIMEOUT ${xc_test_timeout} SKIP_RETURN_CODE 77)
    # After the runs whose results it reads.
    set_tests_properties(onnx_suite/off/1 op_coverage/off PROPERTIES FIXTURES_SETUP coverage_results)
    add_test(NAME op_coverage/table COMMAND "${xc_suite_python}" "${xc_coverage}/coverage_table.py"
                                            "${CMAKE_BINARY_DIR}")
    set_tests_properties(op_coverage/table PROPERTIES FIXTURES_REQUIRED coverage_results
                         LABELS op_coverage TIMEOUT ${xc_test_timeout} SKIP_RETURN_CODE 77)
  endif()
endif()

# Checks of the source and of what was linked.
find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
  set(xc_check "${CMAKE_SOURCE_DIR}/tools/check")
  add_test(NAME layers COMMAND Python3::Interpreter "${xc_check}/layers.py")
  add_test(NAME layers/self-test COMMAND Python3::Interpreter "${xc_check}/layers.py" --self-test)
  add_test(NAME file_length COMMAND Python3::Interpreter "${xc_check}/file_length.py")
  add_test(NAME exports/xcrt COMMAND Python3::Interpreter "${xc_check}/exports.py"
                                     "$<TARGET_FILE:xcrt>" "${xc_exports_file}")
  add_test(NAME headers COMMAND Python3::Interpreter "${xc_check}/headers.py" "${CMAKE_C_COMPILER}"
                                "${CMAKE_CXX_COMPILER}")
  set(xc_checks layers layers/self-test file_length exports/xcrt headers)
  if(TARGET xcrt-jit)
    add_test(NAME exports/xcrt-jit COMMAND Python3::Interpreter "${xc_check}/exports.py"
                                           "$<TARGET_FILE:xcrt-jit>" =xc_jit_api)
    list(APPEND xc_checks exports/xcrt-jit)
  endif()
  if(TARGET xcrt-image)
    add_test(NAME exports/xcrt-image COMMAND Python3::Interpreter "${xc_check}/exports.py"
                                             "$<TARGET_FILE:xcrt-image>" =xc_image_decode)
    list(APPEND xc_checks exports/xcrt-image)
  endif()
  set(xc_linked "")
  foreach(target xcrt xcrt-jit xcrt-image xc xc_python)
    if(TARGET ${target})
      list(APPEND xc_linked "$<TARGET_FILE:${target}>")
    endif()
  endforeach()
  add_test(NAME runpath COMMAND Python3::Interpreter "${xc_check}/runpath.py" ${xc_linked})
  list(APPEND xc_checks runpath)
  if(NOT XC_SANITIZE)
    add_test(NAME readme/c COMMAND Python3::Interpreter "${xc_check}/readme.py" "${CMAKE_BINARY_DIR}" c)
    list(APPEND xc_checks readme/c)
  endif()
  set_tests_properties(${xc_checks} PROPERTIES LABELS check)
endif()

# The tool as its users meet it.
if(Python3_Interpreter_FOUND AND TARGET xc AND NOT XC_SANITIZE)
  add_test(NAME tools/cli COMMAND Python3::Interpreter "${CMAKE_SOURCE_DIR}/tests/tools/cli_test.py"
                                  "$<TARGET_FILE:xc>")
  # The page of xc report, in a browser where there is one; screenshots in build/*/artefacts/report.
  add_test(NAME tools/report COMMAND Python3::Interpreter
                                     "${CMAKE_SOURCE_DIR}/tests/tools/report_test.py"
                                     "$<TARGET_FILE:xc>" "${CMAKE_BINARY_DIR}/artefacts/report")
  add_test(NAME op_table COMMAND Python3::Interpreter "${CMAKE_SOURCE_DIR}/tools/check/op_table.py" "$<TARGET_FILE:xc>")
  set_tests_properties(op_table PROPERTIES LABELS check)
  # Every real model and small network in every mode, with one and two threads.
  foreach(mode off sync auto)
    set(repeat 1)
    if(mode STREQUAL "auto")
      set(repeat 300)
    endif()
    foreach(threads 1 2)
      add_test(NAME models/${mode}/${threads}
               COMMAND "${CMAKE_SOURCE_DIR}/tests/models/check_models.sh" $<TARGET_FILE:xc>
                       "${XC_SHARED_DIR}" ${mode} ${threads} ${repeat})
      set_tests_properties(models/${mode}/${threads} PROPERTIES LABELS models TIMEOUT 900
                           SKIP_RETURN_CODE 77)
    endforeach()
  endforeach()
  # Fast numerics stay within their stated tolerance; strict ones keep every bit in every mode.
  foreach(way "off 2 1" "sync 1 1" "auto 2 300")
    separate_arguments(arguments UNIX_COMMAND "${way}")
    list(GET arguments 0 mode)
    add_test(NAME models/fast/${mode}
             COMMAND "${CMAKE_SOURCE_DIR}/tests/models/check_models.sh" $<TARGET_FILE:xc>
                     "${XC_SHARED_DIR}" ${arguments} fast)
    set_tests_properties(models/fast/${mode} PROPERTIES LABELS models TIMEOUT 900 SKIP_RETURN_CODE 77)
  endforeach()
  add_test(NAME models/strict COMMAND "${CMAKE_SOURCE_DIR}/tests/models/check_strict.sh"
                                      $<TARGET_FILE:xc> "${XC_SHARED_DIR}")
  set_tests_properties(models/strict PROPERTIES LABELS models TIMEOUT 900 SKIP_RETURN_CODE 77)
  set_tests_properties(tools/cli tools/report PROPERTIES LABELS tools TIMEOUT ${xc_test_timeout})
endif()

# The installed package as its users meet it.
if(NOT XC_SANITIZE AND EXISTS "${xc_exports_file}")
  add_test(NAME install COMMAND "${CMAKE_SOURCE_DIR}/tests/install/install_test.sh"
                                "${CMAKE_BINARY_DIR}" "${CMAKE_COMMAND}" "${CMAKE_INSTALL_LIBDIR}")
  set_tests_properties(install PROPERTIES LABELS install TIMEOUT ${xc_test_timeout})
endif()

# The Python binding, through the interpreter that it was built for.
if(XC_PYTHON)
  find_package(Python 3.10 QUIET COMPONENTS Interpreter)
  add_test(NAME python COMMAND "${Python_EXECUTABLE}" -m pytest -q -p no:cacheprovider
                               "${CMAKE_SOURCE_DIR}/bindings/python/tests")
  add_test(NAME readme/python COMMAND "${Python_EXECUTABLE}" "${CMAKE_SOURCE_DIR}/tools/check/readme.py"
                                      "${CMAKE_BINARY_DIR}" python)
  set_tests_properties(python readme/python PROPERTIES LABELS python TIMEOUT ${xc_test_timeout} ENVIRONMENT
    "PYTHONPATH=${CMAKE_BINARY_DIR}/python;XC_SHARED_DIR=${XC_SHARED_DIR};PYTHONDONTWRITEBYTECODE=1")
endif()

# What takes longest begins first, so that no core waits at the end (by itself CTest goes by earlier runs).
get_property(xc_tests DIRECTORY PROPERTY TESTS)
list(FILTER xc_tests INCLUDE REGEX "^(models|onnx_suite|op_coverage)/|^(install|python)$")
if(xc_tests)
  set_tests_properties(${xc_tests} PROPERTIES COST 100)
endif()
