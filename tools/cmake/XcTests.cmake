# Tests: tests/<dir>/**/*_test.cpp is the executable xc_test_<dir>, one CTest entry per file named
# <dir>/<path without _test.cpp>, labelled <dir>. tests/capi/*.c are C99 programs over xcrt alone.
# tests/support is linked into all of the former.
set(xc_test_timeout 600)

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

# xc_add_doctest(name source...): an executable of doctest cases and its CTest entries.
function(xc_add_doctest dir)
  set(name xc_test_${dir})
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE xc_test_support)
  # -fPIC instead of -fPIE: the flags of the precompiled header.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF
                        RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  target_compile_options(${name} PRIVATE -fPIC)
  xc_use_pch(${name} xc_test_pch)
  xc_set_rpath(${name})
  if(dir STREQUAL "codegen" AND TARGET xcrt-jit)
    target_link_libraries(${name} PRIVATE xcrt-jit)
  elseif(TARGET xcrt-jit AND NOT dir STREQUAL "unit")
    add_dependencies(${name} xcrt-jit)
  endif()
  foreach(source ${ARGN})
    if(source MATCHES "_test\\.cpp$")
      file(RELATIVE_PATH path "${CMAKE_SOURCE_DIR}/tests" "${source}")
      string(REGEX REPLACE "_test\\.cpp$" "" case "${path}")
      add_test(NAME "${case}" COMMAND ${name} "--source-file=*tests/${path}" --no-version)
      set_tests_properties("${case}" PROPERTIES LABELS "${dir}" TIMEOUT ${xc_test_timeout}
                           WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
    endif()
  endforeach()
endfunction()

# Directories below tests that hold no doctest files of their own.
set(xc_special_test_dirs support fuzz python install)

file(GLOB xc_test_dirs CONFIGURE_DEPENDS LIST_DIRECTORIES true "${CMAKE_SOURCE_DIR}/tests/*")
foreach(path ${xc_test_dirs})
  get_filename_component(dir "${path}" NAME)
  if(NOT IS_DIRECTORY "${path}" OR dir IN_LIST xc_special_test_dirs)
    continue()
  endif()
  xc_sources(sources tests/${dir} *.cpp)
  if(sources)
    xc_add_doctest(${dir} ${sources})
  endif()
endforeach()

# The C API as a C program sees it.
xc_sources(xc_c_tests tests/capi *.c)
foreach(source ${xc_c_tests})
  get_filename_component(stem "${source}" NAME_WE)
  add_executable(xc_c_${stem} "${source}")
  target_link_libraries(xc_c_${stem} PRIVATE xcrt Threads::Threads m)
  target_compile_options(xc_c_${stem} PRIVATE -std=c99 -pedantic -Wall -Wextra)
  target_compile_definitions(xc_c_${stem} PRIVATE "XC_SOURCE_DIR=\"${CMAKE_SOURCE_DIR}\""
                             "XC_SHARED_DIR=\"${XC_SHARED_DIR}\"")
  if(XC_SANITIZE)
    target_link_options(xc_c_${stem} PRIVATE ${xc_sanitize_flags})
  endif()
  set_target_properties(xc_c_${stem} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  xc_set_rpath(xc_c_${stem})
  add_test(NAME capi/c/${stem} COMMAND xc_c_${stem})
  set_tests_properties(capi/c/${stem} PROPERTIES LABELS capi TIMEOUT ${xc_test_timeout}
                       WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
endforeach()
