# Functions that turn a folder into a target. Source lists come from the folder itself, sorted, so
# adding a file takes no edit here.

# xc_sources(variable dir pattern...): the sorted sources below dir.
function(xc_sources variable dir)
  set(patterns ${ARGN})
  list(TRANSFORM patterns PREPEND "${CMAKE_SOURCE_DIR}/${dir}/")
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${patterns})
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(FILTER files EXCLUDE REGEX "_(avx2|avx512|vnni|amx)\\.cpp$")
  endif()
  list(SORT files)
  set(${variable} "${files}" PARENT_SCOPE)
endfunction()

# xc_add_folder(name [SMALL] [SMALL_PART folder] [HEADERS ...] [LINKS ...]): src/<name> as the static library
# xc_<name>; an interface library while the folder has no sources. SMALL: a release is optimised for size, for what
# runs while a model is loaded or only where no fast kernel does; SMALL_PART: one folder of it is. HEADERS: what most
# of its sources include, to be precompiled for it (each source still includes what it uses); without, it shares those
# of the standard library.
function(xc_add_folder name)
  cmake_parse_arguments(arg "SMALL" "SMALL_PART" "HEADERS;LINKS" ${ARGN})
  xc_sources(sources src/${name} *.cpp)
  list(FILTER sources EXCLUDE REGEX "/base/immortal\\.cpp$")  # of the shared libraries alone
  if(NOT XC_CUDA)
    list(FILTER sources EXCLUDE REGEX "/backends/cuda/")
  endif()
  if(arg_SMALL_PART)
    set(small_sources ${sources})
    list(FILTER small_sources INCLUDE REGEX "/src/${name}/${arg_SMALL_PART}/")
    list(REMOVE_ITEM sources ${small_sources})
    set(small_part xc_${name}_${arg_SMALL_PART})
    add_library(${small_part} OBJECT ${small_sources})
    target_link_libraries(${small_part} PRIVATE xc_options)
    target_compile_options(${small_part} PRIVATE ${xc_small_flags})
    xc_precompile(${small_part} ${arg_HEADERS})
    list(APPEND sources $<TARGET_OBJECTS:${small_part}>)
  endif()
  if(sources)
    add_library(xc_${name} STATIC ${sources})
    xc_set_isa_here(${sources})
    target_link_libraries(xc_${name} PRIVATE xc_options PUBLIC ${arg_LINKS})
    if(arg_SMALL)
      target_compile_options(xc_${name} PRIVATE ${xc_small_flags})
    endif()
    if(arg_HEADERS)
      xc_precompile(xc_${name} ${arg_HEADERS})
    elseif(arg_SMALL)
      xc_use_pch(xc_${name} xc_small_pch)
    else()
      xc_use_pch(xc_${name} xc_pch)
    endif()
  else()
    add_library(xc_${name} INTERFACE)
    target_link_libraries(xc_${name} INTERFACE ${arg_LINKS})
  endif()
endfunction()

# Source properties belong to the directory scope, which all folders share.
macro(xc_set_isa_here)
  xc_set_isa(${ARGN})
endmacro()

# xc_version_script(target file symbol...): exports exactly these symbols from a shared library.
function(xc_version_script target)
  set(script "${CMAKE_BINARY_DIR}/${target}.map")
  set(text "{\n")
  if(ARGN)
    string(APPEND text "  global:\n")
    foreach(symbol ${ARGN})
      string(APPEND text "    ${symbol};\n")
    endforeach()
  endif()
  string(APPEND text "  local: *;\n};\n")
  file(CONFIGURE OUTPUT "${script}" CONTENT "${text}" @ONLY)
  target_link_options(${target} PRIVATE "-Wl,--version-script=${script}" -Wl,--exclude-libs,ALL
                                        -Wl,--gc-sections)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${script}")
endfunction()

# xc_set_rpath(target): finds its libraries in the build tree.
function(xc_set_rpath target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES BUILD_RPATH "$ORIGIN/../lib")
  else()
    set_target_properties(${target} PROPERTIES BUILD_RPATH "$ORIGIN")
  endif()
endfunction()

# xc_set_installed_rpath(target [dir...]): finds its libraries both in the build tree and installed; in
# other folders, which the install rules take out again, too. One path serves both: what CMake is to
# replace when it installs ends in an empty entry, and that is the current directory.
function(xc_set_installed_rpath target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    set(path "$ORIGIN/../lib" "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
    list(REMOVE_DUPLICATES path)
  else()
    set(path "$ORIGIN")
  endif()
  list(APPEND path ${ARGN})
  set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON
                                             INSTALL_RPATH "${path}")
endfunction()

# xc_add_tool(name dir): a program over the public headers.
function(xc_add_tool name dir)
  xc_sources(sources ${dir} *.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${name} ${sources} src/base/fmt_extern.cpp)
  target_link_libraries(${name} PRIVATE xc_options xcrt xc_cli11 xc_minizip xc_utf8proc
                                        nlohmann_json::nlohmann_json Threads::Threads)
  target_compile_options(${name} PRIVATE ${xc_small_flags})
  xc_precompiled_headers(${name} <base/fmt_extern.h> <xc/xc.hpp> <nlohmann/json.hpp>)
  # CLI11 before 2.3 is compiled anew by every file that sees it: 8 s each.
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  xc_set_installed_rpath(${name})
endfunction()

# xc_add_samples(dir): every sample is a CMake project of its own that takes xc::xcrt from the build
# tree when it is there and from find_package(xc) otherwise.
function(xc_add_samples dir)
  file(GLOB_RECURSE lists CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${dir}/CMakeLists.txt")
  list(SORT lists)
  foreach(list_file ${lists})
    get_filename_component(sample "${list_file}" DIRECTORY)
    add_subdirectory("${sample}")
  endforeach()
endfunction()
